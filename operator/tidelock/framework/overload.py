"""What filters that rule out overloaded nodes have in common: only fresh measurements rule out."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tidelock.cluster.arrays import Mask
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Filter, PreFilter
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod


@dataclass(frozen=True, slots=True)
class Beyond:
    """Which figures of which nodes are beyond their limits: figures x N; each plugin has its own type."""

    beyond: Mask


class OverloadFilter(PreFilter, Filter):
    """Rules out the nodes that PreFilter has found to be beyond a limit, and written to the CycleState."""

    found: ClassVar[type[Beyond]]
    """What PreFilter writes."""

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:  # noqa: ARG002 -- as for every filter
        """Keep nodes that are within their limits, or of which nobody knows."""
        within: Mask = np.logical_not(state.expect(self.found).beyond[:, snapshot.rows].any(axis=0))
        return within

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:  # noqa: ARG002 -- as for every filter
        """Evictions change no measurement."""
        return False

    def beyond(self, state: CycleState, snapshot: Snapshot, row: int) -> Mask:
        """Tell which figures of a node are beyond their limits."""
        beyond: Mask = state.expect(self.found).beyond[:, snapshot.rows][:, row]
        return beyond
