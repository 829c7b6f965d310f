"""The cluster of the demo: three workers, Tidelock, and no other scheduler."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from demo.operator import running_operator
from devcluster import Cluster, add_kwok_node, start_cluster
from devcluster.identity import operator_kubeconfig

WORKERS = ("kind-worker", "kind-worker2", "kind-worker3")
_ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def own_control_plane(folder: Path, *, kubelets: bool = False) -> Iterator[tuple[Cluster, list[str]]]:
    """Start a new control plane, with the operator as a process of this machine.

    The workers have real kubelets, or kwok simulates them.
    """
    with ExitStack() as stack:
        cluster = stack.enter_context(start_cluster(folder, kwok=not kubelets))
        cluster.kubectl("apply", "--filename", str(_ROOT / "crds"))
        for worker in WORKERS:
            if kubelets:
                cluster.add_kubelet(worker)
            else:
                add_kwok_node(cluster, worker)
        identity = operator_kubeconfig(cluster, folder)
        stack.enter_context(running_operator(identity, folder / "operator.log"))
        yield cluster, list(WORKERS)


@contextmanager
def installed(cluster: Cluster) -> Iterator[tuple[Cluster, list[str]]]:
    """Use a cluster in which Tidelock is installed, with its first three workers."""
    cluster.kubectl("wait", "deployment/tidelock", "--namespace=tidelock-system", "--for=condition=Available")
    selector = "--selector=!node-role.kubernetes.io/control-plane"
    nodes = json.loads(cluster.kubectl("get", "nodes", selector, "--output=json"))["items"]
    yield cluster, sorted(node["metadata"]["name"] for node in nodes)[: len(WORKERS)]
