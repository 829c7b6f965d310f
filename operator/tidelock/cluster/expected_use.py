"""What the pods of each node are expected to use: sums by node that follow arrivals and departures at once.

Every placed pod has a slot, and so has every lock that holds room, as it stands for its owner. How much of it
counts is for a rule to say: all that its node's last sample does not cover yet, or its own measured use.
Use is W x R (windows, resources) in the units of `tidelock.model.quantities`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelock.cluster.cache import Follower, Placed
from tidelock.cluster.columns import Columns, Rows
from tidelock.cluster.levels import RESOURCES, UNITS, WINDOWS, Figures, mean_use, means
from tidelock.cluster.measured import Measurements
from tidelock.cluster.objects import Lister
from tidelock.cluster.workloads import workload_of
from tidelock.model.levels import WINDOW_SECONDS, WorkloadKey
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.workloads import Workload

Estimate = Callable[[Pod], Sequence[float]]
"""Gives the cpu and memory that a pod is expected to use, in units; NaN where nothing tells."""

_SHAPE = (len(WINDOWS), len(RESOURCES))
_SPANS = np.array([WINDOW_SECONDS[window] for window in WINDOWS], np.float64)
# Up to this many nodes are summed by looking at their own pods, more of them by looking at all.
_FEW = 32
_SLICE = 500
_NODES_A_SLICE = 16
_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Slots:
    """Some pods: S each.

    Attributes:
        bound_at: when each was bound; infinite if it is about to be.
        sampled_at: when its node was last measured.
        expected: S x W x R, by its workload's history or an estimate.
        by_history: whether it is its workload's history that is expected.
        own: S x W x R, what was measured of itself, NaN if nothing was.
        own_at: when that was.

    """

    bound_at: Figures
    sampled_at: Figures
    expected: Figures
    by_history: npt.NDArray[np.bool_]
    own: Figures
    own_at: Figures


Rule = Callable[[Slots], Figures]
"""Gives how much of each pod counts: S x W x R."""


def since_sample(margin: float) -> Rule:
    """Count what is expected of pods bound later than `margin` seconds before their node's sample."""

    def rule(slots: Slots) -> Figures:
        counts = np.greater(slots.bound_at, slots.sampled_at - margin)
        return np.where(counts[:, np.newaxis, np.newaxis], slots.expected, 0.0)

    return rule


def uncovered(slots: Slots) -> Figures:
    """Count the part of each window in which the pod was not there yet.

    A mean over 15 minutes that was taken 5 minutes after the pod was bound has a third of its use in it.
    """
    age = (slots.sampled_at - slots.bound_at)[:, np.newaxis]
    share = np.clip(1.0 - age / _SPANS, 0.0, 1.0)
    counted: Figures = slots.expected * share[:, :, np.newaxis]
    return counted


def own_use(mature: float) -> Rule:
    """Count a pod's own use; while it is younger than `mature` seconds, its workload's history weighs in."""

    def rule(slots: Slots) -> Figures:
        age = np.clip((slots.own_at - slots.bound_at) / mature, 0.0, 1.0)
        age[~slots.by_history] = 1.0
        age = age[:, np.newaxis, np.newaxis]
        blended = age * slots.own + (1.0 - age) * slots.expected
        return np.where(np.isnan(slots.own), slots.expected, blended)

    return rule


class ExpectedUse(Follower):
    """The slots, and sums of what counts of them by node."""

    def __init__(
        self,
        columns: Columns,
        replica_sets: Lister[Workload],
        measurements: Measurements,
        *,
        estimate: Estimate,
        rule: Rule,
        history: bool = True,
        measured: bool = False,
    ) -> None:
        """Begin without pods.

        `history` is whether that of its workload goes before the estimate of a pod, `measured` whether the
        rule looks at a pod's own use.
        """
        self._columns = columns
        self._replica_sets = replica_sets
        self._measurements = measurements
        self._estimate = estimate
        self._rule = rule
        self._history = history
        self._measured = measured
        self._histories: dict[WorkloadKey, Figures] = {}
        self._slot_of: dict[str, int] = {}
        self._pods: dict[str, tuple[Pod, WorkloadKey | None]] = {}
        self._of_workload: defaultdict[WorkloadKey, set[int]] = defaultdict(set)
        self._unowned: dict[str, None] = {}  # pods whose workload is not known, or not yet
        self._node_of: dict[str, str] = {}
        self._on_node: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._free: list[int] = []
        self._row = np.zeros(0, np.intp)
        self._bound_at = np.zeros(0)
        self._expected = np.zeros((0, *_SHAPE))
        self._by_history = np.zeros(0, np.bool_)
        self._own = np.zeros((0, *_SHAPE))
        self._own_at = np.zeros(0)
        self._sums = np.zeros((*_SHAPE, 0))
        self._stale = np.zeros(0, np.bool_)
        self._sampled_at = np.zeros(0)
        self._defaults = np.zeros((len(RESOURCES), 0))
        measurements.read_by(self)

    def expected(self, pod: Pod) -> Figures:
        """Tell what a pod that is not placed yet will use; NaN where nothing tells."""
        return self._expectation(pod, workload_of(pod, self._replica_sets))[0]

    def bound_at(self) -> tuple[Rows, Figures]:
        """Give the row and the time of binding of every pod that is on a known node."""
        there = np.flatnonzero(self._row >= 0)
        return self._row[there], self._bound_at[there]

    def use_of(self, uid: str) -> tuple[int, Figures] | None:
        """Give the row of a pod or lock and what is expected of it; None if it is on no known node."""
        slot = self._slot_of.get(uid)
        if slot is None or self._row[slot] < 0:
            return None
        row = int(self._row[slot])
        return row, self._filled(np.array([slot]))[0]

    def sums(self, sampled_at: Figures, defaults: Figures) -> Figures:
        """Sum what counts of the pods of each node: W x R x N, a view that is not to be kept or written.

        Args:
            sampled_at: when each node was last measured: N.
            defaults: what is expected of a pod of which nothing tells: R x N.

        """
        count = len(self._columns)
        self._reach(count)
        stale = self._stale[:count]
        stale |= sampled_at != self._sampled_at[:count]
        if not np.array_equal(self._defaults[:, :count], defaults):
            stale[:] = True
            self._defaults[:, :count] = defaults
        self._sampled_at[:count] = sampled_at
        rows = np.flatnonzero(stale)
        if len(rows):
            self._sum(rows)
            stale[rows] = False
        view = self._sums[:, :, :count]
        view.flags.writeable = False
        return view

    # What the cache tells.

    def put_node(self, row: int, old: Node | None, new: Node) -> None:
        """Count the pods that were there before their node was known."""
        if old is None:
            self._reach(row + 1)
            self._row[list(self._on_node.get(new.name, {}).values())] = row
            self._stale[row] = True

    def drop_node(self, row: int, end: int) -> None:
        """Follow the last row to where a node has gone."""
        self._reach(end + 1)
        self._row[self._row == row] = _NOWHERE
        self._row[self._row == end] = row
        self._stale[[row, end]] = True

    def place(self, placed: Placed) -> None:
        """Count a pod, by the true time of its binding once that is known."""
        bound_at = np.inf if placed.assumed else placed.pod.bound_at
        self._put(placed.pod, placed.node_name, bound_at, None)

    def displace(self, placed: Placed) -> None:
        """Count a pod no longer."""
        self.release(placed.pod.uid)

    def hold(self, pod: Pod, node_name: str, workload: WorkloadKey | None) -> None:
        """Count the owner that a lock stands for: a pod that is about to come."""
        self.release(pod.uid)  # what it holds may have changed
        self._put(pod, node_name, np.inf, workload)

    def release(self, uid: str) -> None:
        """Count a pod or lock no longer, if it is there."""
        slot = self._slot_of.pop(uid, None)
        if slot is None:
            return
        name = self._node_of.pop(uid)
        _, workload = self._pods.pop(uid)
        self._unowned.pop(uid, None)
        if workload is not None:
            self._of_workload[workload].discard(slot)
            if not self._of_workload[workload]:
                del self._of_workload[workload]
        del self._on_node[name][uid]
        if not self._on_node[name]:
            del self._on_node[name]
        self._touch(slot)
        self._row[slot] = _NOWHERE
        self._free.append(slot)

    # What the load layer tells.

    def remeasure(self) -> Iterator[None]:
        """Take over the newest reading: in slices, at the end of which the sums of some nodes are new."""
        self._histories.clear()
        if self._history:
            yield from self._expect_anew()
        names = tuple(self._on_node)
        row_of = self._columns.row_of
        for start in range(0, len(names), _NODES_A_SLICE):
            part = names[start : start + _NODES_A_SLICE]
            if self._measured:
                self._measure([uid for name in part for uid in self._on_node.get(name, ())])
            rows = np.array(sorted(row_of[name] for name in part if name in row_of), np.intp)
            self._sum(rows)
            self._stale[rows] = False
            yield

    def _expect_anew(self) -> Iterator[None]:
        for number, uid in enumerate(tuple(self._unowned)):
            if uid in self._unowned:
                pod, _ = self._pods[uid]
                self._expect(uid, pod, workload_of(pod, self._replica_sets))
            if number % _SLICE == _SLICE - 1:
                yield
        for number, key in enumerate(tuple(self._of_workload)):
            slots = np.array(tuple(self._of_workload.get(key, ())), np.intp)
            known = self._history_of(key)
            if known is not None:
                # What the history lacks stays as it was expected.
                self._expected[slots] = np.where(np.isnan(known), self._expected[slots], known)
                self._by_history[slots] = True
            if number % _SLICE == _SLICE - 1:
                yield

    def _measure(self, uids: Sequence[str]) -> None:
        """Take over what was measured of some pods themselves."""
        uses = self._measurements.uses.pods
        there = [
            (self._slot_of[uid], usage.at, means(usage))
            for uid in uids
            if (usage := uses.get(uid)) is not None
        ]
        if there:
            slots, at, figures = map(list, zip(*there, strict=True))
            self._own[slots] = np.array(figures).reshape(-1, *_SHAPE) * UNITS
            self._own_at[slots] = at

    # Inside.

    def _put(self, pod: Pod, node_name: str, bound_at: float, workload: WorkloadKey | None) -> None:
        uid = pod.uid
        slot = self._slot_of.get(uid)
        if slot is None:
            slot = self._free.pop() if self._free else self._more_slots()
            self._slot_of[uid] = slot
            self._node_of[uid] = node_name
            self._on_node[node_name][uid] = slot
            self._row[slot] = self._columns.row_of.get(node_name, _NOWHERE)
            self._expect(uid, pod, workload or workload_of(pod, self._replica_sets))
            if self._measured:
                self._own[slot] = np.nan
                self._measure((uid,))
        self._bound_at[slot] = bound_at
        self._touch(slot)

    def _expect(self, uid: str, pod: Pod, workload: WorkloadKey | None) -> None:
        """Note a pod, of which workload it is, and what is expected of it."""
        slot = self._slot_of[uid]
        self._pods[uid] = (pod, workload)
        self._expected[slot], self._by_history[slot] = self._expectation(pod, workload)
        if workload is not None:
            self._unowned.pop(uid, None)
            self._of_workload[workload].add(slot)
        elif pod.meta.owner_references:
            self._unowned[uid] = None

    def _expectation(self, pod: Pod, workload: WorkloadKey | None) -> tuple[Figures, bool]:
        """Give what is expected of a pod (W x R, or R for all windows), and whether by its history."""
        estimate = np.array(self._estimate(pod))
        known = self._history_of(workload) if self._history and workload is not None else None
        return (estimate, False) if known is None else (np.where(np.isnan(known), estimate, known), True)

    def _history_of(self, key: WorkloadKey) -> Figures | None:
        known = self._histories.get(key)
        if known is None:
            usage = self._measurements.uses.workloads.get(key)
            if usage is None:
                return None
            known = self._histories[key] = mean_use(usage)
        return known

    def _sum(self, rows: Rows) -> None:
        if len(rows) <= _FEW:
            names = (self._columns.nodes[row].name for row in rows)
            there = [slot for name in names for slot in self._on_node.get(name, {}).values()]
            slots = np.array(there, np.intp)
        else:
            wanted = np.zeros(len(self._stale), np.bool_)
            wanted[rows] = True
            slots = np.flatnonzero((self._row >= 0) & wanted[self._row])
        at = self._row[slots]
        counted = self._rule(
            Slots(
                bound_at=self._bound_at[slots],
                sampled_at=self._sampled_at[at],
                expected=self._filled(slots),
                by_history=self._by_history[slots],
                own=self._own[slots],
                own_at=self._own_at[slots],
            )
        )
        places = np.searchsorted(rows, at)
        for window, resource in np.ndindex(_SHAPE):
            self._sums[window, resource, rows] = np.bincount(
                places, counted[:, window, resource], minlength=len(rows)
            )

    def _filled(self, slots: Rows) -> Figures:
        """Give what is expected, by default where nothing tells."""
        expected = self._expected[slots]
        defaults = self._defaults[:, self._row[slots]].T[:, np.newaxis, :]
        return np.where(np.isnan(expected), defaults, expected)

    def _touch(self, slot: int) -> None:
        """Have the node of a pod summed again."""
        row = int(self._row[slot])
        if row >= 0:
            self._stale[row] = True

    def _more_slots(self) -> int:
        """Double the slots; gives a free one."""
        size = len(self._row)
        more = max(size, 64)
        self._row = np.concatenate((self._row, np.full(more, _NOWHERE, np.intp)))
        self._bound_at = np.concatenate((self._bound_at, np.zeros(more)))
        self._expected = np.concatenate((self._expected, np.zeros((more, *_SHAPE))))
        self._by_history = np.concatenate((self._by_history, np.zeros(more, np.bool_)))
        self._own = np.concatenate((self._own, np.zeros((more, *_SHAPE))))
        self._own_at = np.concatenate((self._own_at, np.zeros(more)))
        self._free.extend(range(size + 1, size + more))
        return size

    def _reach(self, count: int) -> None:
        """Have room for so many rows."""
        missing = count - len(self._stale)
        if missing > 0:
            more = max(64, len(self._stale), missing)
            self._stale = np.concatenate((self._stale, np.ones(more, np.bool_)))
            self._sampled_at = np.concatenate((self._sampled_at, np.zeros(more)))
            self._sums = np.concatenate((self._sums, np.zeros((*_SHAPE, more))), axis=2)
            self._defaults = np.concatenate((self._defaults, np.zeros((len(RESOURCES), more))), axis=1)
