"""The pods that take room, and the nodes that give it.

The life of a pod here:

    (absent) --assume--> assumed --upsert(bound)--> bound --remove, finished--> (absent)
        |                   |                         ^
        |                   +--forget--> (absent)     |
        +-----------------upsert(bound)---------------+

Every call states what is true now and is safe to repeat: events may come twice, late or in another order.
"""

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass

from tidelock.cluster.columns import Columns
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod on a node, which is assumed until the API server has shown the binding."""

    pod: Pod
    node_name: str
    assumed: bool


Move = Callable[[Placed, int], None]
"""Called with a pod that has come to a node (1) or has left it (-1)."""


class Cache:
    """Who is where; keeps the columns in step."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._placed: dict[str, Placed] = {}
        self._on_node: defaultdict[str, dict[str, Placed]] = defaultdict(dict)
        self._in_namespace: defaultdict[str, dict[str, Placed]] = defaultdict(dict)
        self._by_key: dict[Key, Placed] = {}
        self._listeners: list[Move] = []

    def on_move(self, listener: Move) -> None:
        """Have a function called with each pod that is placed already, and then with each that moves."""
        self._listeners.append(listener)
        for placed in self._placed.values():
            listener(placed, 1)

    def assume(self, pod: Pod, node_name: str) -> None:
        """Count a pod on a node before the API server knows."""
        self._place(Placed(pod, node_name, assumed=True))

    def forget(self, uid: str) -> bool:
        """Undo assume; a pod whose binding has been seen stays, and the answer is False."""
        placed = self._placed.get(uid)
        if placed is None or not placed.assumed:
            return False
        self._displace(placed)
        return True

    def upsert(self, pod: Pod) -> None:
        """Take over what the API server says of a pod; an assumed pod stays until it is seen bound."""
        placed = self._placed.get(pod.uid)
        if pod.node_name and not pod.finished:
            self._place(Placed(pod, pod.node_name, assumed=False))
        elif placed is not None and (pod.finished or not placed.assumed):
            self._displace(placed)

    def remove(self, uid: str) -> None:
        """Drop a pod that is no more."""
        placed = self._placed.get(uid)
        if placed is not None:
            self._displace(placed)

    def put_node(self, node: Node) -> None:
        """Add a node or its newer version, with the pods that were seen on it before it was."""
        known = node.name in self.columns.row_of
        self.columns.put(node)
        if not known:
            for placed in self._on_node.get(node.name, {}).values():
                self._count(placed, 1)

    def drop_node(self, name: str) -> None:
        """Take a node away; its pods are kept in mind in case it comes back."""
        self.columns.drop(name)

    def get(self, uid: str) -> Placed | None:
        """Where a pod is, or None."""
        return self._placed.get(uid)

    def named(self, key: Key) -> Placed | None:
        """Where the pod of this namespace and name is, or None."""
        return self._by_key.get(key)

    def pods_in(self, namespace: str) -> Collection[Placed]:
        """All placed pods of a namespace."""
        return self._in_namespace[namespace].values() if namespace in self._in_namespace else ()

    def __len__(self) -> int:
        return len(self._placed)

    def _place(self, placed: Placed) -> None:
        earlier = self._placed.get(placed.pod.uid)
        if earlier is not None:
            if _takes(earlier) == _takes(placed):
                self._index(placed)
                return
            self._displace(earlier)
        self._index(placed)
        self._count(placed, 1)
        self._moved(placed, 1)

    def _index(self, placed: Placed) -> None:
        uid = placed.pod.uid
        self._placed[uid] = placed
        self._on_node[placed.node_name][uid] = placed
        self._in_namespace[placed.pod.meta.namespace][uid] = placed
        self._by_key[placed.pod.key] = placed

    def _displace(self, placed: Placed) -> None:
        uid, namespace = placed.pod.uid, placed.pod.meta.namespace
        del self._placed[uid]
        del self._on_node[placed.node_name][uid]
        del self._in_namespace[namespace][uid]
        if (named := self._by_key.get(placed.pod.key)) is not None and named.pod.uid == uid:
            del self._by_key[placed.pod.key]
        if not self._in_namespace[namespace]:
            del self._in_namespace[namespace]
        if not self._on_node[placed.node_name]:
            del self._on_node[placed.node_name]
        self._count(placed, -1)
        self._moved(placed, -1)

    def _moved(self, placed: Placed, sign: int) -> None:
        for listener in self._listeners:
            listener(placed, sign)

    def _count(self, placed: Placed, sign: int) -> None:
        self.columns.request(placed.node_name, placed.pod.requests, placed.pod.nonzero, sign)


def _takes(placed: Placed) -> tuple[object, ...]:
    return (placed.node_name, placed.pod.requests, placed.pod.nonzero)
