"""The reserve pods of reservations that wait for their owners, as neighbours of other pods.

On its node a reserve pod counts as its pod will: with its labels, its affinity terms and its host ports. Its
amounts count as held by the reservation. Counts of reserve pods are separate from those of pods, because an
affinity may require pods that are there.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from tidelock.cluster.columns import Columns
from tidelock.cluster.index.affinity_terms import AffinityTerms
from tidelock.cluster.index.pod_counts import PodCounts
from tidelock.cluster.index.ports import Ports
from tidelock.cluster.rollback import apply_all, undone_on_failure
from tidelock.model.pods import Pod
from tidelock.model.reserve_pod import ReservePod


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reserve pod on the node of its reservation."""

    pod: ReservePod
    node_name: str


class ReservePods:
    """The reserve pods on all nodes, including unknown ones.

    Args:
        columns: the rows by which they are counted.
        affinity_terms: the affinity terms of pods, to which those of reserve pods are added.
        ports: the host ports of pods, in the same way.

    Attributes:
        pod_counts: counts of reserve pods.

    """

    def __init__(self, columns: Columns, affinity_terms: AffinityTerms, ports: Ports) -> None:
        self._columns = columns
        self._affinity_terms = affinity_terms
        self._ports = ports
        self._placed: dict[str, Reserved] = {}
        self._on_node: defaultdict[str, dict[str, Reserved]] = defaultdict(dict)
        self.pod_counts = PodCounts(columns)

    def __bool__(self) -> bool:
        return bool(self._placed)

    def on(self, node_name: str) -> Iterable[ReservePod]:
        """Return the reserve pods that count on a node."""
        return [each.pod for each in self._on_node[node_name].values()] if node_name in self._on_node else ()

    def get(self, uid: str) -> Reserved | None:
        """Return the reserve pod of a reservation as it counts, or None."""
        return self._placed.get(uid)

    def put(self, pod: ReservePod, node_name: str) -> None:
        """Count a reserve pod on a node only, in its newest version."""
        known = self._placed.get(pod.uid)
        if known is not None:
            if known.node_name == node_name and counts_as(known.pod) == counts_as(pod):
                return
            self.discard(pod.uid)
        placed = Reserved(pod, node_name)
        apply_all((self._count, self._list), placed, 1)

    def discard(self, uid: str) -> None:
        """Stop counting a reserve pod, if it counts."""
        placed = self._placed.get(uid)
        if placed is not None:
            apply_all((self._count, self._list), placed, -1)

    def count_node(self, node_name: str, sign: int) -> None:
        """Count the reserve pods of a node that has come to be known (sign 1), or is about to go (-1)."""
        with undone_on_failure() as undo:
            for placed in self._on_node.get(node_name, {}).values():
                self._count(placed, sign)
                undo(partial(self._count, placed, -sign))

    def move(self, node_name: str, source: int, target: int) -> None:
        """Follow the node of the last row to a row that is free."""
        for placed in self._on_node.get(node_name, {}).values():
            self._ports.remove(placed.pod.host_ports, source)
            self._ports.add(placed.pod.host_ports, target)
        self.pod_counts.move(source, target)

    def _list(self, placed: Reserved, sign: int) -> None:
        """Add a reserve pod, or remove it."""
        uid = placed.pod.uid
        if sign > 0:
            self.pod_counts.place(placed)
            self._placed[uid] = placed
            self._on_node[placed.node_name][uid] = placed
            return
        self.pod_counts.displace(placed)
        del self._placed[uid]
        on_node = self._on_node[placed.node_name]
        del on_node[uid]
        if not on_node:
            del self._on_node[placed.node_name]

    def _count(self, placed: Reserved, sign: int) -> None:
        """Count a reserve pod on its node, if that is known."""
        if placed.node_name in self._columns.row_of:
            apply_all((self._tally, self._carry, self._open), placed, sign)

    def _tally(self, placed: Reserved, sign: int) -> None:
        self.pod_counts.count(placed.pod, self._columns.row_of[placed.node_name], sign)

    def _carry(self, placed: Reserved, sign: int) -> None:
        self._affinity_terms.count(placed.pod, self._columns.row_of[placed.node_name], sign)

    def _open(self, placed: Reserved, sign: int) -> None:
        ports = placed.pod.host_ports
        if ports:
            row = self._columns.row_of[placed.node_name]
            (self._ports.add if sign > 0 else self._ports.remove)(ports, row)


def counts_as(pod: Pod) -> tuple[object, ...]:
    """Return all by which a pod is noticed by its neighbours, its namespace aside."""
    return pod.meta.labels, pod.spec.affinity, pod.host_ports
