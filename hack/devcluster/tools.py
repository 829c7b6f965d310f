"""Programs in addition to a control plane, each built once from its Go module, when it is needed."""

import hashlib
import json
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from devcluster.binaries import cache_folder
from devcluster.build import run_go
from devcluster.errors import DevClusterError
from devcluster.locks import exclusive
from devcluster.output import say

_HACK = Path(__file__).parents[1]
# For Prometheus. Static targets are enough, and each kind of service discovery would bring a cloud's client.
_TAGS = "remove_all_sd"


@dataclass(frozen=True)
class Source:
    """The source of a program: a package, in the version that a module of this repository pins.

    `tags` are the build tags. `binary` is the name that Go gives the program, if SOURCES has another one. The
    modules of hack/peers pin other projects, with which Tidelock is tested.
    """

    module: Path
    package: str
    tags: str = _TAGS
    binary: str = ""

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of the build."""
        return ("-tags", self.tags, "-ldflags", "-s -w")


SOURCES: Mapping[str, Source] = {
    "prometheus": Source(_HACK / "prometheus", "github.com/prometheus/prometheus/cmd/prometheus"),
    "promtool": Source(_HACK / "prometheus", "github.com/prometheus/prometheus/cmd/promtool"),
    "kube-state-metrics": Source(_HACK / "kube-state-metrics", "k8s.io/kube-state-metrics/v2"),
    "helm": Source(_HACK / "helm", "helm.sh/helm/v4/cmd/helm"),
    "kueue": Source(_HACK / "peers" / "kueue", "sigs.k8s.io/kueue/cmd/kueue"),
    "karpenter": Source(_HACK / "peers" / "karpenter", "sigs.k8s.io/karpenter/kwok", binary="kwok"),
    # With its provider for kwok alone. Each other one would bring a cloud's client.
    "cluster-autoscaler": Source(
        _HACK / "peers" / "cluster-autoscaler", "k8s.io/autoscaler/cluster-autoscaler", "kwok"
    ),
    # Karmada's generated messages embed those of Kubernetes, which are protocol messages with this tag alone.
    "karmada": Source(
        _HACK / "peers" / "karmada",
        ".",
        "kubernetes_protomessage_one_more_release",
    ),
    "krew": Source(_HACK / "peers" / "krew", "sigs.k8s.io/krew/cmd/krew"),
    "validate-krew-manifest": Source(_HACK / "peers" / "krew", "sigs.k8s.io/krew/cmd/validate-krew-manifest"),
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
    return folder / (source.binary or name)


def find_module(module: Path, path: str) -> Path:
    """Return the folder with the files of a Go module, in the version that a module of this repository pins.

    Raises:
        DevClusterError: it must be downloaded, and Go is missing or fails.

    """
    with TemporaryDirectory() as folder:
        listing = Path(folder, "module.json")
        run_go(["mod", "download", "-json", path], listing, module)
        text = listing.read_text()
    told, _ = json.JSONDecoder().raw_decode(text, text.index("{"))  # lines about downloads may come first
    return Path(told["Dir"])


def _build(name: str, source: Source, folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    say(f"Building {name} from its Go module: once, 1 to 20 minutes.")
    run_go(
        ["build", "-o", f"{partial}/", *source.flags, source.package], partial / "build.log", source.module
    )
    partial.rename(folder)


def _cache_key(source: Source) -> str:
    digest = hashlib.sha256()
    for path in (source.module / "go.mod", source.module / "go.sum", *sorted(source.module.glob("*.go"))):
        digest.update(path.read_bytes())
    digest.update(" ".join((*source.flags, source.package, platform.machine())).encode())
    return digest.hexdigest()[:16]
