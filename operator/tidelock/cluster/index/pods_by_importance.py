"""The pods of many nodes at once, the most important first, as preemption looks at them.

They are laid out in arrays by row, so that thousands of nodes are weighed without looking at each pod. A node
is laid out when it is asked for and its pods have changed since.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Amounts, Columns, Rows
from tidelock.cluster.placed import Placed

A = TypeVar("A", bound=np.generic)

# Kinds of pods by their requests. Beyond this number kinds of pods that are gone are dropped.
_MOST_KINDS = 65_536


@dataclass(frozen=True, slots=True)
class PodsOfNodes:
    """The pods of T nodes: T x M arrays, M the most pods on any of them.

    Attributes:
        pods: the pods of each node.
        there: whether there is a pod. Elsewhere the other arrays have no meaning.
        priority: their priorities.
        started: when they started, in seconds since the epoch, or infinity.
        amounts: T x M x R + 2, the requests of each resource, then nonzero cpu and memory.

    """

    pods: Sequence[Sequence[Placed]]
    there: npt.NDArray[np.bool_]
    priority: npt.NDArray[np.int64]
    started: npt.NDArray[np.float64]
    amounts: Amounts


class PodsByImportance:
    """The pods of each node by importance: by priority, then by age, then by name."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._amounts: Amounts
        self._layout = -1
        self._clear(0)
        self._priorities: Counter[int] = Counter()
        cache.on_move(self._count)

    @property
    def lowest(self) -> float:
        """The lowest priority of any pod, or infinity."""
        return min(self._priorities, default=inf)

    @property
    def mean(self) -> float:
        """How many pods a node has on average."""
        return self._priorities.total() / max(len(self._cache.columns), 1)

    def of(self, rows: Rows) -> PodsOfNodes:
        """Return the pods on the nodes of some rows of the columns."""
        columns = self._cache.columns
        if self._layout != columns.layout or len(self._kinds) > _MOST_KINDS:
            self._layout = columns.layout
            self._clear(len(columns.resources))
        self._refresh(rows, columns)
        counts = self._counts[rows]
        most = int(counts.max(initial=0))
        return PodsOfNodes(
            pods=[self._pods[row] for row in rows.tolist()],
            there=np.arange(most) < counts[:, np.newaxis],
            priority=self._priority[rows, :most],
            started=self._started[rows, :most],
            amounts=self._amounts[self._kind[rows, :most]],
        )

    def _count(self, placed: Placed, sign: int) -> None:
        priority = placed.pod.spec.priority
        self._priorities[priority] += sign
        if not self._priorities[priority]:
            del self._priorities[priority]

    def _refresh(self, rows: Rows, columns: Columns) -> None:
        """Lay out the nodes with changed pods. Generations of different nodes are never the same."""
        if len(self._marks) < len(columns):
            self._pods.extend([()] * (len(columns) - len(self._pods)))
            self._enlarge(len(columns), self._kind.shape[1])
        nodes = columns.nodes
        names = [nodes[row].metadata.name for row in rows.tolist()]
        marks = np.array(self._cache.generations(names), np.int64)
        stale = (marks != self._marks[rows]).nonzero()[0]
        for index in stale.tolist():
            self._lay_out(rows[index], sorted(self._cache.pods_on(names[index]), key=rank))
        self._marks[rows[stale]] = marks[stale]

    def _lay_out(self, row: np.intp, pods: Sequence[Placed]) -> None:
        count = len(pods)
        if count > self._kind.shape[1]:
            self._enlarge(len(self._marks), 2 * count)
        self._pods[row] = pods
        self._counts[row] = count
        self._kind[row, :count] = [self._kind_of(each) for each in pods]
        self._priority[row, :count] = [each.pod.spec.priority for each in pods]
        self._started[row, :count] = [started(each) for each in pods]

    def _kind_of(self, placed: Placed) -> int:
        """Return a number for the requests of a pod, the same for equal pods."""
        pod = placed.pod
        known = len(self._kinds)
        kind = self._kinds.setdefault((tuple(pod.requests.items()), pod.nonzero), known)
        if kind == known:
            if kind == len(self._amounts):
                self._amounts = _enlarged(self._amounts, (2 * kind + 1, self._width + 2))
            self._amounts[kind, : self._width] = self._cache.columns.vector(pod.requests)
            self._amounts[kind, -2:] = pod.nonzero
        return kind

    def _clear(self, width: int) -> None:
        self._width = width
        self._kinds: dict[tuple[tuple[tuple[str, int], ...], tuple[int, int]], int] = {}
        self._amounts = np.zeros((0, width + 2), np.int64)
        self._pods: list[Sequence[Placed]] = []
        self._marks = np.zeros(0, np.int64)
        self._counts = np.zeros(0, np.intp)
        self._kind = np.zeros((0, 0), np.intp)
        self._priority = np.zeros((0, 0), np.int64)
        self._started = np.zeros((0, 0), np.float64)

    def _enlarge(self, rows: int, most: int) -> None:
        self._marks = _enlarged(self._marks, (rows,))
        self._counts = _enlarged(self._counts, (rows,))
        self._kind = _enlarged(self._kind, (rows, most))
        self._priority = _enlarged(self._priority, (rows, most))
        self._started = _enlarged(self._started, (rows, most))


def started(placed: Placed) -> float:
    """Return when a pod started, in seconds since the epoch, or infinity."""
    instant = placed.pod.status.start_time
    return instant.timestamp() if instant else inf


def rank(placed: Placed) -> tuple[object, ...]:
    """Sort the more important pods first: by priority, then by age."""
    return -placed.pod.spec.priority, started(placed), placed.pod.key


def _enlarged(array: npt.NDArray[A], shape: tuple[int, ...]) -> npt.NDArray[A]:
    larger = np.zeros(shape, array.dtype)
    larger[tuple(map(slice, array.shape))] = array
    return larger
