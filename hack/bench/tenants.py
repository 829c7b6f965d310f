"""A benchmark of one tenant beside another's flood: python -m bench.tenants [--quick] [--json FILE].

On a new control plane with nodes without kubelets, one tenant creates reservations one at a time. It deletes
each again, so that capacity is freed all the time. This is measured without other tenants, then while another
tenant creates thousands of reservations, and then beside all of these. There are two kinds of flood:
reservations over their namespace's quota, and reservations that fit no node. The ratios compare the 99th
percentiles.

The effect of the machine alone is measured first. A writer that decides nothing answers the quiet tenant, and
no program answers the flood. With Tidelock the ratio during a flood may be three times as high.

The exit status is 0 with any figures, and 1 if a reservation was lost, granted twice or granted without
capacity.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bench.audit import audit, shown
from bench.command import add_counts, add_fsync, add_json, control_plane, is_quick, run_alone
from bench.figures import Figure, percentile, table
from bench.locks import Reservations
from bench.programs import floor, tidelock
from bench.record import Record
from bench.reservation_observer import observing
from bench.world import BACKGROUND, NAMESPACE, add_nodes, admin, install
from devcluster import LocalCluster
from devcluster.output import say
from tidelock.kube.client import RESERVATIONQUOTAS, RESERVATIONS, KubeClient
from tidelock.kube.errors import TransientError

_MILLI = 1000
_TARGET = 3.0
# Active reservations that the quota of the flooding tenant allows, and cores that no node has.
_ALLOWED = 100
_TOO_LARGE = "13"
_FLOOD_LIFE = 86_400
_REST = 2.0
_PATIENCE = 900.0

_FLOOD = RESERVATIONS.collection(BACKGROUND)

_KINDS = (("over quota", "10m"), ("without room", _TOO_LARGE))
_FLOOR = ("nobody decides, quiet", "nobody decides, coming")


@dataclass
class Latencies:
    """The latency of the quiet tenant's reservations in one situation, in milliseconds."""

    situation: str
    typical: Figure = field(init=False)
    slow: Figure = field(init=False)
    ratio: Figure = field(init=False)
    excess: Figure = field(init=False)

    def __post_init__(self) -> None:
        self.typical = Figure("p50", "ms")
        self.slow = Figure("p99", "ms")
        self.ratio = Figure("p99 to quiet p99", "")
        self.excess = Figure("times the baseline", "", _TARGET)

    def add(
        self, seconds: Sequence[float], quiet: float | None = None, baseline: "Latencies | None" = None
    ) -> float:
        """Add a round and return its 99th percentile, in milliseconds.

        It is compared with that of the quiet situation, and this ratio with the median one of the baseline.
        """
        slow = percentile(seconds, 99) * _MILLI
        ratio = slow / (quiet or slow)
        self.typical.add(percentile(seconds, 50) * _MILLI)
        self.slow.add(slow)
        self.ratio.add(ratio)
        if baseline is not None:
            self.excess.add(ratio / baseline.ratio.typical)
        return slow

    @property
    def figures(self) -> list[Figure]:
        """All figures, in order."""
        return [self.typical, self.slow, self.ratio, *([self.excess] if self.excess.values else [])]


async def one_at_a_time(
    client: KubeClient, reservations: Reservations, enough: Callable[[int], bool]
) -> list[float]:
    """Create and delete reservations one at a time until there are enough, and return their seconds."""
    taken: list[float] = []
    while not enough(len(taken)):
        (name,) = reservations.names(1)
        start = time.perf_counter()
        await reservations.write(name)
        taken.append(await reservations.seen(name) - start)
        await client.delete(RESERVATIONS.item(name, NAMESPACE))
    return taken


async def flood(client: KubeClient, amount: int, writers: int, cpu: str) -> None:
    """Create reservations in the other namespace, so many at once."""
    names = iter(range(amount))

    async def write() -> None:
        for number in names:
            await client.create(_FLOOD, _reservation(number, cpu))

    async with asyncio.TaskGroup() as group:
        for _ in range(writers):
            group.create_task(write())


async def answered(client: KubeClient, amount: int) -> None:
    """Wait until every reservation of the flood has been decided, with a phase in its status."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            listing = msgspec.json.decode(await client.get(_FLOOD))
            if sum("phase" in each.get("status", {}) for each in listing["items"]) >= amount:
                return
            await asyncio.sleep(_REST)


def _while(task: asyncio.Task[None]) -> Callable[[int], bool]:
    """Return a condition that ends with a task, after at least one reservation."""
    return lambda taken: taken > 0 and task.done()


def _reservation(number: int, cpu: str) -> dict[str, Any]:
    name = f"flood-{number:06}"
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name},
        "spec": {
            "resources": {"cpu": cpu, "memory": "1Mi"},
            "owners": [{"pod": {"name": name}}],
            "ttlSeconds": _FLOOD_LIFE,
            "pendingDeadlineSeconds": _FLOOD_LIFE,
        },
    }


def _quota() -> dict[str, Any]:
    return {
        "apiVersion": RESERVATIONQUOTAS.api_version,
        "kind": RESERVATIONQUOTAS.kind,
        "metadata": {"name": "flood"},
        "spec": {"hard": {"pods": str(_ALLOWED)}},
    }


async def measure(
    client: KubeClient,
    reservations: Reservations,
    options: argparse.Namespace,
    situations: dict[str, Latencies],
) -> None:
    """Measure one round: without a flood, and then during and beside each of the two floods."""
    full = options.locks.__le__
    quiet = situations["quiet"].add(await one_at_a_time(client, reservations, full))
    for kind, cpu in _KINDS:
        if kind == "over quota":
            await client.create(RESERVATIONQUOTAS.collection(BACKGROUND), _quota())
            await asyncio.sleep(_REST)
        say(f"Another tenant's {options.flood} locks {kind}.")
        taken = await _while_they_come(client, reservations, options, cpu)
        situations[f"{kind}, coming"].add(taken, quiet, situations[_FLOOR[1]])
        await answered(client, options.flood)
        await asyncio.sleep(_REST)
        situations[f"{kind}, there"].add(await one_at_a_time(client, reservations, full), quiet)
        await _clear(client)
        await client.delete(RESERVATIONQUOTAS.collection(BACKGROUND))
        await asyncio.sleep(_REST)


async def measure_floor(
    client: KubeClient,
    reservations: Reservations,
    options: argparse.Namespace,
    situations: dict[str, Latencies],
) -> None:
    """Measure one round of the floor, in which no program handles the flood."""
    alone, coming = (situations[each] for each in _FLOOR)
    quiet = alone.add(await one_at_a_time(client, reservations, options.locks.__le__))
    coming.add(await _while_they_come(client, reservations, options, _TOO_LARGE), quiet)
    await client.delete(_FLOOD)
    await asyncio.sleep(_REST)


async def _while_they_come(
    client: KubeClient, reservations: Reservations, options: argparse.Namespace, cpu: str
) -> list[float]:
    coming = asyncio.create_task(flood(client, options.flood, options.writers, cpu))
    taken = await one_at_a_time(client, reservations, _while(coming))
    await coming
    return taken


async def _clear(client: KubeClient) -> None:
    """Delete the flood. The API server aborts a request that does not delete all of it in time."""
    while True:
        with suppress(TransientError):
            await client.delete(_FLOOD)
            return


async def run(cluster: LocalCluster, options: argparse.Namespace) -> int:
    """Measure everything, print the figures and return the exit status."""
    record = Record.begin(options)
    kubeconfig = install(cluster)
    names = [*_FLOOR, "quiet", *(f"{kind}, {when}" for kind, _ in _KINDS for when in ("coming", "there"))]
    situations = {name: Latencies(name) for name in names}
    async with admin(cluster) as client, observing(client) as seen:
        await add_nodes(client, options.nodes)
        reservations = Reservations(client, seen)
        for program, measure_program in ((floor, measure_floor), (tidelock, measure)):
            answering = program(cluster, kubeconfig)
            await asyncio.to_thread(answering.start)
            await reservations.burst(options.burst)  # opens the connections, which are made only once
            await reservations.clear()
            for number in range(options.rounds):
                say(f"Round {number + 1} of {options.rounds}, {answering.name}.")
                await measure_program(client, reservations, options, situations)
            await asyncio.to_thread(answering.stop)
        record.faults = [*seen.faults, *await audit(client)]
    print(
        f"{control_plane(fsync=options.fsync)}; {options.nodes} bare nodes; {options.locks} locks "
        f"one at a time, beside {options.flood} of another namespace, which {options.writers} writers make."
    )
    for each in situations.values():
        print(f"\n{each.situation}\n{table(each.figures)}")
        record.add(each.figures, each.situation)
    print(shown(record.faults))
    record.write(options.json)
    return 1 if record.faults else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. --quick changes the defaults, and given options take precedence."""
    parser = argparse.ArgumentParser(
        prog="bench.tenants", description="Measure one tenant's latency beside another tenant's flood."
    )
    quick = is_quick(parser, arguments, "smaller counts, for a first look")
    counts = (
        ("nodes", 1_000, 100, "nodes without kubelets"),
        ("rounds", 3, 1, "rounds"),
        ("locks", 200, 100, "reservations one at a time in each situation"),
        ("burst", 100, 20, "reservations at once beforehand, to warm up"),
        ("flood", 10_000, 1_000, "reservations of the other namespace"),
        ("writers", 4, 4, "reservations of the flood that are created at once"),
    )
    add_counts(parser, counts, quick=quick)
    add_fsync(parser)
    add_json(parser, arguments)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark on a new control plane, and return the exit status."""
    options = parse(arguments)
    return run_alone(run, options, fsync=options.fsync)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
