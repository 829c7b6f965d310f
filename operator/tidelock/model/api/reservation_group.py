"""Wire types of ReservationGroup: reservations that are granted all together or not at all."""

from typing import Annotated, Literal

from pydantic import Field

from tidelock.model.api.owners import Owners
from tidelock.model.api.reservation import (
    MOST_MEMBERS,
    ONE_END,
    SHARED_CLAIM,
    CapacityRequest,
    EndOfLife,
    Lending,
    Phase,
    Priority,
    Topology,
)
from tidelock.model.api.wire import (
    YEAR_SECONDS,
    Conditions,
    DnsLabel,
    Generation,
    Rule,
    StatusWire,
    Timestamp,
    Wire,
    list_map,
)

_MOST_KINDS = 16
_LONGEST_NAME = 180


class Members(CapacityRequest, Lending):
    """Members of one kind. Each member is a separate reservation for a separate pod."""

    name: DnsLabel
    """Name of the kind. A member is named after its group, its kind and its number: train-worker-0."""
    count: Annotated[int, Field(ge=1, le=MOST_MEMBERS)] = 1
    """Number of members of the kind."""
    owners: Owners
    """Pods of this namespace that may take a member. A pod takes one member of the group, on its own node if
    possible."""

    rules = (
        *CapacityRequest.rules,
        Rule(
            "!has(self.template) || !has(self.template.spec.resourceClaims)"
            " || !self.template.spec.resourceClaims.exists(claim, has(claim.resourceClaimName))",
            SHARED_CLAIM,
            field=".template",
            reason="FieldValueForbidden",
        ),
    )


class ReservationGroupSpec(Wire):
    """Members of the group, the number of members that are needed at once, and the lifetime."""

    members: Annotated[
        list[Members], Field(min_length=1, max_length=_MOST_KINDS, json_schema_extra=list_map("name"))
    ]
    """Members of the group by kind, at most 256 in total."""
    min_members: Annotated[int, Field(ge=1, le=MOST_MEMBERS)] | None = None
    """Number of members that must get capacity at once. The other members follow one by one. Absent: all
    members."""
    topology: Topology | None = None
    """Placement of the members over racks, zones or other domains of nodes. Absent: each member is placed
    where it fits best."""
    expire_at: EndOfLife | None = None
    """Time at which all members end, with a time zone. Exactly one of ttlSeconds and expireAt is required."""
    ttl_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)] | None = None
    """Lifetime in seconds of all members, counted from when the group becomes active. Exactly one of
    ttlSeconds and expireAt is required."""
    pending_deadline_seconds: Annotated[int, Field(ge=0, le=YEAR_SECONDS)] = 60
    """Longest time in seconds that the group waits for capacity before it is rejected. 0: it is granted at
    once or rejected."""
    priority: Priority = 0
    """Priority of each member. If one member loses its capacity to a pod of higher priority, all members wait
    again."""
    retention: Literal["Delete", "Retain"] = "Delete"
    """Delete: the group is deleted when it ends. Retain: the object stays, and reserves nothing."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=YEAR_SECONDS)] | None = None
    """Time in seconds that a retained group stays after it has ended. Absent: it stays until it is
    deleted."""

    rules = (
        *ONE_END,
        Rule(
            f"self.members.map(each, each.count).sum() <= {MOST_MEMBERS}",
            f"a group has at most {MOST_MEMBERS} members",
            field=".members",
        ),
        Rule(
            "!has(self.minMembers) || self.minMembers <= self.members.map(each, each.count).sum()",
            "minMembers is more than there are members",
            field=".minMembers",
        ),
    )


_Count = Annotated[int, Field(ge=0, le=MOST_MEMBERS)]


class ReservationGroupStatus(StatusWire):
    """Observed state of the group. The condition Active=True is a guarantee for all ready members."""

    observed_generation: Generation | None = None
    """Generation of the spec that the status describes, or -1 before the first decision."""
    phase: Phase | None = None
    """Summary of the conditions, for people to read."""
    members: _Count | None = None
    """Number of members that the spec requests."""
    ready: _Count | None = None
    """Number of members that hold capacity for their pods."""
    consumed: _Count | None = None
    """Number of members that have been taken by their pods."""
    activated_at: Timestamp | None = None
    """Time at which the group became active."""
    expires_at: Timestamp | None = None
    """Time at which all members end at the latest."""
    finished_at: Timestamp | None = None
    """Time at which the last member ended."""
    conditions: Conditions = Field(default_factory=list)
    """Conditions of the group: Active, Ready, Reconciling, Stalled and Expired."""


GROUP_RULES = (
    Rule(
        "self.spec == oldSelf.spec",
        "spec of a group is immutable: delete it and create it again",
        field=".spec",
        reason="FieldValueForbidden",
    ),
    Rule(
        f"size(self.metadata.name) <= {_LONGEST_NAME}",
        f"metadata.name: the name of a group has at most {_LONGEST_NAME} characters:"
        " its members are named after it",
    ),
)
