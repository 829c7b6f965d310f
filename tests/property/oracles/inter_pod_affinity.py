"""InterPodAffinity by kube-scheduler's rules, for one node and one pod at a time.

Reserve pods count as well. A required affinity uses them only if no pod matches.
"""

from collections.abc import Sequence

from property.neighbours import World
from tidelock.model.nodes import Node
from tidelock.model.pod_placement import PodAffinity, PodAffinityTerm
from tidelock.model.pods import Pod
from tidelock.model.reserve_pod import ReservePod
from tidelock.plugins.inter_pod_affinity import (
    EXISTING_ANTI_AFFINITY,
    POD_AFFINITY_MISMATCH,
    POD_ANTI_AFFINITY_MISMATCH,
)

MATCHES = ""


def near(pod: Pod) -> PodAffinity:
    return (pod.spec.affinity.pod_affinity if pod.spec.affinity else None) or PodAffinity()


def far(pod: Pod) -> PodAffinity:
    return (pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None) or PodAffinity()


def means(world: World, owner: Pod, term: PodAffinityTerm, other: Pod, *, placing: Pod) -> bool:
    """Return whether a term of one pod selects another pod.

    A namespace selector of the pod that is being placed selects known namespaces only, unless it is empty.
    For a placed pod's term, a namespace that is not known has no labels.
    """
    namespace = other.meta.namespace
    if not term.namespaces and term.namespace_selector is None:
        there = namespace == owner.meta.namespace
    else:
        there = namespace in term.namespaces
        selector = term.namespace_selector
        if selector is not None:
            everything = not selector.match_labels and not selector.match_expressions
            if owner is placing:
                known = namespace in world.namespaces
                there |= everything or (known and selector.matches(world.namespaces[namespace]))
            else:
                there |= selector.matches(world.namespaces.get(namespace, {}))
    return there and term.label_selector is not None and term.label_selector.matches(other.meta.labels)


def share_domain(world: World, node: Node, node_name: str, key: str) -> bool:
    other = world.node(node_name)
    return other is not None and node.meta.labels.get(key, 0) == other.meta.labels.get(key, 1)


def verdicts(world: World, pod: Pod) -> dict[str, str]:
    """Return the reason that rules out each node, or an empty text."""
    return {node.name: _verdict(world, pod, node) for node in world.nodes}


def _verdict(world: World, pod: Pod, node: Node) -> str:
    if not _near_enough(world, pod, node):
        return POD_AFFINITY_MISMATCH
    for other, node_name in world.placed:
        for term in far(pod).required:
            if means(world, pod, term, other, placing=pod) and share_domain(
                world, node, node_name, term.topology_key
            ):
                return POD_ANTI_AFFINITY_MISMATCH
    for other, node_name in world.placed:
        for term in far(other).required:
            if means(world, other, term, pod, placing=pod) and share_domain(
                world, node, node_name, term.topology_key
            ):
                return EXISTING_ANTI_AFFINITY
    return MATCHES


def _near_enough(world: World, pod: Pod, node: Node) -> bool:
    terms = near(pod).required
    if not all(term.topology_key in node.meta.labels for term in terms):
        return False

    def meant(other: Pod) -> bool:
        return all(means(world, pod, term, other, placing=pod) for term in terms)

    def shared(homes: list[str]) -> bool:
        return all(
            any(share_domain(world, node, home, term.topology_key) for home in homes) for term in terms
        )

    def labelled(homes: list[str]) -> bool:
        nodes = [there for home in homes if (there := world.node(home)) is not None]
        return any(term.topology_key in there.meta.labels for there in nodes for term in terms)

    pods, promised = (
        [home for other, home in world.placed if isinstance(other, ReservePod) is reserved and meant(other)]
        for reserved in (False, True)
    )
    if not terms or labelled(pods):
        return shared(pods)
    if labelled(promised) and (meant(pod) or isinstance(pod, ReservePod)):
        return shared(promised)
    return meant(pod)


def scores(
    world: World, pod: Pod, feasible: Sequence[Node], *, hard: int = 1, ignore: bool = False
) -> dict[str, int]:
    """Score the feasible nodes."""
    own = [(wish, 1) for wish in near(pod).preferred] + [(wish, -1) for wish in far(pod).preferred]
    sums = dict.fromkeys((node.name for node in feasible), 0)
    for other, home in world.placed:
        terms = [
            (wish.pod_affinity_term, sign * wish.weight)
            for wish, sign in own
            if means(world, pod, wish.pod_affinity_term, other, placing=pod)
        ]
        if own or not ignore:
            theirs = [(term, hard) for term in near(other).required]
            theirs += [(wish.pod_affinity_term, wish.weight) for wish in near(other).preferred]
            theirs += [(wish.pod_affinity_term, -wish.weight) for wish in far(other).preferred]
            terms += [
                (term, weight) for term, weight in theirs if means(world, other, term, pod, placing=pod)
            ]
        for term, weight in terms:
            for node in feasible:
                if share_domain(world, node, home, term.topology_key):
                    sums[node.name] += weight
    least, most = min(sums.values(), default=0), max(sums.values(), default=0)
    return {
        name: int(100 * ((value - least) / (most - least))) if most > least else 0
        for name, value in sums.items()
    }
