"""The floor of a drain: a client that decides nothing, and sends the same bindings and events."""

import asyncio
import time
from datetime import UTC, datetime

from bench.audit import read_all
from bench.nodes import Json
from bench.pods import add_pods, clear_pods
from bench.scenarios import Scenario, node_name
from bench.world import NAMESPACE, each
from tidelock.kube.client import EVENTS, PODS, KubeClient
from tidelock.kube.events import Event, ObjectReference


async def bare_rate(client: KubeClient, scenario: Scenario, limit: float) -> float:
    """Bind all pods of a scenario to nodes in turn, with one event each, and return the pods a second.

    The writes are those of Tidelock, by the same HTTP client. No scheduler at this API server can be expected
    to be faster, as it also decides and watches.

    Raises:
        TimeoutError: the pods were not bound within the limit in seconds.

    """

    async def bind(numbered: tuple[int, Json]) -> None:
        number, meta = numbered
        node = node_name(number % scenario.nodes)
        await client.create(PODS.item(meta["name"], NAMESPACE, "binding"), _binding(meta, node))
        await client.create(EVENTS.collection(NAMESPACE), _scheduled(meta, node))

    try:
        async with asyncio.timeout(limit):
            await add_pods(client, scenario, "nobody")
            pods = [pod["metadata"] for pod in await read_all(client, PODS.collection(NAMESPACE))]
            begin = time.perf_counter()
            await each(bind, enumerate(pods))
            return len(pods) / (time.perf_counter() - begin)
    finally:
        await clear_pods(client)


def _binding(meta: Json, node: str) -> Json:
    """Return the binding that DefaultBinder posts for a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": meta["name"], "namespace": NAMESPACE, "uid": meta["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _scheduled(meta: Json, node: str) -> Event:
    """Return the event that reports the binding of a pod."""
    now = datetime.now(UTC)
    return Event(
        metadata={"name": f"{meta['name']}.{int(now.timestamp() * 1e6):x}", "namespace": NAMESPACE},
        event_time=now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        type="Normal",
        reason="Scheduled",
        action="Binding",
        note=f"Successfully assigned {NAMESPACE}/{meta['name']} to {node}",
        regarding=ObjectReference("v1", "Pod", meta["name"], NAMESPACE, meta["uid"]),
        reporting_controller="tidelock.dev/bench",
        reporting_instance="bench",
    )
