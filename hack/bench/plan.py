"""A benchmark of planning reservations that begin later: python -m bench.plan [--locks N] [--json FILE].

All nodes are full of pods that end and of planned reservations. So a reservation fits nowhere from now on,
but fits between the others. Each decision is one step of the decider that serves a cluster, without an API
server, in wall-clock time.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from random import Random

import msgspec

from bench.command import add_json
from bench.decisions import Stopped
from bench.figures import Figure, percentile, table
from bench.nodes import Json
from bench.record import Record
from bench.scenarios import node_name, plain_node
from tidelock.framework.config import default_configuration
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.nodes import decode_node
from tidelock.model.pods import decode_pod
from tidelock.model.reservation import decode_reservation
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.scheduler_core import assemble_core

_NOW = 1_800_000_000.0
_NAMESPACE = "bench"
_TARGET_MS = 10.0
_MILLI = 1000
_HOUR = 3600
_SLOTS = 24
_RUN_SECONDS = 1800


def pod_json(number: int, node: str) -> Json:
    """Return a pod that fills half of its node and ends within the first hour."""
    return {
        "metadata": {"name": f"pod-{number}", "namespace": _NAMESPACE, "uid": f"pod-{number}"},
        "spec": {
            "nodeName": node,
            "activeDeadlineSeconds": 600,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "8", "memory": "32Gi"}}}],
        },
        "status": {"phase": "Running", "startTime": format_instant(_NOW)},
    }


def lock_json(number: int, slot: int, node: str = "") -> Json:
    """Return a reservation of half a node for ten minutes from the beginning of an hour, and a short run."""
    spec: Json = {
        "resources": {"cpu": "8", "memory": "32Gi"},
        "owners": [{"pod": {"name": f"job-{number}"}}],
        "startAt": format_instant(_NOW + _HOUR * (slot + 1)),
        "ttlSeconds": 600,
        "runSeconds": _RUN_SECONDS,
    }
    metadata = {"name": f"lock-{number}", "namespace": _NAMESPACE, "uid": f"lock-{number}", "generation": 1}
    created = {"creationTimestamp": format_instant(_NOW), "resourceVersion": "1"}
    return {"metadata": metadata | created, "spec": spec | ({"nodeName": node} if node else {})}


class World:
    """A decider with full nodes."""

    def __init__(self, nodes: int) -> None:
        core = assemble_core(default_configuration("bench", BUILTINS), Stopped())
        self.decider, self.event_handlers = core.decider, core.event_handlers
        for number in range(nodes):
            self.event_handlers.nodes.upsert(None, decode_node(msgspec.json.encode(plain_node(number))))
        for number in range(2 * nodes):
            raw = msgspec.json.encode(pod_json(number, node_name(number % nodes)))
            self.event_handlers.pods.upsert(None, decode_pod(raw))
        core.all_listed()

    def plan(self, plain: Json) -> float:
        """Plan a reservation, and return the seconds of its step.

        Raises:
            ValueError: the reservation was not planned, so the figure would not be the time of planning.

        """
        reservation = decode_reservation(msgspec.json.encode(plain))
        self.event_handlers.reservations.upsert(None, reservation)
        begin = time.perf_counter()
        self.decider.step(_NOW)
        seconds = time.perf_counter() - begin
        entry = self.decider.ledger.entries[reservation.key]
        if entry.phase is not Phase.PLANNED:
            raise ValueError(f"{reservation.key} is {entry.phase}: {entry.message}")
        return seconds


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark. The exit status is 0 with any figures."""
    parser = argparse.ArgumentParser(prog="bench.plan", description="Measure planning alone.")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--locks", type=int, default=10_000, help="planned reservations at the start")
    parser.add_argument("--plans", type=int, default=1_000, help="reservations to plan beside them")
    add_json(parser, arguments)
    options = parser.parse_args(arguments)
    record = Record.begin(options)
    rng = Random(1)  # noqa: S311 -- no secret
    world = World(options.nodes)
    for number in range(options.locks):
        world.plan(lock_json(number, rng.randrange(_SLOTS), node_name(number % options.nodes)))
    print(f"{options.nodes} nodes, {2 * options.nodes} pods that end, {options.locks} future locks.")
    first = options.locks
    for name, pinned in (("any node", False), ("the node that it names", True)):
        slots = range(_SLOTS, 2 * _SLOTS) if pinned else range(_SLOTS)  # in which a named node has capacity
        seconds = [
            world.plan(
                lock_json(number, rng.choice(slots), node_name(number % options.nodes) if pinned else "")
            )
            for number in range(first, first + options.plans)
        ]
        first += options.plans
        figures = [
            Figure.once(f"p{percent}", "ms", percentile(seconds, percent) * _MILLI, target)
            for percent, target in ((50, None), (99, _TARGET_MS))
        ]
        print(f"\na lock for {name}\n{table(figures)}")
        record.add(figures, name)
    record.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
