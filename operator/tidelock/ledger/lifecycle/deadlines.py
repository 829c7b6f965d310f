"""The instants at which something is due for a reservation: its pending deadline, its end, its removal."""

from math import inf

from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.lifecycle.transitions import SETTLED
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import lifetimes
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import earliest


def given_up_at(entry: ReservationInfo) -> float:
    """Return the pending deadline, at which a reservation without capacity is given up."""
    spec = entry.reservation.spec
    return inf if spec is None else entry.pending_since + spec.pending_deadline_seconds


def too_late_at(entry: ReservationInfo) -> float:
    """Return the instant after which it is too late for the first decision."""
    spec = entry.reservation.spec
    return (
        inf if spec is None else lifetimes.latest_decision(entry.pending_since, spec.pending_deadline_seconds)
    )


def missed(entry: ReservationInfo) -> bool:
    """Return whether the deadline had passed when this process first saw the reservation wait."""
    return entry.seen_waiting_at > too_late_at(entry)


def removable_at(entry: ReservationInfo) -> float | None:
    """Return when the object may be deleted: at its end, after its time to live, or never.

    An object is kept while the start of its window is not yet acknowledged.
    """
    spec, meta = entry.reservation.spec, entry.reservation.meta
    if (
        entry.finished_at is None
        or spec is None
        or entry.start_unacknowledged
        or meta.deletion_timestamp is not None
    ):
        return None
    return lifetimes.removal_time(spec, entry.phase, entry.finished_at)


def next_due(entry: ReservationInfo) -> float | None:
    """Return the next instant at which something is due for a reservation, or None."""
    if entry.phase in SETTLED:
        return removable_at(entry)
    lease_due = entry.lease.due if entry.lease is not None else None
    if entry.phase is Phase.PENDING:
        return earliest(lifetime.ends_at(entry), _given_up_due(entry), lease_due, lifetime.begins_at(entry))
    if entry.phase is Phase.PLANNED:
        return earliest(lifetime.ends_at(entry), lease_due, lifetime.begins_at(entry))
    if entry.phase is Phase.ACTIVE:
        commit_due = entry.hold.commit_due if entry.hold is not None else None
        return earliest(entry.expires_at, entry.move_at, lease_due, commit_due)
    return None


def _given_up_due(entry: ReservationInfo) -> float | None:
    """Return when a reservation is given up. If it was seen in time, it gets at least one decision."""
    spec = entry.reservation.spec
    if spec is None:
        return None
    if entry.tried:
        return given_up_at(entry)
    return too_late_at(entry) if spec.pending_deadline_seconds or missed(entry) else None
