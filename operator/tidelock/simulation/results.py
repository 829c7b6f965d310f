"""Results of runs: how evenly the nodes were used, and how one policy compares with another."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from tidelock.simulation.engine import Run
from tidelock.simulation.world import Floats

WARM_UP = 3 * 3600.0
"""Seconds at the start that are left out: the first pods arrive at once, before any measurement."""

_HOT = 80.0
_RESAMPLES = 2000
_INTERVAL = (2.5, 97.5)


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
    """A mean of values with its 95 % interval, by bootstrap over the values or over groups of them."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


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


def averaged(several: Sequence[RunFigures]) -> RunFigures:
    """Return the mean of each figure."""
    return RunFigures(
        **{name: float(np.mean([getattr(each, name) for each in several])) for name in RunFigures.__slots__}
    )


def as_numbers(of: RunFigures) -> dict[str, float]:
    """Return the figures by name, rounded for people and files."""
    return {name: round(value, 3) for name, value in asdict(of).items()}


def estimate(values: Sequence[float] | Floats, seed: int = 0) -> RatioEstimate:
    """Estimate a mean from values of independent worlds, or raise ValueError without any."""
    if not len(values):
        raise ValueError("no values to estimate a mean of")
    array = np.asarray(values, np.float64)
    draws = np.random.default_rng(seed).integers(len(array), size=(_RESAMPLES, len(array)))
    low, high = np.percentile(array[draws].mean(axis=1), _INTERVAL)
    return RatioEstimate(float(array.mean()), float(low), float(high))


def estimate_by_group(groups: Sequence[Sequence[float]], seed: int = 0) -> RatioEstimate:
    """Estimate a mean from groups of values, or raise ValueError without any.

    Values of a group, such as the worlds of a day, resemble each other. So each group counts with its mean,
    and the interval is that of the groups.
    """
    return estimate([float(np.mean(group)) for group in groups], seed)
