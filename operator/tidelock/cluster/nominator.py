"""Who is nominated where: pods, and locks by their stand-ins, for which room is being made on a node.

A nomination begins when preemption decides on it, before the API server knows, or when a watch tells of one
that another process has made. It ends when the pod is bound or gone, or when it is taken away. Upstream:
kube-scheduler 1.36, backend/queue/nominator.go.
"""

from collections import defaultdict
from collections.abc import Collection
from math import inf
from typing import NamedTuple

from tidelock.cluster.columns import Columns
from tidelock.model.pods import Pod, assigned_to


class Earmark(NamedTuple):
    """Room that is kept on a node, as it comes free, for a lock that has waited for long.

    Whoever is gone by an instant at which there is expected to be enough may use it until then.
    """

    pod: Pod
    node_name: str
    at: float


class Nominator:
    """Nominated pods by node; a nomination that ends without being fulfilled counts as freed room.

    That of a lock is never fulfilled: whom its stand-in kept away as a pod does is kept away by what the lock
    holds from then on, or not at all.

    Attributes:
        earmark: the one that there is beside them, if any.
        ended: the pods of those that have ended, as if they had been on the node; for others to take.

    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._pods: dict[str, Pod] = {}
        self._node_of: dict[str, str] = {}
        self._on_node: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self.earmark: Earmark | None = None
        self.ended: list[Pod] = []

    @property
    def targets(self) -> Collection[str]:
        """Names of the nodes for which pods are nominated."""
        return self._on_node.keys()

    @property
    def nodes(self) -> Collection[str]:
        """Names of the nodes where room is kept: for those, or for the earmark."""
        return self.targets if self.earmark is None else {*self.targets, self.earmark.node_name}

    def on(self, node_name: str) -> Collection[Pod]:
        """All pods for which room is kept on a node."""
        nominated = self._nominated(node_name)
        if self.earmark is not None and self.earmark.node_name == node_name:
            return [*nominated, self.earmark.pod]
        return nominated

    def node_of(self, uid: str) -> str:
        """Give the node for which a pod is nominated; empty if for none."""
        return self._node_of.get(uid, "")

    def rivals(self, pod: Pod) -> dict[str, list[Pod]]:
        """Give by node the pods that another must leave their room: those not below it, all if it borrows."""
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
        """Keep room of one node for one lock, or for none any more, in the place of what was kept before."""
        before = self.earmark
        if before == earmark:
            return
        self.earmark = earmark
        if before is not None:
            self._free(before.pod, before.node_name)

    def end_earmark(self, uid: str) -> None:
        """Keep no room for a lock any more, if it is the one."""
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
        """Take over an unbound pod's newer version; a nomination that nobody else has changed stays."""
        known, told = self._pods.get(pod.uid), pod.status.nominated_node_name
        unchanged = (known.status.nominated_node_name if known else "") == told
        self.nominate(pod, self.node_of(pod.uid) if unchanged else told)

    def clear_below(self, priority: int, node_name: str) -> list[Pod]:
        """Take the nominations for a node from pods of lower priority; gives these pods."""
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
        self.ended.append(assigned_to(pod, node_name))

    def _end(self, uid: str) -> None:
        """End a nomination, so that what had to leave it room may try again."""
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
