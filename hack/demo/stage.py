"""The cluster of the demo: three workers, Tidelock, and no other scheduler."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from demo.operator import running_operator
from devcluster import (
    Cluster,
    DevClusterError,
    WaitTimeoutError,
    add_kwok_node,
    start_cluster,
    wait_for,
)
from devcluster.identity import SYSTEM_NAMESPACE, operator_kubeconfig

WORKERS = ("kind-worker", "kind-worker2", "kind-worker3")
_PATIENCE_SECONDS = 90
_ROOT = Path(__file__).resolve().parents[2]


class Stage(NamedTuple):
    """A cluster with the story's three workers, and an image with `sleep` that its nodes can run."""

    cluster: Cluster
    workers: list[str]
    image: str = "busybox"


@contextmanager
def own_control_plane(folder: Path, *, kubelets: bool = False) -> Iterator[Stage]:
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
        yield Stage(cluster, list(WORKERS))


@contextmanager
def installed(cluster: Cluster) -> Iterator[Stage]:
    """Use a cluster in which Tidelock is installed, with three of its workers.

    The story's pods run the operator's image, as the nodes may reach no registry.
    """
    operator = ("deployment/tidelock", f"--namespace={SYSTEM_NAMESPACE}")
    cluster.kubectl("wait", *operator, "--for=condition=Available", f"--timeout={_PATIENCE_SECONDS}s")
    image = cluster.kubectl("get", *operator, "--output=jsonpath={.spec.template.spec.containers[0].image}")
    yield Stage(cluster, ready_workers(cluster), image)


def ready_workers(cluster: Cluster) -> list[str]:
    """Wait until three nodes are Ready and take ordinary pods, and return the first three of them by name.

    Raises:
        DevClusterError: there are fewer for a minute and a half. The message has their names.

    """

    def look() -> list[str]:
        nodes = json.loads(cluster.kubectl("get", "nodes", "--output=json"))["items"]
        return sorted(node["metadata"]["name"] for node in nodes if _takes_pods(node))

    def enough(found: list[str]) -> bool:
        return len(found) >= len(WORKERS)

    what = "three nodes that are Ready, not cordoned and without taints"
    try:
        return wait_for(look, enough, what=what, timeout=_PATIENCE_SECONDS)[: len(WORKERS)]
    except WaitTimeoutError as error:
        raise DevClusterError(f"The story needs three workers: {error}.") from error


@contextmanager
def namespace(cluster: Cluster, name: str) -> Iterator[None]:
    """Create a namespace for the context. One that an earlier run has left is gone before."""
    phase = cluster.kubectl(
        "get", "namespace", name, "--ignore-not-found", "--output=jsonpath={.status.phase}"
    )
    if phase == "Terminating":
        cluster.kubectl("wait", f"namespace/{name}", "--for=delete", f"--timeout={_PATIENCE_SECONDS}s")
    cluster.kubectl("create", "namespace", name)
    try:
        yield
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false")


def _takes_pods(node: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
    effects = {taint["effect"] for taint in node["spec"].get("taints", [])}
    open_to_pods = not node["spec"].get("unschedulable") and effects <= {"PreferNoSchedule"}
    return conditions.get("Ready") == "True" and open_to_pods
