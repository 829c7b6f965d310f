"""The nodes with their capacity, and the pods that use it.

The life of a pod here:

    (absent) --assume--> assumed --upsert(bound)--> bound --remove, finished--> (absent)
        |                   |                         ^
        |                   +--forget--> (absent)     |
        +-----------------upsert(bound)---------------+

Every call states the present state and can be repeated: events may come twice, late or in another order.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from functools import partial

from tidelock.cluster.arrays import Counts
from tidelock.cluster.columns import Columns
from tidelock.cluster.index.images import Images
from tidelock.cluster.index.pod_counts import PodCountQuery, PodCounts
from tidelock.cluster.node_totals import NodeTotals
from tidelock.cluster.nominator import Nominator
from tidelock.cluster.placed import Placed, PodMove
from tidelock.cluster.reserve_pods import ReservePods
from tidelock.cluster.rollback import apply_all, undone_on_failure
from tidelock.cluster.snapshot import Snapshot
from tidelock.model.failures import StateLostError
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod


class CacheObserver:
    """Keeps its own data by the rows of the columns. Each method is called after a change of the cache."""

    def put_node(self, row: int, old: Node | None, new: Node) -> None:
        """Add the node of a row, or update it."""

    def drop_node(self, row: int, end: int) -> None:
        """Forget the node of a row. The node of the last row, `end`, takes its place."""

    def place(self, placed: Placed) -> None:
        """Add a pod to a node, or update it, such as when its binding was seen."""

    def displace(self, placed: Placed) -> None:
        """Remove a pod from its node."""


class Cache:
    """The nodes and the pods on them, with everything that is counted by the rows of the columns.

    Attributes:
        nominator: nominated pods. A nomination ends when the pod is placed.
        reserve_pods: reserve pods, which count as neighbours of pods and use no capacity.
        evicting: UIDs of pods whose eviction was decided and has not failed, until they are gone.

    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.images = Images()
        self._totals = totals = NodeTotals(columns)
        self.ports, self.pod_counts = totals.ports, totals.pod_counts
        self.affinity_terms = totals.affinity_terms
        self.nominator = Nominator(columns)
        self.evicting: set[str] = set()
        self._snapshot: tuple[int, Snapshot] | None = None
        self._changes = 0
        self._changed_at: dict[str, int] = {}
        self._placed: dict[str, Placed] = {}
        self._on_node: defaultdict[str, dict[str, Placed]] = defaultdict(dict)
        self._in_namespace: defaultdict[str, dict[str, Placed]] = defaultdict(dict)
        self._by_key: dict[Key, Placed] = {}
        self.reserve_pods = ReservePods(columns, self.affinity_terms, self.ports)
        self._listeners: list[PodMove] = []
        self._observers: list[CacheObserver] = []
        self._followers: list[PodMove] = [_follower(self.pod_counts)]
        # The followers know pods, and not only their totals.
        self._parts: tuple[PodMove, ...] = (
            self._list,
            partial(apply_all, self._followers),
            *totals.parts,
            partial(apply_all, self._listeners),
        )

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the columns. The same one serves until nodes change."""
        version = self.columns.version
        if self._snapshot is None or self._snapshot[0] != version:
            self._snapshot = version, Snapshot.of(self.columns)
        return self._snapshot[1]

    def on_move(self, listener: PodMove) -> None:
        """Call a function with each placed pod, and then with each pod that comes or leaves."""
        self._listeners.append(listener)
        for placed in self._placed.values():
            listener(placed, 1)

    def add_observer(self, observer: CacheObserver) -> None:
        """Pass all nodes and pods to an observer, and then all changes."""
        self._observers.append(observer)
        self._followers.append(_follower(observer))
        for row, node in enumerate(self.columns.nodes):
            observer.put_node(row, None, node)
        for placed in self._placed.values():
            observer.place(placed)

    def assume(self, pod: Pod, node_name: str, now: float = 0.0) -> None:
        """Count a pod on a node before the API server knows of it."""
        self._place(Placed(pod, node_name, assumed=True, since=now))

    def forget(self, uid: str) -> bool:
        """Undo `assume`. Return False, and change nothing, if the pod's binding was seen."""
        placed = self._placed.get(uid)
        if placed is None or not placed.assumed:
            return False
        apply_all(self._parts, placed, -1)
        return True

    def upsert(self, pod: Pod) -> None:
        """Add or update a pod as the API server has it. An assumed pod stays until it is seen bound."""
        if pod.leaving:
            self.nominator.remove(pod.uid)
        placed = self._placed.get(pod.uid)
        if pod.node_name and not pod.finished:
            self._place(Placed(pod, pod.node_name, assumed=False))
        elif placed is not None and (pod.finished or not placed.assumed):
            apply_all(self._parts, placed, -1)

    def remove(self, uid: str) -> None:
        """Remove a pod that is gone."""
        self.nominator.remove(uid)
        self.evicting.discard(uid)
        placed = self._placed.get(uid)
        if placed is not None:
            apply_all(self._parts, placed, -1)

    def put_node(self, node: Node) -> None:
        """Add or update a node, with the pods that were seen on it before the node was."""
        known = self.columns.row_of.get(node.name)
        old = None if known is None else self.columns.nodes[known]
        with undone_on_failure() as undo:
            # First, as a node that is known in part would never get its pods.
            undo(lambda: self.columns.drop(node.name) if old is None else self.columns.put(old))
            row = self.columns.put(node)
            self.images.put(old, node, row)
            undo(lambda: self.images.drop(node, row) if old is None else self.images.put(node, old, row))
            for observer in self._observers:
                observer.put_node(row, old, node)
                undo(partial(_put_back, observer, row, node, old))
            if old is None:
                self._count_node(node.name, 1, undo)

    def drop_node(self, name: str) -> None:
        """Remove a node. Its pods are kept in case it comes back.

        Raises:
            StateLostError: the removal failed and could not be undone.

        """
        row = self.columns.row_of.get(name)
        if row is None:
            return
        node, last = self.columns.nodes[row], self.columns.nodes[-1]
        with undone_on_failure() as undo:
            self.images.drop(node, row)
            undo(lambda: self.images.put(None, node, row))
            self._count_node(name, -1, undo)
        try:
            self._give_up_row(row, node, last)
        except Exception as error:
            raise StateLostError(f"node {name} can't be taken out of the columns: {error}") from error

    def _give_up_row(self, row: int, node: Node, last: Node) -> None:
        """Free the row of a node without counted pods. The last row takes its place."""
        self.columns.drop(node.name)
        if last is not node:  # it has moved to the free row
            end = len(self.columns)
            self.images.move(last, end, to=row)
            for placed in self._on_node.get(last.name, {}).values():
                self.ports.remove(placed.pod.host_ports, end)
                self.ports.add(placed.pod.host_ports, row)
            self.pod_counts.move(end, row)
            self.affinity_terms.move(end, row)
            self.reserve_pods.move(last.name, end, row)
        for observer in self._observers:
            observer.drop_node(row, len(self.columns))

    def get(self, uid: str) -> Placed | None:
        """Return a placed pod, or None."""
        return self._placed.get(uid)

    def named(self, key: Key) -> Placed | None:
        """Return the placed pod of a name, or None."""
        return self._by_key.get(key)

    def pods_on(self, node_name: str) -> Collection[Placed]:
        """Return the pods on a node."""
        return self._on_node[node_name].values() if node_name in self._on_node else ()

    def neighbours(self, query: PodCountQuery) -> Counts:
        """Return the number of a query's pods and reserve pods on each node. The array must not be kept."""
        counts = self.pod_counts.of(query)
        return counts + self.reserve_pods.pod_counts.of(query) if self.reserve_pods else counts

    def generations(self, node_names: Iterable[str]) -> list[int]:
        """Return a number for each node that changes whenever its pods do.

        Nodes never share a number, except 0 for nodes that never had a pod.
        """
        changed_at = self._changed_at
        return [changed_at.get(name, 0) for name in node_names]

    def pods_in(self, namespace: str) -> Collection[Placed]:
        """Return the placed pods of a namespace."""
        return self._in_namespace[namespace].values() if namespace in self._in_namespace else ()

    def __len__(self) -> int:
        return len(self._placed)

    def _place(self, placed: Placed) -> None:
        self.nominator.remove(placed.pod.uid, placed_on=placed.node_name)
        earlier = self._placed.get(placed.pod.uid)
        if earlier is not None:
            if _counts_as(earlier) == _counts_as(placed):
                self._update(earlier, placed)
                return
            apply_all(self._parts, earlier, -1)
        try:
            apply_all(self._parts, placed, 1)
        except Exception:
            if earlier is not None:
                apply_all(self._parts, earlier, 1)
            raise

    def _update(self, earlier: Placed, placed: Placed) -> None:
        """Replace a pod by a version that counts the same. If an observer fails, all know the earlier one."""
        with undone_on_failure() as undo:
            undo(partial(self._note, earlier))
            self._note(placed)
            for follow in self._followers:
                undo(partial(follow, earlier, 1))
                follow(placed, 1)

    def _list(self, placed: Placed, sign: int) -> None:
        """List a pod under its names, or stop to."""
        if sign > 0:
            self._note(placed)
            return
        uid, key = placed.pod.uid, placed.pod.key
        namespace = key.namespace
        self._changes += 1
        self._changed_at[placed.node_name] = self._changes
        del self._placed[uid]
        del self._on_node[placed.node_name][uid]
        del self._in_namespace[namespace][uid]
        if (named := self._by_key.get(key)) is not None and named.pod.uid == uid:
            del self._by_key[key]
        if not self._in_namespace[namespace]:
            del self._in_namespace[namespace]
        if not self._on_node[placed.node_name]:
            del self._on_node[placed.node_name]

    def _note(self, placed: Placed) -> None:
        uid, key = placed.pod.uid, placed.pod.key
        self._changes += 1
        self._changed_at[placed.node_name] = self._changes
        self._placed[uid] = placed
        self._on_node[placed.node_name][uid] = placed
        self._in_namespace[key.namespace][uid] = placed
        self._by_key[key] = placed

    def _count_node(self, name: str, sign: int, undo: Callable[[Callable[[], object]], None]) -> None:
        """Add the pods and reserve pods of a node to its totals, or subtract them."""
        parts = self._totals.parts
        for placed in self._on_node.get(name, {}).values():
            apply_all(parts, placed, sign)
            undo(partial(apply_all, parts, placed, -sign))
        self.reserve_pods.count_node(name, sign)


def _follower(observer: CacheObserver | PodCounts) -> PodMove:
    """Return a function that passes a pod on to an observer, as one that came (sign 1) or left (-1)."""
    return lambda placed, sign: observer.place(placed) if sign > 0 else observer.displace(placed)


def _put_back(observer: CacheObserver, row: int, node: Node, old: Node | None) -> None:
    """Restore the older version of a node for an observer, or remove a node that is in the last row."""
    if old is None:
        observer.drop_node(row, row)
    else:
        observer.put_node(row, node, old)


def _counts_as(placed: Placed) -> tuple[object, ...]:
    """Return everything by which a pod counts on its node: its requests, and its labels and terms."""
    pod = placed.pod
    return (
        placed.node_name,
        pod.requests,
        pod.nonzero,
        pod.meta.labels,
        pod.meta.deletion_timestamp,
        pod.spec.affinity,
        pod.host_ports,
        pod.meta.unreadable,
    )
