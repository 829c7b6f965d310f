"""The nodes of a soak: some stay as they are, others are cordoned, resized, removed and created again."""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any, NoReturn

from bench.nodes import readiness, ready_node
from bench.world import put_nodes
from tidelock.kube.client import NODES, KubeClient

STABLE, CHANGING = "soak-stable", "soak-changing"
LABEL = "soak.tidelock.dev/node"

_FULL = {"cpu": "12", "memory": "48Gi", "pods": "110"}
_SMALL = {"cpu": "4", "memory": "16Gi", "pods": "20"}
_PAUSE = 2.0  # seconds between two changes


def node_names(kind: str, count: int) -> list[str]:
    """Return the names of the nodes of a kind."""
    return [f"{kind}-{number:03}" for number in range(count)]


async def create_nodes(client: KubeClient, names: Iterable[str]) -> None:
    """Create nodes that are Ready, of 12 cores and 48 GiB each."""
    await put_nodes(client, [ready_node(name, _FULL, {LABEL: "true"}) for name in names])


async def change_nodes(client: KubeClient, names: list[str], rng: Random) -> NoReturn:
    """Change one of these nodes after the other, for ever."""
    while True:
        await asyncio.sleep(_PAUSE)
        name = rng.choice(names)
        path = NODES.item(name)
        match rng.choice(("cordon", "uncordon", "shrink", "grow", "not ready", "ready", "recreate")):
            case "cordon" | "uncordon" as how:
                await client.patch(path, {"spec": {"unschedulable": how == "cordon"}})
            case "shrink" | "grow" as how:
                size = _SMALL if how == "shrink" else _FULL
                await _report(client, name, {"allocatable": size})
            case "not ready" | "ready" as how:
                await _report(client, name, {"conditions": [readiness(ready=how == "ready")]})
            case _:
                await recreate(client, name)


async def recreate(client: KubeClient, name: str) -> None:
    """Delete a node, and create it again in its original state."""
    await client.delete(NODES.item(name))
    await create_nodes(client, [name])


async def delete_nodes(client: KubeClient) -> None:
    """Delete all nodes of a soak."""
    await client.request("DELETE", NODES.collection(), params={"labelSelector": LABEL})


async def _report(client: KubeClient, name: str, status: dict[str, Any]) -> None:
    await client.patch(NODES.item(name, subresource="status"), {"status": status})
