"""PodTopologySpread by kube-scheduler's rules, for one node, domain and pod at a time."""

import math
from collections.abc import Sequence

from property.neighbours import World
from property.oracles import node_affinity
from tidelock.model.nodes import Node
from tidelock.model.pod_placement import NodeAffinity, SpreadConstraint
from tidelock.model.pods import Pod
from tidelock.model.selectors import LabelSelector
from tidelock.plugins.pod_topology_spread.plugin import SPREAD_MISMATCH, SPREAD_NO_LABEL

HOSTNAME = "kubernetes.io/hostname"
MATCHES = ""


def selects(constraint: SpreadConstraint, pod: Pod, other: Pod) -> bool:
    """Return whether a constraint of a pod selects another pod, in any namespace."""
    if constraint.label_selector is None:
        return False
    labels = pod.meta.labels
    same = all(
        other.meta.labels.get(key) == labels[key] for key in constraint.match_label_keys if key in labels
    )
    return same and constraint.label_selector.matches(other.meta.labels)


def selects_all(constraint: SpreadConstraint, pod: Pod) -> bool:
    """Return whether the selector is empty, which counts no pods."""
    keys = [key for key in constraint.match_label_keys if key in pod.meta.labels]
    return constraint.label_selector == LabelSelector() and not keys


def matching(world: World, constraint: SpreadConstraint, pod: Pod, node: Node) -> int:
    """Count the pods on a node that a constraint selects."""
    if selects_all(constraint, pod):
        return 0
    return sum(
        node_name == node.name
        and other.meta.namespace == pod.meta.namespace
        and other.meta.deletion_timestamp is None
        and selects(constraint, pod, other)
        for other, node_name in world.placed
    )


def eligible(constraint: SpreadConstraint, pod: Pod, node: Node) -> bool:
    """Return whether the node's pods count, by the constraint's policies."""
    if constraint.node_affinity_policy in (None, "Honor") and not node_affinity.fits(
        pod, node, NodeAffinity()
    ):
        return False
    return constraint.node_taints_policy != "Honor" or all(
        taint.effect == "PreferNoSchedule"
        or any(toleration.tolerates(taint) for toleration in pod.spec.tolerations)
        for taint in node.taints
    )


def constraints_of(pod: Pod, action: str) -> list[SpreadConstraint]:
    return [each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable == action]


def has_keys(constraints: Sequence[SpreadConstraint], node: Node) -> bool:
    return all(each.topology_key in node.meta.labels for each in constraints)


def verdicts(world: World, pod: Pod) -> dict[str, str]:
    """Return the reason that rules out each node, or an empty text."""
    constraints = constraints_of(pod, "DoNotSchedule")
    domains: list[dict[str, int]] = [{} for _ in constraints]
    for node in world.nodes:
        if has_keys(constraints, node):
            for constraint, counts in zip(constraints, domains, strict=True):
                if eligible(constraint, pod, node):
                    value = node.meta.labels[constraint.topology_key]
                    counts[value] = counts.get(value, 0) + matching(world, constraint, pod, node)
    return {node.name: _verdict(constraints, domains, pod, node) for node in world.nodes}


def _verdict(
    constraints: Sequence[SpreadConstraint], domains: Sequence[dict[str, int]], pod: Pod, node: Node
) -> str:
    for constraint, counts in zip(constraints, domains, strict=True):
        value = node.meta.labels.get(constraint.topology_key)
        if value is None:
            return SPREAD_NO_LABEL
        enough = len(counts) >= (constraint.min_domains or 1)
        least = min(counts.values()) if enough else 0
        if counts.get(value, 0) + selects(constraint, pod, pod) - least > constraint.max_skew:
            return SPREAD_MISMATCH
    return MATCHES


def scores(
    world: World,
    pod: Pod,
    feasible: Sequence[Node],
    constraints: Sequence[SpreadConstraint],
    *,
    require_keys: bool = True,
) -> dict[str, int]:
    """Score the feasible nodes."""
    rated = [node for node in feasible if not require_keys or has_keys(constraints, node)]
    sums = dict.fromkeys((node.name for node in rated), 0.0)
    for constraint in constraints:
        key = constraint.topology_key
        counts = {node.meta.labels.get(key, ""): 0 for node in rated}
        for node in world.nodes:
            value = node.meta.labels.get(key, "")
            counted = not require_keys or has_keys(constraints, node)
            if counted and eligible(constraint, pod, node) and value in counts:
                counts[value] += matching(world, constraint, pod, node)
        weight = math.log((len(rated) if key == HOSTNAME else len(counts)) + 2)
        for node in rated:
            if key in node.meta.labels:
                here = matching(world, constraint, pod, node)
                count = here if key == HOSTNAME else counts[node.meta.labels[key]]
                sums[node.name] += count * weight + constraint.max_skew - 1
    rounded = {name: math.floor(value + 0.5) for name, value in sums.items()}
    most, least = max(rounded.values(), default=0), min(rounded.values(), default=0)
    normal = {name: 100 * (most + least - value) // most if most else 100 for name, value in rounded.items()}
    return {node.name: normal.get(node.name, 0) for node in feasible}
