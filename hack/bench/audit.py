"""Checks of the final state in the API: whether nodes have the capacity that pods and reservations got."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from bench.world import NAMESPACE
from tidelock.kube.client import NODES, PODS, RESERVATIONS, KubeClient
from tidelock.model.quantities import PODS as POD_COUNT
from tidelock.model.quantities import Resources, parse_resources

_PAGE = "500"

Taken = tuple[str, Resources]
"""A node, and amounts of it that a pod or a reservation has."""


async def audit(client: KubeClient) -> list[str]:
    """Return a text for each reservation that is not Active, and for each node with too much reserved."""
    reservations = await read_all(client, RESERVATIONS.collection(NAMESPACE))
    nodes = await read_all(client, NODES.collection())
    return [*_not_held(reservations), *overcommitted(nodes, of_reservations(reservations), "locked")]


def shown(faults: Sequence[str]) -> str:
    """Format the faults of a run, or say that there are none."""
    return "\n".join(faults) or "No reservation was lost, given twice or given without capacity."


async def audit_pods(client: KubeClient, *, beside_reservations: bool) -> list[str]:
    """Return a text for each node with more in pods, or in pods and reservations, than it has."""
    nodes = await read_all(client, NODES.collection())
    taken = of_pods(await read_all(client, PODS.collection()))
    if beside_reservations:
        taken += of_reservations(await read_all(client, RESERVATIONS.collection(NAMESPACE)))
    return overcommitted(nodes, taken, "taken")


async def read_all(client: KubeClient, collection: str) -> list[dict[str, Any]]:
    """Return all objects of a collection, read page by page."""
    items: list[dict[str, Any]] = []
    token = ""
    while True:
        params = {"limit": _PAGE} | ({"continue": token} if token else {})
        page = msgspec.json.decode(await client.get(collection, params))
        items += page["items"]
        token = page["metadata"].get("continue", "")
        if not token:
            return items


def of_reservations(reservations: Iterable[dict[str, Any]]) -> list[Taken]:
    """Return the amounts that active reservations hold."""
    return [
        (
            reservation["status"]["nodeName"],
            parse_resources(reservation["spec"]["resources"]) | {POD_COUNT: 1},
        )
        for reservation in reservations
        if _active(reservation)
    ]


def of_pods(pods: Iterable[dict[str, Any]]) -> list[Taken]:
    """Return the requests of bound pods. Each pod of the benchmark has one container."""
    return [
        (node, parse_resources(pod["spec"]["containers"][0]["resources"]["requests"]) | {POD_COUNT: 1})
        for pod in pods
        if (node := pod["spec"].get("nodeName"))
    ]


def overcommitted(nodes: Iterable[dict[str, Any]], taken: Iterable[Taken], verb: str) -> list[str]:
    """Return a text for each node of which more is taken than it has. The verb is part of the text."""
    allocatable = {node["metadata"]["name"]: parse_resources(node["status"]["allocatable"]) for node in nodes}
    totals: defaultdict[tuple[str, str], int] = defaultdict(int)
    for node, amounts in taken:
        for resource, units in amounts.items():
            totals[node, resource] += units
    return [
        f"{node} has {units} {resource} {verb} and {allocatable[node].get(resource, 0)} allocatable"
        for (node, resource), units in totals.items()
        if units > allocatable[node].get(resource, 0)
    ]


def _active(reservation: dict[str, Any]) -> bool:
    conditions = reservation.get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == ("Active", "True") for each in conditions)


def _not_held(reservations: Iterable[dict[str, Any]]) -> list[str]:
    return [
        f"{reservation['metadata']['name']} is not Active"
        for reservation in reservations
        if not _active(reservation)
    ]
