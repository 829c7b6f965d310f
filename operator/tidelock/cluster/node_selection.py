"""Which nodes a pod's node selector, node affinity and tolerations admit, as masks over a snapshot."""

import numpy as np

from tidelock.cluster.arrays import Mask
from tidelock.cluster.snapshot import Snapshot
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.selectors import (
    NO_EXECUTE,
    NO_SCHEDULE,
    NodeSelector,
    NodeSelectorTerm,
    Requirement,
    untolerated,
)


def required_of_nodes(pod: Pod, snapshot: Snapshot) -> Mask | None:
    """Return the nodes that match spec.nodeSelector and required node affinity, or None for all."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    mask = matching(affinity.required, snapshot) if affinity and affinity.required else None
    for key, value in pod.spec.node_selector.items():
        has = snapshot.labels(key).among((value,))
        mask = has if mask is None else mask & has
    return mask


def admits(pod: Pod, node: Node) -> bool:
    """Return whether a node matches spec.nodeSelector and required node affinity."""
    labels = node.meta.labels
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required if affinity else None
    return pod.spec.node_selector.items() <= labels.items() and (
        required is None or required.matches(node.name, labels)
    )


def matching(selector: NodeSelector, snapshot: Snapshot) -> Mask:
    """Return the nodes that match one of the selector's terms."""
    mask = np.zeros(len(snapshot), np.bool_)
    for term in selector.node_selector_terms:
        mask |= matching_term(term, snapshot)
    return mask


def matching_term(term: NodeSelectorTerm, snapshot: Snapshot) -> Mask:
    """Return the nodes that match all of a term. An empty or invalid term matches none."""
    mask = np.full(len(snapshot), term.selective)
    for requirement in term.match_expressions:
        mask &= _by_label(requirement, snapshot)
    for requirement in term.match_fields:
        mask &= _by_field(requirement, snapshot)
    return mask


def tolerated_by(pod: Pod, snapshot: Snapshot) -> Mask:
    """Return the nodes without a NoSchedule or NoExecute taint that a pod does not tolerate."""
    hard = (NO_SCHEDULE, NO_EXECUTE)
    # Once for each distinct set of taints, of which a cluster has few.
    sets = snapshot.traits.taint_sets
    admitted = np.array(
        [untolerated(taints, pod.spec.tolerations, hard) is None for taints in sets], np.bool_
    )
    mask: Mask = admitted[snapshot.traits.taint_set_of]
    return mask


def _by_label(requirement: Requirement, snapshot: Snapshot) -> Mask:
    label = snapshot.labels(requirement.key)
    match requirement.operator:
        case "In":
            return label.among(requirement.values)
        case "NotIn":
            return ~label.among(requirement.values)
        case "Exists":
            return np.greater_equal(label.codes, 0)
        case "DoesNotExist":
            return np.less(label.codes, 0)
        case _:
            by_value = [requirement.matches({requirement.key: value}) for value in label.values]
            mask: Mask = np.array([*by_value, requirement.matches({})], np.bool_)[label.codes]
            return mask


def _by_field(requirement: Requirement, snapshot: Snapshot) -> Mask:
    match requirement.key, requirement.operator:
        case "metadata.name", "In":
            return snapshot.called(requirement.values)
        case "metadata.name", "NotIn":
            return ~snapshot.called(requirement.values)
        case _:
            return np.zeros(len(snapshot), np.bool_)
