"""NodeUnschedulable: cordoned nodes take only pods that tolerate it."""

from collections.abc import Sequence

import numpy as np

from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import EnqueueExtensions, Mask, SingleReasonFilter
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.selectors import NO_SCHEDULE, Taint

_CORDONED = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)


class NodeUnschedulable(SingleReasonFilter, EnqueueExtensions):
    """Rules out nodes with spec.unschedulable."""

    name = "NodeUnschedulable"
    per_node = True
    depends_on_placement = False
    reason = "node(s) were unschedulable"

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes that are not cordoned, or all if the pod tolerates the unschedulable taint."""
        if _tolerates(pod):
            return np.ones(len(snapshot), np.bool_)
        return ~snapshot.traits.cordoned

    def filter_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return the same for one node."""
        return not snapshot.nodes[row].unschedulable or _tolerates(pod)

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return False: no eviction uncordons a node."""
        return False

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: nodes that take pods, and a toleration of the pod itself."""
        tolerated = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION)
        return (
            Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), _uncordoned),
            Registration(tolerated, lambda pod, _old, _new: _tolerates(pod)),
        )


def _tolerates(pod: Pod) -> bool:
    return any(toleration.tolerates(_CORDONED) for toleration in pod.spec.tolerations)


def _uncordoned(_: Pod, old: Node | None, new: Node) -> bool:
    return not new.unschedulable and (old is None or old.unschedulable)
