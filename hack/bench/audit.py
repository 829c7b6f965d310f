"""Whether the locks that were given are locks: read from the API, when all is done."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from bench.world import NAMESPACE
from tidelock.kube.client import NODES, RESERVATIONS, KubeClient
from tidelock.model.quantities import PODS, parse_resources

_PAGE = "500"


async def audit(client: KubeClient) -> list[str]:
    """Find locks that are not held, and nodes with more locked than they have; each fault in words."""
    nodes = await _read_all(client, NODES.collection())
    locks = await _read_all(client, RESERVATIONS.collection(NAMESPACE))
    return [*_not_held(locks), *_overcommitted(nodes, locks)]


async def _read_all(client: KubeClient, collection: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    token = ""
    while True:
        params = {"limit": _PAGE} | ({"continue": token} if token else {})
        page = msgspec.json.decode(await client.get(collection, params))
        items += page["items"]
        token = page["metadata"].get("continue", "")
        if not token:
            return items


def _active(lock: dict[str, Any]) -> bool:
    conditions = lock.get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == ("Active", "True") for each in conditions)


def _not_held(locks: Iterable[dict[str, Any]]) -> list[str]:
    return [f"{lock['metadata']['name']} is not Active" for lock in locks if not _active(lock)]


def _overcommitted(nodes: Iterable[dict[str, Any]], locks: Iterable[dict[str, Any]]) -> list[str]:
    allocatable = {node["metadata"]["name"]: parse_resources(node["status"]["allocatable"]) for node in nodes}
    locked: defaultdict[tuple[str, str], int] = defaultdict(int)
    for lock in filter(_active, locks):
        held = parse_resources(lock["spec"]["resources"]) | {PODS: 1}
        for resource, units in held.items():
            locked[lock["status"]["nodeName"], resource] += units
    return [
        f"{node} has {units} {resource} locked and {allocatable[node].get(resource, 0)} allocatable"
        for (node, resource), units in locked.items()
        if units > allocatable[node].get(resource, 0)
    ]
