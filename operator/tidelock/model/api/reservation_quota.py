"""Wire types of ReservationQuota: limits on the capacity that the reservations of a namespace hold."""

from typing import Annotated, Literal

from pydantic import Field

from tidelock.model.api.reservation import PreemptionPolicy
from tidelock.model.api.resource_list import LimitAmounts, LimitProducts
from tidelock.model.api.wire import (
    SUBDOMAIN,
    YEAR_SECONDS,
    Conditions,
    Generation,
    Rule,
    StatusWire,
    Wire,
)

_FIELDS = (
    *("hard", "hardSeconds", "maxAmounts", "maxLifeSeconds", "maxPriority", "preemptionPolicy", "weight"),
    *("devices", "autoscaling"),
)

Autoscaling = Literal["KeepNodes", "RequestNodes"]

_LONGEST_CLASS = 253
DeviceLimits = Annotated[
    dict[str, Annotated[int, Field(ge=0, le=1_000_000)]],
    Field(min_length=1, max_length=16),
    Rule(
        f"self.all(name, name.size() <= {_LONGEST_CLASS} && name.matches(r'{SUBDOMAIN}'))",
        "the name of a DeviceClass is a DNS subdomain: gpu.example.com",
    ),
]
"""Numbers of devices by the name of their DeviceClass."""

QuotaFigures = Annotated[dict[str, Annotated[str, Field(max_length=64)]], Field(max_length=2048)]


class ReservationQuotaSpec(Wire):
    """Limits on the reservations of the namespace, and its weight. An absent field sets no limit."""

    hard: LimitAmounts | None = None
    """Largest amounts that all reservations together hold at once, by resource. The resource pods limits the
    number of reservations that hold capacity at once."""
    hard_seconds: LimitProducts | None = None
    """Largest sum of amount times lifetime in seconds over the reservations that hold capacity, by resource.
    For example, 2 cpu for 600 s count as 1200."""
    devices: DeviceLimits | None = None
    """Largest numbers of devices that all reservations together hold at once, by DeviceClass. The
    resource gpu.example.com.deviceclass.resource.k8s.io/devices in hard has the same effect, as in a
    ResourceQuota."""
    max_amounts: LimitAmounts | None = None
    """Largest amounts of a single reservation, by resource."""
    max_life_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)] | None = None
    """Longest lifetime of a reservation in seconds: its ttlSeconds, or the time from its creation to its
    expireAt."""
    max_priority: Annotated[int, Field(ge=-(2**31), le=1_000_000_000)] | None = None
    """Highest priority of a reservation. A higher priority of a reservation that is already active counts as
    this value. In a namespace where no quota sets this field, the highest priority is 0."""
    preemption_policy: PreemptionPolicy | None = None
    """PreemptLowerPriority: reservations may evict pods and reservations of lower priority, in other
    namespaces too. Never: they may not. Never also applies in a namespace where no quota sets this field."""
    weight: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Divisor for the namespace's share of the cluster when reservations of equal priority wait. Absent: 1.
    Of several quotas the largest weight counts."""
    autoscaling: Autoscaling | None = None
    """KeepNodes: autoscalers keep the nodes on which reservations of the namespace hold capacity.
    RequestNodes: also, its reservations that wait for capacity, and that the quotas would allow, ask
    autoscalers for nodes. Absent: neither. Of several quotas the one that allows more counts. The operator
    needs the option --keep-nodes or --request-nodes."""
    count_against_resource_quota: bool = False
    """True: reservations must also fit in the namespace's ResourceQuotas, beside the use of its pods."""

    rules = (
        Rule(
            " || ".join([*(f"has(self.{name})" for name in _FIELDS), "self.countAgainstResourceQuota"]),
            f"an empty quota is refused: give one of {', '.join(_FIELDS)} or countAgainstResourceQuota",
            field=".hard",
            reason="FieldValueRequired",
        ),
    )


class ReservationQuotaStatus(StatusWire):
    """Amounts that the namespace's reservations hold, with their limits. They can be a moment old."""

    observed_generation: Generation | None = None
    """Generation of the spec that the status describes, or -1 before it was first read."""
    hard: QuotaFigures | None = None
    """Limits on the reserved amounts, as they are applied."""
    used: QuotaFigures | None = None
    """Amounts that reservations hold, of the resources with a limit."""
    hard_seconds: QuotaFigures | None = None
    """Limits on amount times lifetime in seconds, as they are applied."""
    used_seconds: QuotaFigures | None = None
    """Amount times lifetime in seconds of the reservations that hold capacity, of the resources with a
    limit."""
    conditions: Conditions = Field(default_factory=list)
    """Conditions of the quota: Ready, and Stalled if the spec can't be read, in which case all new
    reservations are refused."""
