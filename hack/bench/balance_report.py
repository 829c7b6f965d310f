"""The tables of the benchmark of balance."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.balance_worlds import VARIANTS
from bench.figures import columns
from bench.world_results import Outcome
from tidelock.simulation.measuring import FAULTS
from tidelock.simulation.results import (
    RatioEstimate,
    RunFigures,
    averaged,
    estimate,
)

TUNED_ON = ("20110303", "20110306")
"""Days on which defaults were chosen. They are shown, but do not count."""

DEFAULT = "default"
OURS = "shipped"
LEARNED, PATIENT = "learned-weight", "long-staleness"
"""The same with `learnWeight`, for other worlds, and with a long staleness, for late metrics."""
RIVALS = (
    "least-used",
    "least-pod-sums",
    "least-variance",
    "least-variance-pod-sums",
)
"""Rules with the guard, the windows and the lag of Tidelock's profile."""
FOREIGN = ("target-load-packing", "load-variation-risk-balancing", "dynamic-load", "load-aware")
"""Plugins of other schedulers, which need the whole scheduler."""
BOUNDS = ("any-placement", "known-future")
"""Bounds of the deviation, in place of policies: see `bench.placement_bounds`."""

BURST_REPLICAS = 100

OF_DEFAULT, OF_RIVAL, OF_DAYS = 0.75, 0.90, 0.90
"""The targets: the deviation as a part of the default's and of the best rival's, and the part of the days."""

_OF_DEFAULT_AT_FAULT = 1.05
_SHOWN = ("spread", "range", "mean", "p99", "hot", "pending")


@dataclass(frozen=True, slots=True)
class DayVerdict:
    """The result of Tidelock's policy on a day: ratios of mean spreads, and whether they meet the targets.

    `rival` is the rival with the smallest spread of that day. `no_worse` means that p99 and pending pods are
    neither above the rival's nor above the default's.
    """

    day: str
    of_default: float
    rival: str
    of_rival: float
    no_worse: bool

    @property
    def met(self) -> bool:
        """Whether the day meets its targets."""
        return self.of_default <= OF_DEFAULT and self.of_rival <= OF_RIVAL and self.no_worse


def day_verdicts(outcomes: Sequence[Outcome], rivals: Sequence[str]) -> list[DayVerdict]:
    """Judge each day by its worlds with results of Tidelock's policy, the default and all rivals."""
    needed = {OURS, DEFAULT, *rivals}
    by_day: defaultdict[str, list[dict[str, RunFigures]]] = defaultdict(list)
    for outcome in outcomes:
        if needed <= outcome.figures.keys():
            by_day[outcome.case.day].append(outcome.figures)
    verdicts = []
    for day, worlds in sorted(by_day.items()):
        rival = best_of(worlds, rivals)
        ours, *others = (averaged([world[name] for world in worlds]) for name in (OURS, DEFAULT, rival))
        verdicts.append(
            DayVerdict(
                day=day,
                of_default=float(np.mean(ratios(worlds, OURS, DEFAULT))),
                rival=rival,
                of_rival=float(np.mean(ratios(worlds, OURS, rival))),
                no_worse=all(ours.p99 <= each.p99 and ours.pending <= each.pending for each in others),
            )
        )
    return verdicts


def best_of(worlds: Sequence[dict[str, RunFigures]], policies: Sequence[str]) -> str:
    """Return the policy with the smallest mean spread."""
    return min(policies, key=lambda name: float(np.mean([world[name].spread for world in worlds])))


def ratios(worlds: Sequence[dict[str, RunFigures]], name: str, other: str) -> list[float]:
    """Return the spread of a policy as a part of another's, for each world with results of both."""
    return [world[name].spread / world[other].spread for world in worlds if {name, other} <= world.keys()]


def by_day(outcomes: Sequence[Outcome], name: str, other: str) -> RatioEstimate:
    """Estimate the ratio of two policies' spreads, with the interval between the days.

    Raises:
        ValueError: no world has results of both.

    """
    of_day: defaultdict[str, list[float]] = defaultdict(list)
    for outcome in outcomes:
        of_day[outcome.case.day] += ratios([outcome.figures], name, other)
    return estimate([found for found in of_day.values() if found])


def report(outcomes: Sequence[Outcome], policies: Sequence[str]) -> None:
    """Print the figures of all policies, and each day's verdict."""
    reported = [outcome for outcome in outcomes if outcome.case.day not in TUNED_ON] or list(outcomes)
    worlds = [outcome.figures for outcome in reported]
    days = sorted({outcome.case.day for outcome in reported})
    print(f"\n{len(worlds)} worlds of the days {', '.join(days)}; points of CPU, ratio of the deviation:")
    rows: list[tuple[str, ...]] = [
        ("policy", "worlds", "deviation", "max - min", "mean", "p99", "over 80 %", "pending", "of default's")
    ]
    for name in (*policies, *BOUNDS):
        simulated = [world[name] for world in worlds if {name, DEFAULT} <= world.keys()]
        if simulated:
            mean = averaged(simulated)
            shown = [f"{getattr(mean, field):.2f}" for field in _SHOWN]
            rows.append((name, str(len(simulated)), *shown, str(by_day(reported, name, DEFAULT))))
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
            f"{verdict.of_default:.2f}",
            f"{verdict.of_rival:.2f}",
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
        word = "met" if met >= OF_DAYS * len(counting) else "missed"
        print(
            f"At most {OF_DEFAULT} of the default's and {OF_RIVAL} of the best rival's, p99 and pending no "
            f"worse, on {OF_DAYS:.0%} of the days: {met} of {len(counting)}, {word}."
        )


def report_faults(outcomes: Sequence[Outcome]) -> None:
    """Print the effect that remains when measurements fail."""
    rows = [("fault", "deviation", "of the default's", "most pending", "")]
    for fault in FAULTS:
        simulated = [
            outcome
            for outcome in outcomes
            if outcome.case.fault == fault and {OURS, DEFAULT} <= outcome.figures.keys()
        ]
        if simulated:
            worlds = [outcome.figures for outcome in simulated]
            part = by_day(simulated, OURS, DEFAULT)
            mean = averaged([world[OURS] for world in worlds])
            pending = max(world[OURS].pending for world in worlds)
            good = part.mean <= _OF_DEFAULT_AT_FAULT and pending == 0
            verdict = "" if fault == "none" else "met" if good else "missed"
            rows.append((fault, f"{mean.spread:.2f}", str(part), f"{pending:g}", verdict))
    print(f"\n{OURS} with faults; at most {_OF_DEFAULT_AT_FAULT} of the default's, and all pods placed:")
    print(columns(rows))


def report_variants(outcomes: Sequence[Outcome], rivals: Sequence[str]) -> None:
    """Print what Tidelock gains in worlds that differ from the plain one."""
    rows = [
        ("world", "worlds", "default", OURS, "of default's", "of the rival's", "rival", "p99", "unserved")
    ]
    for variant in VARIANTS:
        there = [each for each in outcomes if each.case.variant == variant and each.case.fault == "none"]
        simulated = [each for each in there if {OURS, DEFAULT} <= each.figures.keys()]
        if not simulated:
            continue
        worlds = [each.figures for each in simulated]
        ours, default = (averaged([world[name] for world in worlds]) for name in (OURS, DEFAULT))
        known = [name for name in rivals if all(name in world for world in worlds)]
        best = best_of(worlds, known) if known else None
        rows.append(
            (
                variant,
                str(len(simulated)),
                f"{default.spread:.2f}",
                f"{ours.spread:.2f}",
                str(by_day(simulated, OURS, DEFAULT)),
                f"{by_day(simulated, OURS, best).mean:.2f}" if best else "",
                best or "",
                f"{default.p99:.0f} to {ours.p99:.0f}",
                f"{default.unserved:.2f} to {ours.unserved:.2f} %",
            )
        )
    print(f"\n{OURS} in other worlds, from the default's p99 and unserved cpu to its own:")
    print(columns(rows))


def report_burst(most: dict[str, tuple[int, int]], nodes: int) -> None:
    """Print how evenly each policy placed a burst."""
    fair = -(-BURST_REPLICAS // nodes)
    print(f"\n{BURST_REPLICAS} pods in 30 s on {nodes} equal nodes, metrics frozen; fair share {fair}:")
    rows: list[tuple[str, ...]] = [("policy", "most on a node, one Deployment", "as many Deployments", "")]
    rows += [
        (name, *map(str, counts), "met" if max(counts) <= fair + 1 else "missed")
        for name, counts in most.items()
    ]
    print(columns(rows))
