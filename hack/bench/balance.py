"""How evenly nodes are used, by policy, on real load: python -m bench.balance --traces DIR [--quick].

Every PlanetLab day of the folder x seeds x two levels of noise between replicas is a world; by its seed, it
has nodes of one size or of three, and roll-outs or none. All policies play the same worlds, so they are
compared in pairs. Some days were used for choosing defaults; the verdict goes by the others. Then come a
burst with frozen metrics, and what is left of the effect when measurements fail. What the file of --json has
is not played again, so a run may be stopped and gone on with, with more seeds or policies too.
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
"""Days on which defaults were chosen: they are shown, and count for nothing."""

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
    """A world to be: the same for all policies; `fault` names what goes wrong in it."""

    day: str
    seed: int
    noise: float
    fault: str = "none"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case: figures by policy."""

    case: Case
    figures: dict[str, RunFigures]


class Record(msgspec.Struct):
    """All that was played in worlds of this size, as it is in the file.

    Attributes:
        nodes: of each world.
        steps: of five minutes each.
        outcomes: cases and figures.
        burst: the most of a burst that one node got, by policy: of one Deployment, and of many.

    """

    nodes: int
    steps: int
    outcomes: list[Outcome] = []
    burst: dict[str, tuple[int, int]] = {}

    def figures(self, case: Case) -> dict[str, RunFigures]:
        """Give what is known of a case, by policy."""
        return next((outcome.figures for outcome in self.outcomes if outcome.case == case), {})

    def without_faults(self, days: Sequence[str]) -> list[Outcome]:
        """Give the worlds of some days in which nothing went wrong; raises TraceError if there are none."""
        found = [each for each in self.outcomes if each.case.fault == "none" and each.case.day in days]
        if not found:
            raise TraceError(f"nothing was played of {', '.join(days)}")
        return found

    def add(self, outcome: Outcome) -> None:
        """Take in what came of a case."""
        known = self.figures(outcome.case)
        if not known:
            self.outcomes.append(outcome)
        known |= outcome.figures

    def keep(self, file: Path | None) -> None:
        """Write all of it to a file, if there is one, which is always whole."""
        if file is not None:
            new = file.with_suffix(".new")
            new.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")
            new.replace(file)

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Record":
        """Read what there is.

        Raises:
            TraceError: the file is of other worlds, or can't be read.

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
    """How ours did on a day: ratios of mean spreads, and whether all that is asked for holds.

    `rival` is the one with the least spread of that day, `no_worse` is whether p99 and pending are not above
    its own.
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
    """Give the setting of a case: its seed says how large the nodes are and whether there are roll-outs."""
    return Setting(
        nodes=nodes,
        cores=_MIXED if case.seed % 2 else _PLAIN,
        workloads=2 * nodes,
        noise=case.noise,
        rollouts=_ROLLOUTS if case.seed // 2 % 2 else 0,
        steps=steps,
    )


def play(task: tuple[Case, Sequence[str]], *, folder: Path, nodes: int, steps: int) -> Outcome:
    """Play a case under some policies; of faults, those that go by requests know nothing."""
    case, policies = task
    world = world_of(case.day, _load(folder, case.day), setting(case, nodes, steps), case.seed)
    faults = FAULTS[case.fault]
    runs = {name: Simulation(world, POLICIES[name], case.seed, faults=faults).run() for name in policies}
    return Outcome(case, {name: figures(run) for name, run in runs.items()})


def _prepare() -> None:
    """Prepare a process: garbage is rarely looked for, and plugins' warnings are part of the play."""
    collect_seldom()
    logging.getLogger("tidelock").addHandler(logging.NullHandler())


@lru_cache(maxsize=8)
def _load(folder: Path, day: str) -> Loads:
    return read_planetlab(planetlab_days(folder)[day])


def play_all(
    record: Record, cases: Sequence[Case], policies: Sequence[str], options: argparse.Namespace, title: str
) -> None:
    """Play what the record lacks of these cases, on several processes; it is kept after each case."""
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
    """Judge each day by those of its worlds that ours, the default and all rivals have played."""
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
    """Give the spread of a policy as a part of another's, for each world that both have played."""
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
    """Print what is left of the effect when measurements fail."""
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
    """Have pods come within 30 seconds, their metrics frozen; gives the most that one node got.

    Once they are replicas of one Deployment, once each is a Deployment by itself.
    """
    frozen = MetricsFaults(down=(_BURST_AT, _BURST_STEPS * STEP))

    def most(name: str, *, apart: bool) -> int:
        world = burst_world(nodes, _BURST_REPLICAS, at=_BURST_AT, steps=_BURST_STEPS, apart=apart)
        run = Simulation(world, POLICIES[name], faults=frozen).run()
        surge = run.node[world.workload > 0]
        return int(np.bincount(surge[surge >= 0], minlength=nodes).max())

    return {name: (most(name, apart=False), most(name, apart=True)) for name in policies}


def report_burst(most: dict[str, tuple[int, int]], nodes: int) -> None:
    """Print how evenly a burst was placed."""
    fair = -(-_BURST_REPLICAS // nodes)
    print(f"\n{_BURST_REPLICAS} pods in 30 s on {nodes} equal nodes, metrics frozen; fair share {fair}:")
    rows: list[tuple[str, ...]] = [("policy", "most on a node, one Deployment", "as many Deployments", "")]
    rows += [
        (name, *map(str, counts), "met" if max(counts) <= fair + 1 else "missed")
        for name, counts in most.items()
    ]
    print(columns(rows))


def draw(options: argparse.Namespace, outcomes: Sequence[Outcome], policies: Sequence[str]) -> None:
    """Draw the ratios of all policies, and one world of the first reported day in full."""
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
    """Read the command line; --quick changes the defaults, and what is given counts more."""
    parser = argparse.ArgumentParser(prog="python -m bench.balance", description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder with planetlab-DAY.csv(.gz) files")
    parser.add_argument("--quick", action="store_true", help="two seeds, half the nodes, for a first look")
    parser.add_argument("--days", help="names with commas between; without: all that are there")
    parser.add_argument("--seeds", type=int, help="worlds of each day and noise")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.5], help="between replicas")
    parser.add_argument("--nodes", type=int, help="of each world; it has twice as many workloads")
    parser.add_argument("--steps", type=int, default=STEPS_A_DAY, help="five minutes each")
    parser.add_argument("--policies", help=f"names with commas between, of {', '.join(POLICIES)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--json", type=Path, help="file of all figures; what it has is not played again")
    parser.add_argument("--report", action="store_true", help="play nothing, report what the file has")
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
    """Yield the worlds to play, days in turn, so that a run that is stopped has seen all of them."""
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
    """Give the worlds in which something goes wrong, and the same ones without."""
    seeds = range(min(options.seeds, _FAULTY_SEEDS))
    return [Case(day, seed, options.noise[-1], fault) for fault in FAULTS for seed in seeds]


def main(arguments: Sequence[str]) -> int:
    """Play all, and print what came of it; gives the exit status."""
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
