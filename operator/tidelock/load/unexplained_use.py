"""How much of the use of pods their requests do not explain: 1 - R^2 of a linear regression, over time.

Where use follows requests, a placement by requests already levels use. So use can count less. Where requests
say nothing about use, it counts in full. Nodes would show something else: a placement levels their requests
or their use, so these are no longer related as those of the pods are.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from math import exp

import numpy as np
import numpy.typing as npt

from tidelock.cluster.placed import Placed
from tidelock.load.cooperative import in_slices, paced
from tidelock.model.quantities import CPU, MEMORY
from tidelock.model.usage_annotations import PodMeans

Floats = npt.NDArray[np.float64]

FEWEST_PODS = 10
"""Fewer pods show no correlation that differs from chance."""

# Time constant of the exponential mean, so one reading among many changes little.
_CONSTANT_SECONDS = 3600.0
_FULL = 100.0
_PREDICTORS = 1
_RESOURCES = (CPU, MEMORY)


def unexplained_part(use: Floats, requested: Floats) -> float | None:
    """Return the part of the variance of use (P) that requests (P) do not explain, from 0 to 1.

    It is 1 - R^2, with R^2 adjusted for the number of pods: (1 - R^2) * (P - 1) / (P - 2) (H. Theil,
    Economic Forecasts and Policy, 1961). With few pods or equal use it is unknown. With equal requests, or
    with less use the more is requested, it is 1.
    """
    pods = len(use)
    if pods < FEWEST_PODS or np.ptp(use) == 0:
        return None
    if np.ptp(requested) == 0:
        return 1.0
    correlation = max(float(np.corrcoef(use, requested)[0, 1]), 0.0)
    adjusted = (1.0 - correlation**2) * (pods - 1) / (pods - 1 - _PREDICTORS)
    return min(max(adjusted, 0.0), 1.0)


def largest_unexplained_part(use: Floats, requested: Floats) -> float | None:
    """Return the part of the resource with the larger one, from use and requests of pods (P x R each).

    A pod's use is NaN where it was not measured. The part is None if it is unknown of all resources.
    """
    measured = ~np.isnan(use)
    parts = (
        unexplained_part(use[there, column], requested[there, column])
        for column, there in enumerate(measured.T)
    )
    return max((part for part in parts if part is not None), default=None)


async def use_and_requests(
    means: Mapping[str, PodMeans], find: Callable[[str], Placed | None], oldest: float
) -> tuple[Floats, Floats]:
    """Return use and requests of some pods (P x R each), by the shortest window.

    Args:
        means: the use of P pods by uid.
        find: returns a placed pod by its uid.
        oldest: pods that were measured before this instant have NaN, as those that are gone.

    """
    use, requested = np.full((2, len(means), len(_RESOURCES)), np.nan)

    def fill() -> Iterator[None]:
        rows = count()
        for item in paced(means.items()):
            if item is None:
                yield
                continue
            (uid, measured), row = item, next(rows)
            placed = find(uid)
            if placed is not None and measured.at >= oldest:
                use[row] = measured.means[: len(_RESOURCES)]
                requested[row] = [placed.pod.requests.get(name, 0) for name in _RESOURCES]

    await in_slices(fill())
    return use, requested


class UnexplainedUse:
    """The exponential mean of the part that requests do not explain."""

    def __init__(self) -> None:
        """Begin without a value."""
        self._at = 0.0
        self.part: float | None = None
        """The mean, from 0 to 1, or None before the first value."""

    def learn(self, part: float | None, now: float) -> None:
        """Take a new value into account if it is known. `now` is in seconds since the epoch."""
        if part is None:
            return
        if self.part is None:
            self.part = part
        else:
            self.part += (1.0 - exp(-max(now - self._at, 0.0) / _CONSTANT_SECONDS)) * (part - self.part)
        self._at = now

    def restore(self, percent: object, now: float) -> None:
        """Begin with the percentage that an earlier process has stored, if it is one."""
        if self.part is None and isinstance(percent, int):
            self.learn(min(max(percent / _FULL, 0.0), 1.0), now)
