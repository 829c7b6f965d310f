"""Wire types of ReservationQuote: a dry run of a reservation, which holds nothing."""

from typing import Annotated

from pydantic import Field

from tidelock.model.api.reservation import Ask
from tidelock.model.api.wire import (
    Conditions,
    DnsLabel,
    Generation,
    Rule,
    StatusWire,
    Subdomain,
    Timestamp,
    list_map,
)

DAY_SECONDS = 86_400
MOST_COUNTED = 1_000_000
MOST_NAMED = 10
_MOST_REASONS = 64

QuoteAmounts = Annotated[dict[str, Annotated[str, Field(max_length=32)]], Field(max_length=2048)]


class ReservationQuoteSpec(Ask):
    """Request to evaluate, and the lifetime of the answer."""

    valid_seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """Longest time in seconds for which the answer is valid. After that time it describes the past."""
    ttl_seconds: Annotated[int, Field(ge=1, le=DAY_SECONDS)] = 300
    """Time in seconds after which the answered object is deleted."""


class QuoteOccupant(StatusWire):
    """A reservation or a pod that takes some of the scarce resources."""

    namespace: DnsLabel
    """Namespace of the reservation or pod."""
    name: Subdomain
    """Name of the reservation or pod."""
    resources: QuoteAmounts | None = None
    """Amounts of the scarce resources that the reservation or pod takes."""
    expires_at: Timestamp | None = None
    """Time at which the reservation ends at the latest. Absent for a pod."""


class QuoteRejection(StatusWire):
    """A reason that rules out nodes."""

    reason: Annotated[str, Field(max_length=1024)]
    """Reason in the words of kube-scheduler."""
    nodes: Annotated[int, Field(ge=0, le=MOST_COUNTED)]
    """Number of nodes that the reason rules out. Several reasons can rule out the same node."""


class QuoteBlockers(StatusWire):
    """Obstacles to granting the reservation."""

    reasons: Annotated[
        list[QuoteRejection], Field(max_length=_MOST_REASONS, json_schema_extra=list_map("reason"))
    ] = Field(default_factory=list)
    """Reasons that rule out nodes, the most frequent first."""
    node_name: Subdomain | None = None
    """Name of the node with the smallest shortfall, among the nodes that lack only capacity. Absent if there
    is none."""
    shortfall: QuoteAmounts | None = None
    """Amounts that the node lacks, by resource."""
    locks: Annotated[list[QuoteOccupant], Field(max_length=MOST_NAMED)] = Field(default_factory=list)
    """Reservations that hold the lacking resources on the node: at most 10, ordered by their end."""
    pods: Annotated[list[QuoteOccupant], Field(max_length=MOST_NAMED)] = Field(default_factory=list)
    """Pods that use the lacking resources on the node: at most 10, ordered by ascending priority, then by
    descending size."""


class ReservationQuoteStatus(StatusWire):
    """Answer, which is given once. It guarantees nothing, because no capacity is held."""

    observed_generation: Generation | None = None
    """Generation of the spec that was answered, or -1 before the answer."""
    answered_at: Timestamp | None = None
    """Time at which the question was answered."""
    valid_until: Timestamp | None = None
    """Time until which the answer is valid. Other reservations or pods can take the capacity earlier."""
    node_name: Subdomain | None = None
    """Name of the node that would hold the reservation if it were created now."""
    count: Annotated[int, Field(ge=0, le=MOST_COUNTED)] | None = None
    """Number of equal reservations that all nodes together could hold now, at most 1,000,000."""
    fits_at: Timestamp | None = None
    """Time at which the reservation fits: the time of the answer or, if reservations are in the way, the time
    when enough of them have ended."""
    earliest_start: Timestamp | None = None
    """Earliest time at which one node has enough capacity, because reservations and pods with a deadline are
    over. It compares amounts alone. Absent if the reservation fits now or the time is unknown."""
    blockers: QuoteBlockers | None = None
    """Obstacles, if the reservation does not fit now."""
    conditions: Conditions = Field(default_factory=list)
    """Conditions of the quote: Feasible is the answer, Ready becomes true with the answer, and Stalled
    reports that it can't be answered."""


UNCHANGING = Rule(
    "self.spec == oldSelf.spec",
    "spec of a quote is immutable: ask with another object",
    field=".spec",
    reason="FieldValueForbidden",
)
