"""The development cluster in Docker: real kubelets, and the operator deployed from its image."""

import shutil
import subprocess
from pathlib import Path

from devcluster.errors import DevClusterError

_SCRIPTS = Path(__file__).parents[1] / "kind"
_DOCKER_TIMEOUT = 10.0  # seconds


def installed() -> bool:
    """Return whether docker, kind and kubectl are installed, whether or not a Docker engine answers."""
    return all(shutil.which(program) for program in ("docker", "kind", "kubectl"))


def usable() -> bool:
    """Return whether a Docker engine answers, and kind and kubectl are installed."""
    if not installed():
        return False
    try:
        answer = subprocess.run(
            ["docker", "version"], capture_output=True, timeout=_DOCKER_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return answer.returncode == 0


def up(kubeconfig: Path) -> None:
    """Create the cluster, unless it exists, and deploy the operator into it."""
    _run("up", kubeconfig)


def down(kubeconfig: Path) -> None:
    """Delete the cluster."""
    _run("down", kubeconfig)


def _run(script: str, kubeconfig: Path) -> None:
    """Run a script of hack/kind. Its output goes to the terminal."""
    if subprocess.run([_SCRIPTS / script, kubeconfig], check=False).returncode:
        raise DevClusterError(f"hack/kind/{script} failed.")
