"""A user's shell, which runs the commands of a page."""

import os
import re
import subprocess
import sys
from pathlib import Path

from cluster.crds import SAMPLES
from devcluster import Cluster
from devcluster.binaries import find_binaries
from documents import ROOT, Block, Command

# A line of client-go's log: kubectl warns of a watch that it repeats.
_LOGGED = re.compile(r"^[IWE]\d{4} [\d:.]+ +\d+ \w+\.go:\d+\] .*\n?", re.MULTILINE)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d+(\.\d+)?(ms|s|m\d+s)\b")


class Shell:
    """A shell that runs commands of a page in a folder, with the test's namespace in the place of `shop`."""

    def __init__(self, cluster: Cluster, folder: Path, namespace: str) -> None:
        (folder / "tidelock").symlink_to(ROOT)  # a clone beside the folder of the user
        self.folder, self.namespace = folder / "own", namespace
        self.folder.mkdir()
        self.programs = programs = folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(find_binaries().programs["kubectl"])
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_bytes(cluster.kubeconfig.read_bytes())
        path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
        helm = {f"HELM_{each}_HOME": str(folder / each.lower()) for each in ("CACHE", "CONFIG", "DATA")}
        own = {"PATH": path, "KUBECONFIG": str(kubeconfig), "NO_COLOR": "1"}
        self._environment = os.environ | own | helm
        for name in ("crds", "docs", "manifests"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / "pod.yaml").write_text((SAMPLES / "pod.yaml").read_text())

    def own(self, text: str) -> str:
        """Replace the names of the page by those of the test."""
        return re.sub(r"\bshop\b", self.namespace, re.sub(r"\bworker-", f"{self.namespace}-worker-", text))

    def shown(self, text: str) -> str:
        """Replace the names of the test by those of the page."""
        return text.replace(f"{self.namespace}-worker-", "worker-").replace(self.namespace, "shop")

    def file(self, block: Block) -> None:
        """Write a block with a title to a file of that name."""
        if block.title:
            (self.folder / block.title).write_text(self.own(block.text))

    def run(self, typed: str, folder: str = ".") -> subprocess.CompletedProcess[str]:
        """Run one command."""
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", self.own(typed)],
            cwd=self.folder / folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )


def replay(page: Shell, command: Command) -> None:
    """Run a command, and check that its exit status and its output are those of the page."""
    done = page.run(command.typed)
    expected, failed, _ = command.printed.partition("\n(exit status 1)")
    assert done.returncode == bool(failed), f"{command}: {done.stderr}"
    if command.block.language == "console":
        told = _plain(page.shown(_LOGGED.sub("", done.stderr) + done.stdout))
        pattern = re.escape(_plain(expected)).replace("…", ".*")
        assert re.fullmatch(pattern, told, re.DOTALL), (
            f"{command} printed:\n{told}\nand not:\n{_plain(expected)}"
        )


def _plain(text: str) -> str:
    """Remove the parts that differ each time: times, durations, the width of columns."""
    return "\n".join(" ".join(_MOMENT.sub("…", line).split()) for line in text.strip().splitlines())
