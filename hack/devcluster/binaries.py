"""The programs of the control plane, from KUBEBUILDER_ASSETS, from a cache, or built with Go."""

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.build import MODULE, NEWEST, OLDER, PACKAGES, STAGES, VERSIONED, build, link_flags
from devcluster.errors import DevClusterError
from devcluster.locks import exclusive

VARIABLE = "TIDELOCK_KUBERNETES"
NOTHING_RUNS_KUBERNETES = (
    "Nothing here can run Kubernetes: "
    "install Go 1.26 or later (on Linux), or Docker with a running engine, kind and kubectl."
)


@dataclass(frozen=True)
class Binaries:
    """The paths of the programs by name, and of kwok's stage files."""

    programs: Mapping[str, Path]
    stages: tuple[Path, ...]


def find_binaries() -> Binaries:
    """Return all programs.

    A program that is neither in KUBEBUILDER_ASSETS nor cached is built, which takes minutes. With an older
    Kubernetes, the API server, the controllers and the scheduler have its version, and the other programs the
    newest.

    Raises:
        DevClusterError: there is no such version, or a program must be built and Go is missing or fails.

    """
    version = wanted_version()
    assets = _assets()
    missing = [name for name in PACKAGES if name not in assets]
    folder = _built(MODULE, missing)
    programs = {**assets, **{name: folder / name for name in missing}}
    if version in OLDER:
        older = _built(MODULE / version, VERSIONED)
        programs |= {name: older / name for name in VERSIONED}
    return Binaries(programs, tuple(folder / Path(stage).name for stage in STAGES))


def wanted_version() -> str:
    """Return the version of Kubernetes that TIDELOCK_KUBERNETES names, or the newest.

    Raises:
        DevClusterError: there is no such version here.

    """
    version = os.environ.get(VARIABLE) or NEWEST
    if version not in (*OLDER, NEWEST):
        choice = f"{', '.join(OLDER)} or {NEWEST}"
        raise DevClusterError(f"There is no Kubernetes {version} here: choose {choice}.")
    return version


def _built(module: Path, programs: Sequence[str]) -> Path:
    folder = _cache() / cache_key(module, programs)
    if not folder.is_dir():
        if not obtainable() or shutil.which("go") is None:
            raise DevClusterError(NOTHING_RUNS_KUBERNETES)
        with exclusive(folder.parent / "lock", "Waiting for another build of the control plane to end."):
            if not folder.is_dir():  # the other build may have made it
                build(folder, programs, module)
    return folder


def obtainable() -> bool:
    """Return whether `find_binaries` can be expected to succeed, at once or after a build."""
    if sys.platform != "linux":  # processes are identified by Linux's pid descriptors
        return False
    missing = [name for name in PACKAGES if name not in _assets()]
    return (_cache() / cache_key(MODULE, missing)).is_dir() or shutil.which("go") is not None


def cache_key(module: Path, programs: Sequence[str]) -> str:
    """Return the name of a build, from all its inputs: versions, flags, programs and platform."""
    digest = hashlib.sha256()
    for part in (
        (module / "go.mod").read_bytes(),
        (module / "go.sum").read_bytes(),
        link_flags(module).encode(),
        " ".join(programs).encode(),
        platform.machine().encode(),
    ):
        digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()[:16]


def _cache() -> Path:
    return cache_folder("controlplane")


def cache_folder(name: str) -> Path:
    """Return the folder of cached builds of one kind."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tidelock" / name


def _assets() -> dict[str, Path]:
    """Return the programs in the folder KUBEBUILDER_ASSETS, without kwok.

    kwok's stages belong to the pinned version.
    """
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if not folder:
        return {}
    candidates = {name: Path(folder).absolute() / name for name in PACKAGES if name != "kwok"}
    return {name: path for name, path in candidates.items() if os.access(path, os.X_OK)}
