"""The number of placed pods that a query selects, by node.

The first query counts all pods. From then on the counts follow pods that come, go and change. Counts without
a query for the longest time are dropped.
"""

from dataclasses import dataclass

import numpy as np

from tidelock.cluster.arrays import Counts
from tidelock.cluster.columns import Columns
from tidelock.cluster.index.pod_labels import LabelledPod, PodLabels
from tidelock.cluster.index.row_counts import RowCounts
from tidelock.cluster.index.selection import Choice, Index
from tidelock.model.pods import Pod

_TALLIES = 1024


@dataclass(frozen=True)
class PodCountQuery:
    """Pods that every one of these choices selects, with or without those that are being deleted."""

    choices: tuple[Choice, ...]
    deleted: bool = True

    def selects(self, pod: Pod) -> bool:
        """Return whether a pod is counted."""
        if not self.deleted and pod.metadata.deletion_timestamp is not None:
            return False
        return all(choice.selects(pod) for choice in self.choices)


class PodCounts:
    """Tallies of queries, one count a row of the columns."""

    def __init__(self, columns: Columns) -> None:
        """Count pods on the nodes of the columns."""
        self._columns = columns
        self._pods = PodLabels(columns)
        self._pod_counts: dict[PodCountQuery, _Tally] = {}
        self._index: Index[_Tally] = Index()

    def of(self, query: PodCountQuery) -> Counts:
        """Return the number of a query's pods on each node. The array is a view that must not be kept."""
        tally = self._pod_counts.pop(query, None)
        if tally is None:
            tally = self._made(query)
        self._pod_counts[query] = tally
        return tally.counts.view(len(self._columns))

    def place(self, occupant: LabelledPod) -> None:
        """Add a pod that has been placed, on any node."""
        self._pods.place(occupant)

    def displace(self, occupant: LabelledPod) -> None:
        """Forget a pod."""
        self._pods.displace(occupant)

    def count(self, pod: Pod, row: int, sign: int) -> None:
        """Count a pod on a node (sign 1), or no longer (-1)."""
        for tally in self._index.near(pod):
            if tally.query.selects(pod):
                tally.counts.add(row, sign)

    def move(self, source: int, target: int) -> None:
        """Follow the node of the last row to a row that is free."""
        for tally in self._pod_counts.values():
            tally.counts.move(source, target)

    def _made(self, query: PodCountQuery) -> "_Tally":
        narrowest = min(query.choices, key=_breadth)
        rows = self._pods.rows(query.choices, deleted=query.deleted)
        counts = np.bincount(rows, minlength=len(self._columns))
        tally = _Tally(query, RowCounts(counts.astype(np.int64, copy=False)))
        self._index.add(narrowest, tally)
        if len(self._pod_counts) >= _TALLIES:
            self._index.discard(self._pod_counts.pop(next(iter(self._pod_counts))))
        return tally


def _breadth(choice: Choice) -> tuple[bool, bool]:
    """Rank a choice by how many pods it may take to look at."""
    return choice.namespaces is None, not choice.selection.pairs


@dataclass(slots=True, eq=False)
class _Tally:
    query: PodCountQuery
    counts: RowCounts
