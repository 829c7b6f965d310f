"""Wire types of ReservationQuote: would a lock be given now, where, and how many; nothing is held."""

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
    """What a lock would ask for, and for how long the answer is wanted."""

    valid_seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """How long the answer is good for at the most: after that it tells what was."""
    ttl_seconds: Annotated[int, Field(ge=1, le=DAY_SECONDS)] = 300
    """How long the object stays once it is answered; then it is deleted."""


class QuoteOccupant(StatusWire):
    """A lock or a pod that takes something of what is short."""

    namespace: DnsLabel
    """Its namespace."""
    name: Subdomain
    """Its name."""
    resources: QuoteAmounts | None = None
    """What it takes of the resources that are short."""
    expires_at: Timestamp | None = None
    """When it ends at the latest, if it is a lock."""


class QuoteRejection(StatusWire):
    """A reason for which nodes are ruled out."""

    reason: Annotated[str, Field(max_length=1024)]
    """The reason, in the words of kube-scheduler."""
    nodes: Annotated[int, Field(ge=0, le=MOST_COUNTED)]
    """On how many nodes it holds; a node may have several reasons."""


class QuoteBlockers(StatusWire):
    """What is in the way."""

    reasons: Annotated[
        list[QuoteRejection], Field(max_length=_MOST_REASONS, json_schema_extra=list_map("reason"))
    ] = Field(default_factory=list)
    """For which reasons nodes are ruled out, the most frequent first."""
    node_name: Subdomain | None = None
    """Node that lacks the least, of those where nothing but room is wanting; absent if there is none."""
    shortfall: QuoteAmounts | None = None
    """What that node lacks, by resource."""
    locks: Annotated[list[QuoteOccupant], Field(max_length=MOST_NAMED)] = Field(default_factory=list)
    """Locks that hold something of that on the node: at most 10, those that end first."""
    pods: Annotated[list[QuoteOccupant], Field(max_length=MOST_NAMED)] = Field(default_factory=list)
    """Pods that use something of that on the node: at most 10, those of lowest priority, then the largest."""


class ReservationQuoteStatus(StatusWire):
    """The answer, given once; it promises nothing, as nothing is held."""

    observed_generation: Generation | None = None
    """Generation of the spec that was answered; -1 before the answer."""
    answered_at: Timestamp | None = None
    """The instant at which this was so."""
    valid_until: Timestamp | None = None
    """When the answer is stale; others may have taken the room before."""
    node_name: Subdomain | None = None
    """Node on which the lock would be held, if it were asked for now."""
    count: Annotated[int, Field(ge=0, le=MOST_COUNTED)] | None = None
    """How many such locks would find room now, one after the other, on all nodes; at most 1,000,000."""
    fits_at: Timestamp | None = None
    """When it fits: the instant of the answer or, if locks are in the way, when enough of them have ended."""
    earliest_start: Timestamp | None = None
    """When what is known to end, locks and pods with a deadline, leaves enough on one node at the earliest,
    by amounts alone, if it does not fit now; absent if that is not known."""
    blockers: QuoteBlockers | None = None
    """What is in the way, if it does not fit now."""
    conditions: Conditions = Field(default_factory=list)
    """Feasible, the answer; Ready, once it is given; and Stalled if it can't be."""


UNCHANGING = Rule(
    "self.spec == oldSelf.spec",
    "spec of a quote is immutable: ask with another object",
    field=".spec",
    reason="FieldValueForbidden",
)
