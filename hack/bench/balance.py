"""A benchmark of how evenly policies use the nodes: python -m bench.balance --traces DIR [--quick].

It uses real load. Each combination of a PlanetLab day of the folder, a seed and a level of noise between
replicas is a world. The seed decides whether its nodes have one size or three, and whether it has roll-outs.
All policies are simulated in the same worlds, so they are compared in pairs. `shipped` is the profile of the
manifests and the chart, which are read, with measurements as late as a WaterLevel at its defaults has them.

Some days were used for choosing defaults, so the verdict counts only the others. Then follow other kinds of
worlds, bounds, a burst with frozen metrics, and the effect when measurements fail. Results in the file of
--worlds are reused, so a stopped run can be continued, also with more seeds or policies. The file of --json
is the record that the docs quote.
"""

import argparse
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

from bench.balance_figures import add_burst, add_days, add_faults, add_policies, add_variants
from bench.balance_report import (
    BOUNDS,
    BURST_REPLICAS,
    DEFAULT,
    FOREIGN,
    LEARNED,
    OURS,
    PATIENT,
    RIVALS,
    TUNED_ON,
    ratios,
    report,
    report_burst,
    report_faults,
    report_variants,
)
from bench.balance_worlds import VARIANTS, setting, timing
from bench.command import add_json
from bench.installed import NotSimulatedError, base_configuration, chart_configuration, installed_policy
from bench.placement_bounds import annealed, instant_bound, use_of
from bench.record import Record
from bench.world_results import PLAIN, Case, Outcome, WorldResults
from tidelock.running import collect_seldom
from tidelock.simulation.engine import Run, Simulation
from tidelock.simulation.measuring import DEFAULT_METRICS, FAULTS, MetricsFaults
from tidelock.simulation.plots import plot_nodes, plot_ratios, plot_spread
from tidelock.simulation.policies import POLICIES, SimulatedPolicy
from tidelock.simulation.results import WARM_UP, RunFigures, figures
from tidelock.simulation.traces import TraceError, planetlab_days, read_planetlab, read_task_usage
from tidelock.simulation.world import STEP, Loads, SimulatedWorld
from tidelock.simulation.worlds import STEPS_A_DAY, burst_world, world_of

_VARIANT_SEEDS = 2
_BURST_AT = 12 * STEP
_BURST_STEPS = 14
_TASKS = "task-usage"

Source = Path | tuple[Path, ...]
"""The file of a PlanetLab day, or files of task_usage."""


@lru_cache(maxsize=1)
def installed() -> SimulatedPolicy:
    """Return the policy that a user gets.

    Raises:
        NotSimulatedError: manifests and chart differ, or the simulator does not support their profile.

    """
    base, chart = (installed_policy(each()) for each in (base_configuration, chart_configuration))
    if base != chart:
        raise NotSimulatedError("manifests/base and manifests/chart have different profiles")
    return base


def policy(name: str) -> SimulatedPolicy:
    """Return a policy by its name."""
    return installed() if name == OURS else POLICIES[name]


def simulated(case: Case, world: SimulatedWorld, name: str) -> Run:
    """Simulate a case under a policy."""
    return Simulation(world, policy(name), case.seed, timing=timing(case), faults=FAULTS[case.fault]).run()


def simulate(
    task: tuple[Case, Sequence[str]], *, sources: Mapping[str, Source], nodes: int, steps: int
) -> Outcome:
    """Simulate a case under some policies, and compute bounds."""
    case, names = task
    world = world_of(case.day, _load(sources[case.day]), setting(case, nodes, steps), case.seed)
    runs = {name: simulated(case, world, name) for name in names if name not in BOUNDS}
    found = {name: figures(run) for name, run in runs.items()}
    if set(BOUNDS) & set(names):
        found |= bounds(world, runs.get(OURS) or simulated(case, world, OURS))
    return Outcome(case, found)


def bounds(world: SimulatedWorld, run: Run) -> dict[str, RunFigures]:
    """Return the figures of the bounds, for the pods of a run. Only their spread is a bound."""
    best = annealed(world, run, round(WARM_UP / STEP))
    uses = (instant_bound(world, run), use_of(world, run, best))
    return {name: figures(replace(run, policy=name, cpu=use)) for name, use in zip(BOUNDS, uses, strict=True)}


def _prepare() -> None:
    """Prepare a process: collect garbage rarely, and drop warnings of plugins, which a simulation expects."""
    collect_seldom()
    logging.getLogger("tidelock").addHandler(logging.NullHandler())


@lru_cache(maxsize=8)
def _load(source: Source) -> Loads:
    return read_planetlab(source) if isinstance(source, Path) else read_task_usage(source)


def _sources(options: argparse.Namespace) -> dict[str, Source]:
    """Return the loads by their names: PlanetLab days, and the tasks of Google's trace if there are any."""
    sources: dict[str, Source] = dict(planetlab_days(options.traces))
    if options.task_usage:
        sources[_TASKS] = tuple(options.task_usage)
    return sources


def simulate_all(
    results: WorldResults,
    cases: Sequence[Case],
    policies: Sequence[str],
    options: argparse.Namespace,
    title: str,
) -> None:
    """Simulate the cases that were not simulated before, and write the file after each."""
    lacking = ((case, [name for name in policies if name not in results.figures(case)]) for case in cases)
    tasks = [(case, names) for case, names in lacking if names]
    work = partial(simulate, sources=_sources(options), nodes=options.nodes, steps=options.steps)
    with ExitStack() as stack:
        bar = stack.enter_context(Progress(console=Console(stderr=True)))
        outcomes: Iterable[Outcome] = map(work, tasks)
        if options.jobs > 1:
            pool = get_context("forkserver").Pool(options.jobs, initializer=_prepare)
            outcomes = stack.enter_context(pool).imap_unordered(work, tasks)
        for outcome in bar.track(outcomes, total=len(tasks), description=title):
            results.add(outcome)
            results.keep(options.worlds)


def burst(nodes: int, policies: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Simulate pods that arrive within 30 seconds with frozen metrics, and return the most on one node.

    This is done with the replicas of one Deployment, and with one Deployment for each pod.
    """
    frozen = MetricsFaults(down=(_BURST_AT, _BURST_STEPS * STEP))

    def most(name: str, *, apart: bool) -> int:
        world = burst_world(nodes, BURST_REPLICAS, at=_BURST_AT, steps=_BURST_STEPS, apart=apart)
        run = Simulation(world, policy(name), timing=DEFAULT_METRICS, faults=frozen).run()
        surge = run.node[world.workload > 0]
        return int(np.bincount(surge[surge >= 0], minlength=nodes).max())

    return {name: (most(name, apart=False), most(name, apart=True)) for name in policies}


def draw(options: argparse.Namespace, outcomes: Sequence[Outcome], policies: Sequence[str]) -> None:
    """Draw the ratios of all policies, and one world of the first reported day in detail."""
    folder: Path = options.plots
    folder.mkdir(parents=True, exist_ok=True)
    reported = [outcome for outcome in outcomes if outcome.case.day not in TUNED_ON] or list(outcomes)
    worlds = [outcome.figures for outcome in reported]
    parts = {name: ratios(worlds, name, DEFAULT) for name in policies if name != DEFAULT}
    plot_ratios("deviation between nodes, as a part of the default's", parts, folder / "balance-ratios.png")
    case = reported[0].case
    world: SimulatedWorld = world_of(
        case.day, _load(_sources(options)[case.day]), setting(case, options.nodes, options.steps), case.seed
    )
    shown = [name for name in (DEFAULT, "least-used", OURS) if name in policies]
    runs = [simulated(case, world, name) for name in shown]
    plot_spread(runs, folder / "balance-spread.png")
    plot_nodes(runs, folder / "balance-nodes.png")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. --quick changes the defaults, and given options take precedence."""
    parser = argparse.ArgumentParser(prog="bench.balance", description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder with planetlab-DAY.csv(.gz) files")
    parser.add_argument(
        "--task-usage",
        type=Path,
        nargs="+",
        help="task_usage files of Google's trace of 2011, as one more day",
    )
    parser.add_argument("--quick", action="store_true", help="two seeds, half the nodes, for a first look")
    parser.add_argument("--days", help="names, separated by commas. Default: all days of the folder")
    parser.add_argument("--seeds", type=int, help="worlds of each day and noise")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.5], help="between replicas")
    parser.add_argument("--nodes", type=int, help="of each world, which has twice as many workloads")
    parser.add_argument("--steps", type=int, default=STEPS_A_DAY, help="five minutes each")
    parser.add_argument("--policies", help=f"names, separated by commas, of {', '.join(POLICIES)}")
    parser.add_argument("--variants", help=f"other worlds, separated by commas, of {', '.join(VARIANTS)}")
    parser.add_argument("--bounded", type=int, default=2, help="worlds of each day to compute bounds of")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--worlds", type=Path, help="file of the results of all worlds, which are reused")
    parser.add_argument("--report", action="store_true", help="only report the results of the file")
    parser.add_argument("--plots", type=Path, help="folder to write pictures to")
    add_json(parser, arguments)
    options = parser.parse_args(arguments)
    options.seeds = options.seeds or (2 if options.quick else 3)
    options.nodes = options.nodes or (20 if options.quick else 40)
    known = [name for name in POLICIES if name not in FOREIGN]
    names = options.policies.split(",") if options.policies else known
    unknown = [name for name in names if name not in POLICIES]
    if unknown:
        parser.error(f"--policies: {unknown[0]!r} is not one of {', '.join(POLICIES)}")
    options.policies = list(dict.fromkeys((DEFAULT, OURS, *names)))
    options.variants = options.variants.split(",") if options.variants else list(VARIANTS)
    unknown = [name for name in options.variants if name not in VARIANTS]
    if unknown:
        parser.error(f"--variants: {unknown[0]!r} is not one of {', '.join(VARIANTS)}")
    if options.report and options.worlds is None:
        parser.error("--report: needs --worlds")
    return options


def cases(options: argparse.Namespace, days: Sequence[str]) -> Iterator[Case]:
    """Yield the worlds to simulate, with days in turn, so that even a stopped run has results of all days."""
    for seed in range(options.seeds):
        for noise in options.noise:
            for day in days:
                yield Case(day, seed, noise)


def _days(options: argparse.Namespace) -> list[str]:
    there = _sources(options)
    days: list[str] = options.days.split(",") if options.days else list(there)
    for day in days:
        if day not in there:
            raise TraceError(f"--days: {day!r} is not one of {', '.join(there)}")
    return days


def variant_cases(options: argparse.Namespace, days: Sequence[str]) -> list[Case]:
    """Return worlds of all variants, without the plain one, each of which has as much noise as possible."""
    seeds = range(min(options.seeds, _VARIANT_SEEDS))
    noise = options.noise[-1]
    return [
        Case(day, seed, noise, variant=name)
        for seed in seeds
        for name in options.variants
        if name != PLAIN
        for day in days
    ]


def bounded_cases(options: argparse.Namespace, days: Sequence[str]) -> list[Case]:
    """Return plain worlds with nodes of one size, which have even seeds."""
    seeds = range(0, options.seeds, 2)[: options.bounded]
    return [Case(day, seed, options.noise[-1]) for seed in seeds for day in days]


def faulty_cases(options: argparse.Namespace, days: Sequence[str]) -> list[Case]:
    """Return a world of each day with each fault, and the same worlds without faults."""
    return [
        Case(day, number % options.seeds, options.noise[-1], fault)
        for fault in FAULTS
        for number, day in enumerate(days)
    ]


def simulate_everything(results: WorldResults, options: argparse.Namespace, days: Sequence[str]) -> None:
    """Simulate all worlds that were not simulated before."""
    rivals = [name for name in RIVALS if name in options.policies]
    simulate_all(results, list(cases(options, days)), options.policies, options, "days")
    simulate_all(
        results, variant_cases(options, days), [DEFAULT, OURS, LEARNED, *rivals], options, "other worlds"
    )
    late = [case for case in variant_cases(options, days) if VARIANTS[case.variant].lag is not None]
    simulate_all(results, late, [PATIENT], options, "late metrics")
    simulate_all(results, bounded_cases(options, days), BOUNDS, options, "bounds")
    simulate_all(results, faulty_cases(options, days), (DEFAULT, OURS, PATIENT), options, "faults")
    lacking = [name for name in options.policies if name not in results.burst]
    results.burst |= burst(options.nodes, lacking)
    results.keep(options.worlds)


def report_all(
    record: Record, results: WorldResults, options: argparse.Namespace, days: Sequence[str]
) -> Sequence[Outcome]:
    """Print all results of some days, add them to the record, and return those of plain worlds.

    Raises:
        TraceError: no plain world was simulated.

    """
    outcomes = results.plain(days)
    rivals = [name for name in RIVALS if name in options.policies]
    of_days = [each for each in results.outcomes if each.case.day in days]
    faulty = faulty_cases(options, days)
    with_faults = [each for each in results.outcomes if each.case in faulty]
    report(outcomes, options.policies)
    report_variants(of_days, RIVALS)
    report_faults(with_faults)
    report_burst(results.burst, options.nodes)
    add_policies(record, outcomes, options.policies)
    if rivals:
        add_days(record, outcomes, rivals)
    add_variants(record, of_days, RIVALS)
    add_faults(record, with_faults)
    add_burst(record, results.burst, options.nodes)
    record.write(options.json)
    return outcomes


def main(arguments: Sequence[str]) -> int:
    """Simulate all worlds, print the results and return the exit status."""
    options = parse(arguments)
    _prepare()
    record = Record.begin(options)
    try:
        days = _days(options)
        results = WorldResults.of(options)
        if not options.report:
            simulate_everything(results, options, days)
        outcomes = report_all(record, results, options, days)
    except (TraceError, NotSimulatedError) as error:
        sys.stderr.write(f"bench.balance: {error}\n")
        return 1
    if options.plots is not None:
        draw(options, outcomes, options.policies)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
