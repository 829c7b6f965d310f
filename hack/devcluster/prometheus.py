"""A Prometheus server on this machine's loopback interface, which scrapes what a test exports."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from devcluster.component import Component
from devcluster.keeper import Keeper
from devcluster.loopback import HOST, Health, free_ports
from devcluster.processes import stop_recorded
from devcluster.tool import PROMETHEUS


class PrometheusServer:
    """Prometheus with some targets, as a context; it ends with this process, however that ends."""

    def __init__(self, directory: Path, targets: Sequence[str], scrape_seconds: int = 1) -> None:
        """Prepare; targets are host:port, scraped at /metrics every so many seconds."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        (port,) = free_ports(1)
        self.url = f"http://{HOST}:{port}"
        configuration = directory / "prometheus.yml"
        configuration.write_text(
            yaml.safe_dump(
                {
                    "global": {
                        "scrape_interval": f"{scrape_seconds}s",
                        "scrape_timeout": f"{scrape_seconds}s",
                    },
                    "scrape_configs": [
                        {
                            "job_name": "nodes",
                            "honor_labels": True,
                            "honor_timestamps": True,
                            "static_configs": [{"targets": list(targets)}],
                        }
                    ],
                }
            )
        )
        self.component = Component(
            name="prometheus",
            command=(
                str(PROMETHEUS.find()),
                f"--config.file={configuration}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address={HOST}:{port}",
                "--log.level=warn",
            ),
            health=Health(port, "/-/ready", None),
            directory=directory,
        )
        self._keeper: Keeper | None = None

    def __enter__(self) -> Self:
        self._keeper = Keeper(self._directory)
        try:
            self.component.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it; harmless when it has ended."""
        stop_recorded(self._directory)
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None
