"""The lifetime of a reservation, and the time for which its capacity is needed.

Instants are seconds since the epoch.
"""

from math import ceil

from tidelock.ledger.capacity.spans import Span, needed_span, needed_until
from tidelock.ledger.lifecycle.transitions import GIVEN
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import lifetimes


def begins_at(entry: ReservationInfo) -> float | None:
    """Return the instant at which a planned reservation begins, or None for any other."""
    return entry.reservation.start_at if entry.ahead else None


def ends_at(entry: ReservationInfo) -> float | None:
    """Return the instant at which a reservation ends at the latest, if it is known."""
    if entry.expires_at is not None:
        return entry.expires_at
    begins = begins_at(entry)
    return entry.reservation.expire_at if begins is None else expiry_from(entry, begins)


def expiry_from(entry: ReservationInfo, start: float) -> float | None:
    """Return the instant at which a reservation ends that begins at `start`."""
    spec = entry.reservation.spec
    return None if spec is None else lifetimes.spec_expiry(spec, start)


def begin(entry: ReservationInfo, at: float) -> None:
    """Count the lifetime from an instant."""
    entry.activated_at = at
    entry.expires_at = expiry_from(entry, at)


def look_ahead(entry: ReservationInfo, now: float) -> None:
    """Note whether a reservation begins later."""
    begins = entry.reservation.start_at
    entry.ahead = begins is not None and begins > now


def apply_spec(entry: ReservationInfo) -> None:
    """Set the end of a reservation that has begun from its spec. An unreadable spec changes nothing."""
    if entry.activated_at is not None and entry.reservation.pod is not None:
        entry.expires_at = expiry_from(entry, entry.activated_at)


def wants_longer(entry: ReservationInfo) -> bool:
    """Return whether a readable spec asks for a longer lifetime than was granted."""
    if entry.phase not in GIVEN or entry.activated_at is None or entry.expires_at is None:
        return False
    if entry.reservation.pod is None:
        return False
    wanted = expiry_from(entry, entry.activated_at)
    return wanted is not None and wanted > entry.expires_at


def wanted_seconds(entry: ReservationInfo) -> int:
    """Return the longest lifetime that the spec asks for, in whole seconds, or 0 without a readable spec."""
    return entry.reservation.lifetime or 0


def granted_seconds(entry: ReservationInfo) -> int:
    """Return the longest lifetime that was granted, in whole seconds."""
    if entry.activated_at is None or entry.expires_at is None:
        return wanted_seconds(entry)
    granted = ceil(round(entry.expires_at - entry.activated_at, 3))
    return granted if entry.reservation.pod is None or wants_longer(entry) else wanted_seconds(entry)


def needed_from(entry: ReservationInfo, now: float) -> tuple[float, float]:
    """Return the first and the last instant at which capacity is needed that is granted now."""
    begins = begins_at(entry)
    start = now if begins is None else begins
    return start, needed_until(entry.reservation, expiry_from(entry, start))


def span(entry: ReservationInfo) -> Span | None:
    """Return the span in which held capacity is needed, or None if it is needed from now on for ever."""
    return needed_span(entry.reservation, entry.held, begins_at(entry), ends_at(entry))
