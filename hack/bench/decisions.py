"""Decisions without an API server, by the decider of `tidelock run` with a generated cluster state."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec

from bench.nodes import Json
from bench.scenarios import anti_affinity_pod, node_name, plain_node, plain_pod, pod_object, spread_pod
from tidelock.cluster.usage.measurements import at_once
from tidelock.framework.config import default_configuration
from tidelock.framework.profile import Enabled
from tidelock.model.nodes import Node, decode_node
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.reservation import decode_reservation
from tidelock.model.usage_annotations import (
    NODE_LEVEL,
    WINDOW_SECONDS,
    MeasuredUses,
    NodeLevel,
    PodMeans,
    Stat,
    Windows,
    encode_node_level,
)
from tidelock.plugins.registry import BUILTINS, DEFAULT_PLUGINS
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.driver import due_steps
from tidelock.scheduler.informers.event_handlers import EventHandlers
from tidelock.scheduler.scheduler_core import assemble_core

SCHEDULER = "bench"
NAMESPACE = "bench"
NOW = 1_800_000_000.0
_FIT_ONLY = frozenset({"PrioritySort", "NodeResourcesFit", "DefaultBinder"})
_APPS = 100  # apps of the placed pods. The first is also the app of the pods that spread
_LOOK_AT_CLOCK = 100  # decisions between two reads of the processor clock, each of which is a system call
_GROUP = 500  # pods with anti-affinity to each other
_MEMORY = float(2**29)  # bytes that a pod uses


class DecisionError(Exception):
    """A pod fitted no node, so the figure would not be the time of successful decisions."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The pods of a measurement, its plugins, its number of reservations, and whether use is measured."""

    name: str
    shape: Callable[[int], Json]
    enabled: Sequence[Enabled] = DEFAULT_PLUGINS
    reservations: int = 0
    measured: bool = False
    plugins: frozenset[str] = frozenset()


DEFAULT = Workload(name="default", shape=plain_pod)
"""Plain pods, with the plugins that are enabled by default."""


def workloads(reservations: int) -> list[Workload]:
    """Return the sets of plugins to measure."""
    fit = tuple(plugin for plugin in DEFAULT_PLUGINS if plugin.name in _FIT_ONLY)
    return [
        Workload(name="fit", shape=plain_pod, enabled=fit),
        DEFAULT,
        Workload(name="spread", shape=spread_pod, plugins=frozenset({"PodTopologySpread"})),
        Workload(
            name="anti-affinity",
            shape=lambda number: anti_affinity_pod(number, _GROUP),
            plugins=frozenset({"InterPodAffinity"}),
        ),
        Workload(name="locks", shape=plain_pod, reservations=reservations),
        Workload(name="measured", shape=plain_pod, measured=True),
    ]


class Stopped:
    """A clock that stands still, so that nothing expires and no backoff ends."""

    def now(self) -> float:
        """Return the constant instant."""
        return NOW

    def monotonic(self) -> float:
        """Return the constant instant."""
        return NOW


def furnished(workload: Workload, nodes: int, placed: int) -> tuple[Decider, EventHandlers]:
    """Return a decider with nodes, placed pods that are spread over them in turn, and active reservations."""
    builtins = replace(BUILTINS, defaults=tuple(workload.enabled))
    core = assemble_core(default_configuration(SCHEDULER, builtins), Stopped())
    decider, event_handlers = core.decider, core.event_handlers
    for number, node in enumerate(_nodes(nodes)):
        event_handlers.nodes.upsert(None, _measured(node, number) if workload.measured else node)
    for pod in _placed(placed, nodes):
        event_handlers.pods.upsert(None, pod)
    if workload.measured:
        at_once(decider.measurements.take(_uses(_placed(placed, nodes))))
    for number in range(workload.reservations):
        event_handlers.reservations.upsert(None, decode_reservation(encoded_reservation(number)))
    core.all_listed()
    for _ in due_steps(decider, lambda: NOW):
        pass
    return decider, event_handlers


def pods(workload: Workload, count: int, *, alike: bool) -> list[Pod]:
    """Return pods to decide. If they are not alike, no two request the same amount of memory."""
    shapes = [workload.shape(number) for number in range(count)]
    if not alike:
        shapes = [_sized(shape, number) for number, shape in enumerate(shapes)]
    return [_pod(f"pod-{number:06}", shape) for number, shape in enumerate(shapes)]


def seconds_a_decision(
    decider: Decider, event_handlers: EventHandlers, waiting: Sequence[Pod], limit: float
) -> float:
    """Decide pods for at most so many seconds, and return the processor seconds per decision and booking.

    Processor time is measured because the machine may have other work. Decisions run in one thread that never
    waits.

    Raises:
        DecisionError: a pod fitted no node.

    """
    for pod in waiting:
        event_handlers.pods.upsert(None, pod)
    begin = time.process_time()
    for done in range(1, len(waiting) + 1):
        outcome = decider.step(NOW).outcome
        if not isinstance(outcome, AssumedPod):
            raise DecisionError(f"decision {done}: {outcome}")
        decider.bound(outcome, NOW)
        if done % _LOOK_AT_CLOCK == 0 and time.process_time() - begin > limit:
            break
    return (time.process_time() - begin) / done


@lru_cache(maxsize=1)
def _nodes(count: int) -> list[Node]:
    return [decode_node(_encode(_with_uid(plain_node(number)))) for number in range(count)]


@lru_cache(maxsize=1)
def _placed(count: int, nodes: int) -> list[Pod]:
    shape = plain_pod(0)
    return [
        _pod(
            f"placed-{number:06}",
            {
                "labels": {"app": "spread" if number % _APPS == 0 else f"app-{number % _APPS}"},
                "spec": {**shape["spec"], "nodeName": node_name(number % nodes)},
            },
        )
        for number in range(count)
    ]


def _measured(node: Node, number: int) -> Node:
    """Return a node with measured use, from 10 to 59 % of the cpu and from 20 to 59 % of the memory."""
    cpu, memory = 10.0 + number % 50, 20.0 + number % 40
    windows = _windows(Stat(cpu, cpu, cpu), Stat(memory, memory, memory))
    annotations = {NODE_LEVEL: encode_node_level(NodeLevel(NOW, windows))}
    metadata = msgspec.structs.replace(node.metadata, annotations=annotations)
    return msgspec.structs.replace(node, metadata=metadata)


def _uses(placed: Sequence[Pod]) -> MeasuredUses:
    """Return the measured use of each pod, from 100 to 599 millicores and half a gibibyte."""
    cores = [0.1 + number % 500 / 1000 for number in range(len(placed))]
    return MeasuredUses(
        {
            pod.uid: PodMeans(NOW, (cpu, _MEMORY) * len(WINDOW_SECONDS))
            for pod, cpu in zip(placed, cores, strict=True)
        },
        {},
    )


def _windows(cpu: Stat, memory: Stat) -> Windows:
    return {window: {"cpu": cpu, "memory": memory} for window in WINDOW_SECONDS}


def _sized(shape: Json, number: int) -> Json:
    """Return a pod's shape with a memory request that no other pod has."""
    (container,) = shape["spec"]["containers"]
    requests = container["resources"]["requests"] | {"memory": f"{(256 << 10) + number}Ki"}
    sized = {**container, "resources": {"requests": requests}}
    return {**shape, "spec": {**shape["spec"], "containers": [sized]}}


def _pod(name: str, shape: Json) -> Pod:
    body = pod_object(name, SCHEDULER, shape)
    body["metadata"]["namespace"] = NAMESPACE
    return decode_pod(_encode(_with_uid(body)))


def encoded_reservation(number: int) -> bytes:
    """Return a reservation for any node, as JSON."""
    name = f"lock-{number:06}"
    body = {
        "metadata": {"name": name, "namespace": NAMESPACE, "generation": 1},
        "spec": {
            "resources": {"cpu": "100m", "memory": "256Mi"},
            "owners": [{"pod": {"name": name}}],
            "ttlSeconds": 86_400,
        },
    }
    return _encode(_with_uid(body))


def _with_uid(body: Json) -> Json:
    return {**body, "metadata": {**body["metadata"], "uid": body["metadata"]["name"], "resourceVersion": "1"}}


_encode = msgspec.json.Encoder().encode
