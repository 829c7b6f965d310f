"""Wire types of Reservation: an expiring lock on node capacity for a pod that has not arrived yet."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tidelock.model.api.lease import ReservationLease, ReservationLeaseStatus
from tidelock.model.api.migration import MayMove, MovePlan
from tidelock.model.api.owners import OWNER_TEXT_LENGTH, Owners
from tidelock.model.api.placement import (
    Affinity,
    LabelSelector,
    NodeLabels,
    Toleration,
    Tolerations,
)
from tidelock.model.api.pod_template import PodTemplate
from tidelock.model.api.reserved_devices import MOST_RESERVED_DEVICES, ReservedDevice
from tidelock.model.api.resource_list import ReservedAmounts
from tidelock.model.api.two_phase import Commit, CommitStatus
from tidelock.model.api.wire import (
    LARGEST_INTEGER,
    LIST_SET,
    YEAR_SECONDS,
    Condition,
    Conditions,
    DnsLabel,
    Generation,
    GivenTimestamp,
    LabelKey,
    Rule,
    StatusWire,
    Subdomain,
    Timestamp,
    Uid,
    Wire,
    exactly_one,
    spec_problems,
)

__all__ = [
    "Affinity",
    "Ask",
    "BoundPod",
    "Condition",
    "LabelSelector",
    "Membership",
    "Phase",
    "PodTemplate",
    "ReservationSpec",
    "ReservationStatus",
    "Toleration",
    "Topology",
    "spec_problems",
]

MOST_MEMBERS = 256
MOST_ALTERNATIVES = 256
_Digest = Annotated[str, Field(max_length=16)]
_Digests = Annotated[dict[_Digest, _Digest], Field(max_length=4)]
_Amounts = Annotated[dict[str, Annotated[str, Field(max_length=32)]], Field(max_length=2048)]


def _belongs_in_template(field: str) -> Rule:
    return Rule(
        f"!has(self.template) || !has(self.{field})",
        f"{field} is refused beside template: it belongs in template.spec",
        field=f".{field}",
        reason="FieldValueForbidden",
    )


def _reachable(field: str) -> Rule:
    return Rule(
        "self >= timestamp('1970-01-01T00:00:00Z') && self < timestamp('9999-01-01T00:00:00Z')",
        f"{field} must be between the years 1970 and 9998",
    )


def _refused_beside(field: str, expression: str, other: str, because: str) -> Rule:
    """Refuse a field beside another one when an expression shows that the field is set."""
    return Rule(
        f"!({expression})",
        f"{field} is refused beside {other}: {because}",
        field=f".{field}",
        reason="FieldValueForbidden",
    )


_LENDS = "has(self.borrowable) && self.borrowable"
_REUSED = "has(self.reuse) && self.reuse == 'Always'"
_PREEMPTS = "self.preemptionPolicy != 'Never'"
_IN_GROUPS = {
    "startAt": "has(self.startAt)",
    "lease": "has(self.lease)",
    "preemptionPolicy": _PREEMPTS,
    "reuse": _REUSED,
    "commit": "has(self.commit)",
    "anyOf": "has(self.anyOf)",
    "mayMove": "has(self.mayMove)",
}
_NOT_LENT = {"reuse": _REUSED, "startAt": "has(self.startAt)", "runSeconds": "has(self.runSeconds)"}

ONE_END = exactly_one("ttlSeconds", "expireAt")


class CapacityRequest(Wire):
    """Amount of capacity that a reservation requests, and constraints on its node."""

    node_name: Subdomain | None = None
    """Name of the node on which to reserve capacity. Absent: any node that satisfies the other
    constraints."""
    node_selector: NodeLabels | None = None
    """Labels that the node must have."""
    affinity: Affinity | None = None
    """Node affinity: the nodes that the reservation requires or prefers."""
    tolerations: Tolerations | None = None
    """Tolerations for the taints of the node."""
    resources: ReservedAmounts | None = None
    """Amounts to reserve, by resource. Exactly one of resources and template is required."""
    template: PodTemplate | None = None
    """Pod template to reserve capacity for. Exactly one of resources and template is required."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *exactly_one("resources", "template"),
        _belongs_in_template("nodeSelector"),
        _belongs_in_template("affinity"),
        _belongs_in_template("tolerations"),
    )


Priority = Annotated[int, Field(ge=-(2**31), le=1_000_000_000)]


class Ask(CapacityRequest):
    """Request of a reservation: its amounts, the constraints on its node, and its priority."""

    priority: Priority = 0
    """Priority of the reservation. The reservation of lowest priority loses its capacity first, when a node
    shrinks or a pod of higher priority preempts it. A priority above 0 needs a
    ReservationQuota with a maxPriority that allows it."""


class Lending(Wire):
    """Whether other pods may use the capacity until an owner needs it."""

    borrowable: bool | None = None
    """True: pods with the annotation tidelock.dev/borrows may use the reserved capacity until an owner needs
    it."""
    borrower_namespaces: (
        Annotated[list[DnsLabel], Field(min_length=1, max_length=64, json_schema_extra=LIST_SET)] | None
    ) = None
    """Namespaces of the pods that may borrow the reserved capacity. Absent: all namespaces. It can't be
    changed."""


class Topology(Wire):
    """Placement of a group's members over domains: values of a node label, such as racks or zones."""

    mode: Literal["Pack", "Spread"]
    """Pack: all members are placed in one domain. Spread: each member is placed in the domain with the fewest
    members that has capacity for it."""
    key: LabelKey
    """Node label with a value for each domain. A node without this label takes no member."""


PreemptionPolicy = Literal["Never", "PreemptLowerPriority"]


class Membership(Wire):
    """Group that a reservation is a member of, as the operator writes it."""

    name: Subdomain
    """Name of the ReservationGroup."""
    uid: Uid
    """UID of the ReservationGroup. An earlier or later group of the same name does not count."""
    members: Annotated[int, Field(ge=1, le=MOST_MEMBERS)]
    """Number of members in the group."""
    min_members: Annotated[int, Field(ge=1, le=MOST_MEMBERS)]
    """Number of members that must hold capacity, or have been taken by their pods, before any member holds
    capacity."""
    topology: Topology | None = None
    """Placement of the members over domains of nodes. Absent: each member is placed where it fits best."""


_EVICTING_HOLD = (
    "commit is refused beside preemptionPolicy PreemptLowerPriority: a hold would evict pods when it is"
    " prepared, in each cluster that is asked, and not when it is committed"
)
_MOVING_HOLD = (
    "commit is refused beside mayMove.automatically: a hold would have pods moved when it is prepared,"
    " and not when it is committed; approve its plan instead"
)
NO_EVICTING_HOLD = (
    Rule(
        "!has(self.commit) || self.preemptionPolicy == 'Never'",
        _EVICTING_HOLD,
        field=".preemptionPolicy",
        reason="FieldValueForbidden",
    ),
    Rule(
        "!has(self.commit) || !has(self.mayMove) || !has(self.mayMove.automatically)"
        " || !self.mayMove.automatically",
        _MOVING_HOLD,
        field=".mayMove",
        reason="FieldValueForbidden",
    ),
)

_LATER_DEVICES = "devices are held from the decision on, and not from a later time"
NO_LATER_DEVICES = Rule(
    "!has(self.template) || !has(self.template.spec.resourceClaims)",
    f"resourceClaims is refused in a window: {_LATER_DEVICES}",
    field=".template",
    reason="FieldValueForbidden",
)
SHARED_CLAIM = "resourceClaimName is refused in a group: its members would hold devices for one claim"

EndOfLife = Annotated[GivenTimestamp, _reachable("expireAt")]


class ReservationSpec(Ask, Lending):
    """Capacity to reserve: amounts, node constraints, owners and lifetime."""

    owners: Owners
    """Pods of this namespace that may take the reservation. The terms are ORed, the fields of a term are
    ANDed."""
    expire_at: EndOfLife | None = None
    """Time at which the reservation ends, with a time zone. Exactly one of ttlSeconds and expireAt is
    required."""
    ttl_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)] | None = None
    """Lifetime in seconds, counted from when the reservation becomes active. Exactly one of ttlSeconds and
    expireAt is required."""
    start_at: Annotated[GivenTimestamp, _reachable("startAt")] | None = None
    """Time from which the reservation holds its capacity. Until then the capacity is planned, and pods that
    end before this time can use it."""
    run_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)] | None = None
    """Longest run time in seconds of the pod, once it is bound. Absent: unknown, so the pod counts as running
    forever."""
    lease: ReservationLease | None = None
    """Lease that ends the reservation earlier unless its holder renews the lease. It can be changed at any
    time."""
    commit: Commit | None = None
    """Two-phase commit: the active reservation counts as prepared, and ends unless it is committed in
    time."""
    any_of: DnsLabel | None = None
    """Name of a set of alternative reservations in this namespace. As soon as one of the set is chosen, all
    others end. It can't be changed."""
    pending_deadline_seconds: Annotated[int, Field(ge=0, le=YEAR_SECONDS)] = 60
    """Longest time in seconds that the reservation waits for capacity before it is rejected. 0: it is granted
    at once or rejected."""
    # The CRD has no default, because an older operator refuses fields that it does not know.
    reuse: Literal["Never", "Always"] | None = None
    """Absent or Never: the reservation ends when an owner is bound. Always: it keeps its capacity for the
    next owner."""
    preemption_policy: PreemptionPolicy = "Never"
    """Never: the reservation waits for capacity. PreemptLowerPriority: pods and reservations of lower
    priority are evicted for it, if the preemptionPolicy of a ReservationQuota allows that."""
    may_move: MayMove | None = None
    """Migration of a few pods to other nodes, to free capacity for the reservation while it waits. A plan
    needs approval first. Absent: no pod is moved."""
    on_violation: Literal["Keep", "Move"] = "Keep"
    """Reaction when a pod takes reserved capacity all the same. Keep: hold the rest, and wait on the same
    node. Move: wait again, for any node."""
    retention: Literal["Delete", "Retain"] = "Delete"
    """Delete: the object is deleted when the reservation ends. Retain: the object stays, and reserves
    nothing."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=YEAR_SECONDS)] | None = None
    """Time in seconds that a retained object stays after the reservation has ended. Absent: it stays until it
    is deleted."""
    group: Membership | None = None
    """ReservationGroup that the reservation is a member of. The operator creates the members and writes this
    field."""
    answer: Literal["Immediate"] | None = None
    """Immediate: the response to the creation already has the answer, as the annotation tidelock.dev/answer,
    if the cluster serves such answers. Absent: only the status has the answer."""

    rules = (
        *Ask.rules,
        *ONE_END,
        Rule(
            "!has(self.startAt) || !has(self.expireAt) || self.startAt < self.expireAt",
            "expireAt must be after startAt",
            field=".expireAt",
        ),
        *(
            _refused_beside(
                field,
                f"has(self.group) && {given}",
                "group",
                "the members of a group get and lose their capacity together",
            )
            for field, given in _IN_GROUPS.items()
        ),
        *(
            _refused_beside(
                field,
                f"{_LENDS} && {given}",
                "borrowable",
                "lent capacity is the owner's at any time",
            )
            for field, given in _NOT_LENT.items()
        ),
        _refused_beside(
            "preemptionPolicy",
            f"has(self.mayMove) && {_PREEMPTS}",
            "mayMove",
            "capacity is freed by moving pods, or by evicting those of lower priority",
        ),
        _refused_beside(
            "pendingDeadlineSeconds",
            "has(self.mayMove) && self.pendingDeadlineSeconds == 0",
            "mayMove",
            "a reservation waits until pods have moved, so 0 is too short",
        ),
        *NO_EVICTING_HOLD,
        _refused_beside(
            "startAt",
            "has(self.startAt) && has(self.template) && has(self.template.spec.resourceClaims)",
            "resourceClaims",
            _LATER_DEVICES,
        ),
    )

    @property
    def conflict(self) -> str:
        """Return the rule between fields that an object older than the rule breaks, or an empty string."""
        if self.start_at is not None and self.template is not None and self.template.spec.resource_claims:
            return f"spec.startAt is refused beside resourceClaims: {_LATER_DEVICES}"
        if self.group is not None and self.template is not None and self.template.spec.names_claims:
            return f"spec.template.spec.resourceClaims: {SHARED_CLAIM}"
        if self.commit is None:
            return ""
        if self.preemption_policy != "Never":
            return f"spec.preemptionPolicy: {_EVICTING_HOLD}"
        moves = self.may_move is not None and self.may_move.automatically
        return f"spec.mayMove: {_MOVING_HOLD}" if moves else ""


class Phase(StrEnum):
    """Summary of the conditions, for people to read."""

    PENDING = "Pending"
    PLANNED = "Planned"
    ACTIVE = "Active"
    BOUND = "Bound"
    CONSUMED = "Consumed"
    EXPIRED = "Expired"
    LOST = "Lost"
    REJECTED = "Rejected"
    TERMINATING = "Terminating"


ENDED_PHASES = frozenset({Phase.CONSUMED, Phase.EXPIRED, Phase.LOST, Phase.REJECTED, Phase.TERMINATING})
"""Phases without capacity, which last unless a rejected reservation is edited."""

URGENCY = {
    Phase.PENDING: 0,
    Phase.PLANNED: 1,
    Phase.BOUND: 1,
    Phase.ACTIVE: 1,
    Phase.REJECTED: 2,
    Phase.LOST: 2,
    Phase.EXPIRED: 3,
    Phase.CONSUMED: 3,
    Phase.TERMINATING: 3,
}
"""The order in which reservations are shown to people: those that wait first, those that ended well last."""


class BoundPod(StatusWire):
    """Pod that took the reservation. Of several pods that share one for reuse, it is the first by name."""

    name: Subdomain
    """Name of the pod."""
    uid: Uid
    """UID of the pod."""


class Queue(StatusWire):
    """Position of a waiting reservation in the queue, as of a moment ago."""

    position: Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
    """Position among all waiting reservations, from 1: by priority, then by the namespaces' shares, then by
    age. It assumes that each reservation before it is granted, which raises the share of its namespace."""
    length: Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
    """Number of waiting reservations."""
    place: Annotated[str, Field(max_length=64)]
    """Position and length of the queue as one short text."""
    estimated_start: Timestamp | None = None
    """Earliest time at which one node has enough capacity, because reservations and pods with a known end are
    over. It compares amounts alone, and assumes that no other pod takes the capacity. Absent if that time is
    unknown."""
    earmark: Subdomain | None = None
    """Node on which capacity is kept for the reservation as it becomes free, because the reservation has
    waited for long."""


class ReservationStatus(StatusWire):
    """Observed state of the reservation. The condition Active=True is a guarantee."""

    observed_generation: Generation | None = None
    """Generation of the spec that the status describes, or -1 before the first decision."""
    phase: Phase | None = None
    """Summary of the conditions, for people to read."""
    node_name: Subdomain | None = None
    """Name of the node on which the capacity is reserved."""
    node_uid: Annotated[Uid | None, Field(alias="nodeUID")] = None
    """UID of the node on which the capacity is reserved. A node recreated under the same name has another
    UID."""
    activated_at: Timestamp | None = None
    """Time at which the reservation became active."""
    expires_at: Timestamp | None = None
    """Time at which the reservation ends at the latest."""
    queue: Queue | None = None
    """Position of the reservation in the queue, while it waits."""
    lease: ReservationLeaseStatus | None = None
    """State of the lease, if the reservation has one."""
    commit: CommitStatus | None = None
    """State of the two-phase commit, if the reservation has one."""
    plan: MovePlan | None = None
    """Pods that must move to free capacity for the reservation, or are being moved, if spec.mayMove allows
    that."""
    moved: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] | None = None
    """Number of pods that were evicted for the reservation by finished plans. After a failover it is an upper
    bound."""
    finished_at: Timestamp | None = None
    """Time at which the reservation ended."""
    bound_pod: BoundPod | None = None
    """Pod that took the reservation, or runs in it now if the reservation is for reuse."""
    occupied_seconds: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] | None = None
    """Time in seconds during which owners ran in a reservation for reuse, up to when the last one left."""
    epoch: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] | None = None
    """Epoch of the leader that decided on the reservation."""
    resources: _Amounts | None = None
    """Amounts that are reserved, or requested while the reservation waits."""
    granted_template: _Digests | None = None
    """Digests of the parts of the template with which the reservation was placed: labels, affinity to pods,
    hostPorts and limits. A part with another digest is an edit that waits. It does not count for other pods
    yet."""
    devices: Annotated[list[ReservedDevice], Field(max_length=MOST_RESERVED_DEVICES)] | None = None
    """Devices that are held for the resource claims of the template."""
    used: _Amounts | None = None
    """Amounts that owners in a reservation for reuse take from it. The rest is held for other owners."""
    lent: _Amounts | None = None
    """Amounts that borrowers take from a borrowable reservation. Borrowers are evicted when an owner needs
    the capacity."""
    borrowers: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] | None = None
    """Number of pods that borrow capacity of the reservation."""
    owner: Annotated[str, Field(max_length=OWNER_TEXT_LENGTH)] | None = None
    """Short text that names the owners."""
    conditions: Conditions = Field(default_factory=list)
    """Conditions of the reservation: Active, Ready, Reconciling, Stalled, Expired, Violated, Occupied, Lent,
    LeaseLapsed, Committed and MovePlanned."""
