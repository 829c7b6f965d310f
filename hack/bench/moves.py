"""A benchmark of the search for pods to move: python -m bench.moves [--pods N] [--json FILE].

Nodes are fragmented: each has some free capacity, but none has enough for the reservation. Each search is one
step of the decider that serves a cluster, without an API server, in processor time.
"""

import argparse
import sys
import time
from collections.abc import Sequence

import msgspec

from bench.command import add_json
from bench.decisions import Stopped
from bench.figures import Figure, percentile, table
from bench.nodes import Json
from bench.record import Record
from bench.scenarios import node_name, plain_node
from tidelock.framework.config import default_configuration
from tidelock.model.instants import format_instant
from tidelock.model.nodes import decode_node
from tidelock.model.pods import decode_pod
from tidelock.model.reservation import decode_reservation
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.defrag.controller import PLAN_SECONDS
from tidelock.scheduler.informers.event_handlers import EventHandlers
from tidelock.scheduler.scheduler_core import assemble_core

_NOW = 1_800_000_000.0
_NAMESPACE = "bench"
_CPUS = 16  # cpus of a node
_LEFT = 2  # free cpus of a node
_MILLI = 1000


def pod_json(number: int, node: str, millis: int) -> Json:
    """Return a pod of a ReplicaSet."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    return {
        "metadata": {
            "name": f"pod-{number}",
            "namespace": _NAMESPACE,
            "uid": f"pod-{number}",
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": f"{millis}m"}}}],
        },
        "status": {"phase": "Running", "startTime": format_instant(_NOW)},
    }


def lock_json(number: int, cpus: float, priority: int) -> Json:
    """Return a reservation for which three pods of at most its priority may be moved."""
    metadata = {"name": f"lock-{number}", "namespace": _NAMESPACE, "uid": f"lock-{number}", "generation": 1}
    return {
        "metadata": metadata | {"creationTimestamp": format_instant(_NOW), "resourceVersion": "1"},
        "spec": {
            "resources": {"cpu": f"{round(cpus * 1000)}m"},
            "owners": [{"pod": {"name": f"job-{number}"}}],
            "ttlSeconds": 600,
            "priority": priority,
            "mayMove": {"maxPods": 3},
            "pendingDeadlineSeconds": 86_400,
        },
    }


def world(nodes: int, pods: int) -> tuple[Decider, EventHandlers]:
    """Return a decider with fragmented nodes."""
    core = assemble_core(default_configuration("bench", BUILTINS), Stopped())
    decider, event_handlers = core.decider, core.event_handlers
    for number in range(nodes):
        event_handlers.nodes.upsert(None, decode_node(msgspec.json.encode(plain_node(number))))
    millis = (_CPUS - _LEFT) * 1000 // pods
    for number in range(nodes * pods):
        plain = pod_json(number, node_name(number % nodes), millis)
        event_handlers.pods.upsert(None, decode_pod(msgspec.json.encode(plain)))
    core.all_listed()
    return decider, event_handlers


def looks(
    decider: Decider, event_handlers: EventHandlers, number: int, cpus: float, priority: int, count: int
) -> list[float]:
    """Search for moves so many times, and return the processor seconds of each search."""
    reservation = decode_reservation(msgspec.json.encode(lock_json(number, cpus, priority)))
    event_handlers.reservations.upsert(None, reservation)
    seconds, now = [], _NOW + number * PLAN_SECONDS * (count + 2)
    decider.step(now)
    for _ in range(count):
        now += PLAN_SECONDS
        begin = time.process_time()
        decider.moving.step(now)
        seconds.append(time.process_time() - begin)
        entry = decider.ledger.entries[reservation.key]
        entry.plan = None  # so that the next search finds it again
    event_handlers.reservations.remove(reservation)
    return seconds


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark. The exit status is 0 with any figures."""
    parser = argparse.ArgumentParser(prog="bench.moves", description="Measure the search for moves alone.")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=28, help="pods of each node")
    parser.add_argument("--looks", type=int, default=20)
    add_json(parser, arguments)
    options = parser.parse_args(arguments)
    record = Record.begin(options)
    share = (_CPUS - _LEFT) / options.pods
    print(f"{options.nodes} nodes with {options.pods} pods each.")
    decider, event_handlers = world(options.nodes, options.pods)
    for number, (name, cpus, priority) in enumerate(
        (
            ("finds one pod to move", _LEFT + share, 0),
            ("finds three", _LEFT + 3 * share, 0),
            ("finds none, because it needs four", _LEFT + 4 * share, 0),
            ("finds none, because no pod may be moved", _LEFT + share, -1),
        )
    ):
        seconds = looks(decider, event_handlers, number, cpus, priority, options.looks)
        figures = [
            Figure.once("p50", "ms", percentile(seconds, 50) * _MILLI, headline=True),
            Figure.once("longest", "ms", max(seconds) * _MILLI),
        ]
        print(f"\na look that {name}\n{table(figures)}")
        record.add(figures, name)
    record.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
