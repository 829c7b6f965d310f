"""Wire types of Reservation: an expiring lock on node capacity for a pod that has not arrived yet."""

from collections.abc import Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from tidelock.model.api.lease import ReservationLease, ReservationLeaseStatus
from tidelock.model.api.migration import MayMove, MovePlan
from tidelock.model.api.placement import (
    Affinity,
    LabelExpression,
    LabelSelector,
    NodeLabels,
    Toleration,
    Tolerations,
)
from tidelock.model.api.pod_template import PodTemplate
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
    Refused,
    Rule,
    StatusWire,
    Subdomain,
    Timestamp,
    Uid,
    Wire,
    spec_problems,
)

__all__ = [
    "Affinity",
    "Ask",
    "BoundPod",
    "Condition",
    "ControllerOwner",
    "LabelSelector",
    "Membership",
    "Owner",
    "Phase",
    "PodOwner",
    "PodTemplate",
    "ReservationSpec",
    "ReservationStatus",
    "Toleration",
    "Topology",
    "owner_text",
    "spec_problems",
]

MOST_MEMBERS = 256
MOST_ALTERNATIVES = 256
MOST_CONDITIONS = 64
"""Labels and expressions in the owners' selectors of one lock, against which pods are held."""
_OWNER_TEXT_LENGTH = 320
# As CRDs may be named: only the versions of the core group, which have no group, all begin with a v.
_API_VERSION = r"^(v[a-z0-9]+|[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[a-z]([a-z0-9-]*[a-z0-9])?)$"
_Amounts = Annotated[dict[str, Annotated[str, Field(max_length=32)]], Field(max_length=2048)]


class _OwnerPart(Wire):
    """What all parts of an owner have in common."""

    refused = MappingProxyType(
        {"namespace": Refused("string", "owners are matched in the reservation's own namespace")}
    )


class PodOwner(_OwnerPart):
    """A pod by its name."""

    name: Subdomain
    """Name of the pod."""


class ControllerOwner(_OwnerPart):
    """Pods of one workload, found by the owner reference that marks their controller."""

    api_version: Annotated[str, Field(max_length=317, pattern=_API_VERSION)]
    """API version of the workload, such as apps/v1."""
    kind: Annotated[str, Field(max_length=63, pattern="^[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?$")]
    """Kind of the workload, such as StatefulSet."""
    name: Subdomain
    """Name of the workload."""


class Owner(_OwnerPart):
    """Pods that may take the lock: those that satisfy every field that is given."""

    pod: PodOwner | None = None
    """A pod by its name."""
    controller: ControllerOwner | None = None
    """Pods of one workload."""
    selector: LabelSelector | None = None
    """Pods by their labels."""
    service_account_name: Subdomain | None = None
    """Pods that run as this ServiceAccount, which can't be edited into a pod as a label can."""

    rules = (
        Rule(
            "has(self.pod) || has(self.controller) || has(self.selector) || has(self.serviceAccountName)",
            "an empty owner is refused: give pod, controller, selector or serviceAccountName",
            reason="FieldValueRequired",
        ),
    )


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


def exactly_one(of: str, other: str) -> tuple[Rule, Rule]:
    """Require one of two fields; the errors name the field that is missing, and the one that is too much."""
    text = f"exactly one of {of} and {other} is required"
    return (
        Rule(f"has(self.{of}) || has(self.{other})", text, field=f".{of}", reason="FieldValueRequired"),
        Rule(f"!has(self.{of}) || !has(self.{other})", text, field=f".{other}", reason="FieldValueForbidden"),
    )


def _refused_beside(field: str, expression: str, other: str, because: str) -> Rule:
    """Refuse a field, for which an expression is true if it is given, beside another one."""
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
    "borrowable": _LENDS,
    "commit": "has(self.commit)",
    "anyOf": "has(self.anyOf)",
    "mayMove": "has(self.mayMove)",
}
_NOT_LENT = {"reuse": _REUSED, "startAt": "has(self.startAt)", "runSeconds": "has(self.runSeconds)"}

ONE_END = exactly_one("ttlSeconds", "expireAt")


class CapacityRequest(Wire):
    """How much room a lock asks for, and where."""

    node_name: Subdomain | None = None
    """Node to hold the room on; absent: any node that satisfies the other constraints."""
    node_selector: NodeLabels | None = None
    """Labels that the node must have."""
    affinity: Affinity | None = None
    """Nodes that are required or preferred."""
    tolerations: Tolerations | None = None
    """Taints of the node that the lock ignores."""
    resources: ReservedAmounts | None = None
    """Room to hold, by resource; exactly one of resources and template is required."""
    template: PodTemplate | None = None
    """Pod to hold room for; exactly one of resources and template is required."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *exactly_one("resources", "template"),
        _belongs_in_template("nodeSelector"),
        _belongs_in_template("affinity"),
        _belongs_in_template("tolerations"),
    )


Priority = Annotated[int, Field(ge=-(2**31), le=1_000_000_000)]


class Ask(CapacityRequest):
    """What a lock asks of the cluster: how much room, where, and how important it is."""

    priority: Priority = 0
    """Importance: the lowest loses its room first, if a node shrinks or to a pod of higher priority. A
    priority above 0 needs a ReservationQuota whose maxPriority allows it."""


class Topology(Wire):
    """How members of a group are laid over domains: values of a label of nodes, such as racks or zones."""

    mode: Literal["Pack", "Spread"]
    """Pack: all in one domain. Spread: each in the domain with the fewest of them that has room for it."""
    key: LabelKey
    """Label of nodes whose values are the domains; nodes without it take no member."""


PreemptionPolicy = Literal["Never", "PreemptLowerPriority"]


class Membership(Wire):
    """The group that a lock is a member of, as the operator writes it."""

    name: Subdomain
    """Name of the ReservationGroup."""
    uid: Uid
    """Its uid; a group of the same name that came before or after it is another one."""
    members: Annotated[int, Field(ge=1, le=MOST_MEMBERS)]
    """How many members it has."""
    min_members: Annotated[int, Field(ge=1, le=MOST_MEMBERS)]
    """How many of them hold room, or have been taken by their pods, or none holds any."""
    topology: Topology | None = None
    """How they are laid over domains of nodes; absent: wherever they fit best."""


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


def _few_conditions(owners: list[Owner]) -> list[Owner]:
    count = sum(owner.selector.conditions for owner in owners if owner.selector is not None)
    if count > MOST_CONDITIONS:
        raise ValueError(f"has {count} labels and expressions in its selectors: {_FEW_CONDITIONS}")
    return owners


_FEW_CONDITIONS = f"all owners together have at most {MOST_CONDITIONS} labels and expressions"
Owners = Annotated[
    list[Owner],
    Field(min_length=1, max_length=16),
    AfterValidator(_few_conditions),
    Rule(
        "self.map(owner, !has(owner.selector) ? 0"
        " : (has(owner.selector.matchLabels) ? size(owner.selector.matchLabels) : 0)"
        " + (has(owner.selector.matchExpressions) ? size(owner.selector.matchExpressions) : 0)"
        f").sum() <= {MOST_CONDITIONS}",
        _FEW_CONDITIONS,
    ),
]
EndOfLife = Annotated[GivenTimestamp, _reachable("expireAt")]


class ReservationSpec(Ask):
    """What is locked, where, for whom and for how long."""

    owners: Owners
    """Pods of this namespace that may take the lock; the terms are ORed, the fields of a term ANDed."""
    expire_at: EndOfLife | None = None
    """When the lock ends, with a time zone; exactly one of ttlSeconds and expireAt is required."""
    ttl_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)] | None = None
    """How long the lock holds once it is active; exactly one of ttlSeconds and expireAt is required."""
    start_at: Annotated[GivenTimestamp, _reachable("startAt")] | None = None
    """When the lock begins to hold; until then its room is planned, for pods that are gone by then to use."""
    run_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)] | None = None
    """How long its pod is on the node at most, once it is bound; absent: nobody knows, so for ever."""
    lease: ReservationLease | None = None
    """Has the lock end earlier if its holder does not renew it; may be changed at any time."""
    commit: Commit | None = None
    """Makes it a lock in two phases: active is prepared, and it ends unless it is committed soon."""
    any_of: DnsLabel | None = None
    """Name of a set of locks of this namespace: as soon as one is chosen all others end. Can't be changed."""
    pending_deadline_seconds: Annotated[int, Field(ge=0, le=YEAR_SECONDS)] = 60
    """How long the lock may wait for room before it is rejected; 0: take it now or be rejected."""
    # Without a default in the CRD: an operator older than that does not read what it does not know.
    reuse: Literal["Never", "Always"] | None = None
    """Absent or Never: the lock ends when an owner is bound. Always: it keeps its room for the next one."""
    borrowable: bool | None = None
    """True: pods with the annotation tidelock.dev/borrows use the room until an owner needs it."""
    borrower_namespaces: (
        Annotated[list[DnsLabel], Field(min_length=1, max_length=64, json_schema_extra=LIST_SET)] | None
    ) = None
    """Namespaces whose pods use the room of a borrowable lock; absent: all. Can't be changed."""
    preemption_policy: PreemptionPolicy = "Never"
    """Never: wait for room. PreemptLowerPriority: evict pods and locks of lower priority to make it, which
    needs a ReservationQuota whose preemptionPolicy allows that."""
    may_move: MayMove | None = None
    """Has pods be moved for the lock that has no room, once a plan of this was approved; absent: never."""
    on_violation: Literal["Keep", "Move"] = "Keep"
    """When a pod takes locked room all the same. Keep: hold the rest and wait there. Move: wait anew."""
    retention: Literal["Delete", "Retain"] = "Delete"
    """Delete: the object is removed at the lock's end. Retain: it stays as a tombstone that locks nothing."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=YEAR_SECONDS)] | None = None
    """How long a retained object stays after the lock's end; absent: until it is deleted."""
    group: Membership | None = None
    """The ReservationGroup that the lock is a member of; written by the operator, which makes the members."""

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
                "the members of a group have their room together, and keep it from all others",
            )
            for field, given in _IN_GROUPS.items()
        ),
        *(
            _refused_beside(
                field, f"{_LENDS} && {given}", "borrowable", "what is lent is the owner's at any time"
            )
            for field, given in _NOT_LENT.items()
        ),
        _refused_beside(
            "preemptionPolicy",
            f"has(self.mayMove) && {_PREEMPTS}",
            "mayMove",
            "room is made by moving pods, or by evicting those of lower priority",
        ),
        _refused_beside(
            "pendingDeadlineSeconds",
            "has(self.mayMove) && self.pendingDeadlineSeconds == 0",
            "mayMove",
            "a reservation waits until pods have moved, so 0 is too short",
        ),
        *NO_EVICTING_HOLD,
    )

    @property
    def conflict(self) -> str:
        """Return the rule between fields that an object breaks which is older than the rule, or nothing."""
        if self.commit is None:
            return ""
        if self.preemption_policy != "Never":
            return f"spec.preemptionPolicy: {_EVICTING_HOLD}"
        moves = self.may_move is not None and self.may_move.automatically
        return f"spec.mayMove: {_MOVING_HOLD}" if moves else ""


class Phase(StrEnum):
    """Summary of the conditions for people to read."""

    PENDING = "Pending"
    PLANNED = "Planned"
    ACTIVE = "Active"
    BOUND = "Bound"
    CONSUMED = "Consumed"
    EXPIRED = "Expired"
    LOST = "Lost"
    REJECTED = "Rejected"
    TERMINATING = "Terminating"


class BoundPod(StatusWire):
    """The pod that took the lock; of several that share one for reuse, the first by name."""

    name: Subdomain
    """Name of the pod."""
    uid: Uid
    """UID of the pod."""


class Queue(StatusWire):
    """Where in line a lock stands that waits, as of a moment ago."""

    position: Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
    """Place among all locks that wait, from 1: by priority, then by the namespaces' shares, then by age. It
    assumes that each lock before it is given room, as what is given raises the share of its namespace."""
    length: Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
    """How many locks wait."""
    place: Annotated[str, Field(max_length=64)]
    """Both, in short."""
    estimated_start: Timestamp | None = None
    """When what is known to end leaves enough on one node at the earliest, by amounts alone and if nobody
    else takes it; absent if that is not known."""
    earmark: Subdomain | None = None
    """Node on which room is kept for it as it comes free, as it has waited for long."""


class ReservationStatus(StatusWire):
    """What became of the lock; Active=True is a guarantee."""

    observed_generation: Generation | None = None
    """Generation of the spec that the status is about; -1 before the first decision."""
    phase: Phase | None = None
    """Summary of the conditions for people to read."""
    node_name: Subdomain | None = None
    """Node on which the room is held."""
    node_uid: Annotated[Uid | None, Field(alias="nodeUID")] = None
    """UID of that node; a node recreated under the same name is another one."""
    activated_at: Timestamp | None = None
    """When the lock became active."""
    expires_at: Timestamp | None = None
    """When the lock ends at the latest."""
    queue: Queue | None = None
    """Where in line the lock stands, while it waits."""
    lease: ReservationLeaseStatus | None = None
    """How the lease stands, if the lock has one."""
    commit: CommitStatus | None = None
    """How the lock is committed, if it is one in two phases."""
    plan: MovePlan | None = None
    """Which pods would have to move for the lock, or are on their way, if spec.mayMove asks for that."""
    moved: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] | None = None
    """How many pods were evicted for it by plans that are over; after a failover, how many at most."""
    finished_at: Timestamp | None = None
    """When the lock ended."""
    bound_pod: BoundPod | None = None
    """The pod that took the lock, or is in it now if it is for reuse."""
    occupied_seconds: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] | None = None
    """Seconds for which owners were in a lock for reuse, up to when the last one left."""
    epoch: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] | None = None
    """Epoch of the leader that decided."""
    resources: _Amounts | None = None
    """Room that is held, or asked for while the lock waits."""
    used: _Amounts | None = None
    """What owners that are in a lock for reuse use of its room; the rest is held for them."""
    lent: _Amounts | None = None
    """What borrowers use of the room of a borrowable lock; they are evicted when its owner needs it."""
    borrowers: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] | None = None
    """How many pods that is."""
    owner: Annotated[str, Field(max_length=_OWNER_TEXT_LENGTH)] | None = None
    """Who may take the lock, in short."""
    conditions: Conditions = Field(default_factory=list)
    """Active, Ready, Reconciling, Stalled, Expired, Violated, Occupied, Lent, LeaseLapsed, Committed and
    MovePlanned.
    """


def owner_text(owners: Sequence[Owner]) -> str:
    """Name the owners in short: `pod/web-0`, `app=web,tier=x`, or the first and the count of others."""
    first, *others = owners
    count = f" +{len(others)}" if others else ""
    text = _term_text(first)
    room = _OWNER_TEXT_LENGTH - len(count)
    return (text if len(text) <= room else text[: room - 1] + "…") + count


def _term_text(owner: Owner) -> str:
    parts: list[str] = []
    if owner.pod:
        parts.append(f"pod/{owner.pod.name}")
    if owner.controller:
        parts.append(f"{owner.controller.kind}/{owner.controller.name}")
    if owner.selector:
        parts.extend(f"{key}={value}" for key, value in (owner.selector.match_labels or {}).items())
        parts.extend(_expression_text(each) for each in owner.selector.match_expressions or [])
    if owner.service_account_name:
        parts.append(f"serviceaccount/{owner.service_account_name}")
    return ",".join(parts)


def _expression_text(expression: LabelExpression) -> str:
    match expression.operator:
        case "Exists":
            return expression.key
        case "DoesNotExist":
            return f"!{expression.key}"
        case _:
            return f"{expression.key} {expression.operator.lower()} ({','.join(expression.values or [])})"
