"""Results of runs: how evenly the nodes were used, and how one policy compares with another."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isnan, nan

import numpy as np

from tidelock.simulation.engine import Run

WARM_UP = 3 * 3600.0
"""Seconds at the start that are left out: the first pods arrive at once, before any measurement."""

_DAY = 86_400.0
_HOT = 80.0
_QUANTILE = 0.975


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of a run after its warm-up, of true cpu use in percent of the nodes' sizes.

    Attributes:
        spread: mean over time of the standard deviation between the nodes, in points.
        range: mean over time of the highest node minus the lowest, in points.
        mean: mean over time and nodes.
        p99: 99th percentile over time and nodes.
        hot: percent of all nodes' five-minute samples that are over 80 %.
        pending: mean over time of how many pods had no node.
        unserved: percent of the wanted cpu that pods on full nodes did not get, as the mean over time.

    """

    spread: float
    range: float
    mean: float
    p99: float
    hot: float
    pending: float
    unserved: float = 0.0


@dataclass(frozen=True, slots=True)
class RatioEstimate:
    """A mean with its 95 % interval. Both ends are NaN if it is unknown."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        interval = "" if isnan(self.low) else f" ({self.low:.2f} to {self.high:.2f})"
        return f"{self.mean:.2f}{interval}"


def figures(run: Run, warm_up: float = WARM_UP) -> RunFigures:
    """Compute the figures of a run.

    Raises:
        ValueError: the run is not longer than the warm-up.

    """
    first = round(warm_up / run.step)
    cpu, pending = run.cpu[first:], run.pending[first:]
    if not len(cpu):
        raise ValueError(
            f"{run.title}: {len(run.cpu)} steps of {run.step:g} s are no longer than the warm-up of {first}"
        )
    return RunFigures(
        spread=float(cpu.std(axis=1).mean()),
        range=float((cpu.max(axis=1) - cpu.min(axis=1)).mean()),
        mean=float(cpu.mean()),
        p99=float(np.percentile(cpu, 99)),
        hot=float(100 * (cpu > _HOT).mean()),
        pending=float(pending.mean()),
        unserved=float(100 * run.unserved[first:].mean()),
    )


def by_day(run: Run, other: Run, warm_up: float = WARM_UP) -> RatioEstimate | None:
    """Estimate the spread of a run as a part of another's, from each whole day after the warm-up.

    Returns:
        the estimate, or None if there are not two days.

    """
    first, day = round(warm_up / run.step), round(_DAY / run.step)
    spreads = (each.cpu.std(axis=1) for each in (run, other))
    ours, theirs = (
        [spread[start : start + day].mean() for start in range(first, len(spread) - day + 1, day)]
        for spread in spreads
    )
    return estimate([[one / two] for one, two in zip(ours, theirs, strict=True)]) if len(ours) > 1 else None


def averaged(several: Sequence[RunFigures]) -> RunFigures:
    """Return the mean of each figure."""
    return RunFigures(
        **{name: float(np.mean([getattr(each, name) for each in several])) for name in RunFigures.__slots__}
    )


def as_numbers(of: RunFigures) -> dict[str, float]:
    """Return the figures by name, rounded for people and files."""
    return {name: round(value, 3) for name, value in asdict(of).items()}


def estimate(groups: Sequence[Sequence[float]]) -> RatioEstimate:
    """Estimate a mean from groups of values, or raise ValueError without any.

    Values of a group, such as the worlds of a day, share rows of the load, so they resemble each other. Each
    group counts as one value, its mean, and the interval is Student's of these. A bootstrap is too narrow:
    of five normal values, its 95 % interval contains the mean in 84 % of the cases.
    """
    if not groups:
        raise ValueError("no values to estimate a mean of")
    means = np.array([np.mean(group) for group in groups])
    mean, count = float(means.mean()), len(means)
    if count == 1:
        return RatioEstimate(mean, nan, nan)
    reach = _student(count - 1) * float(means.std(ddof=1)) / count**0.5
    return RatioEstimate(mean, mean - reach, mean + reach)


def _student(freedom: int) -> float:
    """Return the quantile of Student's distribution at which a 95 % interval ends.

    With x = sqrt(v) * tan(a), the density of x for v degrees of freedom becomes cos(a)^(v - 1) of the angle.
    """
    angles = np.linspace(-np.pi / 2, np.pi / 2, 100_001)
    share = np.cumsum(np.cos(angles) ** (freedom - 1))
    return float(freedom**0.5 * np.tan(np.interp(_QUANTILE * share[-1], share, angles)))
