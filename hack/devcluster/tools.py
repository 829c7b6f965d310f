"""Programs in addition to a control plane, each built once from its Go module, when it is needed."""

import hashlib
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devcluster.binaries import cache_folder
from devcluster.build import run_go
from devcluster.errors import DevClusterError
from devcluster.locks import exclusive
from devcluster.output import say

_HACK = Path(__file__).parents[1]
# For Prometheus. Static targets are enough, and each kind of service discovery would bring a cloud's client.
_FLAGS = ("-tags", "remove_all_sd", "-ldflags", "-s -w")


@dataclass(frozen=True)
class Source:
    """The source of a program: a package, in the version that a module of this repository pins."""

    module: Path
    package: str


SOURCES: Mapping[str, Source] = {
    "prometheus": Source(_HACK / "prometheus", "github.com/prometheus/prometheus/cmd/prometheus"),
    "promtool": Source(_HACK / "prometheus", "github.com/prometheus/prometheus/cmd/promtool"),
    "kube-state-metrics": Source(_HACK / "kube-state-metrics", "k8s.io/kube-state-metrics/v2"),
    "helm": Source(_HACK / "helm", "helm.sh/helm/v4/cmd/helm"),
}


def find_program(name: str) -> Path:
    """Return the path of a program of SOURCES. If it is not cached it is built, which takes minutes.

    Raises:
        DevClusterError: the program must be built, and Go is missing or fails.

    """
    source = SOURCES[name]
    folder = cache_folder("tools") / f"{name}-{_cache_key(source)}"
    if not folder.is_dir():
        if shutil.which("go") is None:
            raise DevClusterError(f"{name} must be built: install Go 1.26 or later.")
        with exclusive(folder.parent / "lock", f"Waiting for another build to end, to build {name}."):
            if not folder.is_dir():
                _build(name, source, folder)
    return folder / name


def _build(name: str, source: Source, folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    say(f"Building {name} from its Go module: once, 1 to 5 minutes.")
    run_go(["build", "-o", f"{partial}/", *_FLAGS, source.package], partial / "build.log", source.module)
    partial.rename(folder)


def _cache_key(source: Source) -> str:
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((source.module / name).read_bytes())
    digest.update(" ".join((*_FLAGS, source.package, platform.machine())).encode())
    return digest.hexdigest()[:16]
