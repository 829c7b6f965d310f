"""A Prometheus server on this machine's loopback interface, which scrapes what a test exports."""

import hashlib
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from devcluster.binaries import cache_folder
from devcluster.build import run_go
from devcluster.component import Component
from devcluster.errors import DevClusterError
from devcluster.keeper import Keeper
from devcluster.locks import exclusive
from devcluster.loopback import HOST, Health, free_ports
from devcluster.output import say
from devcluster.processes import stop_recorded

MODULE = Path(__file__).parents[1] / "prometheus"
PACKAGE = "github.com/prometheus/prometheus/cmd/prometheus"
# Static targets are enough: each kind of service discovery would bring the client of a cloud.
_FLAGS = ("-tags", "remove_all_sd", "-ldflags", "-s -w")


def find_prometheus() -> Path:
    """Return the program; what is not cached is built, in minutes.

    Raises:
        DevClusterError: it must be built, and Go is missing or fails.

    """
    folder = cache_folder("prometheus") / _cache_key()
    if not folder.is_dir():
        if shutil.which("go") is None:
            raise DevClusterError("Prometheus must be built: install Go 1.26 or later.")
        with exclusive(folder.parent / "lock", "Waiting for another build of Prometheus to end."):
            if not folder.is_dir():
                _build(folder)
    return folder / "prometheus"


def _build(folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    say("Building Prometheus from its Go module: once, 3 to 5 minutes.")
    run_go(["build", "-o", f"{partial}/", *_FLAGS, PACKAGE], partial / "build.log", MODULE)
    partial.rename(folder)


def _cache_key() -> str:
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    digest.update(" ".join((*_FLAGS, platform.machine())).encode())
    return digest.hexdigest()[:16]


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
                str(find_prometheus()),
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
