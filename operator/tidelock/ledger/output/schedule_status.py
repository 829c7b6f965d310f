"""Computes the windows that a ReservationSchedule wants, and renders its status as plain JSON values."""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from tidelock.ledger.lifecycle.transitions import GIVEN, SETTLED
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation_schedule import MOST_SHOWN
from tidelock.model.conditions import Aspect, dated
from tidelock.model.instants import format_instant
from tidelock.model.reservation_schedule import TEMPLATE_ANNOTATION, ReservationSchedule

_NEVER = (
    "spec.schedule: no window begins within 50 years; expected times that come in spec.timeZone: clocks that"
    " are put forward skip some"
)


class WindowPlan(NamedTuple):
    """The names of the windows that a schedule wants at an instant, and the reservations to delete.

    `last` is the start of the last window that has begun and was created, `next` the start of the next one.
    """

    wanted: list[str]
    surplus: list[ReservationInfo]
    last: float
    next: float | None


def plan_windows(
    schedule: ReservationSchedule, windows: Collection[ReservationInfo], begun: float, now: float
) -> WindowPlan:
    """Compare a schedule with the reservations that it has created.

    A window that has begun is created once. `begun` is the start of the last window that was seen, and the
    status has the start of an earlier one. A window that has not begun exists as long as the schedule wants
    it, and is created again when the template has changed.
    """
    starts = (entry.reservation.start_at or 0.0 for entry in windows if not _ahead(entry, now))
    last = max((schedule.last_start(now), begun, *starts))
    missed, to_come = schedule.missed(now, last), schedule.to_come(now)
    wanted = [schedule.name_of(start) for start in (missed, *to_come) if start is not None]
    surplus = [
        entry
        for entry in windows
        if not entry.deleted and not schedule.problem and _ahead(entry, now)
        if entry.key.name not in wanted
        or entry.reservation.meta.annotations.get(TEMPLATE_ANNOTATION) != schedule.digest
    ]
    return WindowPlan(wanted, surplus, last, to_come[0] if to_come else None)


def render_schedule(
    schedule: ReservationSchedule,
    windows: Collection[ReservationInfo],
    plan: WindowPlan,
    now: float,
    problem: str = "",
) -> dict[str, Any]:
    """Render the status of a schedule. `problem` says why not all of its windows could be created."""
    there = sorted(
        (entry for entry in windows if not entry.deleted and entry.phase not in SETTLED),
        key=lambda entry: (entry.reservation.start_at or 0.0, entry.key),
    )
    planned = sum(_ahead(entry, now) for entry in there)
    generation = schedule.meta.generation
    instants = {"nextStart": plan.next, "lastStart": plan.last or None}
    return {
        "observedGeneration": generation,
        **{name: format_instant(instant) for name, instant in instants.items() if instant is not None},
        "planned": planned,
        "active": sum(entry.phase in GIVEN for entry in there),
        "windows": [_window(entry) for entry in there[-MOST_SHOWN:]],
        "conditions": dated(_aspects(schedule, plan, planned, problem), schedule.status, generation, now),
    }


def render_leaving_schedule(stored: ReservationSchedule, now: float) -> dict[str, Any]:
    """Render the status of a schedule that is being deleted. The part about its windows stays."""
    status = {name: value for name, value in stored.status.items() if name != "nextStart"}
    aspect = Aspect(
        "Ready", "False", reasons.TERMINATING, "the object is being deleted: no more windows are made"
    )
    generation = stored.meta.generation
    return status | {
        "observedGeneration": generation,
        "conditions": dated((aspect,), stored.status, generation, now),
    }


def _ahead(entry: ReservationInfo, now: float) -> bool:
    start = entry.reservation.start_at
    return start is not None and start > now


def _window(entry: ReservationInfo) -> dict[str, str]:
    return {
        "name": entry.key.name,
        "startAt": format_instant(entry.reservation.start_at or 0.0),
        "phase": entry.phase.value,
    }


def _aspects(schedule: ReservationSchedule, plan: WindowPlan, planned: int, problem: str) -> Iterator[Aspect]:
    """Yield the conditions of a schedule. A suspended one is ready."""
    if schedule.problem:
        yield Aspect("Ready", "False", reasons.INVALID_SPEC, schedule.problem)
        yield Aspect("Stalled", "True", reasons.INVALID_SPEC, schedule.problem)
    elif problem:
        yield Aspect("Ready", "False", reasons.NOT_MADE, problem)
        yield Aspect("Reconciling", "True", reasons.NOT_MADE, problem)
    elif plan.next is None and schedule.spec is not None and not schedule.spec.suspend:
        yield Aspect("Ready", "False", reasons.INVALID_SPEC, _NEVER)
        yield Aspect("Stalled", "True", reasons.INVALID_SPEC, _NEVER)
    elif plan.next is None:
        yield Aspect("Ready", "True", reasons.SUSPENDED, "no windows are planned while spec.suspend is true")
    else:
        begins = format_instant(plan.next)
        yield Aspect(
            "Ready", "True", reasons.SCHEDULED, f"{planned} planned, the next one begins at {begins}"
        )
