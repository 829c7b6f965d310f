"""Arrays over all nodes that follow from the columns: made once, and then only where nodes have changed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Columns
from tidelock.cluster.snapshot import Snapshot

Values = npt.NDArray[Any]

# Beyond this share of changed nodes, working all out at once is cheaper than picking them.
_MANY = 0.25
# Up to so many, one after the other is cheaper than calls with arrays.
_FEW = 4

# So many are worked out at once: for larger arrays the C library takes memory from the kernel and gives it
# back many times a decision.
_BLOCK = 8192


class CachedColumn:
    """One value for each node, which follows from the node and the pods there."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._values: Values = np.empty(0)
        self._view = _read_only(self._values)
        self._clock = -1

    def renewed(
        self, snapshot: Snapshot, find: Callable[[Snapshot], Values], find_one: Callable[[int], float]
    ) -> Values:
        """Return the present values, N. The array must not be written.

        Args:
            snapshot: all nodes.
            find: computes the values of some of them.
            find_one: computes the value of one row.

        """
        now = self._columns.clock
        if self._clock == now:
            return self._view
        count = len(snapshot)
        if self._clock < 0:
            self._take(_in_blocks(find, snapshot))
        else:
            if len(self._values) != count:
                self._take(_fitted(self._values, count))
            rows = self._columns.changed(self._clock)
            if len(rows) >= _MANY * count:
                self._values[:] = _in_blocks(find, snapshot)
            elif len(rows) > _FEW:
                self._values[rows] = find(snapshot.take(rows))
            else:
                for row in rows.tolist():
                    self._values[row] = find_one(row)
        self._clock = now
        return self._view

    def _take(self, values: Values) -> None:
        self._values, self._view = values, _read_only(values)


def _in_blocks(find: Callable[[Snapshot], Values], snapshot: Snapshot) -> Values:
    """Compute the values of all nodes."""
    count = len(snapshot)
    if count <= _BLOCK:
        return find(snapshot)
    starts = range(0, count, _BLOCK)
    return np.concatenate([find(snapshot.take(slice(start, start + _BLOCK))) for start in starts])


def _fitted(values: Values, count: int) -> Values:
    """Return an array of this length with the known values. New elements belong to changed rows."""
    fitted = np.zeros(count, values.dtype)
    fitted[: len(values)] = values[:count]
    return fitted


def _read_only(values: Values) -> Values:
    view = values.view()
    view.flags.writeable = False
    return view
