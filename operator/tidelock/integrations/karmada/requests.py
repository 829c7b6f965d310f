"""Requests of Karmada's scheduler to an estimator, decoded into the pods that an estimate is about.

The field numbers are those of pkg/estimator/pb/estimator.proto of Karmada 1.18. Earlier versions send
amounts, node affinity and tolerations only as messages, and this version also as the bytes of these messages.
Both have the same encoding, so a reader needs to know both numbers and no more. The messages in them are
those of k8s.io/api/core/v1 and of k8s.io/apimachinery.
"""

from dataclasses import dataclass

from tidelock.integrations.karmada.protobuf import Message
from tidelock.model.meta import ObjectMeta
from tidelock.model.pod_limits import excess
from tidelock.model.pod_placement import Affinity, NodeAffinity
from tidelock.model.pods import Pod, PodSpec
from tidelock.model.quantities import PODS, QuantityError, parse_quantity
from tidelock.model.requests import Container, ResourceRequirements
from tidelock.model.reserve_pod import reserve_pod_of
from tidelock.model.selectors import NodeSelector, NodeSelectorTerm, Requirement, Toleration
from tidelock.scheduler.core.estimation import PodSet

MOST_COMPONENTS = 16
"""Components of one set."""
MOST_KINDS = 64
"""Different replicas of assumed workloads: equal ones count as one."""

_NANOSECONDS = 1e9
# Numbers of the field with the amounts: of a replica, of a component, and of both in earlier versions.
_OF_REPLICA, _OF_COMPONENT, _EARLIER = 5, 4, 2


@dataclass(frozen=True, slots=True)
class ReplicasRequest:
    """A question how many more replicas a cluster takes, beside assumed ones."""

    cluster: str
    pod: Pod
    assumed: tuple[PodSet, ...]


@dataclass(frozen=True, slots=True)
class SetsRequest:
    """A question how many more sets of components a cluster takes, beside assumed replicas."""

    cluster: str
    components: tuple[PodSet, ...]
    assumed: tuple[PodSet, ...]


@dataclass(frozen=True, slots=True)
class UnschedulableRequest:
    """A question how many replicas of a workload are unschedulable for longer than some seconds."""

    cluster: str
    api_version: str
    kind: str
    namespace: str
    name: str
    seconds: float


def read_replicas(data: bytes) -> ReplicasRequest:
    """Decode a MaxAvailableReplicasRequest, or raise FieldError."""
    request = Message(data)
    replica = request.message(2, "replicaRequirements")
    namespace = replica.text(3, "namespace") if replica is not None else ""
    pod = _pod(replica, namespace, _OF_REPLICA)
    return ReplicasRequest(request.text(1, "cluster"), pod, _assumed(request, 3))


def read_sets(data: bytes) -> SetsRequest:
    """Decode a MaxAvailableComponentSetsRequest, or raise FieldError."""
    request = Message(data)
    namespace = request.text(3, "namespace")
    components: list[PodSet] = []
    for each in request.messages(2, "components"):
        if len(components) == MOST_COMPONENTS:
            raise request.error("components", f"at most {MOST_COMPONENTS} are supported")
        components.append(PodSet(_component(each, namespace), each.count(3, "replicas")))
    return SetsRequest(request.text(1, "cluster"), tuple(components), _assumed(request, 4))


def read_unschedulable(data: bytes) -> UnschedulableRequest:
    """Decode an UnschedulableReplicasRequest, or raise FieldError. Its threshold is in nanoseconds."""
    request = Message(data)
    resource = request.message(2, "resource")
    if resource is None:
        raise request.error("resource", "is required")
    return UnschedulableRequest(
        request.text(1, "cluster"),
        resource.text(1, "apiVersion"),
        resource.text(2, "kind"),
        resource.text(3, "namespace"),
        resource.text(4, "name"),
        max(request.integer(3, "unschedulableThreshold"), 0) / _NANOSECONDS,
    )


def _assumed(request: Message, number: int) -> tuple[PodSet, ...]:
    """Read the replicas of assumed workloads. Equal ones are one PodSet."""
    name = "assumedWorkloads"
    pods: dict[tuple[str, object], Pod] = {}
    counts: dict[tuple[str, object], int] = {}
    for workload in request.messages(number, name):
        namespace = workload.text(1, "namespace")
        for component in workload.messages(2, "components"):
            pod = _component(component, namespace)
            kind = namespace, pod.placement_key
            pods.setdefault(kind, pod)
            counts[kind] = counts.get(kind, 0) + component.count(3, "replicas")
            if len(pods) > MOST_KINDS:
                raise request.error(name, f"at most {MOST_KINDS} different components are supported")
    return tuple(PodSet(pods[kind], counts[kind]) for kind in pods if counts[kind])


def _component(component: Message, namespace: str) -> Pod:
    return _pod(component.message(2, "replicaRequirements"), namespace, _OF_COMPONENT)


def _pod(replica: Message | None, namespace: str, number: int) -> Pod:
    """Return a reserve pod with the demands of a replica. Without demands it requests nothing."""
    if replica is None:
        replica = Message(b"")
    amounts = _amounts(replica, number)
    requests: dict[str, int] = {}
    for resource, amount in amounts.items():
        try:
            requests[resource] = parse_quantity(resource, amount)
        except QuantityError as error:
            raise replica.error("resourceRequest", str(error)) from error
        if requests[resource] < 0:
            raise replica.error("resourceRequest", f"{resource}: {amount} is negative")
    requests[PODS] = max(requests.get(PODS, 0), 1)
    spec = _spec(replica.message(1, "nodeClaim") or Message(b""), amounts)
    pod = reserve_pod_of(ObjectMeta("estimate", namespace), spec, requests)
    if too_much := excess(pod):
        raise replica.error("", too_much)
    return pod


def _amounts(replica: Message, number: int) -> dict[str, str | int]:
    """Return the requested quantities. One without a text is zero."""
    entries = list(replica.entries(number, "resourceRequestBytes"))
    entries = entries or list(replica.entries(_EARLIER, "resourceRequest"))
    found = ((resource, entry.message(2, "value")) for resource, entry in entries)
    return {name: (each.text(1, "string") if each is not None else "") or "0" for name, each in found}


def _spec(claim: Message, amounts: dict[str, str | int]) -> PodSpec:
    """Return the spec of a pod with these requests, and with the constraints of a NodeClaim."""
    affinity = claim.message(4, "nodeAffinityBytes") or claim.message(1, "nodeAffinity")
    tolerations = list(claim.messages(5, "tolerationsBytes")) or claim.messages(3, "tolerations")
    required = None
    if affinity is not None:
        terms = tuple(map(_term, affinity.messages(1, "nodeSelectorTerms")))
        required = Affinity(NodeAffinity(NodeSelector(terms)))
    return PodSpec(
        containers=(Container(resources=ResourceRequirements(amounts)),),
        node_selector={key: entry.text(2, "value") for key, entry in claim.entries(2, "nodeSelector")},
        affinity=required,
        tolerations=tuple(map(_toleration, tolerations)),
    )


def _term(term: Message) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(map(_requirement, term.messages(1, "matchExpressions"))),
        tuple(map(_requirement, term.messages(2, "matchFields"))),
    )


def _requirement(each: Message) -> Requirement:
    return Requirement(each.text(1, "key"), each.text(2, "operator"), each.texts(3, "values"))


def _toleration(each: Message) -> Toleration:
    return Toleration(
        key=each.text(1, "key"),
        operator=each.text(2, "operator"),
        value=each.text(3, "value"),
        effect=each.text(4, "effect"),
    )
