"""When locks and groups of locks are given up and end, and when their objects may go, by their specs."""

from tidelock.model.api.reservation import Phase, ReservationSpec
from tidelock.model.api.reservation_group import ReservationGroupSpec
from tidelock.model.instants import from_datetime

Spec = ReservationSpec | ReservationGroupSpec

# Seconds by which a stored instant may be behind, as creationTimestamp and conditions have whole seconds.
_WHOLE_SECOND = 1.0
# A deadline of 0 means "now or never": for this many seconds it is now, as no watch is faster for sure.
_NOW_SECONDS = 1

_FULFILLED = frozenset({Phase.CONSUMED, Phase.EXPIRED})


def expiry_from(spec: Spec, start: float) -> float | None:
    """Tell when what begins to hold at `start` ends."""
    if spec.expire_at is not None:
        return from_datetime(spec.expire_at)
    return round(start + spec.ttl_seconds, 3) if spec.ttl_seconds is not None else None


def too_late_at(since: float, deadline_seconds: int) -> float:
    """Compute the instant after which it is too late to decide for the first time on a request for room.

    A manager that asked at `since`, and waits for `deadline_seconds`, has gone elsewhere by then.
    """
    return since + max(deadline_seconds, _NOW_SECONDS) + _WHOLE_SECOND


def removable_at(spec: Spec, phase: str, finished_at: float) -> float | None:
    """Tell when an object may be deleted: at once after its end, after its time to live, or never."""
    retained, fulfilled = spec.retention == "Retain", phase in _FULFILLED
    if spec.ttl_seconds_after_finished is not None and (retained or not fulfilled):
        return finished_at + spec.ttl_seconds_after_finished
    if retained:
        return None
    # What failed is left for people to see, for as long as it was to live itself.
    return finished_at if fulfilled else expiry_from(spec, finished_at)
