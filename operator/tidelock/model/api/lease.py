"""Wire types of a Reservation's lease, which its holder must renew to keep the reservation."""

from typing import Annotated

from pydantic import Field

from tidelock.model.api.wire import YEAR_SECONDS, GivenTimestamp, StatusWire, Timestamp, Wire


class ReservationLease(Wire):
    """Lease of a reservation, which its holder must renew. Otherwise the reservation is lost."""

    duration_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)]
    """Duration in seconds of a renewal, counted from when the operator sees it."""
    grace_seconds: Annotated[int, Field(ge=0, le=YEAR_SECONDS)] = 30
    """Time in seconds for which the reservation is kept after the lease has lapsed. The status announces the
    lapse."""
    renew_time: GivenTimestamp | None = None
    """Time of the holder's last renewal, by its own clock. Every change of the value counts as a renewal."""


class ReservationLeaseStatus(StatusWire):
    """State of the lease, by the operator's clock."""

    renew_time: Timestamp | None = None
    """Value of the holder's renewTime that the operator saw last."""
    renewed_at: Timestamp
    """Time at which the operator saw the last renewal, or saw the reservation for the first time."""
    renew_by: Timestamp
    """Time at which the lease lapses unless it is renewed."""
    lost_at: Timestamp | None = None
    """Time at which the reservation is lost unless the lease is renewed. Present only while the lease has
    lapsed."""
