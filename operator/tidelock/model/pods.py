"""Pods as the scheduler sees them."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from math import inf, nan

import msgspec
from msgspec.structs import replace

from tidelock.model.api.wire import YEAR_SECONDS
from tidelock.model.instants import from_datetime
from tidelock.model.lenient import Reader
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.pod_group import SchedulingGroup
from tidelock.model.pod_placement import Affinity, SpreadConstraint
from tidelock.model.pod_volumes import ClaimUse, Disk, Volume, claims_of, disks_of
from tidelock.model.quantities import CPU, MEMORY, Resources, parse_resources
from tidelock.model.requests import (
    Allocation,
    ContainerStatus,
    HostPort,
    Report,
    WorkloadResources,
    container_weights,
    host_ports,
    lasting_use,
    nonzero_requests,
    total_requests,
)
from tidelock.model.resource_claims import PodResourceClaim, PodResourceClaimStatus
from tidelock.model.selectors import Toleration

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
PREEMPTED_CONDITION = ("DisruptionTarget", "True", "PreemptionByScheduler")
"""Type, status and reason of the condition that a scheduler sets on its victims."""
_SCHEDULED = ("PodScheduled", "True")
_INFEASIBLE_RESIZE = ("PodResizePending", "Infeasible")
_RESTARTS_ALL = "RestartAllContainersOnContainerExits"
_OWN_USERS_IN_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
REQUIRE_RESERVATION = "tidelock.dev/require-reservation"
RUN_SECONDS = "tidelock.dev/run-seconds"
"""Annotation: how long a pod without activeDeadlineSeconds runs at most, as its creator states."""
START_SECONDS = 60.0
"""Seconds after its binding within which a pod is assumed to start. Its deadline counts from its start."""
BORROWS = "tidelock.dev/borrows"
CLAIMED_RESERVATIONS = "tidelock.dev/claimed-locks"
"""Annotation of a binding: the uids of the reservations that the pod took, separated by commas."""

# The API server accepts annotations of up to 256 KiB, and thousands of reservations may name one pod. No more
# are written, and no more are read.
_MOST_CLAIMS = 1000


def claims_annotation(uids: Sequence[str]) -> dict[str, str]:
    """Return the annotation with the uids of the reservations that a pod took."""
    return {CLAIMED_RESERVATIONS: ",".join(uids[:_MOST_CLAIMS])}


class SchedulingGate(msgspec.Struct, frozen=True):
    """A named reason not to schedule a pod yet."""

    name: str


class PodSpec(WorkloadResources, frozen=True, rename="camel"):
    """The part of a pod's spec that scheduling reads."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    preemption_policy: str = "PreemptLowerPriority"
    service_account_name: str = ""
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int = 30
    host_network: bool = False
    host_users: bool | None = None
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    topology_spread_constraints: tuple[SpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()

    @property
    def may_preempt(self) -> bool:
        """Whether other pods may be evicted for the pod."""
        return self.preemption_policy != "Never"


class PodCondition(msgspec.Struct, frozen=True, rename="camel"):
    """One condition of a pod's status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class PodStatus(Allocation, frozen=True, rename="camel"):
    """The part of a pod's status that scheduling reads."""

    phase: str = ""
    start_time: datetime | None = None
    nominated_node_name: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class Pod(msgspec.Struct, frozen=True, rename="camel", dict=True):
    """A pod, or a reserve pod with which a reservation is placed."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @cached_property
    def meta(self) -> ObjectMeta:
        """Identity and labels."""
        return self.metadata

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.metadata.key

    @cached_property
    def uid(self) -> str:
        """The identity, which a later pod of the same name does not share."""
        return self.metadata.uid

    @property
    def node_name(self) -> str:
        """The node to which the pod is bound, or empty before."""
        return self.spec.node_name

    @property
    def finished(self) -> bool:
        """Whether the pod has ended and uses nothing any more."""
        return self.status.phase in FINISHED_PHASES

    @property
    def leaving(self) -> bool:
        """Whether the pod has ended or has been asked to end."""
        return self.finished or self.metadata.deletion_timestamp is not None

    @property
    def requires_reservation(self) -> bool:
        """Whether the pod may only take capacity that is reserved for it."""
        return self.metadata.annotations.get(REQUIRE_RESERVATION) == "true"

    @property
    def borrows(self) -> bool:
        """Whether the pod may use borrowable reservations, and can be evicted for their owners."""
        return self.metadata.annotations.get(BORROWS) == "true"

    @cached_property
    def claimed_reservations(self) -> frozenset[str] | None:
        """Uids of the reservations that the pod took, and of their groups, or None if unknown."""
        claims = self.metadata.annotations.get(CLAIMED_RESERVATIONS) if self.node_name else None
        if claims is None:
            return None
        return frozenset(filter(None, claims.split(",", _MOST_CLAIMS)[:_MOST_CLAIMS]))

    @cached_property
    def bound_at(self) -> float:
        """Time of the binding by the status, or of the start or creation, or 0 if none is known."""
        bound = (
            each.last_transition_time
            for each in self.status.conditions
            if (each.type, each.status) == _SCHEDULED and each.last_transition_time is not None
        )
        moment = next(bound, None) or self.status.start_time or self.metadata.creation_timestamp
        return from_datetime(moment) if moment is not None else 0.0

    @property
    def of_daemon_set(self) -> bool:
        """Whether the pod belongs to a DaemonSet, which has no other node for it."""
        return self.meta.controller is not None and self.meta.controller.kind == "DaemonSet"

    @property
    def run_seconds(self) -> float:
        """Longest time on its node in seconds, from its start there, or infinite if it is unknown.

        An annotation that is no number of seconds up to a year is ignored.
        """
        running: float | None = self.spec.active_deadline_seconds
        if running is None:
            running = _seconds(self.metadata.annotations.get(RUN_SECONDS, ""))
        return running + self.spec.termination_grace_period_seconds

    @property
    def ends_at(self) -> float:
        """End of its grace period, in seconds since the epoch, or infinite if it was not asked to end."""
        asked = self.metadata.deletion_timestamp
        return inf if asked is None else from_datetime(asked)

    def gone_by(self, assumed_at: float) -> float:
        """Return when the pod is gone from its node, or infinite if that is unknown or frees no capacity.

        Capacity that a borrower leaves is a reservation's again.

        Args:
            assumed_at: when the pod's node was decided, if its binding has not been seen.

        """
        if self.run_seconds == inf or self.borrows:
            return inf
        if self.status.start_time is not None:
            return from_datetime(self.status.start_time) + self.run_seconds
        return max(assumed_at, self.bound_at if self.node_name else 0.0) + START_SECONDS + self.run_seconds

    @cached_property
    def requests(self) -> Resources:
        """The amounts of a node's allocatable that the pod takes, with itself as one of `pods`."""
        return self.template.requests if self._as_specified else total_requests(self.spec, self._report)

    @cached_property
    def _as_specified(self) -> bool:
        """Whether the kubelet reports no other amounts than those of the spec, as for most pods."""
        if self.status.resources is not None or self.status.allocated_resources:
            return False
        if (report := self._report).infeasible:
            return False
        containers = (*self.spec.init_containers, *self.spec.containers)
        asked = {each.name: each.resources.requests for each in containers}
        for name, each in report.containers.items():
            for amounts in (each.allocated_resources, each.actual):
                if amounts and amounts != asked.get(name):
                    return False
        return True

    @property
    def _report(self) -> Report:
        status = self.status
        statuses = (*status.init_container_statuses, *status.container_statuses)
        infeasible = any((c.type, c.reason) == _INFEASIBLE_RESIZE for c in status.conditions)
        return Report({each.name: each for each in statuses}, status, infeasible)

    @cached_property
    def likely_use(self) -> tuple[float, float]:
        """Cpu and memory by the limit of each container, otherwise its request, or NaN if neither is set."""
        total = lasting_use(self.spec, lambda each: parse_resources({**each.requests, **each.limits}))
        return float(total.get(CPU, 0)) or nan, float(total.get(MEMORY, 0)) or nan

    @cached_property
    def template(self) -> "PodTemplate":
        """Values derived from the fields of the spec by which nodes are chosen, except for neighbours.

        The node that a pod names, or is on, is not among these fields, so placed pods of a template also
        share the values.
        """
        spec = self.spec
        node_affinity = spec.affinity.node_affinity if spec.affinity else None
        volumes = tuple(replace(volume, name="") for volume in spec.volumes if not volume.plain)
        return _template(
            _ENCODER.encode(
                replace(
                    spec,
                    node_name="",
                    scheduler_name="",
                    priority=0,
                    preemption_policy="",
                    service_account_name="",
                    active_deadline_seconds=None,
                    termination_grace_period_seconds=0,
                    affinity=Affinity(node_affinity),
                    scheduling_gates=(),
                    scheduling_group=None,
                    topology_spread_constraints=(),
                    volumes=volumes,
                )
            )
        )

    @cached_property
    def nonzero(self) -> tuple[int, int]:
        """Cpu and memory for scoring once it is placed. A container without requests has a default weight."""
        return self.template.nonzero if self._as_specified else nonzero_requests(self.spec, self._report)

    @property
    def container_weights(self) -> tuple[int, int]:
        """Cpu and memory for scoring before it is placed, without the requests of the pod as a whole."""
        return self.template.container_weights

    @property
    def host_ports(self) -> tuple[HostPort, ...]:
        """The ports that the pod takes on its node."""
        return self.template.host_ports

    @cached_property
    def claims(self) -> tuple[ClaimUse, ...]:
        """The claims that its volumes need, without duplicates."""
        volumes = self.spec.volumes
        return tuple(dict.fromkeys(claims_of(self.meta.name, volumes))) if volumes else ()

    @cached_property
    def placement_key(self) -> tuple[object, ...]:
        """A key that is equal for pods with the same demands on a node, neighbours aside.

        A pod's neighbours are chosen by its namespace, labels, affinity to pods and spread constraints.
        """
        return (
            self.spec.node_name,
            self.template.demands,
            tuple(sorted(self.requests.items())),
            (self.meta.namespace, self.claims) if self.claims else (),
        )


class PodTemplate:
    """Values common to the pods of one template, each computed when a pod of it first needs it."""

    def __init__(self, spec: PodSpec) -> None:
        self._spec = spec

    @cached_property
    def requests(self) -> Resources:
        """The amounts of a node's allocatable that a pod takes by its spec, with itself as one of `pods`."""
        return total_requests(self._spec)

    @cached_property
    def limits(self) -> tuple[Resources, ...]:
        """The limits of each container, and of the pod as a whole."""
        limited = [each.resources for each in (*self._spec.containers, *self._spec.init_containers)]
        return tuple(parse_resources(each.limits) for each in (*limited, self._spec.resources) if each)

    @cached_property
    def nonzero(self) -> tuple[int, int]:
        """Cpu and memory for scoring, with defaults for containers without requests."""
        return nonzero_requests(self._spec)

    @cached_property
    def container_weights(self) -> tuple[int, int]:
        """The same without the requests of the pod as a whole."""
        return self.nonzero if self._spec.resources is None else container_weights(self._spec)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """The ports that the pod takes on its node."""
        return host_ports(self._spec, host_network=self._spec.host_network)

    @cached_property
    def disks(self) -> tuple[Disk, ...]:
        """The disks that it mounts without a claim."""
        return tuple(dict.fromkeys(disk for volume in self._spec.volumes for disk in disks_of(volume)))

    @cached_property
    def needed_features(self) -> tuple[str, ...]:
        """The features that its node must declare, of those in Kubernetes 1.36 (KEP-5328)."""
        return tuple(_needed_features(self._spec))

    @cached_property
    def demands(self) -> tuple[object, ...]:
        """A key that is equal for templates with the same demands on a node."""
        spec = self._spec
        return (
            self.container_weights,
            tuple(sorted(spec.node_selector.items())),
            _ENCODER.encode((spec.affinity, spec.tolerations, spec.volumes, spec.resource_claims)),
            tuple(container.image for container in (*spec.init_containers, *spec.containers)),
            self.host_ports,
            self.needed_features,
        )


def _seconds(text: str) -> float:
    """Return the whole seconds of an annotation, at most a year, or infinity if it has none."""
    if not (text.isascii() and text.isdecimal() and len(text.lstrip("0")) <= len(str(YEAR_SECONDS))):
        return inf
    return seconds if (seconds := float(text)) <= YEAR_SECONDS else inf


_ENCODER = msgspec.json.Encoder()
_SPEC_DECODER = msgspec.json.Decoder(PodSpec)


@lru_cache(maxsize=4096)
def _template(spec: bytes) -> PodTemplate:
    """Read an encoded spec. Bytes are a faster cache key than the decoded spec."""
    return PodTemplate(_SPEC_DECODER.decode(spec))


def _needed_features(spec: PodSpec) -> Iterator[str]:
    rules = (rule for each in (*spec.containers, *spec.init_containers) for rule in each.restart_policy_rules)
    if any(rule.action == "RestartAllContainers" for rule in rules):
        yield _RESTARTS_ALL
    if spec.host_network and spec.host_users is False:
        yield _OWN_USERS_IN_HOST_NETWORK


def _check_quantities(pod: Pod) -> None:
    """Raise QuantityError for a bad quantity, before it could fail a decision."""
    _ = pod.requests, pod.template.limits


decode_pod = Reader(
    Pod,
    spare=r"metadata\.annotations(\[(?!tidelock\.dev/).*|\.\w+)"
    r"|spec\.(initContainers|containers)\[\d+\]\.(image|resources\.limits.*)|spec\.resources\.limits.*"
    r"|spec\.activeDeadlineSeconds|spec\.affinity\.\w+\.preferred.*"
    r"|status\.(conditions|startTime|nominatedNodeName).*",
    check=_check_quantities,
)
"""Decode a pod from its JSON, as far as it can be read. Raises ValueError if it has no name."""


def assigned_to(pod: Pod, node_name: str) -> Pod:
    """Return the pod as it is on a node to which it is bound or about to be bound."""
    if pod.node_name == node_name:
        return pod
    return replace(pod, spec=replace(pod.spec, node_name=node_name))
