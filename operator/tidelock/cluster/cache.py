"""The pods that take room, and the nodes that give it.

The life of a pod here:

    (absent) --assume--> assumed --upsert(bound)--> bound --remove, finished--> (absent)
        |                   |                         ^
        |                   +--forget--> (absent)     |
        +-----------------upsert(bound)---------------+

Every call states what is true now and is safe to repeat: events may come twice, late or in another order.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial

from tidelock.cluster.columns import Columns
from tidelock.cluster.index.affinity_terms import AffinityTerms
from tidelock.cluster.index.images import Images
from tidelock.cluster.index.pod_counts import PodCountQuery, PodCounts
from tidelock.cluster.index.ports import Ports
from tidelock.cluster.index.row_counts import Counts
from tidelock.cluster.nominator import Nominator
from tidelock.cluster.reserve_pods import ReservePods
from tidelock.cluster.rollback import apply_all, undone_on_failure
from tidelock.cluster.snapshot import Snapshot
from tidelock.model.failures import StateLostError
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod on a node, which is assumed, `since` an instant, until the API server has shown the binding."""

    pod: Pod
    node_name: str
    assumed: bool
    since: float = 0.0


PodMove = Callable[[Placed, int], None]
"""Called with a pod that has come to a node (1) or has left it (-1)."""


class Follower:
    """Keeps something by the rows of the columns; each method is called after the cache has changed."""

    def put_node(self, row: int, old: Node | None, new: Node) -> None:
        """Take over a node that has come to this row, or is another there than it was."""

    def drop_node(self, row: int, end: int) -> None:
        """Forget the node of a row; that of the last row, `end`, has its place, if it is not the same."""

    def place(self, placed: Placed) -> None:
        """Take over a pod that has come to a node, or is another there, as when its binding was seen."""

    def displace(self, placed: Placed) -> None:
        """Forget a pod that has left its node."""


class Cache:
    """Who is where; keeps the columns in step, and all that is counted by their rows.

    Attributes:
        nominator: who is nominated where, which ends when a pod is placed.
        reserve_pods: the reserve pods of locks, which count as neighbours of pods, and take nothing.
        evicting: uids of pods whose eviction is decided and has not failed, until they are gone.

    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.images = Images()
        self.ports = Ports()
        self.nominator = Nominator(columns)
        self.evicting: set[str] = set()
        self._snapshot: tuple[int, Snapshot] | None = None
        self._changes = 0
        self._changed_at: dict[str, int] = {}
        self._placed: dict[str, Placed] = {}
        self._on_node: defaultdict[str, dict[str, Placed]] = defaultdict(dict)
        self._in_namespace: defaultdict[str, dict[str, Placed]] = defaultdict(dict)
        self._by_key: dict[Key, Placed] = {}
        self.pod_counts = PodCounts(columns)
        self.affinity_terms = AffinityTerms(columns)
        self.reserve_pods = ReservePods(columns, self.affinity_terms, self.ports)
        self._listeners: list[PodMove] = []
        self._followers: list[Follower] = []
        self._parts: tuple[PodMove, ...] = (
            *(self._list, self._follow, self._request, self._tally, self._carry, self._open, self._moved),
        )

    def snapshot(self) -> Snapshot:
        """View the columns as they are now; one snapshot serves as long as only what is taken changes."""
        version = self.columns.version
        if self._snapshot is None or self._snapshot[0] != version:
            self._snapshot = version, Snapshot.of(self.columns)
        return self._snapshot[1]

    def on_move(self, listener: PodMove) -> None:
        """Have a function called with each pod that is placed already, and then with each that moves."""
        self._listeners.append(listener)
        for placed in self._placed.values():
            listener(placed, 1)

    def follow(self, follower: Follower) -> None:
        """Tell a follower all that is there, and then all that changes."""
        self._followers.append(follower)
        for row, node in enumerate(self.columns.nodes):
            follower.put_node(row, None, node)
        for placed in self._placed.values():
            follower.place(placed)

    def assume(self, pod: Pod, node_name: str, now: float = 0.0) -> None:
        """Count a pod on a node before the API server knows."""
        self._place(Placed(pod, node_name, assumed=True, since=now))

    def forget(self, uid: str) -> bool:
        """Undo assume; a pod whose binding has been seen stays, and the answer is False."""
        placed = self._placed.get(uid)
        if placed is None or not placed.assumed:
            return False
        self._displace(placed)
        return True

    def upsert(self, pod: Pod) -> None:
        """Take over what the API server says of a pod; an assumed pod stays until it is seen bound."""
        if pod.leaving:
            self.nominator.remove(pod.uid)
        placed = self._placed.get(pod.uid)
        if pod.node_name and not pod.finished:
            self._place(Placed(pod, pod.node_name, assumed=False))
        elif placed is not None and (pod.finished or not placed.assumed):
            self._displace(placed)

    def remove(self, uid: str) -> None:
        """Drop a pod that is no more."""
        self.nominator.remove(uid)
        self.evicting.discard(uid)
        placed = self._placed.get(uid)
        if placed is not None:
            self._displace(placed)

    def put_node(self, node: Node) -> None:
        """Add a node or its newer version, with the pods that were seen on it before it was."""
        known = self.columns.row_of.get(node.name)
        old = None if known is None else self.columns.nodes[known]
        with undone_on_failure() as undo:
            row = self.columns.put(node)
            undo(lambda: self.columns.drop(node.name) if old is None else self.columns.put(old))
            self.images.put(old, node, row)
            undo(lambda: self.images.drop(node, row) if old is None else self.images.put(node, old, row))
            for follower in self._followers:
                follower.put_node(row, old, node)
                undo(partial(_put_back, follower, row, node, old))
            if old is None:
                self._count_node(node.name, 1, undo)

    def drop_node(self, name: str) -> None:
        """Take a node away; its pods are kept in mind in case it comes back.

        Raises:
            StateLostError: that failed when it could not be undone any more.

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
        """Free the row of a node of which nothing is counted any more; the last row takes its place."""
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
        for follower in self._followers:
            follower.drop_node(row, len(self.columns))

    def get(self, uid: str) -> Placed | None:
        """Where a pod is, or None."""
        return self._placed.get(uid)

    def named(self, key: Key) -> Placed | None:
        """Where the pod of this namespace and name is, or None."""
        return self._by_key.get(key)

    def pods_on(self, node_name: str) -> Collection[Placed]:
        """All pods that are placed on a node."""
        return self._on_node[node_name].values() if node_name in self._on_node else ()

    def neighbours(self, query: PodCountQuery) -> Counts:
        """Count the pods of a query on each node, and the reserve pods; the array is not to be kept."""
        counts = self.pod_counts.of(query)
        return counts + self.reserve_pods.pod_counts.of(query) if self.reserve_pods else counts

    def generations(self, node_names: Iterable[str]) -> list[int]:
        """Give for each node a number that is another one whenever the pods there have changed.

        No two nodes share one, but for 0: no pod was ever there.
        """
        changed_at = self._changed_at
        return [changed_at.get(name, 0) for name in node_names]

    def pods_in(self, namespace: str) -> Collection[Placed]:
        """All placed pods of a namespace."""
        return self._in_namespace[namespace].values() if namespace in self._in_namespace else ()

    def __len__(self) -> int:
        return len(self._placed)

    def _place(self, placed: Placed) -> None:
        self.nominator.remove(placed.pod.uid, placed_on=placed.node_name)
        earlier = self._placed.get(placed.pod.uid)
        if earlier is not None:
            if _counts_as(earlier) == _counts_as(placed):
                self._index(placed)
                return
            self._displace(earlier)
        try:
            apply_all(self._parts, placed, 1)
        except Exception:
            if earlier is not None:
                apply_all(self._parts, earlier, 1)
            raise

    def _displace(self, placed: Placed) -> None:
        apply_all(self._parts, placed, -1)

    def _index(self, placed: Placed) -> None:
        """Take over a pod that counts as before."""
        self._note(placed)
        self._follow(placed, 1)

    def _list(self, placed: Placed, sign: int) -> None:
        """Know a pod by its names, or no more."""
        if sign > 0:
            self._note(placed)
        else:
            self._unlist(placed)

    def _note(self, placed: Placed) -> None:
        uid = placed.pod.uid
        self._note_change(placed.node_name)
        self._placed[uid] = placed
        self._on_node[placed.node_name][uid] = placed
        self._in_namespace[placed.pod.meta.namespace][uid] = placed
        self._by_key[placed.pod.key] = placed

    def _follow(self, placed: Placed, sign: int) -> None:
        """Tell those that know pods."""
        if sign > 0:
            self.pod_counts.place(placed)
            for follower in self._followers:
                follower.place(placed)
        else:
            self.pod_counts.displace(placed)
            for follower in self._followers:
                follower.displace(placed)

    def _unlist(self, placed: Placed) -> None:
        uid, namespace = placed.pod.uid, placed.pod.meta.namespace
        self._note_change(placed.node_name)
        del self._placed[uid]
        del self._on_node[placed.node_name][uid]
        del self._in_namespace[namespace][uid]
        if (named := self._by_key.get(placed.pod.key)) is not None and named.pod.uid == uid:
            del self._by_key[placed.pod.key]
        if not self._in_namespace[namespace]:
            del self._in_namespace[namespace]
        if not self._on_node[placed.node_name]:
            del self._on_node[placed.node_name]

    def _moved(self, placed: Placed, sign: int) -> None:
        for listener in self._listeners:
            listener(placed, sign)

    def _note_change(self, node_name: str) -> None:
        self._changes += 1
        self._changed_at[node_name] = self._changes

    def _count_node(self, name: str, sign: int, undo: Callable[[Callable[[], object]], None]) -> None:
        """Count the pods of a node, and the reserve pods there, or no longer."""
        parts = (self._request, self._tally, self._carry, self._open)
        for placed in self._on_node.get(name, {}).values():
            apply_all(parts, placed, sign)
            undo(partial(apply_all, parts, placed, -sign))
        self.reserve_pods.count_node(name, sign)

    def _request(self, placed: Placed, sign: int) -> None:
        self.columns.request(placed.node_name, placed.pod.requests, placed.pod.nonzero, sign)

    def _tally(self, placed: Placed, sign: int) -> None:
        row = self.columns.row_of.get(placed.node_name)
        if row is not None:
            self.pod_counts.count(placed.pod, row, sign)

    def _carry(self, placed: Placed, sign: int) -> None:
        row = self.columns.row_of.get(placed.node_name)
        if row is not None:
            self.affinity_terms.count(placed.pod, row, sign)

    def _open(self, placed: Placed, sign: int) -> None:
        row, ports = self.columns.row_of.get(placed.node_name), placed.pod.host_ports
        if row is not None and ports:
            (self.ports.add if sign > 0 else self.ports.remove)(ports, row)


def _put_back(follower: Follower, row: int, node: Node, old: Node | None) -> None:
    """Have a follower forget a node that is in the last row, or know its older version."""
    if old is None:
        follower.drop_node(row, row)
    else:
        follower.put_node(row, node, old)


def _counts_as(placed: Placed) -> tuple[object, ...]:
    """Give all that counts of a pod on its node: what it takes, and as what it is a neighbour."""
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
