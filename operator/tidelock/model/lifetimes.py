"""When reservations and groups are given up and end, and when their objects may be deleted."""

from typing import TYPE_CHECKING, TypeAlias

from tidelock.model.api.reservation import Phase, ReservationSpec
from tidelock.model.instants import from_datetime

if TYPE_CHECKING:  # a short command knows no groups
    from tidelock.model.api.reservation_group import ReservationGroupSpec

Spec: TypeAlias = "ReservationSpec | ReservationGroupSpec"

# Seconds by which a stored instant can be early, since creationTimestamp and conditions have whole seconds.
_WHOLE_SECOND = 1.0
# A deadline of 0 means "now or never". It allows this many seconds, since no watch is reliably faster.
_NOW_SECONDS = 1

_FULFILLED = frozenset({Phase.CONSUMED, Phase.EXPIRED})


def spec_expiry(spec: Spec, start: float) -> float | None:
    """Return when a reservation that becomes active at `start` ends."""
    if spec.expire_at is not None:
        return from_datetime(spec.expire_at)
    return round(start + spec.ttl_seconds, 3) if spec.ttl_seconds is not None else None


def latest_decision(since: float, deadline_seconds: int) -> float:
    """Return the instant after which it is too late for the first decision on a request for capacity.

    A manager that asked at `since`, and waits for `deadline_seconds`, has asked elsewhere by then.
    """
    return since + max(deadline_seconds, _NOW_SECONDS) + _WHOLE_SECOND


def removal_time(spec: Spec, phase: str, finished_at: float) -> float | None:
    """Return when an object may be deleted: at its end, after its time to live, or never."""
    retained, fulfilled = spec.retention == "Retain", phase in _FULFILLED
    if spec.ttl_seconds_after_finished is not None and (retained or not fulfilled):
        return finished_at + spec.ttl_seconds_after_finished
    if retained:
        return None
    # A failed object stays visible for as long as it would have lived.
    return finished_at if fulfilled else spec_expiry(spec, finished_at)
