"""Limits on the size of a pod, because a decision must not keep the event loop for long.

kube-scheduler has no such limits. The API server limits a pod only by its size in bytes, by default 1.5 MiB,
which allows thousands of terms. Each limit is far beyond the pods of any workload.
"""

from collections.abc import Iterator, Sequence
from types import MappingProxyType

from tidelock.model.pod_placement import Affinity, PodAffinity, PodAffinityTerm
from tidelock.model.pods import Pod
from tidelock.model.reserve_pod import ReservePod
from tidelock.model.selectors import LabelSelector, NodeSelectorTerm

RESOURCES = "resources that its containers request"
CONTAINERS = "spec.containers and spec.initContainers"
PORTS = "host ports"
VOLUMES = "spec.volumes"
TOLERATIONS = "spec.tolerations"
CONSTRAINTS = "spec.topologySpreadConstraints"
NODE_TERMS = "terms of spec.affinity.nodeAffinity"
POD_TERMS = "terms of spec.affinity.podAffinity and podAntiAffinity"
RESOURCE_CLAIMS = "spec.resourceClaims"
CLAIMS = "claims that are not bound"
CLAIM_CONDITIONS = "conditions in selectors of claims that are not bound"
CONDITIONS = "labels, expressions and namespaces in selectors"

LIMITS = MappingProxyType(
    {
        RESOURCES: 64,
        CONTAINERS: 256,
        PORTS: 1_000,
        VOLUMES: 256,
        TOLERATIONS: 256,
        CONSTRAINTS: 64,
        NODE_TERMS: 100,
        POD_TERMS: 100,
        CONDITIONS: 512,
        RESOURCE_CLAIMS: 64,
        CLAIMS: 48,
        CLAIM_CONDITIONS: 512,
    }
)
"""Largest number of each in a pod."""
OF_GROUPS = MappingProxyType({PORTS: 16_384, CONSTRAINTS: 1_536, POD_TERMS: 1_536})
"""Largest number of each in all members of a group together, since one step tries them all."""
_SMALL = 16  # of anything: within each limit


def excess(pod: Pod, members: int = 1) -> str:
    """Return the excess of a pod, with the number and the limit, or empty for all ordinary pods.

    `members` is the number of pods that are tried together, itself included.
    """
    spec = pod.spec
    if (
        spec.affinity is None
        and not spec.topology_spread_constraints
        and len(spec.containers) + len(spec.init_containers) == 1
        and len(pod.requests) <= _SMALL
        and len(spec.volumes) <= _SMALL
        and len(spec.resource_claims) <= _SMALL
        and len(spec.tolerations) <= _SMALL
        and len(pod.host_ports) <= _SMALL
        and len(spec.node_selector) <= _SMALL
    ):
        return ""  # the usual case, since this check runs for each pod that is decided
    found = ((kind, count, _limit(kind, members)) for kind, count in _counts(pod))
    among = f" in a group of {members}" if members > 1 else ""
    return "; ".join(
        f"{kind}: {count}, at most {limit} are supported{among}"
        for kind, count, limit in found
        if count > limit
    )


def excess_of_decided(pod: Pod) -> str:
    """Return the excess of a pod that is decided. A reserve pod was checked when its object was read."""
    return "" if isinstance(pod, ReservePod) else excess(pod)


def looks_around(pod: Pod) -> int:
    """Return the number of terms and constraints that compare a pod with the pods of any node."""
    affinity = pod.spec.affinity
    terms = 0
    if affinity is not None:
        terms = len(_pod_terms(affinity.pod_affinity)) + len(_pod_terms(affinity.pod_anti_affinity))
    return terms + len(pod.spec.topology_spread_constraints)


def excess_of_claims(selectors: Sequence[LabelSelector | None]) -> str:
    """Return the excess of claims that must be met for a pod, by the selectors of the claims."""
    counts = (CLAIMS, len(selectors)), (CLAIM_CONDITIONS, sum(map(_size, selectors)))
    return "; ".join(
        f"{kind}: {count}, at most {LIMITS[kind]} are supported"
        for kind, count in counts
        if count > LIMITS[kind]
    )


def _limit(kind: str, members: int) -> int:
    return min(LIMITS[kind], OF_GROUPS[kind] // members) if kind in OF_GROUPS else LIMITS[kind]


def _counts(pod: Pod) -> Iterator[tuple[str, int]]:
    spec, affinity = pod.spec, pod.spec.affinity
    yield RESOURCES, len(pod.requests)
    yield CONTAINERS, len(spec.containers) + len(spec.init_containers)
    yield PORTS, len(pod.host_ports)
    yield VOLUMES, len(spec.volumes)
    yield RESOURCE_CLAIMS, len(spec.resource_claims)
    yield TOLERATIONS, len(spec.tolerations)
    yield CONSTRAINTS, len(spec.topology_spread_constraints)
    conditions = len(spec.node_selector)
    conditions += sum(_size(each.label_selector) for each in spec.topology_spread_constraints)
    if affinity is not None:
        node_terms = _node_terms(affinity)
        pod_terms = [*_pod_terms(affinity.pod_affinity), *_pod_terms(affinity.pod_anti_affinity)]
        yield NODE_TERMS, len(node_terms)
        yield POD_TERMS, len(pod_terms)
        conditions += sum(len(term.match_expressions) + len(term.match_fields) for term in node_terms)
        conditions += sum(
            len(term.namespaces) + _size(term.label_selector) + _size(term.namespace_selector)
            for term in pod_terms
        )
    yield CONDITIONS, conditions


def _node_terms(affinity: Affinity) -> list[NodeSelectorTerm]:
    nodes = affinity.node_affinity
    if nodes is None:
        return []
    wishes = nodes.preferred_during_scheduling_ignored_during_execution
    required = nodes.required.node_selector_terms if nodes.required is not None else ()
    return [*required, *(wish.preference for wish in wishes)]


def _pod_terms(affinity: PodAffinity | None) -> list[PodAffinityTerm]:
    if affinity is None:
        return []
    return [*affinity.required, *(wish.pod_affinity_term for wish in affinity.preferred)]


def _size(selector: LabelSelector | None) -> int:
    return selector.size if selector is not None else 0


def too_large_text(excess: str) -> str:
    """Say that a pod is too large to be decided."""
    return f"pod is too large: {excess}"
