"""NodeName: a pod, or a lock, that names its node goes there or nowhere."""

import numpy as np

from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import SKIP, SUCCESS, Filter, Mask, PreFilter, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod

_REASON = "node(s) didn't match the requested node name"


class NodeName(PreFilter, Filter):
    """Rules out every node but the one of spec.nodeName."""

    name = "NodeName"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Skip pods that name no node."""
        return SUCCESS if pod.spec.node_name else SKIP

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep the named node."""
        named = np.zeros(len(self.handle.columns), np.bool_)
        row = snapshot.row(pod.spec.node_name)
        if row is not None:
            named[row] = True
        return named[snapshot.rows]

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Say that the name differs."""
        return (_REASON,)
