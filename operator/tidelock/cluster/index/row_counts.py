"""A count for each row of the columns."""

import numpy as np

from tidelock.cluster.arrays import Counts


class RowCounts:
    """Counts that grow with the columns. A row without counts has 0."""

    __slots__ = ("_counts",)

    def __init__(self, counts: Counts) -> None:
        """Begin with these counts, which are from then on its own."""
        self._counts = counts

    def add(self, row: int, amount: int) -> None:
        """Add to the count of a row."""
        self._reach(row + 1)
        self._counts[row] += amount

    def move(self, source: int, target: int) -> None:
        """Follow the node of the last row to a row that is free, and leave nothing behind."""
        self._reach(source + 1)
        self._counts[target] = self._counts[source]
        self._counts[source] = 0

    def view(self, size: int) -> Counts:
        """Return a read-only view of the first rows, which must not be kept."""
        self._reach(size)
        counts = self._counts[:size]
        counts.flags.writeable = False
        return counts

    def _reach(self, size: int) -> None:
        missing = size - len(self._counts)
        if missing > 0:
            more = np.zeros(max(64, len(self._counts), missing), np.int64)
            self._counts = np.concatenate((self._counts, more))
