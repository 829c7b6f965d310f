"""A benchmark of how evenly policies use the nodes: python -m bench.balance --traces DIR [--quick].

It uses real load. Each combination of a PlanetLab day of the folder, a seed and one of two levels of noise
between replicas is a world. The seed decides whether its nodes have one size or three, and whether it has
roll-outs. All policies are simulated in the same worlds, so they are compared in pairs. Some days were used
for choosing defaults, so the verdict counts only the others. Then follow a burst with frozen metrics, and the
effect when measurements fail. Results in the file of --json are reused, so a stopped run can be continued,
also with more seeds or policies.
"""

import argparse
import logging
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path

import msgspec
import numpy as np
from rich.console import Console
from rich.progress import Progress

from bench.figures import columns
from tidelock.running import collect_seldom
from tidelock.simulation.engine import Simulation
from tidelock.simulation.measuring import FAULTS, MetricsFaults
from tidelock.simulation.plots import plot_nodes, plot_ratios, plot_spread
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.results import RatioEstimate, RunFigures, averaged, estimate, figures
from tidelock.simulation.traces import TraceError, planetlab_days, read_planetlab
from tidelock.simulation.world import STEP, Loads, SimulatedWorld
from tidelock.simulation.worlds import STEPS_A_DAY, Setting, burst_world, world_of

TUNED_ON = ("20110303", "20110306")
"""Days on which defaults were chosen. They are shown, but do not count."""

DEFAULT = "default"
OURS = "water-level"
RIVALS = (
    "target-load-packing",
    "load-variation-risk-balancing",
    "dynamic-load",
    "load-aware",
    "least-used",
    "plain-formula",
)

_OF_DEFAULT, _OF_RIVAL, _OF_DAYS = 0.75, 0.90, 0.90
_OF_DEFAULT_AT_FAULT = 1.05
_MIXED = (8, 16, 32)
_PLAIN = (16,)
_ROLLOUTS = 8
_FAULTY_SEEDS = 4
_SHOWN = ("spread", "range", "mean", "p99", "hot", "pending")
_BURST_AT = 12 * STEP
_BURST_STEPS = 14
_BURST_REPLICAS = 100


@dataclass(frozen=True, slots=True)
class Case:
    """The parameters of a world, which is the same for all policies. `fault` names the fault in it."""

    day: str
    seed: int
    noise: float
    fault: str = "none"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case: figures by policy."""

    case: Case
    figures: dict[str, RunFigures]


class Record(msgspec.Struct):
    """All results for worlds of one size, as in the file.

    Attributes:
        nodes: number of nodes of each world.
        steps: number of steps, of five minutes each.
        outcomes: cases and figures.
        burst: the highest number of a burst's pods on one node, by policy, with one Deployment and with many.

    """

    nodes: int
    steps: int
    outcomes: list[Outcome] = []
    burst: dict[str, tuple[int, int]] = {}

    def figures(self, case: Case) -> dict[str, RunFigures]:
        """Return the figures of a case by policy, as far as they exist."""
        return next((outcome.figures for outcome in self.outcomes if outcome.case == case), {})

    def without_faults(self, days: Sequence[str]) -> list[Outcome]:
        """Return the results of some days without faults. Raises TraceError if there are none."""
        found = [each for each in self.outcomes if each.case.fault == "none" and each.case.day in days]
        if not found:
            raise TraceError(f"nothing was played of {', '.join(days)}")
        return found

    def add(self, outcome: Outcome) -> None:
        """Add the result of a case."""
        known = self.figures(outcome.case)
        if not known:
            self.outcomes.append(outcome)
        known |= outcome.figures

    def keep(self, file: Path | None) -> None:
        """Write all results to the file, if there is one. The file is always complete."""
        if file is not None:
            new = file.with_suffix(".new")
            new.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")
            new.replace(file)

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Record":
        """Read the file, or return an empty record if there is none.

        Raises:
            TraceError: the file has worlds of another size, or can't be read.

        """
        if options.json is None or not options.json.exists():
            return cls(options.nodes, options.steps)
        try:
            record = msgspec.json.decode(options.json.read_bytes(), type=cls)
        except msgspec.DecodeError as error:
            raise TraceError(f"--json: {options.json} is no file of bench.balance: {error}") from error
        if (record.nodes, record.steps) != (options.nodes, options.steps):
            raise TraceError(
                f"--json: {options.json} has worlds of {record.nodes} nodes and {record.steps} steps, "
                f"not of {options.nodes} and {options.steps}"
            )
        return record


@dataclass(frozen=True, slots=True)
class DayVerdict:
    """The result of Tidelock's policy on a day: ratios of mean spreads, and whether they meet the targets.

    `rival` is the rival with the smallest spread of that day. `no_worse` means that p99 and pending pods are
    not above the rival's.
    """

    day: str
    of_default: RatioEstimate
    rival: str
    of_rival: RatioEstimate
    no_worse: bool

    @property
    def met(self) -> bool:
        """Whether the day meets its targets."""
        return self.of_default.mean <= _OF_DEFAULT and self.of_rival.mean <= _OF_RIVAL and self.no_worse


def setting(case: Case, nodes: int, steps: int) -> Setting:
    """Return the setting of a case. Its seed decides the sizes of nodes and whether there are roll-outs."""
    return Setting(
        nodes=nodes,
        cores=_MIXED if case.seed % 2 else _PLAIN,
        workloads=2 * nodes,
        noise=case.noise,
        rollouts=_ROLLOUTS if case.seed // 2 % 2 else 0,
        steps=steps,
    )


def play(task: tuple[Case, Sequence[str]], *, folder: Path, nodes: int, steps: int) -> Outcome:
    """Simulate a case under some policies. Faults do not affect policies that go by requests."""
    case, policies = task
    world = world_of(case.day, _load(folder, case.day), setting(case, nodes, steps), case.seed)
    faults = FAULTS[case.fault]
    runs = {name: Simulation(world, POLICIES[name], case.seed, faults=faults).run() for name in policies}
    return Outcome(case, {name: figures(run) for name, run in runs.items()})


def _prepare() -> None:
    """Prepare a process: collect garbage rarely, and drop warnings of plugins, which a simulation expects."""
    collect_seldom()
    logging.getLogger("tidelock").addHandler(logging.NullHandler())


@lru_cache(maxsize=8)
def _load(folder: Path, day: str) -> Loads:
    return read_planetlab(planetlab_days(folder)[day])


def play_all(
    record: Record, cases: Sequence[Case], policies: Sequence[str], options: argparse.Namespace, title: str
) -> None:
    """Simulate the cases that the record lacks, in several processes, and write the record after each."""
    lacking = ((case, [name for name in policies if name not in record.figures(case)]) for case in cases)
    tasks = [(case, names) for case, names in lacking if names]
    work = partial(play, folder=options.traces, nodes=options.nodes, steps=options.steps)
    with (
        get_context("forkserver").Pool(options.jobs, initializer=_prepare) as pool,
        Progress(console=Console(stderr=True)) as bar,
    ):
        outcomes = pool.imap_unordered(work, tasks)
        for outcome in bar.track(outcomes, total=len(tasks), description=title):
            record.add(outcome)
            record.keep(options.json)


def day_verdicts(outcomes: Sequence[Outcome], rivals: Sequence[str]) -> list[DayVerdict]:
    """Judge each day by its worlds with results of Tidelock's policy, the default and all rivals."""
    needed = {OURS, DEFAULT, *rivals}
    by_day: defaultdict[str, list[dict[str, RunFigures]]] = defaultdict(list)
    for outcome in outcomes:
        if needed <= outcome.figures.keys():
            by_day[outcome.case.day].append(outcome.figures)
    verdicts = []
    for day, worlds in sorted(by_day.items()):
        rival = min(rivals, key=lambda name: float(np.mean([world[name].spread for world in worlds])))
        ours, best = (averaged([world[name] for world in worlds]) for name in (OURS, rival))
        verdicts.append(
            DayVerdict(
                day=day,
                of_default=estimate(ratios(worlds, OURS, DEFAULT)),
                rival=rival,
                of_rival=estimate(ratios(worlds, OURS, rival)),
                no_worse=ours.p99 <= best.p99 and ours.pending <= best.pending,
            )
        )
    return verdicts


def ratios(worlds: Sequence[dict[str, RunFigures]], name: str, other: str) -> list[float]:
    """Return the spread of a policy as a part of another's, for each world with results of both."""
    return [world[name].spread / world[other].spread for world in worlds if {name, other} <= world.keys()]


def report(outcomes: Sequence[Outcome], policies: Sequence[str]) -> None:
    """Print the figures of all policies, and each day's verdict."""
    reported = [outcome for outcome in outcomes if outcome.case.day not in TUNED_ON] or list(outcomes)
    worlds = [outcome.figures for outcome in reported]
    days = sorted({outcome.case.day for outcome in reported})
    print(f"\n{len(worlds)} worlds of the days {', '.join(days)}; points of CPU, ratio of the deviation:")
    rows: list[tuple[str, ...]] = [
        ("policy", "worlds", "deviation", "max - min", "mean", "p99", "over 80 %", "pending", "of default's")
    ]
    for name in policies:
        played = [world[name] for world in worlds if {name, DEFAULT} <= world.keys()]
        if played:
            mean = averaged(played)
            shown = [f"{getattr(mean, field):.2f}" for field in _SHOWN]
            rows.append((name, str(len(played)), *shown, str(estimate(ratios(worlds, name, DEFAULT)))))
    print(columns(rows))
    rivals = [name for name in RIVALS if name in policies]
    if not rivals:
        return
    verdicts = day_verdicts(outcomes, rivals)
    print(f"\n{OURS} by day, as a part of the default's deviation and of the best rival's:")
    table = [("day", "of the default's", "of the rival's", "rival", "p99 and pending", "")]
    table += [
        (
            verdict.day,
            str(verdict.of_default),
            str(verdict.of_rival),
            verdict.rival,
            "no worse" if verdict.no_worse else "worse",
            "tuned on" if verdict.day in TUNED_ON else "met" if verdict.met else "missed",
        )
        for verdict in verdicts
    ]
    print(columns(table))
    counting = [verdict for verdict in verdicts if verdict.day not in TUNED_ON]
    met = sum(verdict.met for verdict in counting)
    if counting:
        word = "met" if met >= _OF_DAYS * len(counting) else "missed"
        print(
            f"At most {_OF_DEFAULT} of the default's and {_OF_RIVAL} of the best rival's, p99 and pending no "
            f"worse, on {_OF_DAYS:.0%} of the days: {met} of {len(counting)}, {word}."
        )


def report_faults(outcomes: Sequence[Outcome]) -> None:
    """Print the effect that remains when measurements fail."""
    rows = [("fault", "deviation", "of the default's", "most pending", "")]
    for fault in FAULTS:
        worlds = [
            outcome.figures
            for outcome in outcomes
            if outcome.case.fault == fault and {OURS, DEFAULT} <= outcome.figures.keys()
        ]
        if worlds:
            part = estimate(ratios(worlds, OURS, DEFAULT))
            mean = averaged([world[OURS] for world in worlds])
            pending = max(world[OURS].pending for world in worlds)
            good = part.mean <= _OF_DEFAULT_AT_FAULT and pending == 0
            verdict = "" if fault == "none" else "met" if good else "missed"
            rows.append((fault, f"{mean.spread:.2f}", str(part), f"{pending:g}", verdict))
    print(f"\n{OURS} with faults; at most {_OF_DEFAULT_AT_FAULT} of the default's, and all pods placed:")
    print(columns(rows))


def burst(nodes: int, policies: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Simulate pods that arrive within 30 seconds with frozen metrics, and return the most on one node.

    This is done with the replicas of one Deployment, and with one Deployment for each pod.
    """
    frozen = MetricsFaults(down=(_BURST_AT, _BURST_STEPS * STEP))

    def most(name: str, *, apart: bool) -> int:
        world = burst_world(nodes, _BURST_REPLICAS, at=_BURST_AT, steps=_BURST_STEPS, apart=apart)
        run = Simulation(world, POLICIES[name], faults=frozen).run()
        surge = run.node[world.workload > 0]
        return int(np.bincount(surge[surge >= 0], minlength=nodes).max())

    return {name: (most(name, apart=False), most(name, apart=True)) for name in policies}


def report_burst(most: dict[str, tuple[int, int]], nodes: int) -> None:
    """Print how evenly each policy placed a burst."""
    fair = -(-_BURST_REPLICAS // nodes)
    print(f"\n{_BURST_REPLICAS} pods in 30 s on {nodes} equal nodes, metrics frozen; fair share {fair}:")
    rows: list[tuple[str, ...]] = [("policy", "most on a node, one Deployment", "as many Deployments", "")]
    rows += [
        (name, *map(str, counts), "met" if max(counts) <= fair + 1 else "missed")
        for name, counts in most.items()
    ]
    print(columns(rows))


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
        case.day, _load(options.traces, case.day), setting(case, options.nodes, options.steps), case.seed
    )
    shown = [name for name in (DEFAULT, "least-used", OURS) if name in policies]
    runs = [Simulation(world, POLICIES[name], case.seed).run() for name in shown]
    plot_spread(runs, folder / "balance-spread.png")
    plot_nodes(runs, folder / "balance-nodes.png")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. --quick changes the defaults, and given options take precedence."""
    parser = argparse.ArgumentParser(prog="python -m bench.balance", description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder with planetlab-DAY.csv(.gz) files")
    parser.add_argument("--quick", action="store_true", help="two seeds, half the nodes, for a first look")
    parser.add_argument("--days", help="names, separated by commas. Default: all days of the folder")
    parser.add_argument("--seeds", type=int, help="worlds of each day and noise")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.5], help="between replicas")
    parser.add_argument("--nodes", type=int, help="of each world, which has twice as many workloads")
    parser.add_argument("--steps", type=int, default=STEPS_A_DAY, help="five minutes each")
    parser.add_argument("--policies", help=f"names, separated by commas, of {', '.join(POLICIES)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--json", type=Path, help="file of all figures, which are reused")
    parser.add_argument("--report", action="store_true", help="only report the figures of the file")
    parser.add_argument("--plots", type=Path, help="folder to write pictures to")
    options = parser.parse_args(arguments)
    options.seeds = options.seeds or (2 if options.quick else 10)
    options.nodes = options.nodes or (20 if options.quick else 40)
    names = options.policies.split(",") if options.policies else list(POLICIES)
    unknown = [name for name in names if name not in POLICIES]
    if unknown:
        parser.error(f"--policies: {unknown[0]!r} is not one of {', '.join(POLICIES)}")
    options.policies = list(dict.fromkeys((DEFAULT, OURS, *names)))
    if options.report and options.json is None:
        parser.error("--report: needs --json")
    return options


def cases(options: argparse.Namespace, days: Sequence[str]) -> Iterator[Case]:
    """Yield the worlds to simulate, with days in turn, so that even a stopped run has results of all days."""
    for seed in range(options.seeds):
        for noise in options.noise:
            for day in days:
                yield Case(day, seed, noise)


def _days(options: argparse.Namespace) -> list[str]:
    there = planetlab_days(options.traces)
    days: list[str] = options.days.split(",") if options.days else list(there)
    for day in days:
        if day not in there:
            raise TraceError(f"--days: {day!r} is not one of {', '.join(there)}")
    return days


def faulty_cases(options: argparse.Namespace, day: str) -> list[Case]:
    """Return worlds with faults, and the same worlds without faults."""
    seeds = range(min(options.seeds, _FAULTY_SEEDS))
    return [Case(day, seed, options.noise[-1], fault) for fault in FAULTS for seed in seeds]


def main(arguments: Sequence[str]) -> int:
    """Simulate all worlds, print the results and return the exit status."""
    options = parse(arguments)
    _prepare()
    try:
        days = _days(options)
        record = Record.of(options)
        faulty = faulty_cases(options, days[-1])
        if not options.report:
            play_all(record, list(cases(options, days)), options.policies, options, "days")
            play_all(record, faulty, (DEFAULT, OURS), options, "faults")
            lacking = [name for name in options.policies if name not in record.burst]
            record.burst |= burst(options.nodes, lacking)
            record.keep(options.json)
        outcomes = record.without_faults(days)
        report(outcomes, options.policies)
        report_faults([outcome for outcome in record.outcomes if outcome.case in faulty])
        report_burst(record.burst, options.nodes)
    except TraceError as error:
        sys.stderr.write(f"bench.balance: {error}\n")
        return 1
    if options.plots is not None:
        draw(options, outcomes, options.policies)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
