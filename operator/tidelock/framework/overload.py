"""Common parts of filters that reject overloaded nodes: only fresh measurements count."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tidelock.cluster.arrays import Mask
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Filter, PreFilter
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod


@dataclass(frozen=True, slots=True)
class ExceededLimits:
    """Which figures of which nodes exceed their limits, figures x N. Each plugin has its own type."""

    beyond: Mask


class OverloadFilter(PreFilter, Filter):
    """Rules out the nodes that PreFilter has found to be beyond a limit, and written to the CycleState."""

    found: ClassVar[type[ExceededLimits]]
    """The type of the state that PreFilter writes."""

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:  # noqa: ARG002 -- as for every filter
        """Return the nodes within their limits, or without measurements."""
        within: Mask = np.logical_not(state.expect(self.found).beyond[:, snapshot.rows].any(axis=0))
        return within

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:  # noqa: ARG002 -- as for every filter
        """Evictions change no measurement."""
        return False

    def beyond(self, state: CycleState, snapshot: Snapshot, row: int) -> Mask:
        """Return the figures of a node that exceed their limits."""
        beyond: Mask = state.expect(self.found).beyond[:, snapshot.rows][:, row]
        return beyond
