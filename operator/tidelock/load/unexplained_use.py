"""How much of the use of nodes their requests do not explain: 1 - R^2 of a linear regression, over time.

Where use follows requests, a placement by requests already levels use. So use can count less. Where requests
say nothing about use, it counts in full.
"""

from collections.abc import Mapping
from math import exp

import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Columns

Floats = npt.NDArray[np.float64]

FEWEST_NODES = 10
"""Fewer nodes show no correlation that differs from chance."""

# Time constant of the exponential mean, so one reading among many changes little.
_CONSTANT_SECONDS = 3600.0
_FULL = 100.0
_PREDICTORS = 1


def unexplained_part(use: Floats, requested: Floats) -> float | None:
    """Return the part of the variance of use (N) that requests (N) do not explain, from 0 to 1.

    It is 1 - R^2, with R^2 adjusted for the number of nodes: (1 - R^2) * (N - 1) / (N - 2) (H. Theil,
    Economic Forecasts and Policy, 1961). With few nodes or equal use it is unknown. With equal requests it
    is 1.
    """
    count = len(use)
    if count < FEWEST_NODES or np.ptp(use) == 0:
        return None
    if np.ptp(requested) == 0:
        return 1.0
    correlation = float(np.corrcoef(use, requested)[0, 1])
    adjusted = (1.0 - correlation**2) * (count - 1) / (count - 1 - _PREDICTORS)
    return min(max(adjusted, 0.0), 1.0)


def use_and_requests(columns: Columns, uses: Mapping[str, float], resource: str) -> tuple[Floats, Floats]:
    """Return the use and the requests of the nodes that are still there, both in percent: N.

    `uses` is the use by the nodes' names. Nodes that have nothing of the resource are left out.
    """
    there = [(columns.row_of[name], use) for name, use in uses.items() if name in columns.row_of]
    rows = np.array([row for row, _ in there], np.intp)
    use = np.array([use for _, use in there], np.float64)
    column = columns.column_of[resource]
    requested, allocatable = columns.requested[rows, column], columns.allocatable[rows, column]
    has = allocatable > 0
    return use[has], _FULL * requested[has] / allocatable[has]


class UnexplainedUse:
    """The exponential mean of the part that requests do not explain."""

    def __init__(self) -> None:
        """Begin without a value."""
        self._at = 0.0
        self.part: float | None = None
        """The mean, from 0 to 1, or None before the first value."""

    def learn(self, part: float, now: float) -> None:
        """Take a new value into account. `now` is in seconds since the epoch."""
        if self.part is None:
            self.part = part
        else:
            self.part += (1.0 - exp(-max(now - self._at, 0.0) / _CONSTANT_SECONDS)) * (part - self.part)
        self._at = now

    def restore(self, percent: object, now: float) -> None:
        """Begin with the percentage that an earlier process has stored, if it is one."""
        if self.part is None and isinstance(percent, int):
            self.learn(min(max(percent / _FULL, 0.0), 1.0), now)
