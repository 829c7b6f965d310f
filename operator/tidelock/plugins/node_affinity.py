"""NodeAffinity: spec.nodeSelector and spec.affinity.nodeAffinity."""

from collections.abc import Sequence

import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
    EnqueueExtensions,
    Filter,
    Mask,
    PreFilter,
    Score,
    Scores,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod

_REASON = "node(s) didn't match Pod's node affinity/selector"


class NodeAffinity(PreFilter, Filter, Score, EnqueueExtensions):
    """Rules out nodes that required terms do not match; prefers those that preferred terms do."""

    name = "NodeAffinity"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Skip pods that require nothing of nodes."""
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        required = affinity is not None and affinity.required is not None
        return SUCCESS if required or pod.spec.node_selector else SKIP

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes that match the selector and one of the required terms."""
        return np.fromiter((required_matches(pod, node) for node in snapshot.nodes), np.bool_, len(snapshot))

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Say that the node does not match."""
        return (_REASON,)

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score the sum of the weights of matching preferred terms, 100 for the largest sum."""
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
        sums = np.zeros(len(rows))
        for place, row in enumerate(rows if terms else ()):
            node = snapshot.nodes[row]
            sums[place] = sum(t.weight for t in terms if t.preference.matches(node.name, node.meta.labels))
        most = sums.max(initial=0.0)
        return np.floor(MAX_NODE_SCORE * sums / most) if most > 0 else sums

    def events_to_register(self) -> Sequence[Registration]:
        """Hope for nodes that match, and did not before."""
        return (
            Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), _matches_now),
        )


def _matches_now(pod: Pod, old: Node | None, new: Node) -> bool:
    return required_matches(pod, new) and (old is None or not required_matches(pod, old))


def required_matches(pod: Pod, node: Node) -> bool:
    """Whether a node satisfies what the pod requires."""
    labels = node.meta.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return affinity is None or affinity.required is None or affinity.required.matches(node.name, labels)
