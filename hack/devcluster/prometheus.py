"""A Prometheus server on this machine's loopback interface, which scrapes the metrics of a test."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from devcluster.component import Component
from devcluster.loopback import HOST, Health, free_ports
from devcluster.reaper import kept
from devcluster.tools import find_program


class PrometheusServer:
    """Prometheus with some targets, as a context. It ends when this process ends for any reason."""

    def __init__(
        self,
        directory: Path,
        targets: Sequence[str],
        job: str = "nodes",
        also: Mapping[str, Any] | None = None,
    ) -> None:
        """Prepare the server. Targets are host:port, scraped at /metrics as one job each second.

        `also` are further fields of the job, or other values of its fields.
        """
        directory.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        self.url = f"http://{HOST}:{port}"
        configuration = directory / "prometheus.yml"
        configuration.write_text(
            yaml.safe_dump(
                {
                    "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
                    "scrape_configs": [
                        {
                            "job_name": job,
                            "honor_labels": True,
                            "honor_timestamps": True,
                            "static_configs": [{"targets": list(targets)}],
                            **(also or {}),
                        }
                    ],
                }
            )
        )
        self.component = Component(
            name="prometheus",
            command=(
                str(find_program("prometheus")),
                f"--config.file={configuration}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address={HOST}:{port}",
                "--log.level=warn",
            ),
            health=Health(port, "/-/ready", None),
            directory=directory,
        )
        self._running = ExitStack()

    def __enter__(self) -> Self:
        self._running.enter_context(kept(self.component))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._running.close()
