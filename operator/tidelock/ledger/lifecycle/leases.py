"""The state of a reservation's lease: renewed, lapsed, or lost.

A renewal counts from when the operator sees another `renewTime` than before, because the holder's clock may
be wrong by any amount. The status keeps that instant, so another process continues to count. The grace
period begins when the lease lapses, and the status announces its end.

If a lease and its grace period run out while no operator runs, it is lost as soon as an operator sees it. A
renewal that was stored meanwhile counts from that instant.
"""

from dataclasses import dataclass, replace

from tidelock.model.api import lease as wire
from tidelock.model.instants import format_instant, from_datetime
from tidelock.model.reservation import Reservation


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The state of a lease. Instants are seconds since the epoch, and `grace` is in seconds.

    `lost_at` is set while the lease has lapsed.
    """

    renew_time: float | None
    renewed_at: float
    renew_by: float
    grace: int = 0
    lost_at: float | None = None

    @property
    def due(self) -> float:
        """The instant at which the lease lapses or, if it has lapsed, is lost."""
        return self.renew_by if self.lost_at is None else self.lost_at

    @property
    def text(self) -> str:
        """A message with the last renewal and, if the lease has lapsed, the end of its grace period."""
        since = f"not renewed since {format_instant(self.renewed_at)}"
        return since if self.lost_at is None else f"{since}, lost at {format_instant(self.lost_at)}"

    def lapsed(self) -> "LeaseState":
        """Return the lapsed lease. Its grace period begins when the renewal was due."""
        return replace(self, lost_at=round(self.renew_by + self.grace, 3))


def lease_of(status: wire.ReservationLeaseStatus | None) -> LeaseState | None:
    """Return the state of a lease from a status."""
    if status is None:
        return None
    return LeaseState(
        renew_time=from_datetime(status.renew_time) if status.renew_time is not None else None,
        renewed_at=from_datetime(status.renewed_at),
        renew_by=from_datetime(status.renew_by),
        lost_at=from_datetime(status.lost_at) if status.lost_at is not None else None,
    )


def lease_followed(known: LeaseState | None, reservation: Reservation, now: float) -> LeaseState | None:
    """Return the lease for a spec. A lease that is new, or was renewed, counts from now."""
    asked = reservation.spec.lease if reservation.spec is not None else None
    if asked is None:
        return None
    renew_time = from_datetime(asked.renew_time) if asked.renew_time is not None else None
    renewed_at, lost_at = now, None
    if known is not None and known.renew_time == renew_time:
        renewed_at, lost_at = known.renewed_at, known.lost_at
    renew_by = round(renewed_at + asked.duration_seconds, 3)
    if known is not None and renew_by > max(now, known.renew_by):  # it lasts longer than before
        lost_at = None
    return LeaseState(renew_time, renewed_at, renew_by, asked.grace_seconds, lost_at)


def ask_the_same(before: Reservation, after: Reservation) -> bool:
    """Return whether two versions differ at most by a renewal or a commit of the holder."""
    if before.spec is None or after.spec is None or before.problem != after.problem:
        return False
    duties = {"lease": after.spec.lease, "commit": after.spec.commit}
    return before.spec.model_copy(update=duties) == after.spec
