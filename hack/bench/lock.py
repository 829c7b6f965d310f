"""A benchmark of how fast reservations become active: python -m bench.lock [--quick] [--json FILE].

On a new control plane with nodes without kubelets and one writer, it measures `tidelock run` as it is
installed. Reservations are created one at a time and in bursts. A bare Kopf handler and a writer that decides
nothing (the floor) do the same in turn. The floor shows the API server's time for one short answer per
reservation. Then follows a cold start beside thousands of active reservations. The exit status is 0 with any
figures, and 1 if a reservation was lost, granted twice or granted without capacity.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.audit import audit, shown
from bench.command import add_counts, add_fsync, add_json, control_plane, is_quick, run_alone
from bench.creations import Creations, CreationSpeed, answering, answering_always
from bench.figures import Figure, percentile, table
from bench.locks import Reservations
from bench.programs import bare_kopf, cpu_seconds, floor, resident_bytes, server_seconds, tidelock
from bench.record import Record
from bench.reservation_observer import observing
from bench.world import IDENTITY, IN_FLIGHT, add_nodes, admin, install, install_answerer
from devcluster import Component, LocalCluster
from devcluster.output import say
from tidelock.kube.client import KubeClient

_MILLI = 1000
_MEBI = 2**20
# Seconds that a program gets after each phase for its deferred work.
_REST = 1.0


@dataclass
class Speed:
    """The speed of one program's answers."""

    typical: Figure = field(default_factory=lambda: Figure("one at a time, p50", "ms", 15))
    slow: Figure = field(default_factory=lambda: Figure("one at a time, p99", "ms", 50))
    slowest: Figure = field(default_factory=lambda: Figure("one at a time, max", "ms"))
    burst: Figure = field(default_factory=lambda: Figure("at once", "locks/s", 400, more_is_better=True))
    own: Figure = field(default_factory=lambda: Figure("at once, CPU a lock, program", "ms"))
    stored: Figure = field(default_factory=lambda: Figure("at once, CPU a lock, API server and etcd", "ms"))
    asked: Figure = field(default_factory=lambda: Figure("at once, CPU a lock, this benchmark", "ms"))

    @property
    def figures(self) -> list[Figure]:
        """All figures, in order."""
        return [self.typical, self.slow, self.slowest, self.burst, self.own, self.stored, self.asked]


@dataclass
class Start:
    """The time of a restart beside active reservations, and their memory."""

    idle: Figure = field(default_factory=lambda: Figure("resident, idle", "MiB"))
    filling: Figure = field(
        default_factory=lambda: Figure("live locks made at", "locks/s", more_is_better=True)
    )
    full: Figure = field(default_factory=lambda: Figure("resident, live locks made", "MiB"))
    first: Figure = field(default_factory=lambda: Figure("start to first new lock", "s", 10))
    restarted: Figure = field(default_factory=lambda: Figure("resident, restarted", "MiB"))

    @property
    def figures(self) -> list[Figure]:
        """All figures, in order."""
        return [self.idle, self.filling, self.full, self.first, self.restarted]


async def measure_speed(
    reservations: Reservations,
    program: Component,
    cluster: LocalCluster,
    speed: Speed,
    options: argparse.Namespace,
) -> None:
    """Start a program, measure one round, and add it to the figures."""
    await asyncio.to_thread(program.start)
    await reservations.burst(options.burst)  # opens the connections, which are made only once
    await _rest(reservations)
    latencies = await reservations.latencies(options.locks)
    for figure, seconds in (
        (speed.typical, percentile(latencies, 50)),
        (speed.slow, percentile(latencies, 99)),
        (speed.slowest, max(latencies)),
    ):
        figure.add(seconds * _MILLI)
    await _rest(reservations)
    for _ in range(options.bursts):
        before = _cpu_times(program, cluster)
        speed.burst.add(options.burst / await reservations.burst(options.burst))
        after = _cpu_times(program, cluster)
        for figure, start, end in zip((speed.own, speed.stored, speed.asked), before, after, strict=True):
            figure.add((end - start) / options.burst * _MILLI)
        await _rest(reservations)
    await asyncio.to_thread(program.stop)


def _cpu_times(program: Component, cluster: LocalCluster) -> tuple[float, float, float]:
    """Return the processor seconds so far of a program, of the API server with etcd, and of this process."""
    return cpu_seconds(program), server_seconds(cluster), time.process_time()


async def measure_start(
    reservations: Reservations, program: Component, start: Start, options: argparse.Namespace
) -> None:
    """Fill the cluster with reservations, then stop and start the operator again and again."""
    await asyncio.to_thread(program.start)
    await asyncio.sleep(options.settle)
    start.idle.add(resident_bytes(program) / _MEBI)
    start.filling.add(options.live / await reservations.burst(options.live))
    await asyncio.sleep(options.settle)
    start.full.add(resident_bytes(program) / _MEBI)
    for _ in range(options.rounds):
        await asyncio.to_thread(program.stop)
        begin = time.perf_counter()
        program.launch()  # without a wait for readiness, as a standby for the Lease is ready, too
        await reservations.burst(1)
        start.first.add(time.perf_counter() - begin)
        await asyncio.sleep(options.settle)
        start.restarted.add(resident_bytes(program) / _MEBI)
    await asyncio.to_thread(program.stop)


async def measure_creations(
    reservations: Reservations,
    cluster: LocalCluster,
    client: KubeClient,
    bare: CreationSpeed,
    answered: CreationSpeed,
    fixed: CreationSpeed,
    options: argparse.Namespace,
) -> list[str]:
    """Measure creations without answers, with answers, and with a fixed one. Return the wrong answers."""
    counts = {"locks": options.locks, "burst": options.burst}
    await Creations(client, reservations).measure(cluster, bare, **counts)
    async with answering(cluster, client) as program:
        creations = Creations(client, reservations, program)
        await creations.measure(cluster, answered, **counts)
    async with answering_always(cluster, client, creations.annotations) as program:
        webhook = Creations(client, reservations, program, decides=False)
        await webhook.measure(cluster, fixed, **counts)
    unanswered = creations.unanswered + webhook.unanswered
    missing = [f"{unanswered} creations had no grant"] if unanswered else []
    return missing + creations.moved


async def _rest(reservations: Reservations) -> None:
    await asyncio.sleep(_REST)
    await reservations.clear()
    await asyncio.sleep(_REST)


async def run(cluster: LocalCluster, options: argparse.Namespace) -> int:
    """Measure everything, print the figures and return the exit status."""
    record = Record.begin(options)
    kubeconfig, peers_kubeconfig = install(cluster), install_answerer(cluster)
    ours, peer, bound, start = Speed(), Speed(), Speed(), Start()
    contestants: tuple[tuple[Callable[[LocalCluster, Path], Component], Path, Speed], ...] = (
        (tidelock, kubeconfig, ours),
        (bare_kopf, peers_kubeconfig, peer),
        (floor, peers_kubeconfig, bound),
    )
    async with admin(cluster) as client, observing(client) as seen:
        await add_nodes(client, options.nodes)
        reservations = Reservations(client, seen)
        for number in range(options.rounds):
            for program, identity, speed in contestants:
                say(f"Round {number + 1} of {options.rounds}: {program.__name__}.")
                await measure_speed(reservations, program(cluster, identity), cluster, speed, options)
        bare, answered, fixed = CreationSpeed(), CreationSpeed(), CreationSpeed()
        faults = []
        for number in range(options.rounds):
            say(f"Round {number + 1} of {options.rounds}: creations.")
            faults += await measure_creations(reservations, cluster, client, bare, answered, fixed, options)
        say(f"Cold start with {options.live} live locks.")
        await measure_start(reservations, tidelock(cluster, kubeconfig), start, options)
        faults += [*seen.faults, *await audit(client)]
    report(options, ours, start, {"bare Kopf": peer, "floor": bound}, faults)
    print(table(answered.figures, bare.figures, "bare creation"))
    print(table(answered.figures, fixed.figures, "fixed answer"))
    record.faults = faults
    record.add([*ours.figures, *start.figures])
    for name, figures in (
        ("bare Kopf", peer.figures),
        ("floor", bound.figures),
        ("bare creation", bare.figures),
        ("fixed answer", fixed.figures),
        ("answered", answered.figures),
    ):
        record.add(figures, program=name, aimed=name == "answered")
    record.write(options.json)
    return 1 if faults else 0


def report(
    options: argparse.Namespace, ours: Speed, start: Start, peers: Mapping[str, Speed], faults: Sequence[str]
) -> None:
    """Print the figures."""
    print(
        f"{control_plane(fsync=options.fsync)}; {options.nodes} bare nodes; "
        f"all programs run as {IDENTITY}.\n"
        "From the start of the write to Active=True as an independent watch sees it: "
        f"{options.locks} locks one at a time, {options.burst} at once on {IN_FLIGHT} connections; "
        f"{options.live} live locks for the start."
    )
    for name, speed in peers.items():
        print(table(ours.figures, speed.figures, name))
    print(table(start.figures))
    print(shown(faults))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. --quick changes the defaults, and given options take precedence."""
    parser = argparse.ArgumentParser(
        prog="bench.lock", description="Measure how fast reservations become active."
    )
    quick = is_quick(parser, arguments, "smaller counts, for a first look")
    counts = (
        ("nodes", 1_000, 100, "nodes without kubelets"),
        ("rounds", 3, 1, "rounds of each program, in turn, and cold starts"),
        ("locks", 200, 50, "reservations one at a time in a round"),
        ("burst", 300, 100, "reservations at once"),
        ("bursts", 3, 1, "bursts in a round"),
        ("live", 10_000, 500, "active reservations beside a cold start"),
        ("settle", 15, 2, "seconds before memory is read"),
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
