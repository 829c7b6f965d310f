"""Finds when and why a reservation ends: it expires, or its holder has missed a duty before that."""

from collections.abc import Iterator
from typing import NamedTuple

from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons


class Ending(NamedTuple):
    """The cause of an end, and its instant."""

    due: float
    event: Event
    reason: str
    message: str


def ending(entry: ReservationInfo, now: float) -> Ending | None:
    """Return the first end of a reservation by now, or None."""
    due = (each for each in _endings(entry, now) if each.due <= now)
    return min(due, key=lambda each: each.due, default=None)


def _endings(entry: ReservationInfo, now: float) -> Iterator[Ending]:
    lease, hold = entry.lease, entry.hold
    if lease is not None and lease.lost_at is not None:
        yield Ending(lease.lost_at, Event.FORFEIT, reasons.LEASE_EXPIRED, f"spec.lease: {lease.text}")
    if (ends_at := lifetime.ends_at(entry)) is not None:
        field = "spec.expireAt" if entry.reservation.expire_at is not None else "spec.ttlSeconds"
        yield Ending(ends_at, Event.EXPIRE, reasons.EXPIRED, f"{field} has passed")
    if hold is not None and hold.commit_due is not None:
        yield Ending(hold.commit_due, Event.ABORT, reasons.NOT_COMMITTED, f"it was {hold.text}")
    if entry.superseded_by:
        text = f"{entry.superseded_by} was chosen, of the same spec.anyOf"
        yield Ending(now, Event.ABORT, reasons.ANOTHER_CHOSEN, text)
