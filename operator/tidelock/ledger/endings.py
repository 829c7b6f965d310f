"""When the time of a lock is over, and why: its expiry or the loss of its lease, whichever comes first."""

from typing import NamedTuple

from tidelock.ledger import reasons
from tidelock.ledger.entry import Entry
from tidelock.ledger.transitions import Event


class Ending(NamedTuple):
    """What ends a lock, and at which instant."""

    due: float
    event: Event
    reason: str
    message: str


def ending(entry: Entry, now: float) -> Ending | None:
    """Give what has ended a lock by now, if anything has."""
    lease = entry.lease
    if lease is not None and lease.lost_at is not None and lease.lost_at <= min(now, entry.ends_at or now):
        return Ending(lease.lost_at, Event.FORFEIT, reasons.LEASE_EXPIRED, f"spec.lease: {lease.text}")
    if entry.ends_at is not None and entry.ends_at <= now:
        field = "spec.expireAt" if entry.reservation.expire_at is not None else "spec.ttlSeconds"
        return Ending(entry.ends_at, Event.EXPIRE, reasons.EXPIRED, f"{field} has passed")
    return None
