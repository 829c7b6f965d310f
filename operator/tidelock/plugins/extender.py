"""Extender: what extenders have said of a pod, as one filter and one score after those of all plugins.

No profile names it: it is added where extenders have been asked. It has the name by which kube-scheduler 1.36
calls all of them together (framework/types.go).
"""

import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Filter, Mask, Score, Scores
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.extender import ExtenderAdviceData
from tidelock.model.pods import Pod


class ExtenderAdvice(Filter, Score):
    """The extenders' part in a decision; needs their Advice in the state."""

    name = "Extender"

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep the nodes that passed; those that came up since they were asked have not."""
        names = state.expect(ExtenderAdviceData).names
        return np.fromiter((node.name in names for node in snapshot.nodes), np.bool_, len(snapshot))

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Say what the extender said; nothing if it said nothing."""
        failed = state.expect(ExtenderAdviceData).failed.get(snapshot.nodes[row].name)
        return (failed.reason,) if failed else ()

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Tell whether the extender gave a reason, and did not call it unresolvable."""
        failed = state.expect(ExtenderAdviceData).failed.get(snapshot.nodes[row].name)
        return failed is not None and failed.preemption_may_help

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Add what the extenders add, which is weighted already."""
        scores = state.expect(ExtenderAdviceData).scores
        return np.array([scores.get(snapshot.nodes[row].name, 0) for row in rows], np.float64)
