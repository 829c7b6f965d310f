"""NodeDeclaredFeatures: a pod that needs a feature of the kubelet goes where the node declares it.

Source: kube-scheduler 1.37, plugins/nodedeclaredfeatures. The needs of pods are in
`PodTemplate.needed_features`.
"""

from collections.abc import Sequence

import numpy as np

from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    SKIP_ALIKE,
    SUCCESS,
    EnqueueExtensions,
    Mask,
    PreFilter,
    SingleReasonFilter,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod


class NodeDeclaredFeatures(PreFilter, SingleReasonFilter, EnqueueExtensions):
    """Rules out nodes without a feature that the pod needs."""

    name = "NodeDeclaredFeatures"
    per_node = True
    depends_on_placement = False
    reason = "node(s) didn't match Pod's required features"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Skip pods that need nothing."""
        return SUCCESS if pod.template.needed_features else SKIP_ALIKE

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes that declare all that the pod needs."""
        needed = frozenset(pod.template.needed_features)
        declared = (needed.issubset(node.declared_features) for node in snapshot.nodes)
        return np.fromiter(declared, np.bool_, len(snapshot))

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return False: no eviction gives a node a feature."""
        return False

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: nodes with other features, and other needs of the pod."""
        changes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE)
        return (
            Registration(changes, _declares_others),
            Registration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE), _needs_others),
        )


def _needs_others(_: Pod, old: Pod, new: Pod) -> bool:
    return old.template.needed_features != new.template.needed_features


def _declares_others(_: Pod, old: Node | None, new: Node) -> bool:
    return old is None or old.declared_features != new.declared_features
