import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from devcluster.binaries import find_binaries
from devcluster.errors import DevClusterError

ATTACH_VARIABLE = "TIDELOCK_KUBECONFIG"
_KUBECTL_TIMEOUT = 120.0  # seconds
_OLDEST_KUBECTL = 24  # 1.24 is the first with `create token`


class Cluster:
    """A Kubernetes cluster, through its kubeconfig. An attached cluster is never stopped."""

    def __init__(self, kubeconfig: Path, kubectl: Sequence[str]) -> None:
        self.kubeconfig = kubeconfig
        self._kubectl = (*kubectl, f"--kubeconfig={kubeconfig}")

    def kubectl(self, *args: str, input: str | None = None) -> str:  # noqa: A002 -- as subprocess.run calls it
        """Run kubectl with `input` on its standard input and return its output.

        Raises:
            DevClusterError: kubectl failed. The message has its error output.

        """
        done = subprocess.run(
            [*self._kubectl, *args],
            input=input,
            capture_output=True,
            text=True,
            timeout=_KUBECTL_TIMEOUT,
            check=False,
        )
        if done.returncode:
            raise DevClusterError(f"kubectl {' '.join(args)} failed: {done.stderr.strip()}{self._age()}")
        return done.stdout

    def _age(self) -> str:
        """Return advice if this kubectl is too old, as its own errors do not mention it."""
        output = subprocess.run(
            [self._kubectl[0], "version", "--client", "--output=json"],
            capture_output=True,
            text=True,
            timeout=_KUBECTL_TIMEOUT,
            check=False,
        ).stdout
        found = re.search(r'"gitVersion": *"v(1\.(\d+)\.\S+)"', output)
        if found is None or int(found[2]) >= _OLDEST_KUBECTL:
            return ""
        return f"; kubectl {found[1]} is too old: install 1.{_OLDEST_KUBECTL} or later"

    def stop(self) -> None:
        """Stop using the cluster."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def attach(kubeconfig: Path) -> Cluster:
    """Return a cluster that another user or program runs. kubectl is the one on PATH, or the built one.

    Raises:
        DevClusterError: there is no such file.

    """
    if not kubeconfig.is_file():
        raise DevClusterError(f"There is no kubeconfig {kubeconfig}.")
    return Cluster(
        kubeconfig.absolute(), [shutil.which("kubectl") or str(find_binaries().programs["kubectl"])]
    )


def attached() -> Cluster | None:
    """Return the cluster that TIDELOCK_KUBECONFIG names, if it is set.

    KUBECONFIG is ignored on purpose. Tests and the demo create nodes, which would disturb a cluster in use.
    """
    kubeconfig = os.environ.get(ATTACH_VARIABLE)
    return attach(Path(kubeconfig)) if kubeconfig else None
