"""A measurement of moving pods that run: python -m bench.rebalance --traces DIR [--json FILE].

The installed profile places pods as in `bench.balance`, in the same worlds. Then, after each reading, at most
one running pod moves to another node if that levels the nodes by a margin. The output has the deviation
between the nodes as a part of the deviation by placement alone, and the share of the pods that were moved.

A move is cheaper here than in a cluster. The pod starts on its new node at once, keeps its load and its
measurements, and its destination is not taken by another pod. So the gain is an upper estimate.
Worlds in the file of --json are not simulated again.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from bench.balance import policy
from bench.balance_report import OURS, TUNED_ON
from bench.balance_worlds import setting, timing
from bench.figures import columns
from bench.world_results import Case
from tidelock.simulation.array_scheduler import ArrayScheduler
from tidelock.simulation.engine import Run, Simulation
from tidelock.simulation.level_scorer import LevelScorer
from tidelock.simulation.measuring import Reading
from tidelock.simulation.policies import SimulatedPolicy
from tidelock.simulation.results import figures
from tidelock.simulation.traces import TraceError, planetlab_days, read_planetlab
from tidelock.simulation.world import STEP, SimulatedWorld
from tidelock.simulation.worlds import STEPS_A_DAY, world_of

_NOISE = 0.5
_HOUR = 3600.0
_MINUTE = 60.0
_PERCENT = 100.0
_AIM, _MOVED = 0.95, 3.0


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """When pods that run are moved.

    Attributes:
        margin: least gain of a move in points: the root of `level_rules.gains_of_moves`.
        pause: least seconds between two moves.

    """

    margin: float
    pause: float = 0.0

    def __str__(self) -> str:
        each = "each reading" if not self.pause else f"each {self.pause / _MINUTE:g} minutes"
        return f"{self.margin:g} points, {each}"


RULES = (
    Rebalancing(7),
    Rebalancing(9),
    Rebalancing(11),
    Rebalancing(14),
    Rebalancing(2, 16 * _MINUTE),
)
"""The rules to compare. The last one moves at most 90 pods a day, which are 3 % of the plain world's pods."""


class RebalancingScheduler(ArrayScheduler):
    """Places pods as a policy does, and moves at most one of them after each reading.

    Attributes:
        moves: number of moves so far. No pod moves twice.

    """

    def __init__(self, world: SimulatedWorld, policy: SimulatedPolicy, seed: int, rule: Rebalancing) -> None:
        """Begin without pods.

        Raises:
            TypeError: the policy does not place pods by levels.

        """
        super().__init__(world, policy, seed)
        if not isinstance(self._scorer, LevelScorer):
            raise TypeError(f"{policy.name}: pods are only moved by the levels of nodes")
        self.moves = 0
        self._levels = self._scorer
        self._rule = rule
        self._moved = np.zeros(world.pods, np.bool_)
        self._next_move = 0.0
        self._due = False

    def show(self, reading: Reading) -> None:
        """Take over a reading, after which a pod may move."""
        super().show(reading)
        self._due = len(reading.pods) > 0 and self.clock.elapsed >= self._next_move

    def decide(self) -> Iterator[tuple[int, int]]:
        """Yield each pod that was bound, then one that moves if a reading has just come."""
        yield from super().decide()
        if self._due and (found := self._best_move()) is not None:
            number, row = found
            self._remove(number)
            self._place(number, row)
            self._moved[number] = True
            self.moves += 1
            self._next_move = self.clock.elapsed + self._rule.pause
            yield found
        self._due = False

    def _best_move(self) -> tuple[int, int] | None:
        """Return the pod and the row of its new node with the largest gain, or None below the margin."""
        pods = np.flatnonzero((self._row >= 0) & ~self._moved)
        gains = self._levels.gains_of_moves(pods, self._row[pods])
        places, rows = np.nonzero(gains >= self._rule.margin**2)
        for index in np.argsort(-gains[places, rows], kind="stable").tolist():
            number, row = int(pods[places[index]]), int(rows[index])
            if row != self._row[number] and self._amounts.fits(self._workload[number])[row]:
                return number, row
        return None


class Outcome(msgspec.Struct, frozen=True):
    """The result of a world.

    Attributes:
        day, seed, hours: the world: day of the load, seed, and mean lifetime of a pod.
        pods: number of pods of the world's day.
        running: mean number of pods that run.
        alone: deviation by placement alone, in points.
        moved: deviation and number of moves by rule.

    """

    day: str
    seed: int
    hours: float
    pods: int
    running: float
    alone: float
    moved: dict[str, tuple[float, int]]


def simulate(day: str, file: Path, seed: int, hours: float) -> Outcome:
    """Simulate a world by placement alone and under each rule."""
    case = Case(day, seed, _NOISE)
    shape = replace(setting(case, 40, STEPS_A_DAY), life=hours * _HOUR)
    world = world_of(day, read_planetlab(file), shape, seed)
    ours, times = policy(OURS), timing(case)
    alone = Simulation(world, ours, seed, timing=times).run()
    moved = {}
    for rule in RULES:
        scheduler = RebalancingScheduler(world, ours, seed, rule)
        run = Simulation(world, ours, seed, timing=times, scheduler=scheduler).run()
        moved[str(rule)] = figures(run).spread, scheduler.moves
    return Outcome(day, seed, hours, world.pods, _running(world, alone), figures(alone).spread, moved)


def _running(world: SimulatedWorld, run: Run) -> float:
    """Return the mean number of pods that run."""
    end = world.steps * STEP
    begin = np.minimum(run.bound, end)
    return float((np.minimum(begin + world.lives, end) - begin).sum() / end)


def report(outcomes: Sequence[Outcome]) -> None:
    """Print a table for each mean lifetime of pods."""
    by_hours: defaultdict[float, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_hours[outcome.hours].append(outcome)
    for hours, worlds in sorted(by_hours.items()):
        print(f"\n{len(worlds)} worlds, pods live for {hours:g} hours, {_noted(worlds)}:")
        rows: list[tuple[str, ...]] = [
            ("margin and pace", "deviation left", "worlds", "moved a day, of all pods", "of those that run")
        ]
        rows += [_row(str(rule), worlds) for rule in RULES]
        print(columns(rows))


def _noted(worlds: Sequence[Outcome]) -> str:
    pods, running = (np.mean([getattr(each, name) for each in worlds]) for name in ("pods", "running"))
    return f"{pods:.0f} pods a day, {running:.0f} of them at once"


def _row(rule: str, worlds: Sequence[Outcome]) -> tuple[str, ...]:
    """Return the mean ratio of the days, the lowest and highest ratio of a world, and the shares moved."""
    of_day: defaultdict[str, list[float]] = defaultdict(list)
    for each in worlds:
        of_day[each.day].append(each.moved[rule][0] / each.alone)
    ratios = [ratio for found in of_day.values() for ratio in found]
    mean = float(np.mean([np.mean(found) for found in of_day.values()]))
    of_all = float(np.mean([_PERCENT * each.moved[rule][1] / each.pods for each in worlds]))
    of_running = float(np.mean([_PERCENT * each.moved[rule][1] / each.running for each in worlds]))
    met = mean <= _AIM and of_all <= _MOVED
    return (
        rule,
        f"{mean:.3f}{' (met)' if met else ''}",
        f"{min(ratios):.3f} to {max(ratios):.3f}",
        f"{of_all:.1f} %",
        f"{of_running:.0f} %",
    )


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.rebalance", description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder with planetlab-DAY.csv(.gz) files")
    parser.add_argument("--days", default=",".join(TUNED_ON), help="names, separated by commas")
    parser.add_argument("--seeds", type=int, default=3, help="worlds of each day and lifetime")
    parser.add_argument(
        "--life-hours", type=float, nargs="+", default=[3.0, 24.0], help="of pods, on average"
    )
    parser.add_argument("--json", type=Path, help="file of all results, which are reused")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Simulate all worlds, print the results and return the exit status."""
    options = parse(arguments)
    file: Path | None = options.json
    outcomes: list[Outcome] = []
    if file is not None and file.exists():
        outcomes = msgspec.json.decode(file.read_bytes(), type=list[Outcome])
    known = {(each.day, each.seed, each.hours) for each in outcomes}
    try:
        days = planetlab_days(options.traces)
        for seed in range(options.seeds):
            for hours in options.life_hours:
                for day in options.days.split(","):
                    if (day, seed, hours) in known:
                        continue
                    outcomes.append(simulate(day, days[day], seed, hours))
                    if file is not None:
                        file.write_bytes(msgspec.json.encode(outcomes))
    except (TraceError, KeyError) as error:
        sys.stderr.write(f"bench.rebalance: {error}\n")
        return 1
    report(outcomes)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
