"""NodeResourcesBalancedAllocation: nodes whose cpu and memory fill up evenly are preferred.

Source: kube-scheduler 1.36, plugins/noderesources/balanced_allocation.go: with s the score
100 * (1 - |cpu share - memory share| / 2) of a node, the result is 50 + (50 + s(with pod) - s(without)) / 2,
in whole points. Locked room counts as taken.
"""

import numpy as np

from tidelock.cluster.columns import Amounts, Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import MAX_NODE_SCORE, Score, Scores
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU, MEMORY

_HALF = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocation(Score):
    """Scores by how even the shares of cpu and memory are with the pod, against without it."""

    name = "NodeResourcesBalancedAllocation"
    per_node = True

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score 75 for no change, more where the pod evens the node out; 0 if it requests neither."""
        wanted = [pod.requests.get(resource, 0) for resource in (CPU, MEMORY)]
        if not any(wanted):
            return np.zeros(len(rows))
        allocatable = [snapshot.allocatable[rows, snapshot.column(resource)] for resource in (CPU, MEMORY)]
        taken = [
            snapshot.requested[rows, column] + snapshot.locked[rows, column]
            for column in map(snapshot.column, (CPU, MEMORY))
        ]
        with_pod = [before + more for before, more in zip(taken, wanted, strict=True)]
        improvement = _balance(with_pod, allocatable) - _balance(taken, allocatable)
        scores: Scores = (_HALF + (_HALF + improvement) // 2).astype(np.float64)
        return scores


def _balance(taken: list[Amounts], allocatable: list[Amounts]) -> Amounts:
    """Score evenness from 50 to 100; a node that lacks cpu or memory is even."""
    cpu, memory = (np.minimum(t / np.maximum(a, 1), 1.0) for t, a in zip(taken, allocatable, strict=True))
    has_both = (allocatable[0] > 0) & (allocatable[1] > 0)
    uneven = np.where(has_both, np.abs(cpu - memory) / 2, 0.0)
    points: Amounts = ((1 - uneven) * MAX_NODE_SCORE).astype(np.int64)
    return points
