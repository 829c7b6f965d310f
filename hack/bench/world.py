"""The cluster of a benchmark: the custom resources, and nodes without machines or kubelets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from bench.nodes import ready_node
from devcluster import LocalCluster
from devcluster.identity import BASE, SERVICE_ACCOUNT, operator_kubeconfig, token_kubeconfig
from tidelock.kube.client import NODES, ApiResource, KubeClient
from tidelock.kube.config import load_connection

T = TypeVar("T")

NAMESPACE = "bench"
BACKGROUND = "bench-background"
# Number of requests that the benchmark sends at once, each on its own connection.
IN_FLIGHT = 64

IDENTITY = "a ServiceAccount with the rights of manifests/base"

_DEFINITIONS = tuple(
    f"crd/{plural}.tidelock.dev"
    for plural in (
        "reservations",
        "reservationgroups",
        "reservationschedules",
        "reservationquotas",
        "reservationquotes",
        "waterlevels",
    )
)
_NODE_SIZE = {"cpu": "12", "memory": "48Gi", "pods": "110"}


def install(cluster: LocalCluster) -> Path:
    """Install Tidelock's manifests and the namespaces, and return the kubeconfig of its ServiceAccount."""
    cluster.kubectl("apply", "--server-side", "-k", str(BASE))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *_DEFINITIONS)
    for namespace in (NAMESPACE, BACKGROUND):
        cluster.kubectl("create", "namespace", namespace)
    return operator_kubeconfig(cluster, cluster.directory)


def install_answerer(cluster: LocalCluster) -> Path:
    """Create a ServiceAccount with Tidelock's rights for the other writers, and return its kubeconfig.

    They can't use Tidelock's ServiceAccount, as the API server refuses its writes without a leadership.
    """
    # Kopf uses PATCH where the operator uses PUT. Other writers than the operator need `restore` for a
    # status.
    right = ("--verb=patch,restore", "--resource=reservations.tidelock.dev/status")
    cluster.kubectl("create", "clusterrole", "bench-answerer", *right)
    return _install_peer(cluster, "bench-answerer", (SERVICE_ACCOUNT, "bench-answerer"))


def install_kube_scheduler(cluster: LocalCluster) -> Path:
    """Create a ServiceAccount with the usual rights of the stock scheduler, and return its kubeconfig."""
    return _install_peer(cluster, "kube-scheduler", ("system:kube-scheduler", "system:volume-scheduler"))


def _install_peer(cluster: LocalCluster, name: str, roles: Sequence[str]) -> Path:
    """Create a ServiceAccount in kube-system, where its requests have the priority level of Tidelock's."""
    namespace = "kube-system"
    cluster.kubectl("create", "serviceaccount", name, "-n", namespace)
    for role in roles:
        subject = (f"--clusterrole={role}", f"--serviceaccount={namespace}:{name}")
        cluster.kubectl("create", "clusterrolebinding", f"bench-{name}-{role}", *subject)
    return token_kubeconfig(cluster, name, namespace, cluster.directory / f"{name}.kubeconfig")


@asynccontextmanager
async def admin(cluster: LocalCluster) -> AsyncIterator[KubeClient]:
    """Yield a client that is exempt from priority and fairness, as a member of system:masters."""
    connection = load_connection(str(cluster.kubeconfig))
    async with KubeClient(
        connection,
        user_agent="tidelock-bench",
        timeout_seconds=60.0,
        connections=IN_FLIGHT + 1,  # one more for a watch
    ) as client:
        yield client


async def add_nodes(client: KubeClient, count: int, first: int = 0) -> list[str]:
    """Create nodes that are Ready and take pods, each with 12 cores, 48Gi and 110 pods.

    Returns:
        their names.

    """
    names = [f"node-{number:04}" for number in range(first, first + count)]
    await put_nodes(client, [ready_node(name, _NODE_SIZE) for name in names])
    return names


async def put_nodes(client: KubeClient, nodes: Iterable[dict[str, Any]]) -> None:
    """Create nodes with only the taints of their spec."""

    async def put(node: dict[str, Any]) -> None:
        await client.create(NODES.collection(), node)
        # Admission taints every new node, and there is no controller manager that removes the taint.
        taints = node.get("spec", {}).get("taints") or None
        await client.patch(NODES.item(node["metadata"]["name"]), {"spec": {"taints": taints}})

    await each(put, nodes)


async def add_objects(client: KubeClient, objects: Iterable[tuple[ApiResource, dict[str, Any]]]) -> None:
    """Create objects without a namespace."""

    async def add(made: tuple[ApiResource, dict[str, Any]]) -> None:
        resource, body = made
        await client.create(resource.collection(), body)

    await each(add, objects)


async def each(work: Callable[[T], Awaitable[object]], items: Iterable[T]) -> None:
    """Do the work for every item in order, at most `IN_FLIGHT` at once."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())
