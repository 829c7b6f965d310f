"""Builds of the control plane's programs with Go, from the modules in hack/controlplane."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from devcluster.errors import DevClusterError
from devcluster.output import say, tail

MODULE = Path(__file__).parents[1] / "controlplane"
PACKAGES: Mapping[str, str] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kubemark": "k8s.io/kubernetes/cmd/kubemark",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}
NEWEST = "1.37"  # the newest version of Kubernetes, and the default
OLDER = ("1.34", "1.35", "1.36")
"""Versions that have a module of their own, with only the programs in VERSIONED."""
VERSIONED = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
# kwok has no behaviour of its own. Its stages define how nodes become Ready and pods Running.
STAGES = (
    "kustomize/stage/node/fast/node-initialize.yaml",
    "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "kustomize/stage/pod/fast/pod-ready.yaml",
    "kustomize/stage/pod/fast/pod-complete.yaml",
    "kustomize/stage/pod/fast/pod-delete.yaml",
)


def build(folder: Path, programs: Sequence[str], module: Path = MODULE) -> None:
    """Fill a new folder with programs, and with kwok's stages.

    Raises:
        DevClusterError: Go failed. The message has the end of its output.

    """
    say(f"Building {', '.join(programs)} from their Go modules: once, 5 to 8 minutes.")
    packages = [PACKAGES[name] for name in programs]
    with complete_or_absent(folder) as partial:
        arguments = ["build", "-o", f"{partial}/", "-ldflags", link_flags(module), *packages]
        run_go(arguments, partial / "build.log", module)
        if "etcd" in programs:
            (partial / "server").rename(partial / "etcd")  # Go names a program after its package's folder
        if "kwok" in programs:
            kwok = find_module(module, "sigs.k8s.io/kwok")
            for stage in STAGES:
                shutil.copyfile(kwok / stage, partial / Path(stage).name)


@contextmanager
def complete_or_absent(folder: Path) -> Iterator[Path]:
    """Yield a new folder to fill. It gets its name at the end, unless an exception ends the context."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    yield partial
    partial.rename(folder)


def find_module(module: Path, path: str) -> Path:
    """Return the folder with the files of a Go module, in the version that a module of this repository pins.

    Raises:
        DevClusterError: it must be downloaded, and Go is missing or fails.

    """
    with TemporaryDirectory() as folder:
        listing = Path(folder, "module.json")
        run_go(["mod", "download", "-json", path], listing, module)
        output = listing.read_text()
    found, _ = json.JSONDecoder().raw_decode(
        output, output.index("{")
    )  # lines about downloads may come first
    return Path(found["Dir"])


def link_flags(module: Path) -> str:
    """Return the linker's flags: no debug tables, and the Kubernetes version that go.mod pins."""
    pinned = re.search(
        r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)", (module / "go.mod").read_text(), re.MULTILINE
    )
    if pinned is None:
        raise DevClusterError(f"{module / 'go.mod'} requires no k8s.io/kubernetes.")
    version, major, minor = pinned.groups()
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(
        ["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamps.items())]
    )


def run_go(arguments: Sequence[str], log: Path, module: Path = MODULE) -> None:
    """Run Go in a module's folder, and print the elapsed time.

    A terminal shows it every second. A log gets a line of text every half minute.

    Raises:
        DevClusterError: Go is too old, or it failed. The message of a failure has the end of its output.

    """
    terminal = sys.stderr.isatty()
    begin = time.monotonic()
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    with (
        log.open("w") as output,
        subprocess.Popen(
            ["go", *arguments], cwd=module, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            while _runs_on(process, seconds=1 if terminal else 30):
                minutes, seconds = divmod(int(time.monotonic() - begin), 60)
                say(f"  go {arguments[0]}: {minutes}m{seconds:02d}s", end="\r" if terminal else "\n")
        finally:
            process.terminate()  # no interrupted build goes on. This does nothing if the process has ended
    if process.returncode:
        _check_version(module)
        advice = "if it could not download, name a module proxy that it can reach in GOPROXY"
        raise DevClusterError(f"go {arguments[0]} failed; {advice}:\n{tail(log)}")


def _check_version(module: Path) -> None:
    """Refuse a Go that is older than the module requires, unless it can fetch a newer one, as Go 1.21 can."""
    found = _version(module, {}) or _version(module, {"GOTOOLCHAIN": "local"})
    needed = re.search(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text(), re.MULTILINE)
    if found and needed and [int(part) for part in found.groups()] < [int(part) for part in needed.groups()]:
        raise DevClusterError(
            f"Go {'.'.join(found.groups())} is too old: install Go {'.'.join(needed.groups())} or later."
        )


def _version(module: Path, variables: Mapping[str, str]) -> re.Match[str] | None:
    output = subprocess.run(
        ["go", "version"],
        cwd=module,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return re.search(r"\bgo(\d+)\.(\d+)", output)


def _runs_on(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the end of a process, and return whether it still runs after the time."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False
