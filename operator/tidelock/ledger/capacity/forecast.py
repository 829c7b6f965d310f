"""Forecasts free capacity by known ends: the expiry of reservations, and the deadlines of pods.

Only amounts count. The first of these instants at which a node has enough of each resource is the earliest
possible start. Newcomers may delay it, and early ends may bring it forward. A pod or reservation beyond its
end counts as there for ever.
"""

from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelock.cluster.arrays import Mask
from tidelock.cluster.columns import NO_ROW, Amounts, Columns, Rows
from tidelock.ledger.capacity.holdings import Holdings
from tidelock.ledger.capacity.timeline import running_sums
from tidelock.model.quantities import Resources

# Seconds for which a forecast is reused. Estimates need no more precision.
_MOMENT = 1.0

Shortages = npt.NDArray[np.float64]


class Start(NamedTuple):
    """An instant, in seconds since the epoch, and the node with enough capacity then."""

    at: float
    node: str


class Forecast:
    """The nodes at one instant, and the known ends on them.

    Args:
        columns: the capacity of nodes, and its use.
        holdings: the held amounts, and the timeline of capacity in use for a limited time.
        now: the instant. Ends up to it do not count.

    """

    def __init__(self, columns: Columns, holdings: Holdings, now: float) -> None:
        self._columns = columns
        self._version = columns.version
        self._now = now
        there = slice(len(columns))
        free: Amounts = columns.allocatable[there] - columns.requested[there] - columns.reserved[there]
        rows, ends, amounts = [], [], []
        for node_name, span in holdings.ends():
            row = columns.row_of.get(node_name)
            if row is not None and now < span.end < inf:
                rows.append(row)
                ends.append(span.end)
                amounts.append(columns.vector(span.amounts))
        for node_name, shared in holdings.timeline.shared.items():
            if (row := columns.row_of.get(node_name)) is not None:
                free[row] -= columns.vector(shared)  # windows count as if they were there at once
        order = np.lexsort((ends, rows))
        self._free = free
        self._rows: Rows = np.array(rows, np.intp)[order]
        self._ends = np.array(ends)[order]
        self._freed = _sums(self._rows, np.array(amounts, np.int64).reshape(-1, free.shape[1])[order])
        self._open = ~columns.traits().cordoned
        self._known: dict[tuple[object, str], Start | None] = {}

    def is_of(self, now: float) -> bool:
        """Return whether the forecast still holds at an instant."""
        return self._version == self._columns.version and self._now <= now < self._now + _MOMENT

    def earliest(self, requests: Resources, node_name: str = "") -> Start | None:
        """Return when and where these amounts are free first, on a named node or on any that takes pods.

        Returns:
            the first node by name if there are several at one instant, or None without a known instant.

        """
        key = tuple(requests.items()), node_name
        if key not in self._known:
            eligible = self._open
            if node_name:
                eligible = np.zeros(len(self._columns), np.bool_)
                if (row := self._columns.row_of.get(node_name)) is not None:
                    eligible[row] = True
            self._known[key] = self.earliest_among(requests, eligible)
        return self._known[key]

    def to_come(self, requests: Resources, node_name: str = "") -> float | None:
        """Return when these amounts are free first, or None if they are free now or no instant is known."""
        start = self.earliest(requests, node_name)
        return None if start is None or start.at <= self._now else start.at

    def shortages(self, requests: Resources) -> Shortages:
        """Return the missing share of a request on each node: 1 if all of a resource is missing."""
        shortages: Shortages = np.zeros(len(self._free))
        for name, units in requests.items():
            if units:
                free = self._free[:, self._columns.column_of.get(name, NO_ROW)]
                np.maximum(shortages, 1 - free / units, out=shortages)
        return shortages

    def earliest_among(self, requests: Resources, eligible: Mask) -> Start | None:
        """Return when and where these amounts are free first, on some of the nodes."""
        column_of = self._columns.column_of
        wanted = [(column_of.get(name, NO_ROW), units) for name, units in requests.items() if units]
        fits = eligible.copy()
        later = eligible[self._rows]
        for column, units in wanted:
            free = self._free[:, column]
            fits &= free >= units
            later &= free[self._rows] + self._freed[:, column] >= units
        if fits.any():
            return Start(self._now, self.first_of(fits.nonzero()[0]))
        if not later.any():
            return None
        at = float(self._ends[later].min())
        return Start(at, self.first_of(self._rows[later & (self._ends == at)]))

    def first_of(self, rows: Rows) -> str:
        """Return the first of some rows by the names of nodes."""
        names: list[str] = [self._columns.nodes[row].name for row in rows.tolist()]
        return min(names)


def _sums(rows: Rows, amounts: Amounts) -> Amounts:
    """Return for each line its sum with all lines before it of the same row."""
    _, firsts, sums, before = running_sums(rows, amounts)
    counts = np.diff(np.append(firsts, len(rows)))
    totals: Amounts = sums - np.repeat(before, counts, axis=0)
    return totals
