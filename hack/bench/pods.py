"""Pods of the benchmark, their creation and deletion, and their events."""

import time

import msgspec

from bench.audit import read_all
from bench.device_claims import CLAIMS, CLASSES, SLICES, add_claims, release_claims
from bench.nodes import Json
from bench.scenarios import HIGH, LOW, Scenario, gated_pod, node_name, pod_object
from bench.world import BACKGROUND, NAMESPACE, each
from tidelock.kube.client import EVENTS, NODES, PODS, RESERVATIONS, ApiResource, KubeClient

PRIORITY_CLASSES = ApiResource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
_PRIORITIES = {LOW: 1, HIGH: 1_000}
_PAGE = "500"


def pod_name(number: int) -> str:
    """Return the name of a pod."""
    return f"pod-{number:06}"


async def add_priorities(client: KubeClient) -> None:
    """Create the priority classes of the scenarios."""
    for name, value in _PRIORITIES.items():
        body = {
            "apiVersion": PRIORITY_CLASSES.api_version,
            "kind": PRIORITY_CLASSES.kind,
            "metadata": {"name": name},
            "value": value,
        }
        await client.create(PRIORITY_CLASSES.collection(), body)


async def add_pods(client: KubeClient, scenario: Scenario, scheduler: str) -> None:
    """Create all pods of a scenario that a scheduler must place."""

    async def add(number: int) -> None:
        await add_pod(client, scenario, scheduler, number)

    await each(add, range(scenario.pods))


async def add_pod(client: KubeClient, scenario: Scenario, scheduler: str, number: int) -> float:
    """Create one pod of a scenario, and return when the request began, as of `time.perf_counter`."""
    body = pod_object(pod_name(number), scheduler, scenario.pod(number))
    begin = time.perf_counter()
    await client.create(PODS.collection(NAMESPACE), body)
    return begin


async def add_background(client: KubeClient, scenario: Scenario, scheduler: str) -> None:
    """Create the other pods of a scenario: those on nodes, and those at a gate."""
    bodies = [
        pod_object(f"placed-{number:06}", scheduler, _on(node, shape))
        for number, (node, shape) in enumerate(scenario.placed)
    ]
    bodies += [
        pod_object(f"gated-{number:06}", scheduler, gated_pod(number)) for number in range(scenario.gated)
    ]

    async def add(body: Json) -> None:
        await client.create(PODS.collection(BACKGROUND), body)

    await each(add, bodies)
    if scenario.claim is not None:
        await add_claims(client, map(scenario.claim, range(scenario.pods)))


async def scheduled_events(client: KubeClient) -> int:
    """Count the pods with a Scheduled event."""
    if await _count(client, EVENTS.collection(NAMESPACE)) == 0:
        return 0
    events = await read_all(client, EVENTS.collection(NAMESPACE))
    return len({event["regarding"]["name"] for event in events if event["reason"] == "Scheduled"})


async def clear_pods(client: KubeClient) -> None:
    """Delete all pods of the benchmark and their events."""
    for namespace in (NAMESPACE, BACKGROUND):
        for resource in (PODS, EVENTS):
            await clear(client, resource.collection(namespace))
    await clear_claims(client)


async def clear_world(client: KubeClient) -> None:
    """Delete all objects of scenarios."""
    await clear_pods(client)
    collections = (each.collection() for each in (NODES, SLICES, CLASSES))
    for collection in (RESERVATIONS.collection(NAMESPACE), *collections):
        await clear(client, collection)


async def clear_claims(client: KubeClient) -> None:
    """Delete all resource claims. No controller runs that would take the finalizers off allocated ones."""
    collection = CLAIMS.collection(NAMESPACE)
    if await _count(client, collection):
        await release_claims(client)
        await clear(client, collection)


async def clear(client: KubeClient, collection: str) -> None:
    """Delete all objects of a collection without a grace period.

    This is done page by page, as the time of a request is limited.
    """
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    while await _count(client, collection):
        await client.request("DELETE", collection, params={"limit": _PAGE}, body=options)


def _on(node: int, shape: Json) -> Json:
    """Return the shape of a pod that is already bound to a node."""
    return {**shape, "spec": {**shape["spec"], "nodeName": node_name(node)}}


async def _count(client: KubeClient, collection: str) -> int:
    """Count the objects of a collection without reading them."""
    page = msgspec.json.decode(await client.get(collection, {"limit": "1"}))
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))
