"""A program that is built once from a Go module of its own in hack/, into a cache."""

import hashlib
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from devcluster.binaries import cache_folder
from devcluster.build import run_go
from devcluster.errors import DevClusterError
from devcluster.locks import exclusive
from devcluster.output import say

_HACK = Path(__file__).parents[1]


@dataclass(frozen=True)
class Tool:
    """What to build.

    Attributes:
        title: how people call it.
        name: of the program, of its module's folder in hack/, and of its folder in the cache.
        package: what Go is to build; its last part is the program's name.
        flags: of `go build`.
        minutes: how long that takes, for people.

    """

    title: str
    name: str
    package: str
    flags: tuple[str, ...]
    minutes: str

    @property
    def module(self) -> Path:
        """The folder with go.mod and go.sum."""
        return _HACK / self.name

    def find(self) -> Path:
        """Return the program; what is not cached is built, in minutes.

        Raises:
            DevClusterError: it must be built, and Go is missing or fails.

        """
        folder = cache_folder(self.name) / self._cache_key()
        if not folder.is_dir():
            if shutil.which("go") is None:
                raise DevClusterError(f"{self.title} must be built: install Go 1.26 or later.")
            with exclusive(folder.parent / "lock", f"Waiting for another build of {self.title} to end."):
                if not folder.is_dir():  # the build that was waited for may have made it
                    self._build(folder)
        return folder / self.name

    def _build(self, folder: Path) -> None:
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        say(f"Building {self.title} from its Go module: once, {self.minutes} minutes.")
        arguments = ["build", "-o", f"{partial}/", *self.flags, self.package]
        run_go(arguments, partial / "build.log", self.module)
        partial.rename(folder)

    def _cache_key(self) -> str:
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum"):
            digest.update((self.module / name).read_bytes())
        digest.update(" ".join((*self.flags, platform.machine())).encode())
        return digest.hexdigest()[:16]


HELM = Tool("Helm", "helm", "helm.sh/helm/v4/cmd/helm", ("-ldflags", "-s -w"), "1 to 2")
# Static targets are enough: each kind of service discovery would bring the client of a cloud.
PROMETHEUS = Tool(
    "Prometheus",
    "prometheus",
    "github.com/prometheus/prometheus/cmd/prometheus",
    ("-tags", "remove_all_sd", "-ldflags", "-s -w"),
    "3 to 5",
)
