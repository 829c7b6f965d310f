"""TaintToleration: taints that a pod does not tolerate keep it away, or make a node less liked."""

from collections.abc import Callable, Sequence

import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import MAX_NODE_SCORE, EnqueueExtensions, Filter, Mask, Score, Scores
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.selectors import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, untolerated

_HARD = (NO_SCHEDULE, NO_EXECUTE)


class TaintToleration(Filter, Score, EnqueueExtensions):
    """Rules out nodes with untolerated NoSchedule and NoExecute taints; prefers few untolerated soft ones."""

    name = "TaintToleration"

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes all of whose hard taints are tolerated."""
        tolerations = pod.spec.tolerations
        return _over_taints(snapshot, lambda taints: untolerated(taints, tolerations, _HARD) is None).astype(
            bool
        )

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Name the taint, in kube-scheduler's words."""
        taint = untolerated(snapshot.nodes[row].taints, pod.spec.tolerations, _HARD)
        mark = f"{{{taint.key}: {taint.value}}}" if taint else "that is gone"
        return (f"node(s) had untolerated taint {mark}",)

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score 100 for the fewest untolerated PreferNoSchedule taints, 0 for the most."""
        soft = tuple(t for t in pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))

        def disliked(taints: tuple[Taint, ...]) -> int:
            return sum(untolerated((taint,), soft, (PREFER_NO_SCHEDULE,)) is not None for taint in taints)

        counts = _over_taints(snapshot, disliked)[rows]
        most = max(counts.max(initial=0.0), 1.0)
        scores: Scores = MAX_NODE_SCORE - MAX_NODE_SCORE * counts // most
        return scores

    def events_to_register(self) -> Sequence[Registration]:
        """Hope for nodes whose taints are tolerated, and were not before, and for the pod's tolerations."""
        return (
            Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), _tolerated_now),
            Registration(ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_TOLERATION)),
        )


def _tolerated_now(pod: Pod, old: Node | None, new: Node) -> bool:
    return _tolerated(pod, new) and (old is None or not _tolerated(pod, old))


def _tolerated(pod: Pod, node: Node) -> bool:
    return untolerated(node.taints, pod.spec.tolerations, _HARD) is None


def _over_taints(snapshot: Snapshot, value: Callable[[tuple[Taint, ...]], int]) -> Scores:
    """Evaluate once for each distinct set of taints, of which a cluster has few."""
    values = np.array([value(taints) for taints in snapshot.traits.taint_sets], np.float64)
    spread: Scores = values[snapshot.traits.taint_set_of]
    return spread
