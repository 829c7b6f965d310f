"""How an object that the ledger has not met becomes an entry: the rebuild after a start, object by object.

What a status says of a lock that is held, or of one that has ended, is believed; everything else starts anew.
"""

from pydantic import ValidationError

from tidelock.ledger import reasons
from tidelock.ledger.entry import Entry
from tidelock.ledger.transitions import FINAL
from tidelock.model.instants import from_datetime
from tidelock.model.locks import Reservation
from tidelock.model.quantities import NOTHING, PODS, QuantityError, Resources, at_most, parse_resources
from tidelock.model.reservations import Phase, ReservationStatus

_HELD = frozenset({Phase.ACTIVE, Phase.BOUND})


def adopt(reservation: Reservation, now: float) -> Entry:
    """Make the entry of an object that is seen for the first time."""
    entry = Entry(
        reservation, seen_at=now, pending_since=reservation.meta.created or now, problem=reservation.problem
    )
    status = _readable(reservation)
    if status is not None:
        entry.transition_times = {
            condition.type: (condition.status, from_datetime(condition.last_transition_time))
            for condition in status.conditions
        }
        entry.activated_at = from_datetime(status.activated_at) if status.activated_at else None
        entry.expires_at = from_datetime(status.expires_at) if status.expires_at else None
        if status.phase in _HELD and status.node_name and (held := _held(status)):
            _resume_held(entry, status, held)
            if not _is_current(reservation, status):
                _follow_edit(entry)
        elif status.phase in FINAL or (status.phase is Phase.REJECTED and _is_current(reservation, status)):
            _resume_ended(entry, status, now)
        elif active := entry.transition_times.get("Active"):
            entry.pending_since = active[1]
    if entry.problem and entry.phase is Phase.PENDING:
        entry.phase, entry.reason, entry.message = Phase.REJECTED, reasons.INVALID_SPEC, entry.problem
        entry.finished_at = now
    return entry


def _readable(reservation: Reservation) -> ReservationStatus | None:
    try:
        return ReservationStatus.model_validate(reservation.status)
    except ValidationError:
        return None  # written by no version of Tidelock: the lock starts anew


def _is_current(reservation: Reservation, status: ReservationStatus) -> bool:
    return status.observed_generation == reservation.meta.generation


def _held(status: ReservationStatus) -> Resources:
    try:
        held = parse_resources(status.resources or {})
    except QuantityError:
        return NOTHING
    return {**held, PODS: 1} if held else NOTHING


def _resume_held(entry: Entry, status: ReservationStatus, held: Resources) -> None:
    entry.phase = Phase.ACTIVE
    entry.held = held
    entry.node, entry.node_uid = status.node_name or "", status.node_uid or ""
    entry.epoch = status.epoch or 0
    _resume_reason(entry, status)


def _follow_edit(entry: Entry) -> None:
    """Apply what was edited while nobody watched: a smaller size and another expiry count at once."""
    if entry.reservation.pod is not None and entry.activated_at is not None:
        entry.held = at_most(entry.held, entry.reservation.requests)
        entry.expires_at = entry.expiry_from(entry.activated_at)


def _resume_ended(entry: Entry, status: ReservationStatus, now: float) -> None:
    entry.phase = status.phase or Phase.PENDING
    entry.node, entry.node_uid = status.node_name or "", status.node_uid or ""
    entry.epoch = status.epoch or 0
    entry.bound_pod = status.bound_pod
    entry.finished_at = from_datetime(status.finished_at) if status.finished_at else now
    _resume_reason(entry, status)


def _resume_reason(entry: Entry, status: ReservationStatus) -> None:
    for condition in status.conditions:
        if condition.type == "Active":
            entry.reason, entry.message = condition.reason, condition.message
