"""The client for managers: hold capacity in one cluster, or in one of several.

    async with Cluster("east", context="east") as east, Cluster("west", context="west") as west:
        async with race([east, west], spec, name="web-0", namespace="shop") as held:
            ...  # held.node in held.cluster has the capacity

`hold` does so in one cluster, and `quote` asks without holding. `tidelock.client.sync` has the same without
asyncio. All failures are a `ClientError`. docs/integrate-your-manager.md has the steps and the reasons.
"""

from tidelock.client.advice import ADVICE, Advice
from tidelock.client.cluster import Cluster
from tidelock.client.errors import (
    AllRefused,
    AlreadyExists,
    ClientError,
    Conflict,
    Forbidden,
    Invalid,
    Lost,
    Misconfigured,
    NoCapacity,
    NotFound,
    Refused,
    Taken,
    TimedOut,
    Unauthorized,
    Unavailable,
    Unknown,
    Unreachable,
)
from tidelock.client.holding import Held, hold
from tidelock.client.quoting import QuoteReply, quote
from tidelock.client.racing import race
from tidelock.client.remote import release
from tidelock.kube.client import PODS, RESERVATIONS, ApiResource
from tidelock.model.api.reservation import Phase, ReservationSpec, ReservationStatus
from tidelock.model.api.reservation_group import ReservationGroupSpec, ReservationGroupStatus
from tidelock.model.api.reservation_quota import ReservationQuotaSpec, ReservationQuotaStatus
from tidelock.model.api.reservation_quote import ReservationQuoteSpec, ReservationQuoteStatus
from tidelock.model.api.reservation_schedule import ReservationScheduleSpec, ReservationScheduleStatus
from tidelock.model.api.water_level import WaterLevelSpec, WaterLevelStatus

__all__ = [
    "ADVICE",
    "PODS",
    "RESERVATIONS",
    "Advice",
    "AllRefused",
    "AlreadyExists",
    "ApiResource",
    "ClientError",
    "Cluster",
    "Conflict",
    "Forbidden",
    "Held",
    "Invalid",
    "Lost",
    "Misconfigured",
    "NoCapacity",
    "NotFound",
    "Phase",
    "QuoteReply",
    "Refused",
    "ReservationGroupSpec",
    "ReservationGroupStatus",
    "ReservationQuotaSpec",
    "ReservationQuotaStatus",
    "ReservationQuoteSpec",
    "ReservationQuoteStatus",
    "ReservationScheduleSpec",
    "ReservationScheduleStatus",
    "ReservationSpec",
    "ReservationStatus",
    "Taken",
    "TimedOut",
    "Unauthorized",
    "Unavailable",
    "Unknown",
    "Unreachable",
    "WaterLevelSpec",
    "WaterLevelStatus",
    "hold",
    "quote",
    "race",
    "release",
]
