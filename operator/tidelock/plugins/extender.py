"""Extender: the answers of extenders about a pod, as one filter and one score after those of all plugins.

No profile names it: it is added if extenders were asked. It has the name by which kube-scheduler 1.36
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
    """The extenders' part in a decision. It needs their answer in the state."""

    name = "Extender"

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Return the nodes that passed. Nodes that are newer than the question have not."""
        names = state.expect(ExtenderAdviceData).names
        return np.fromiter((node.name in names for node in snapshot.nodes), np.bool_, len(snapshot))

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return the reason of the extender, if there is one."""
        failed = state.expect(ExtenderAdviceData).failed.get(snapshot.nodes[row].name)
        return (failed.reason,) if failed else ()

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return whether the extender gave a reason that is resolvable."""
        failed = state.expect(ExtenderAdviceData).failed.get(snapshot.nodes[row].name)
        return failed is not None and failed.preemption_may_help

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Return the scores of the extenders, which are weighted already."""
        scores = state.expect(ExtenderAdviceData).scores
        return np.array([scores.get(snapshot.nodes[row].name, 0) for row in rows], np.float64)
