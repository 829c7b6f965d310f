"""Build the control plane's programs with Go from the module in hack/controlplane."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.errors import DevClusterError
from devcluster.output import say, tail

MODULE = Path(__file__).parents[1] / "controlplane"
PACKAGES: Mapping[str, str] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}
# kwok has no behaviour of its own: its stages say how nodes become Ready and pods Running.
STAGES = (
    "kustomize/stage/node/fast/node-initialize.yaml",
    "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "kustomize/stage/pod/fast/pod-ready.yaml",
    "kustomize/stage/pod/fast/pod-complete.yaml",
    "kustomize/stage/pod/fast/pod-delete.yaml",
)


def build(folder: Path, programs: Sequence[str]) -> None:
    """Fill a new folder with programs and kwok's stages; it gets its name only when it is complete.

    Raises:
        DevClusterError: Go failed; carries the end of its output.

    """
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    say(f"Building {', '.join(programs)} from their Go modules: once, 5 to 8 minutes.")
    packages = [PACKAGES[name] for name in programs]
    run_go(["build", "-o", f"{partial}/", "-ldflags", link_flags(MODULE), *packages], partial / "build.log")
    if "etcd" in programs:
        (partial / "server").rename(partial / "etcd")  # Go names a program after its package's folder
    listing = partial / "kwok.log"
    run_go(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"], listing)
    kwok = Path(listing.read_text().splitlines()[-1])  # downloads may be told first
    for stage in STAGES:
        shutil.copyfile(kwok / stage, partial / Path(stage).name)
    partial.rename(folder)


def link_flags(module: Path) -> str:
    """Return the linker's flags: no debug tables, and stamps of the Kubernetes version that go.mod pins."""
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
    """Run Go in a module's folder; a terminal sees the time run, a log gets a line every half minute.

    Raises:
        DevClusterError: Go failed; carries the end of its output.

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
            process.terminate()  # an interrupted build must not go on; an ended one is left alone
    if process.returncode:
        raise DevClusterError(f"go {arguments[0]} failed:\n{tail(log)}")


def _runs_on(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the end of a process; whether it has not come within the time."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False
