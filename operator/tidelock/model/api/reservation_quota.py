"""Wire types of ReservationQuota: how much room the locks of a namespace may take from the cluster."""

from typing import Annotated

from pydantic import Field

from tidelock.model.api.reservation import PreemptionPolicy
from tidelock.model.api.resource_list import LimitAmounts, LimitProducts
from tidelock.model.api.wire import (
    YEAR_SECONDS,
    Conditions,
    Generation,
    Rule,
    StatusWire,
    Wire,
)

_FIELDS = ("hard", "hardSeconds", "maxAmounts", "maxLifeSeconds", "maxPriority", "preemptionPolicy", "weight")

QuotaFigures = Annotated[dict[str, Annotated[str, Field(max_length=64)]], Field(max_length=2048)]


class ReservationQuotaSpec(Wire):
    """What the locks of the namespace may take, and in what order; what is not given is not limited."""

    hard: LimitAmounts | None = None
    """Room that all locks hold at once, by resource; pods: how many locks hold room at once."""
    hard_seconds: LimitProducts | None = None
    """Room times life, by resource, summed over the locks that hold room: 2 cpu for 600 s are 1200."""
    max_amounts: LimitAmounts | None = None
    """Room of the largest lock, by resource."""
    max_life_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)] | None = None
    """Longest life of a lock: its ttlSeconds, or the time from its creation to its expireAt."""
    max_priority: Annotated[int, Field(ge=-(2**31), le=1_000_000_000)] | None = None
    """Highest priority of a lock; that of a lock which is active already counts as no more than this. It is 0
    in a namespace where no quota names it."""
    preemption_policy: PreemptionPolicy | None = None
    """PreemptLowerPriority: locks may have pods and locks of lower priority evicted, of other namespaces too.
    Never: they may not, as in a namespace where no quota names this."""
    weight: Annotated[int, Field(ge=1, le=1000)] | None = None
    """What the namespace's part of the cluster is divided by when locks of equal priority wait; 1 if not
    given. Of several quotas the largest counts."""
    count_against_resource_quota: bool = False
    """Whether locks must find room in the namespace's ResourceQuotas too, beside what pods use of it."""

    rules = (
        Rule(
            " || ".join([*(f"has(self.{name})" for name in _FIELDS), "self.countAgainstResourceQuota"]),
            f"an empty quota is refused: give one of {', '.join(_FIELDS)} or countAgainstResourceQuota",
            field=".hard",
            reason="FieldValueRequired",
        ),
    )


class ReservationQuotaStatus(StatusWire):
    """What the namespace's locks hold of what they may; a moment old in a busy namespace."""

    observed_generation: Generation | None = None
    """Generation of the spec that the status is about; -1 before the first reading."""
    hard: QuotaFigures | None = None
    """Limits of room, as they are applied."""
    used: QuotaFigures | None = None
    """Room that locks hold, of the resources that are limited."""
    hard_seconds: QuotaFigures | None = None
    """Limits of room times life, as they are applied."""
    used_seconds: QuotaFigures | None = None
    """Room times life of the locks that hold room, of the resources that are limited."""
    conditions: Conditions = Field(default_factory=list)
    """Ready; and Stalled if the spec can't be read, which refuses all new locks."""
