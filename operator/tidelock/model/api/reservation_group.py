"""Wire types of ReservationGroup: locks of which all are given or none."""

from typing import Annotated, Literal

from pydantic import Field

from tidelock.model.api.reservation import (
    MOST_MEMBERS,
    ONE_END,
    CapacityRequest,
    EndOfLife,
    Owners,
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


class Members(CapacityRequest):
    """Members of one kind: each is a lock of its own, for a pod of its own."""

    name: DnsLabel
    """Name of the kind; a member is called after its group, its kind and its number: train-worker-0."""
    count: Annotated[int, Field(ge=1, le=MOST_MEMBERS)] = 1
    """How many members of the kind there are."""
    owners: Owners
    """Pods of this namespace that may take a member; a pod takes one of the group, on its node if it can."""


class ReservationGroupSpec(Wire):
    """Which locks there are, how many of them at once, and for how long."""

    members: Annotated[
        list[Members], Field(min_length=1, max_length=_MOST_KINDS, json_schema_extra=list_map("name"))
    ]
    """The members by kind: at most 256 in all."""
    min_members: Annotated[int, Field(ge=1, le=MOST_MEMBERS)] | None = None
    """How many members must find room at once; absent: all. The others follow one by one, if they can."""
    topology: Topology | None = None
    """How members are laid over racks, zones or other domains of nodes; absent: wherever they fit best."""
    expire_at: EndOfLife | None = None
    """When all end, with a time zone; exactly one of ttlSeconds and expireAt is required."""
    ttl_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)] | None = None
    """How long all hold once the group is active; exactly one of ttlSeconds and expireAt is required."""
    pending_deadline_seconds: Annotated[int, Field(ge=0, le=YEAR_SECONDS)] = 60
    """How long the group may wait for room before it is rejected; 0: take it now or be rejected."""
    priority: Priority = 0
    """Importance of each member: if one loses its room to a pod of higher priority, all wait again."""
    retention: Literal["Delete", "Retain"] = "Delete"
    """Delete: the group is removed at its end. Retain: it stays as a tombstone that locks nothing."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=YEAR_SECONDS)] | None = None
    """How long a retained group stays after its end; absent: until it is deleted."""

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
    """What became of the group; Active=True is a guarantee for all members that are ready."""

    observed_generation: Generation | None = None
    """Generation of the spec that the status is about; -1 before the first decision."""
    phase: Phase | None = None
    """Summary of the conditions for people to read."""
    members: _Count | None = None
    """How many members are asked for."""
    ready: _Count | None = None
    """How many members hold room for their pods."""
    consumed: _Count | None = None
    """How many members have been taken by their pods."""
    activated_at: Timestamp | None = None
    """When the group became active."""
    expires_at: Timestamp | None = None
    """When all members end at the latest."""
    finished_at: Timestamp | None = None
    """When the last member ended."""
    conditions: Conditions = Field(default_factory=list)
    """Active, Ready, Reconciling, Stalled and Expired."""


GROUP_RULES = (
    Rule(
        "self.spec == oldSelf.spec",
        "spec of a group is immutable: delete it and create it anew",
        field=".spec",
        reason="FieldValueForbidden",
    ),
    Rule(
        f"size(self.metadata.name) <= {_LONGEST_NAME}",
        f"metadata.name: the name of a group has at most {_LONGEST_NAME} characters:"
        " its members are named after it",
    ),
)
