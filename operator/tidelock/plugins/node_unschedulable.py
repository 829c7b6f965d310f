"""NodeUnschedulable: cordoned nodes take only pods that tolerate it."""

import numpy as np

from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Mask, OneReason
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod
from tidelock.model.selectors import NO_SCHEDULE, Taint

_CORDONED = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)


class NodeUnschedulable(OneReason):
    """Rules out nodes with spec.unschedulable."""

    name = "NodeUnschedulable"
    per_node = True
    heeds_room = False
    reason = "node(s) were unschedulable"

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes that are not cordoned, or all if the pod tolerates the unschedulable taint."""
        if any(toleration.tolerates(_CORDONED) for toleration in pod.spec.tolerations):
            return np.ones(len(snapshot), np.bool_)
        return ~snapshot.traits.cordoned

    def resolvable(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Tell that no eviction uncordons a node."""
        return False
