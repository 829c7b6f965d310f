"""Two plugins for Tidelock: a Filter that keeps some cores of each node free, and a Score for few pods.

A plugin sees one pod and all nodes at once: amounts are NumPy arrays with one row per node and one column
per resource, in thousandths of a core, bytes or pieces. It returns one element per node, without a loop.
"""

from typing import Any

import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import MAX_NODE_SCORE, Filter, Handle, Mask, Score, Scores
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU, PODS


class SpareCores(Filter):
    """Rules out nodes on which fewer than `cores` would stay free beside the pod; args: {cores: 1}."""

    name = "SpareCores"
    per_node = True  # equal pods get equal answers, so only changed nodes are filtered again

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take the args. The base class refuses unknown args."""
        cores = args.pop("cores", 1)
        if not isinstance(cores, int | float) or cores < 0:
            raise ValueError(f"cores: {cores!r} is not a number of at least 0")
        super().__init__(handle, args)
        self._spare = round(cores * 1000)

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes with enough cpu left beside pods, reservations and this pod."""
        del state
        cpu = snapshot.column(CPU)
        free = snapshot.allocatable[:, cpu] - snapshot.requested[:, cpu] - snapshot.reserved[:, cpu]
        fits: Mask = free - pod.requests.get(CPU, 0) >= self._spare
        return fits

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return one reason for all such nodes, so nodes can be counted by reason."""
        del state, pod, snapshot, row
        return ("node(s) without spare cores",)


class FewestPods(Score):
    """Prefers nodes that use the smallest share of their allowed pods."""

    name = "FewestPods"
    per_node = True

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score 100 for a node without pods, 0 for a full one."""
        del state, pod
        column = snapshot.column(PODS)
        allowed = np.maximum(snapshot.allocatable[rows, column], 1)
        scores: Scores = MAX_NODE_SCORE * (1 - snapshot.requested[rows, column] / allowed)
        return scores
