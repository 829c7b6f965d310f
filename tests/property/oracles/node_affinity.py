"""NodeAffinity by kube-scheduler's rules, for one node at a time."""

from collections.abc import Sequence

from tidelock.model.nodes import Node
from tidelock.model.pod_placement import NodeAffinity
from tidelock.model.pods import Pod
from tidelock.model.selectors import Labels, NodeSelectorTerm, Requirement


def holds(requirement: Requirement, labels: Labels) -> bool:
    there = requirement.key in labels
    value = labels.get(requirement.key, "")
    match requirement.operator:
        case "In":
            return there and value in requirement.values
        case "NotIn":
            return not there or value not in requirement.values
        case "Exists":
            return there
        case "DoesNotExist":
            return not there
    if not there or not value.lstrip("-").isdigit():
        return False
    bound = int(requirement.values[0])
    return int(value) > bound if requirement.operator == "Gt" else int(value) < bound


def term_holds(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    name = {"metadata.name": node.name}
    return all(holds(each, node.meta.labels) for each in term.match_expressions) and all(
        holds(each, name) for each in term.match_fields
    )


def affinity_of(pod: Pod) -> NodeAffinity:
    affinity = pod.spec.affinity
    return (affinity.node_affinity if affinity else None) or NodeAffinity()


def fits(pod: Pod, node: Node, added: NodeAffinity) -> bool:
    for key, value in pod.spec.node_selector.items():
        if node.meta.labels.get(key) != value:
            return False
    for affinity in (affinity_of(pod), added):
        if affinity.required is not None and not any(
            term_holds(term, node) for term in affinity.required.node_selector_terms
        ):
            return False
    return True


def scores(pod: Pod, nodes: Sequence[Node], added: NodeAffinity) -> dict[str, int]:
    """Score the feasible nodes."""
    sums = {}
    for node in nodes:
        sums[node.name] = 0
        for affinity in (affinity_of(pod), added):
            for term in affinity.preferred_during_scheduling_ignored_during_execution:
                if term_holds(term.preference, node):
                    sums[node.name] += term.weight
    most = max(sums.values(), default=0)
    return {name: 100 * weight // most if most else 0 for name, weight in sums.items()}
