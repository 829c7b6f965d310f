"""When what is known to end leaves room: locks by their expiry, and pods that have a deadline.

Only amounts count. The first of these instants at which a node has enough of each resource is the earliest at
which something may start there; what comes meanwhile may delay it, and what ends early, or is deleted, may
bring it forward. What ought to be gone by now may stay for ever.
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

# Seconds for which it is as good as new: estimates are of a moment ago anyway.
_MOMENT = 1.0

Shortages = npt.NDArray[np.float64]


class Start(NamedTuple):
    """An instant, in seconds since the epoch, and the node on which there is room then."""

    at: float
    node: str


class Forecast:
    """The nodes as they are at one instant, and the known ends of what is on them.

    Args:
        columns: what nodes have, and what is taken of it.
        rooms: the locks that hold some, and the timeline of what is there for a time alone.
        now: the instant; what ends up to it has no end that is known.

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
        """Whether it is about these nodes, and of an instant or a moment before it."""
        return self._version == self._columns.version and self._now <= now < self._now + _MOMENT

    def earliest(self, requests: Resources, node_name: str = "") -> Start | None:
        """Tell when and where so much is free first, on a node of this name or on any that takes pods.

        If several nodes have it at one instant, it is the first by name; None if it is never known to be.
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
        """Tell when so much is free first, if it is not now and will be at an instant that is known."""
        start = self.earliest(requests, node_name)
        return None if start is None or start.at <= self._now else start.at

    def shortages(self, requests: Resources) -> Shortages:
        """Tell for each node how much of a request is not free now: 0 if none, 1 if all of some resource."""
        shortages: Shortages = np.zeros(len(self._free))
        for name, units in requests.items():
            if units:
                free = self._free[:, self._columns.column_of.get(name, NO_ROW)]
                np.maximum(shortages, 1 - free / units, out=shortages)
        return shortages

    def earliest_among(self, requests: Resources, eligible: Mask) -> Start | None:
        """Tell when and where so much is free first, on some of the nodes."""
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
        """Give the first of some nodes by name."""
        names: list[str] = [self._columns.nodes[row].name for row in rows.tolist()]
        return min(names)


def _sums(rows: Rows, amounts: Amounts) -> Amounts:
    """Give for each line what it adds up to with all lines before it of the same row."""
    _, firsts, sums, before = running_sums(rows, amounts)
    counts = np.diff(np.append(firsts, len(rows)))
    totals: Amounts = sums - np.repeat(before, counts, axis=0)
    return totals
