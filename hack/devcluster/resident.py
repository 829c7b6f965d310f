"""The one development cluster of a user, which is up until the user takes it down."""

import json
import os
import shutil
from pathlib import Path

from devcluster import binaries, kind
from devcluster.cluster import attach
from devcluster.errors import DevClusterError
from devcluster.kubeconfig import server_url
from devcluster.kubelets import NAME_PREFIX, remove_leftovers
from devcluster.local import start_cluster
from devcluster.locks import exclusive
from devcluster.processes import recorded, stop_recorded
from devcluster.provider import Provider, choose

_BUSY = "Waiting for another command on the development cluster to end."


def up(wanted: str | None, *, scheduler: bool, kubelets: int = 0) -> None:
    """Start the cluster unless it runs, and print how to use it.

    With kubelets there are so many nodes, named worker-1 and so on. Without, kwok simulates the kubelets of
    all nodes.
    """
    if choose(wanted or (Provider.GO if kubelets else None)) is Provider.KIND:
        if kubelets:
            raise DevClusterError("The provider kind has kubelets of its own: choose the provider go.")
        kind.up(_kind_kubeconfig())
        _explain(_kind_kubeconfig())
        return
    with exclusive(_state() / "lock", _BUSY):
        if _intact():
            if scheduler and "kube-scheduler" not in recorded(_directory()):
                raise DevClusterError("The cluster runs without kube-scheduler: take it down first.")
            if kubelets and kubelets != (number := _kubelets()):
                raise DevClusterError(f"The cluster runs with {number} kubelets: take it down first.")
            kubernetes = os.environ.get(binaries.VARIABLE)
            if kubernetes and (running := _version()) != kubernetes:
                raise DevClusterError(f"The cluster runs Kubernetes {running}: take it down first.")
            print("The cluster is already running.")
        else:
            _clear()
            cluster = start_cluster(_directory(), scheduler=scheduler, kwok=not kubelets, outlive=True)
            for number in range(1, kubelets + 1):
                cluster.add_kubelet(f"worker-{number}")
    _explain(_directory() / "kubeconfig")
    if shutil.which("kubectl") is None:
        print(f"  alias kubectl={binaries.find_binaries().programs['kubectl']}")


def down() -> None:
    """Stop the cluster that `up` started, with any provider, and delete its data."""
    if _kind_kubeconfig().exists():
        kind.down(_kind_kubeconfig())
    with exclusive(_state() / "lock", _BUSY):
        _clear()
    print("The cluster is down.")


def status() -> bool:
    """Print the programs that run, and return whether the cluster is complete."""
    processes = recorded(_directory())
    for name, process in processes.items():
        print(f"{name:<24} {process.pid:>8}  {'running' if process.alive else 'ended'}")
    if processes:
        _explain(_directory() / "kubeconfig")
    if _kind_kubeconfig().exists():
        _explain(_kind_kubeconfig())
        return True
    if not processes:
        print("The cluster is not up.")
    return _intact()


def _intact() -> bool:
    processes = recorded(_directory()).values()
    return bool(processes) and all(process.alive for process in processes)


def _kubelets() -> int:
    return sum(name.startswith(NAME_PREFIX) for name in recorded(_directory()))


def _version() -> str:
    """Return the Kubernetes version of the running cluster."""
    answer = json.loads(attach(_directory() / "kubeconfig").kubectl("get", "--raw=/version"))
    return f"{answer['major']}.{answer['minor']}"


def _clear() -> None:
    stop_recorded(_directory())
    remove_leftovers(_directory())
    shutil.rmtree(_directory(), ignore_errors=True)


def _explain(kubeconfig: Path) -> None:
    print(f"Kubernetes answers at {server_url(kubeconfig)}; to use it:")
    print(f"  export KUBECONFIG={kubeconfig}")


def _state() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "tidelock"


def _directory() -> Path:
    return _state() / "devcluster"


def _kind_kubeconfig() -> Path:
    return _state() / "kind" / "kubeconfig"
