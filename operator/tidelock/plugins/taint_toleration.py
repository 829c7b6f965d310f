"""TaintToleration: taints that a pod does not tolerate keep it away, or make a node less liked."""

from collections.abc import Sequence

import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.node_selection import tolerated_by
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
    EnqueueExtensions,
    Mask,
    PreScore,
    Score,
    Scores,
    SingleReasonFilter,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.selectors import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    Taint,
    untolerated,
)

_HARD = (NO_SCHEDULE, NO_EXECUTE)


class TaintToleration(SingleReasonFilter, PreScore, Score, EnqueueExtensions):
    """Rejects nodes with untolerated hard taints, and prefers few untolerated soft ones."""

    name = "TaintToleration"
    per_node = True
    depends_on_placement = False
    reason = "node(s) had untolerated taint(s)"

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Return the nodes without untolerated hard taints."""
        return tolerated_by(pod, snapshot)

    def filter_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return the same for one node."""
        return untolerated(snapshot.nodes[row].taints, pod.spec.tolerations, _HARD) is None

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return False: no eviction takes a taint away."""
        return False

    def detail(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> str:
        """Name the first taint that is in the way."""
        taint = untolerated(snapshot.nodes[row].taints, pod.spec.tolerations, _HARD)
        return f"taint {taint.key}={taint.value}:{taint.effect}" if taint else ""

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip all pods where no node has a soft taint."""
        soft = any(t.effect == PREFER_NO_SCHEDULE for taints in snapshot.traits.taint_sets for t in taints)
        return SUCCESS if soft else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Count the untolerated PreferNoSchedule taints."""
        # Once for each distinct set of taints, of which a cluster has few.
        counts = np.array([_disliked(pod, taints) for taints in snapshot.traits.taint_sets], np.float64)
        scores: Scores = counts[snapshot.traits.taint_set_of[rows]]
        return scores

    def score_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> float:
        """Count those of one node."""
        return _disliked(pod, snapshot.nodes[row].taints)

    def normalize(self, state: CycleState, pod: Pod, scores: Scores) -> Scores:
        """Score 100 for no such taint, 0 for the most."""
        most = max(scores.max(initial=0.0), 1.0)
        points: Scores = MAX_NODE_SCORE - np.floor(MAX_NODE_SCORE * scores / most)
        return points

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: nodes with newly tolerated taints, and the pod's tolerations."""
        return (
            Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), _tolerated_now),
            Registration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION)),
        )


def _disliked(pod: Pod, taints: tuple[Taint, ...]) -> int:
    soft = tuple(t for t in pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
    return sum(untolerated((taint,), soft, (PREFER_NO_SCHEDULE,)) is not None for taint in taints)


def _tolerated_now(pod: Pod, old: Node | None, new: Node) -> bool:
    return _tolerated(pod, new) and (old is None or not _tolerated(pod, old))


def _tolerated(pod: Pod, node: Node) -> bool:
    return untolerated(node.taints, pod.spec.tolerations, _HARD) is None
