"""Wire types of a Reservation's lease: its holder has to say again and again that it still lives."""

from typing import Annotated

from pydantic import Field

from tidelock.model.api.wire import YEAR_SECONDS, GivenTimestamp, StatusWire, Timestamp, Wire


class ReservationLease(Wire):
    """How often the holder has to renew the lock, lest it is lost."""

    duration_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)]
    """How long a renewal lasts, from the moment in which the operator sees it."""
    grace_seconds: Annotated[int, Field(ge=0, le=YEAR_SECONDS)] = 30
    """How long the lock is kept after that, for a holder that is late; it is announced in the status."""
    renew_time: GivenTimestamp | None = None
    """When the holder renewed it last, by its own clock: any other value than before is a renewal."""


class ReservationLeaseStatus(StatusWire):
    """How the lease stands, by the operator's clock."""

    renew_time: Timestamp | None = None
    """The holder's renewTime that was seen last."""
    renewed_at: Timestamp
    """When the operator saw it, or saw the lock for the first time."""
    renew_by: Timestamp
    """When the lease lapses unless it is renewed."""
    lost_at: Timestamp | None = None
    """When the lock is lost unless it is renewed; only while the lease has lapsed."""
