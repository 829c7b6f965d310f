"""Capacity in use for a limited time: planned reservations, and reservations and pods with a known end.

The reservations and pods of a node must not exceed it at any time, by the rule of `spans`. The columns count
all of them as if they were there at once, and the timeline subtracts from `reserved` the amounts that windows
share. A pod that may stay for ever is placed by the columns alone. For a pod with a known beginning or end,
`unused_amounts` returns the amounts that need not be free.

All instants are seconds since the epoch, and there is no clock: a pod that stays beyond its end is noticed
when the next window begins.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping
from math import inf

import numpy as np

from tidelock.cluster.columns import Amounts, Columns, Rows
from tidelock.ledger.capacity.spans import Span, level_at, peak_of, shared_by
from tidelock.model.quantities import NOTHING, Resources

_FEW = 64


class Timeline:
    """The spans of all nodes.

    Args:
        columns: where spans are counted as if they were there at once, without the shared amounts.

    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._spans: defaultdict[str, dict[Hashable, Span]] = defaultdict(dict)
        self._beginning: Counter[str] = Counter()  # number of spans on a node with a known beginning
        self._shared: dict[str, Resources] = {}
        self._place_of: dict[Hashable, tuple[str, int]] = {}
        self._ids: dict[str, int] = {}
        self._rows: tuple[tuple[int, int], Rows] = (-1, 0), np.zeros(0, np.intp)
        self._start = np.zeros(_FEW)
        self._end = np.zeros(_FEW)
        self._node = np.full(_FEW, -1, np.intp)
        self._layout = columns.layout
        self._amounts = np.zeros((_FEW, len(columns.resources)), np.int64)
        self._sum = np.zeros_like(self._amounts)
        self._peak = np.zeros_like(self._amounts)
        self._free = list(range(_FEW))

    def __bool__(self) -> bool:
        """Return whether there is any span."""
        return bool(self._place_of)

    def put(self, key: Hashable, node_name: str, span: Span) -> None:
        """Add a span, or replace the one of the same key."""
        before = self._spans[node_name].get(key)
        if before == span:
            return
        self._lay_out()
        if before is not None:
            self._columns.freed += 1  # an earlier end frees capacity
        if key in self._place_of and (left := self._take(key)) != node_name:
            self._share(left)
        self._spans[node_name][key] = span
        slot = self._slot()
        self._place_of[key] = node_name, slot
        self._start[slot], self._end[slot] = span.start, span.end
        index = self._node[slot] = self._id(node_name)
        self._amounts[slot] = self._columns.vector(span.amounts)
        self._sum[index] += self._amounts[slot]
        self._beginning[node_name] += span.start > -inf
        self._share(node_name)

    def drop(self, key: Hashable) -> None:
        """Remove a span, if there is one."""
        if key in self._place_of:
            self._lay_out()
            self._share(self._take(key))

    def recount(self, node_name: str) -> None:
        """Subtract the shared amounts of a node that has just become known."""
        self._columns.reservation(node_name, self._shared.get(node_name, NOTHING), -1)

    def spans(self) -> Iterator[tuple[Hashable, str, Span]]:
        """Yield the key, node and span of each span."""
        for node_name, spans in self._spans.items():
            for key, span in spans.items():
                yield key, node_name, span

    @property
    def shared(self) -> Mapping[str, Resources]:
        """The amounts that windows share on each node."""
        return self._shared

    def shares(self, node_name: str) -> bool:
        """Return whether windows share capacity of a node, so the end of a window may free nothing."""
        return node_name in self._shared

    def spans_at_shortfall(self, node_name: str, excess: Resources) -> set[Hashable]:
        """Return the keys of spans that contain an instant at which a node has this shortfall."""
        spans = self._spans.get(node_name, {})
        levels = {start: level_at(spans.values(), start) for start in {span.start for span in spans.values()}}
        short = set()
        for name, units in excess.items():
            limit = max((level.get(name, 0) for level in levels.values()), default=0) - units
            short |= {start for start, level in levels.items() if level.get(name, 0) > limit}
        return {key for key, span in spans.items() if any(span.start <= at < span.end for at in short)}

    def unused_amounts(self, begin: float, end: float, now: float) -> tuple[Rows, Amounts]:
        """Return the amounts of each node that need not be free from one instant until before another.

        A span beyond its end counts as there for ever.

        Returns:
            the K rows of nodes with such amounts, and K x R amounts that the columns count although they
            are in use only before or after.

        """
        self._lay_out()
        unused = self._peak[: len(self._ids)].copy()
        ids, then = self._peaks(begin, end, now)
        unused[ids] -= then
        rows = self._known_rows()
        helped = (rows >= 0) & (unused > 0).any(axis=1)
        return rows[helped], unused[helped]

    def _known_rows(self) -> Rows:
        """Return the row of each node that ever had a span, by its id, or -1 if the node is not known now."""
        state = self._columns.version, len(self._ids)
        if self._rows[0] != state:
            row_of = self._columns.row_of
            self._rows = state, np.array([row_of.get(name, -1) for name in self._ids], np.intp)
        return self._rows[1]

    def _peaks(self, begin: float, end: float, now: float) -> tuple[Rows, Amounts]:
        """Return the ids of nodes with spans in a window, ascending, and their largest sums."""
        leaves = np.where((self._start == -inf) & (self._end <= now), inf, self._end)
        there = ((self._node >= 0) & (self._start < end) & (leaves > begin)).nonzero()[0]
        starts, ends, nodes = np.maximum(self._start[there], begin), leaves[there], self._node[there]
        amounts = self._amounts[there]
        leave = ends < end
        instants = np.concatenate((starts, ends[leave]))
        comes = np.concatenate((np.ones(len(there)), np.zeros(np.count_nonzero(leave))))
        at = np.concatenate((nodes, nodes[leave]))
        order = np.lexsort((comes, instants, at))  # at one instant, ends come before begins
        ids, firsts, sums, before = running_sums(at[order], np.concatenate((amounts, -amounts[leave]))[order])
        if not len(ids):
            return ids, sums
        peaks: Amounts = np.maximum.reduceat(sums, firsts, axis=0) - before
        return ids, peaks

    def _take(self, key: Hashable) -> str:
        """Remove a span. Return its node, for which the shared amounts must be computed again."""
        node_name, slot = self._place_of.pop(key)
        self._sum[self._node[slot]] -= self._amounts[slot]
        self._node[slot] = -1
        self._amounts[slot] = 0
        self._free.append(slot)
        span = self._spans[node_name].pop(key)
        self._beginning[node_name] -= span.start > -inf
        if not self._spans[node_name]:
            del self._spans[node_name]
        return node_name

    def _share(self, node_name: str) -> None:
        """Count the amounts that windows share on a node only once in the columns."""
        index = self._ids[node_name]
        if not self._beginning[node_name] and node_name not in self._shared:
            self._peak[index] = self._sum[index]  # all are there now, as on a node of jobs that end
            return
        spans = self._spans.get(node_name, {}).values()
        self._peak[index] = 0
        for name, units in peak_of(spans).items():
            if (column := self._columns.column_of.get(name)) is not None:
                self._peak[index, column] = units
        shared = shared_by(spans)
        before = self._shared.pop(node_name, NOTHING)
        if shared:
            self._shared[node_name] = shared
        if shared != before:
            self._columns.reservation(node_name, before, 1)
            self._columns.reservation(node_name, shared, -1)

    def _id(self, node_name: str) -> int:
        """Return the id of a node in this timeline, which never changes."""
        index = self._ids.setdefault(node_name, len(self._ids))
        if index == len(self._peak):
            self._sum = np.concatenate((self._sum, np.zeros_like(self._sum)))
            self._peak = np.concatenate((self._peak, np.zeros_like(self._peak)))
        return index

    def _slot(self) -> int:
        if not self._free:
            more = len(self._node)
            self._free = list(range(more, 2 * more))
            self._start = np.concatenate((self._start, np.zeros(more)))
            self._end = np.concatenate((self._end, np.zeros(more)))
            self._node = np.concatenate((self._node, np.full(more, -1, np.intp)))
            self._amounts = np.concatenate((self._amounts, np.zeros_like(self._amounts)))
        return self._free.pop()

    def _lay_out(self) -> None:
        """Lay all amounts out again if the columns are for other resources than before."""
        if self._layout == self._columns.layout:
            return
        self._layout = self._columns.layout
        width = len(self._columns.resources)
        self._amounts = np.zeros((len(self._node), width), np.int64)
        self._sum = np.zeros((len(self._sum), width), np.int64)
        self._peak = np.zeros_like(self._sum)
        for key, (node_name, slot) in self._place_of.items():
            self._amounts[slot] = self._columns.vector(self._spans[node_name][key].amounts)
            self._sum[self._node[slot]] += self._amounts[slot]
        for node_name in self._ids:
            self._share(node_name)


def running_sums(groups: Rows, amounts: Amounts) -> tuple[Rows, Rows, Amounts, Amounts]:
    """Return running sums of lines that are sorted by their group.

    Returns:
        the G groups, the line with which each begins, N x R sums of each line and all before it, and G x R
        sums before each group, which must be subtracted from those of its lines.

    """
    sums: Amounts = amounts.cumsum(axis=0)
    present, firsts = np.unique(groups, return_index=True)
    before = np.zeros((len(present), amounts.shape[1]), np.int64)
    before[1:] = sums[firsts[1:] - 1]
    return present, firsts, sums, before
