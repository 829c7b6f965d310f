"""The expected use of the pods on each node, which follows arrivals and departures at once.

Every placed pod has a slot, and so has the awaited owner of every reservation with capacity.
Use is W x R (windows, resources) in the units of `tidelock.model.quantities`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from tidelock.cluster.cache import CacheObserver
from tidelock.cluster.columns import Columns, Rows
from tidelock.cluster.lister import Lister
from tidelock.cluster.placed import Placed
from tidelock.cluster.usage.levels import UNITS, LevelArray, bridged, mean_use, means
from tidelock.cluster.usage.measurements import Measurements
from tidelock.cluster.usage.sums import SHAPE, Slots, Sums, UseRule
from tidelock.cluster.workloads import workload_of
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.usage_annotations import WorkloadKey
from tidelock.model.workloads import Workload

UseEstimate = Callable[[Pod], Sequence[float]]
"""Returns the expected cpu and memory of a pod in units, or NaN if they are unknown."""

# Up to this many nodes are summed by looking at their own pods, more of them by looking at all.
_FEW = 32
_SLICE = 500
_NODES_A_SLICE = 32
_NOWHERE = -1


class ExpectedUse(CacheObserver):
    """The slots, and their sums by node that are in use."""

    def __init__(
        self,
        columns: Columns,
        replica_sets: Lister[Workload],
        measurements: Measurements,
        *,
        estimate: UseEstimate,
        history: bool = True,
        measured: bool = False,
        among: Callable[[Pod], bool] | None = None,
    ) -> None:
        """Begin without pods.

        `history` is whether that of the workload precedes the estimate of a pod, `measured` whether any rule
        looks at a pod's own use. `among` selects the pods that count. By default all do.
        """
        self._columns = columns
        self._replica_sets = replica_sets
        self._measurements = measurements
        self._estimate = estimate
        self._history = history
        self._measured = measured
        self._among = among
        self._histories: dict[WorkloadKey, LevelArray] = {}
        self._slot_of: dict[str, int] = {}
        self._pods: dict[str, tuple[Pod, WorkloadKey | None]] = {}
        self._of_workload: defaultdict[WorkloadKey, set[int]] = defaultdict(set)
        self._unowned: dict[str, None] = {}  # pods with an unknown workload
        self._node_of: dict[str, str] = {}
        self._on_node: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._free: list[int] = []
        self._row = np.zeros(0, np.intp)
        self._slots = Slots(np.zeros((0, Slots.WIDTH)), np.zeros(0))
        self._sums: list[Sums] = []
        measurements.read_by(self)

    def expected(self, pod: Pod) -> LevelArray:
        """Return the expected use of an unplaced pod, or NaN if it is unknown."""
        return self._expectation(pod, workload_of(pod, self._replica_sets))[0]

    def bound_at(self) -> tuple[Rows, LevelArray]:
        """Yield the row and the time of binding of every pod on a known node."""
        there = np.flatnonzero(self._row >= 0)
        return self._row[there], self._slots.bound_at[there]

    def use_of(self, uid: str, defaults: LevelArray) -> tuple[int, LevelArray] | None:
        """Return the row and the expected use of a pod or reservation, or None if it is on no known node."""
        slot = self._slot_of.get(uid)
        if slot is None or self._row[slot] < 0:
            return None
        laid_out, (row,) = self.lay_out(np.array([slot]), np.zeros(len(self._columns)), defaults)
        return int(row), laid_out.expected[0]

    def summed(self, rule: UseRule) -> Sums:
        """Return sums by node of the use that counts by a rule."""
        sums = Sums(self._columns, self, rule)
        self._sums.append(sums)
        return sums

    def slots_on(self, rows: Rows) -> Rows:
        """Return the slots of all pods of some nodes."""
        if len(rows) <= _FEW:
            names = [self._columns.nodes[row].name for row in rows.tolist()]
            there = [slot for name in names for slot in self._on_node.get(name, {}).values()]
            return np.array(there, np.intp)
        wanted = np.zeros(len(self._columns), np.bool_)
        wanted[rows] = True
        return np.flatnonzero((self._row >= 0) & wanted[self._row])

    def lay_out(self, slots: Rows, sampled_at: LevelArray, defaults: LevelArray) -> tuple[Slots, Rows]:
        """Return the data of some pods, and the rows of their nodes."""
        at = self._row[slots]
        laid_out = Slots(self._slots.figures[slots], sampled_at[at])
        unknown = np.isnan(laid_out.expected)
        if unknown.any():
            np.copyto(laid_out.expected, defaults[:, at].T[:, np.newaxis], where=unknown)
        return laid_out, at

    # Changes of the cache.

    def put_node(self, row: int, old: Node | None, new: Node) -> None:
        """Count the pods that were there before their node was known."""
        if old is None:
            self._row[list(self._on_node.get(new.name, {}).values())] = row
            self._touch(row)

    def drop_node(self, row: int, end: int) -> None:
        """Follow the last row to where a node has gone."""
        self._row[self._row == row] = _NOWHERE
        self._row[self._row == end] = row
        self._touch(row)
        self._touch(end)

    def place(self, placed: Placed) -> None:
        """Count a pod, by the true time of its binding once that is known."""
        bound_at = np.inf if placed.assumed else placed.pod.bound_at
        self._put(placed.pod, placed.node_name, bound_at, None)

    def displace(self, placed: Placed) -> None:
        """Count a pod no longer."""
        self.release(placed.pod.uid)

    def hold(self, pod: Pod, node_name: str, workload: WorkloadKey | None) -> None:
        """Count the awaited owner of a reservation."""
        self.release(pod.uid)  # its amounts may have changed
        self._put(pod, node_name, np.inf, workload)

    def release(self, uid: str) -> None:
        """Stop counting a pod or reservation, if it counts."""
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
        self._touch(int(self._row[slot]))
        self._row[slot] = _NOWHERE
        self._free.append(slot)

    # Readings of the load layer.

    def remeasure(self) -> Iterator[None]:
        """Take over the newest reading: in slices, at the end of which the sums of some nodes are new."""
        self._histories.clear()
        if self._history:
            yield from self._expect_anew()
        for sums in self._sums:
            sums.begin_reading()
        names = tuple(self._on_node)
        row_of = self._columns.row_of
        for start in range(0, len(names), _NODES_A_SLICE):
            part = names[start : start + _NODES_A_SLICE]
            if self._measured:
                self._measure([pod for name in part for pod in self._on_node.get(name, {}).items()])
            rows = np.array(sorted(row_of[name] for name in part if name in row_of), np.intp)
            for sums in self._sums:
                sums.look_again(rows)
            yield

    def _expect_anew(self) -> Iterator[None]:
        for number, uid in enumerate(tuple(self._unowned)):
            if uid in self._unowned:
                pod, _ = self._pods[uid]
                self._expect(uid, pod, workload_of(pod, self._replica_sets))
            if number % _SLICE == _SLICE - 1:
                yield
        keys = tuple(self._of_workload)
        for start in range(0, len(keys), _SLICE):
            self._remember(keys[start : start + _SLICE])
            yield

    def _remember(self, keys: Sequence[WorkloadKey]) -> None:
        """Expect the newest history of some workloads from their pods."""
        histories = self._measurements.uses.workloads
        slots: list[int] = []
        counts: list[int] = []
        figures: list[Sequence[float]] = []
        for key in keys:
            there, usage = self._of_workload.get(key), histories.get(key)
            if there and usage is not None:
                slots += there
                counts.append(len(there))
                figures.append(means(usage))
        if slots:
            known = np.repeat(np.array(figures).reshape(-1, *SHAPE) * UNITS, counts, axis=0)
            # Values that the history lacks stay as they were.
            self._slots.expected[slots] = np.where(np.isnan(known), self._slots.expected[slots], known)
            self._slots.by_history[slots] = 1.0

    def _measure(self, pods: Iterable[tuple[str, int]]) -> None:
        """Update the own use of some pods, by UID and slot."""
        uses = self._measurements.uses.pods
        there = [(slot, use.at, use.means) for uid, slot in pods if (use := uses.get(uid)) is not None]
        if there:
            slots, at, figures = map(list, zip(*there, strict=True))
            self._slots.own[slots] = bridged(np.array(figures).reshape(-1, *SHAPE)) * UNITS
            self._slots.own_at[slots] = at

    # Inside.

    def _put(self, pod: Pod, node_name: str, bound_at: float, workload: WorkloadKey | None) -> None:
        if self._among is not None and not self._among(pod):
            return
        uid = pod.uid
        slot = self._slot_of.get(uid)
        is_new = slot is None
        if slot is None:
            slot = self._free.pop() if self._free else self._more_slots()
            self._slot_of[uid] = slot
            self._node_of[uid] = node_name
            self._on_node[node_name][uid] = slot
            self._row[slot] = self._columns.row_of.get(node_name, _NOWHERE)
            self._expect(uid, pod, workload or workload_of(pod, self._replica_sets))
            if self._measured:
                self._slots.own[slot] = np.nan
                self._measure(((uid, slot),))
        self._slots.bound_at[slot] = bound_at
        row = int(self._row[slot])
        if is_new and bound_at == np.inf and uid not in self._measurements.uses.pods and row >= 0:
            for sums in self._sums:
                sums.add(row, self._slots.expected[slot])
        else:
            self._touch(row)

    def _expect(self, uid: str, pod: Pod, workload: WorkloadKey | None) -> None:
        """Note a pod, its workload and its expected use."""
        slot = self._slot_of[uid]
        self._pods[uid] = (pod, workload)
        self._slots.expected[slot], self._slots.by_history[slot] = self._expectation(pod, workload)
        if workload is not None:
            self._unowned.pop(uid, None)
            self._of_workload[workload].add(slot)
        elif pod.meta.owner_references:
            self._unowned[uid] = None

    def _expectation(self, pod: Pod, workload: WorkloadKey | None) -> tuple[LevelArray, bool]:
        """Return the expected use of a pod (W x R, or R for all windows), and whether it is history."""
        estimate = np.array(self._estimate(pod))
        known = self._history_of(workload) if self._history and workload is not None else None
        return (estimate, False) if known is None else (np.where(np.isnan(known), estimate, known), True)

    def _history_of(self, key: WorkloadKey) -> LevelArray | None:
        known = self._histories.get(key)
        if known is None:
            usage = self._measurements.uses.workloads.get(key)
            if usage is None:
                return None
            known = self._histories[key] = mean_use(usage)
        return known

    def _touch(self, row: int) -> None:
        """Sum a node again, if it is known."""
        if row >= 0:
            for sums in self._sums:
                sums.touch(row)

    def _more_slots(self) -> int:
        """Double the slots. Return a free one."""
        size = len(self._row)
        more = max(size, 64)
        self._row = np.concatenate((self._row, np.full(more, _NOWHERE, np.intp)))
        figures = np.concatenate((self._slots.figures, np.zeros((more, Slots.WIDTH))))
        self._slots = Slots(figures, np.zeros(0))
        self._free.extend(range(size + 1, size + more))
        return size
