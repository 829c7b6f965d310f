"""NodeName: a pod or reservation that names its node goes there or nowhere."""

from collections.abc import Sequence

import numpy as np

from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    SKIP_ALIKE,
    SUCCESS,
    EnqueueExtensions,
    Mask,
    PreFilter,
    SingleReasonFilter,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import NODE_ADD, Registration
from tidelock.model.pods import Pod


class NodeName(PreFilter, SingleReasonFilter, EnqueueExtensions):
    """Rules out every node but the one of spec.nodeName."""

    name = "NodeName"
    per_node = True
    depends_on_placement = False
    reason = "node(s) didn't match the requested node name"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Skip pods that name no node."""
        return SUCCESS if pod.spec.node_name else SKIP_ALIKE

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep the named node."""
        named = np.zeros(len(self.handle.columns), np.bool_)
        row = snapshot.row(pod.spec.node_name)
        if row is not None:
            named[row] = True
        return named[snapshot.rows]

    def filter_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return whether it is the named node."""
        return snapshot.nodes[row].name == pod.spec.node_name

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return False: no eviction changes a node's name."""
        return False

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: the node."""
        return (Registration(NODE_ADD, lambda pod, _old, new: pod.spec.node_name == new.name),)
