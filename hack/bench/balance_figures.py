"""The figures of the benchmark of balance for its record, which the docs quote."""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import isnan

from bench.balance_report import (
    BOUNDS,
    BURST_REPLICAS,
    DEFAULT,
    LEARNED,
    OF_DAYS,
    OF_DEFAULT,
    OF_RIVAL,
    OURS,
    PATIENT,
    TUNED_ON,
    best_of,
    by_day,
    day_verdicts,
    ratios,
)
from bench.balance_worlds import VARIANTS
from bench.figures import Figure
from bench.record import Record
from bench.world_results import Outcome
from tidelock.simulation.measuring import FAULTS
from tidelock.simulation.results import RunFigures, averaged

_RIVAL = "best rival"
_NAMES: Mapping[str, tuple[str, str]] = {
    "spread": ("deviation", "points"),
    "range": ("max - min", "points"),
    "p99": ("p99", "%"),
    "hot": ("over 80 %", "%"),
    "pending": ("pending", ""),
    "unserved": ("unserved", "%"),
}


def add_policies(record: Record, outcomes: Sequence[Outcome], policies: Sequence[str]) -> None:
    """Add the means of each policy over plain worlds of the days for verdicts."""
    counting = [outcome for outcome in outcomes if outcome.case.day not in TUNED_ON]
    for name in (*policies, *BOUNDS):
        simulated = [outcome for outcome in counting if {name, DEFAULT} <= outcome.figures.keys()]
        if simulated:
            mean = averaged([outcome.figures[name] for outcome in simulated])
            found = [*_means(mean), *_ratio(simulated, name, DEFAULT, OF_DEFAULT if name == OURS else None)]
            record.add(found, name, key=f"policy-{name}", aimed=name == OURS)


def add_days(record: Record, outcomes: Sequence[Outcome], rivals: Sequence[str]) -> None:
    """Add each day of plain worlds: the default, the installed profile and the best rival of that day.

    Then follows for each target how many of the days for verdicts meet it.
    """
    needed = {OURS, DEFAULT, *rivals}
    worlds_of = _by_day(each for each in outcomes if needed <= each.figures.keys())
    verdicts = day_verdicts(outcomes, rivals)
    for verdict in verdicts:
        key = f"day-{verdict.day}"
        subject = f"{verdict.day} (tuning)" if verdict.day in TUNED_ON else verdict.day
        programs = {DEFAULT: DEFAULT, OURS: OURS, verdict.rival: _RIVAL}
        for name, program in programs.items():
            record.add(
                _means(averaged([world[name] for world in worlds_of[verdict.day]])), subject, program, key
            )
        record.add([_figure("ratio", verdict.of_default)], subject, f"to {DEFAULT}", key)
        record.add([_figure("ratio", verdict.of_rival)], subject, f"to {_RIVAL}", key)
    counting = [verdict for verdict in verdicts if verdict.day not in TUNED_ON]
    wanted = {
        f"at most {OF_DEFAULT} of the default": [each.of_default <= OF_DEFAULT for each in counting],
        f"at most {OF_RIVAL} of the best rival": [each.of_rival <= OF_RIVAL for each in counting],
        "p99 and pending no worse than both": [each.no_worse for each in counting],
    }
    for name, met in wanted.items():
        days = Figure(name, "", OF_DAYS * len(met), more_is_better=True, values=[sum(met)], loads=[0.0])
        record.add([days], f"days of {len(met)}", key="days")


def add_variants(record: Record, outcomes: Sequence[Outcome], rivals: Sequence[str]) -> None:
    """Add the worlds that differ from the plain one, with their best rival."""
    for variant, about in VARIANTS.items():
        simulated = [
            each
            for each in outcomes
            if each.case.variant == variant
            and each.case.fault == "none"
            and {OURS, DEFAULT} <= each.figures.keys()
        ]
        worlds = [each.figures for each in simulated]
        key = f"world-{variant}"
        for name in (DEFAULT, OURS, LEARNED, PATIENT):
            having = [each for each in simulated if name in each.figures]
            if having:
                means = averaged([each.figures[name] for each in having])
                record.add([*_means(means), *_ratio(having, name, DEFAULT)], about.about, name, key)
        known = [name for name in rivals if worlds and all(name in world for world in worlds)]
        if known:
            ratio = by_day(simulated, OURS, best_of(worlds, known)).mean
            record.add([_figure("ratio", ratio)], about.about, f"to {_RIVAL}", key)


def add_faults(record: Record, outcomes: Sequence[Outcome]) -> None:
    """Add the effect that remains when measurements fail, also with a long staleness."""
    for fault in FAULTS:
        for name in (OURS, PATIENT):
            simulated = [
                each
                for each in outcomes
                if each.case.fault == fault and {name, DEFAULT} <= each.figures.keys()
            ]
            if simulated:
                most = max(each.figures[name].pending for each in simulated)
                found = [*_ratio(simulated, name, DEFAULT), _figure("most pending", most)]
                record.add(found, fault, name, key=f"fault-{fault}")


def add_burst(record: Record, most: Mapping[str, tuple[int, int]], nodes: int) -> None:
    """Add how evenly each policy placed a burst: the most pods on one node, and the fair share and one."""
    fair = -(-BURST_REPLICAS // nodes) + 1
    for name, (together, apart) in most.items():
        found = [
            _figure("one Deployment", together, target=fair),
            _figure("a Deployment for each pod", apart, target=fair),
        ]
        record.add(found, name, key=f"burst-{name}", aimed=name == OURS)


def _by_day(outcomes: Iterable[Outcome]) -> dict[str, list[dict[str, RunFigures]]]:
    found: defaultdict[str, list[dict[str, RunFigures]]] = defaultdict(list)
    for outcome in outcomes:
        found[outcome.case.day].append(outcome.figures)
    return dict(sorted(found.items()))


def _means(mean: RunFigures) -> list[Figure]:
    return [_figure(name, getattr(mean, field), unit=unit) for field, (name, unit) in _NAMES.items()]


def _ratio(outcomes: Sequence[Outcome], name: str, other: str, target: float | None = None) -> list[Figure]:
    """Return the ratio of two policies: the mean of the days, its interval, and the value of each day."""
    estimate = by_day(outcomes, name, other)
    days = [_mean(ratios(worlds, name, other)) for worlds in _by_day(outcomes).values()]
    ends = () if isnan(estimate.low) else (estimate.low, estimate.high)
    return [
        _figure("ratio", estimate.mean, target=target),
        _figure("95 % of the ratio", *ends),
        _figure("ratio by day", *days),
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _figure(name: str, *values: float, unit: str = "", target: float | None = None) -> Figure:
    return Figure(name, unit, target, values=list(values), loads=[os.getloadavg()[0]] * len(values))
