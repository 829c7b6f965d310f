"""The cluster that is measured in: the custom resources, and nodes without machines or kubelets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from devcluster import LocalCluster
from devcluster.identity import BASE, SERVICE_ACCOUNT, SYSTEM_NAMESPACE, operator_kubeconfig
from tidelock.kube.client import NODES, KubeClient
from tidelock.kube.config import load_connection

NAMESPACE = "bench"
# Requests that the benchmark has under way at once, each on a connection of its own.
IN_FLIGHT = 64

IDENTITY = "the ServiceAccount tidelock of manifests/base"

_DEFINITIONS = ("crd/reservations.tidelock.dev", "crd/waterlevels.tidelock.dev")
_NODE_SIZE = {"cpu": "12", "memory": "48Gi", "pods": "110"}


def install(cluster: LocalCluster) -> Path:
    """Install Tidelock's manifests and the locks' namespace; gives the kubeconfig of its ServiceAccount."""
    cluster.kubectl("apply", "--server-side", "-k", str(BASE))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *_DEFINITIONS)
    cluster.kubectl("create", "namespace", NAMESPACE)
    # The peer patches where the operator puts.
    right = ("--verb=patch", "--resource=reservations.tidelock.dev/status")
    cluster.kubectl("create", "clusterrole", "bench-peer", *right)
    subject = ("--clusterrole=bench-peer", f"--serviceaccount={SYSTEM_NAMESPACE}:{SERVICE_ACCOUNT}")
    cluster.kubectl("create", "clusterrolebinding", "bench-peer", *subject)
    return operator_kubeconfig(cluster, cluster.directory)


@asynccontextmanager
async def admin(cluster: LocalCluster) -> AsyncIterator[KubeClient]:
    """Give a client that no priority or fairness holds back, as system:masters is exempt from both."""
    connection = load_connection(str(cluster.kubeconfig))
    async with KubeClient(
        connection,
        user_agent="tidelock-bench",
        timeout_seconds=60.0,
        connections=IN_FLIGHT + 1,  # one for the witness
    ) as client:
        yield client


async def add_nodes(client: KubeClient, count: int) -> None:
    """Create nodes that are Ready and take pods: 12 cores, 48Gi, 110 pods each."""

    async def add(name: str) -> None:
        await client.create(NODES.collection(), _node(name))
        # Admission taints every new node; without a controller manager nobody else takes the taint away.
        await client.patch(NODES.item(name), {"spec": {"taints": None}})

    await each(add, [f"node-{number:04}" for number in range(count)])


async def each(work: Callable[[str], Awaitable[object]], names: Iterable[str]) -> None:
    """Do the work for every name, at most `IN_FLIGHT` at once, begun in their order."""
    left = iter(names)

    async def worker() -> None:
        for name in left:
            await work(name)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())


def _node(name: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "Bench", "message": "", "lastHeartbeatTime": None}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
        },
        "status": {"capacity": _NODE_SIZE, "allocatable": _NODE_SIZE, "conditions": [ready]},
    }
