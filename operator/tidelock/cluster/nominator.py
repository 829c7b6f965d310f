"""The nominated pods, and reserve pods of reservations, for which capacity of a node is being freed.

A nomination begins when preemption decides on it, before the API server knows, or when a watch shows one of
another process. It ends when the pod is bound or gone, or when the nomination is removed. Source:
kube-scheduler 1.36, backend/queue/nominator.go.
"""

from collections import defaultdict
from collections.abc import Collection
from math import inf
from typing import NamedTuple

from tidelock.cluster.columns import Columns
from tidelock.model.pods import Pod, assigned_to
from tidelock.model.work_queue import WorkQueue


class Earmark(NamedTuple):
    """Capacity of a node that is kept, as it comes free, for a reservation after a long wait.

    A pod that will be gone by the expected start, `at`, may use it until then.
    """

    pod: Pod
    node_name: str
    at: float


class Nominator:
    """Nominated pods by node. A nomination that ends without a placement counts as freed capacity.

    The nomination of a reservation always ends in that way: from then on its held amounts count instead.

    Attributes:
        earmark: the earmark, if there is one.
        ended: pods with a nomination that has ended, as pods that have left the node, for the pod queue.

    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._pods: dict[str, Pod] = {}
        self._node_of: dict[str, str] = {}
        self._on_node: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self.earmark: Earmark | None = None
        self.ended = WorkQueue[Pod](id)

    @property
    def targets(self) -> Collection[str]:
        """Names of the nodes for which pods are nominated."""
        return self._on_node.keys()

    @property
    def nodes(self) -> Collection[str]:
        """Names of the nodes with kept capacity, including that of the earmark."""
        return self.targets if self.earmark is None else {*self.targets, self.earmark.node_name}

    def on(self, node_name: str) -> Collection[Pod]:
        """Return the pods for which capacity of a node is kept."""
        nominated = self._nominated(node_name)
        if self.earmark is not None and self.earmark.node_name == node_name:
            return [*nominated, self.earmark.pod]
        return nominated

    def node_of(self, uid: str) -> str:
        """Return the node for which a pod is nominated, or an empty text."""
        return self._node_of.get(uid, "")

    def rivals(self, pod: Pod) -> dict[str, list[Pod]]:
        """Return by node the pods to which a pod must yield: those not below it, or all if it borrows."""
        priority, uid = -inf if pod.borrows else pod.spec.priority, pod.uid
        rivals = {}
        for node_name, nominated in self._on_node.items():
            others = [other for other in nominated.values() if other.spec.priority >= priority]
            if uid in nominated:
                others = [other for other in others if other.uid != uid]
            if others:
                rivals[node_name] = others
        return rivals

    def set_earmark(self, earmark: Earmark | None) -> None:
        """Replace the earmark, or remove it."""
        before = self.earmark
        if before == earmark:
            return
        self.earmark = earmark
        if before is not None:
            self._free(before.pod, before.node_name)

    def end_earmark(self, uid: str) -> None:
        """Remove the earmark, if it is that of a reservation."""
        if self.earmark is not None and self.earmark.pod.uid == uid:
            self.set_earmark(None)

    def nominate(self, pod: Pod, node_name: str) -> None:
        """Nominate a pod for a node, or for none, whatever the API server still says."""
        if not node_name and not pod.status.nominated_node_name:
            self.remove(pod.uid)
            return
        known = self._pods.get(pod.uid)
        another = known is not None and (known.spec != pod.spec or known.meta.labels != pod.meta.labels)
        if another or self.node_of(pod.uid) != node_name:
            self._end(pod.uid)  # for the same node too: it may keep others away than before
        self._pods[pod.uid] = pod
        self._node_of[pod.uid] = node_name
        if node_name:
            self._on_node[node_name][pod.uid] = pod

    def upsert(self, pod: Pod) -> None:
        """Update an unbound pod. Its nomination stays unless another process has changed it."""
        known, nominated = self._pods.get(pod.uid), pod.status.nominated_node_name
        unchanged = (known.status.nominated_node_name if known else "") == nominated
        self.nominate(pod, self.node_of(pod.uid) if unchanged else nominated)

    def clear_below(self, priority: int, node_name: str) -> list[Pod]:
        """Remove the nominations of pods with lower priority for a node. Return these pods."""
        lower = [pod for pod in self._nominated(node_name) if pod.spec.priority < priority]
        for pod in lower:
            self.nominate(pod, "")
        return lower

    def remove(self, uid: str, *, placed_on: str = "") -> None:
        """Forget a pod that is gone, or that has been placed on a node."""
        if uid not in self._pods:
            return
        if placed_on and self.node_of(uid) == placed_on:
            self._unlist(uid)
        self._end(uid)
        del self._pods[uid], self._node_of[uid]

    def _nominated(self, node_name: str) -> Collection[Pod]:
        return self._on_node[node_name].values() if node_name in self._on_node else ()

    def _free(self, pod: Pod, node_name: str) -> None:
        self._columns.freed += 1
        self.ended.add(assigned_to(pod, node_name))

    def _end(self, uid: str) -> None:
        """End a nomination, so pods that had to yield to it may try again."""
        node_name = self.node_of(uid)
        if self._unlist(uid):
            self._free(self._pods[uid], node_name)

    def _unlist(self, uid: str) -> bool:
        node_name = self.node_of(uid)
        if not node_name:
            return False
        self._node_of[uid] = ""
        del self._on_node[node_name][uid]
        if not self._on_node[node_name]:
            del self._on_node[node_name]
        return True
