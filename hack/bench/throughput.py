"""A comparison with kube-scheduler: python -m bench.throughput [--quick] [--json FILE].

A new control plane has nodes without kubelets. `tidelock run` and the stock kube-scheduler do the same work
in turn (ABBA), so that only one of them runs at a time. The exit status is 0 with any figures, and 1 if a
node got more pods than fit, or if a scenario did not end within its time.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.audit import audit
from bench.bare_client import bare_rate
from bench.command import add_counts, add_fsync, add_json, control_plane, is_quick, run_alone
from bench.comparison import PEER, Comparison
from bench.locks import Reservations
from bench.pods import add_priorities, clear_world
from bench.programs import kube_scheduler, tidelock
from bench.record import Record
from bench.reservation_observer import observing
from bench.rounds import Contestant, Round, RoundError, run_round
from bench.scenarios import Scenario, Sizes, scenarios
from bench.world import add_objects, admin, install, install_kube_scheduler, put_nodes
from devcluster import LocalCluster
from devcluster.output import say
from tidelock.kube.client import KubeClient
from tidelock.plugins.registry import REGISTRY
from tidelock.settings import DEFAULT_SCHEDULER_NAME

_INTERRUPTED = 130  # the exit status in a shell of a program that Ctrl-C ended


async def compare(
    client: KubeClient, scenario: Scenario, pair: tuple[Contestant, Contestant], options: argparse.Namespace
) -> Comparison:
    """Run all rounds of a scenario with the programs in turn, in reverse order in every other round."""
    comparison = Comparison(scenario)
    missing = scenario.missing(REGISTRY)
    if missing:
        comparison.note = f"not supported yet: Tidelock has no {', '.join(missing)}"
        return comparison
    try:
        async with asyncio.timeout(options.limit):
            await _furnish(client, scenario, pair[0])
        if scenario.name == "drain":
            comparison.bare.append(await bare_rate(client, scenario, options.limit))
        for number in range(options.rounds):
            results: dict[str, Round] = {}
            for contestant in pair if number % 2 == 0 else reversed(pair):
                say(f"{scenario.title}: round {number + 1} of {options.rounds}, {contestant.name}.")
                results[contestant.name] = await run_round(client, scenario, contestant, options.limit)
            comparison.add(*(results[contestant.name] for contestant in pair))
        if scenario.name == "drain":
            comparison.bare.append(await bare_rate(client, scenario, options.limit))
    except TimeoutError:
        comparison.faults.append(f"{scenario.title}: the preparation or the bare client took too long")
    except RoundError as error:
        comparison.faults.append(str(error))
    finally:
        await clear_world(client)
    return comparison


async def _furnish(client: KubeClient, scenario: Scenario, ours: Contestant) -> None:
    """Create the objects that every round of a scenario needs: nodes, and reservations that are Active."""
    say(f"{scenario.title}: {scenario.nodes} nodes.")
    await put_nodes(client, (scenario.node(number) for number in range(scenario.nodes)))
    await add_objects(client, scenario.cluster)
    if not scenario.reservations:
        return
    say(f"{scenario.title}: {scenario.reservations} locks.")
    await asyncio.to_thread(ours.program.start)
    try:
        async with observing(client) as seen:
            await Reservations(client, seen).burst(scenario.reservations)
    finally:
        await asyncio.to_thread(ours.program.stop)
    if faults := await audit(client):
        raise RoundError("; ".join(faults))


async def run(cluster: LocalCluster, options: argparse.Namespace) -> int:
    """Measure everything, print the figures and return the exit status."""
    record = Record.begin(options)
    pair = (
        Contestant(
            "Tidelock",
            tidelock(cluster, install(cluster), options.profile),
            DEFAULT_SCHEDULER_NAME,
            knows_reservations=True,
        ),
        Contestant(
            PEER,
            kube_scheduler(cluster, install_kube_scheduler(cluster), PEER),
            PEER,
            knows_reservations=False,
        ),
    )
    print(f"{control_plane(fsync=options.fsync)}; both programs have ServiceAccounts and no limits.")
    async with admin(cluster) as client:
        await add_priorities(client)
        for scenario in options.chosen:
            comparison = await compare(client, scenario, pair, options)
            print(comparison.text, flush=True)
            comparison.record(record)
            record.write(options.json)
    if options.plot and record.figures:
        from bench.plot import plot  # noqa: PLC0415 -- takes a second, and few runs need it

        plot(record.figures.values(), options.plot)
    return 1 if record.faults else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. --quick changes the defaults, and given options take precedence."""
    parser = argparse.ArgumentParser(prog="bench.throughput", description="Compare with kube-scheduler.")
    quick = is_quick(parser, arguments, "smaller counts, for a first look")
    parser.add_argument(
        "--nodes",
        type=int,
        nargs="+",
        default=[200] if quick else [5_000, 1_000],
        metavar="N",
        help="nodes without kubelets: one plain drain for each number, other scenarios with the first",
    )
    counts = (
        ("pods", 5_000, 500, "pods of a drain"),
        ("rounds", 3, 1, "rounds of each program, in turn"),
        ("gated", 10_000, 1_000, "pods at a gate"),
        ("locks", 5_000, 500, "active reservations, in the scenario with reservations"),
        ("placed", 30_000, 3_000, "pods that are already placed, in the scenario with placed pods"),
        ("seconds", 30, 10, "how long pods are created at a fixed rate"),
        ("limit", 600, 180, "seconds after which a round fails"),
    )
    add_counts(parser, counts, quick=quick)
    parser.add_argument("--scenarios", metavar="A,B", help="only these, by name")
    add_fsync(parser)
    add_json(parser, arguments)
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the figures there")
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="write a cProfile of Tidelock, which slows it down"
    )
    options = parser.parse_args(arguments)
    everything = scenarios(
        Sizes(
            drain_nodes=options.nodes,
            pods=options.pods,
            gated=options.gated,
            reservations=options.locks,
            placed=options.placed,
            open_loop_seconds=options.seconds,
        )
    )
    known = dict.fromkeys(scenario.name for scenario in everything)
    wanted = options.scenarios.split(",") if options.scenarios else list(known)
    if unknown := set(wanted).difference(known):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    options.chosen = [scenario for scenario in everything if scenario.name in wanted]
    return options


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark on a new control plane, and return the exit status."""
    options = parse(arguments)
    try:
        return run_alone(run, options, fsync=options.fsync)
    except KeyboardInterrupt:
        say("Interrupted; everything is stopped.")
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
