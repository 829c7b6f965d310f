"""The lists of groups, schedules and quotas, a page of each at a time."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tidelock.ledger.output.status import render_quota
from tidelock.ledger.queue.quotas import Charge
from tidelock.model.api.reservation import ENDED_PHASES, URGENCY, Phase
from tidelock.model.instants import stored_instant
from tidelock.model.meta import ObjectMeta
from tidelock.model.outlook import UNPROCESSED, NextEvent, Upcoming
from tidelock.model.printable import printable
from tidelock.model.quantities import Resources, format_quantity
from tidelock.model.quotas import ReservationQuota
from tidelock.model.reservation_group import ReservationGroup
from tidelock.model.reservation_schedule import ReservationSchedule
from tidelock.web.overview import MOST_NAMESPACES
from tidelock.web.query import ViewQuery
from tidelock.web.rows import ListPart, Row, amounts, part_of, rows_of
from tidelock.web.sources import Sources


class GroupRow(Row, frozen=True):
    """A group: its members with capacity, those that their pods have taken, and how many it needs."""

    name: str
    phase: str
    ready: int
    consumed: int
    members: int
    needed: int
    upcoming: Upcoming | None
    ended_at: float | None
    why: str
    trouble: bool


class WindowRow(Row, frozen=True):
    """A window that is not over: its reservation, and its start in seconds since the epoch."""

    name: str
    begins: float | None
    phase: str


class ScheduleRow(Row, frozen=True):
    """A schedule: its timetable, and its windows. The length of a window is in seconds."""

    name: str
    timetable: str
    seconds: int
    next_start: float | None
    last_start: float | None
    windows: list[WindowRow]
    why: str
    trouble: bool


class QuotaLine(Row, frozen=True):
    """A limit of a quota and its use, as a share, which can exceed 1, and as texts."""

    resource: str
    share: float
    used: str
    hard: str


class QuotaRow(Row, frozen=True):
    """A quota: its limits on sums, and its other rules as sentences."""

    name: str
    lines: list[QuotaLine]
    rules: list[str]
    why: str
    trouble: bool


class GroupsPage(Row, frozen=True, tag_field="view", tag="groups"):
    """The content of the list of groups, with the namespaces of all of them."""

    rows: list[GroupRow]
    part: ListPart
    namespaces: list[str]


class SchedulesPage(Row, frozen=True, tag_field="view", tag="schedules"):
    """The content of the list of schedules, with the namespaces of all of them."""

    rows: list[ScheduleRow]
    part: ListPart
    namespaces: list[str]


class QuotasPage(Row, frozen=True, tag_field="view", tag="quotas"):
    """The content of the list of quotas, with the namespaces of all of them."""

    rows: list[QuotaRow]
    part: ListPart
    namespaces: list[str]


T = TypeVar("T", ReservationGroup, ReservationSchedule, ReservationQuota)


def groups(sources: Sources, query: ViewQuery, now: float) -> Generator[None, None, GroupsPage]:
    """Compute the page, in one slice. Waiting groups come first, then active ones by their end."""
    del now
    yield from ()
    found, part, namespaces = _matching(sources.groups.values(), query, _group_order)
    return GroupsPage([_group_row(each) for each in found], part, namespaces)


def schedules(sources: Sources, query: ViewQuery, now: float) -> Generator[None, None, SchedulesPage]:
    """Compute the page, in one slice. The schedules with the nearest window come first."""
    del now
    yield from ()
    found, part, namespaces = _matching(sources.schedules.values(), query, _schedule_order)
    return SchedulesPage([_schedule_row(each) for each in found], part, namespaces)


def quotas(sources: Sources, query: ViewQuery, now: float) -> Generator[None, None, QuotasPage]:
    """Compute the page, in one slice, by namespace and name."""
    yield from ()
    found, part, namespaces = _matching(sources.quotas.all(), query, lambda each: each.meta.key)
    used = sources.ledger.quotas.used
    rows = [_quota_row(each, used(each.meta.namespace), now) for each in found]
    return QuotasPage(rows, part, namespaces)


def _matching(
    objects: Iterable[T], query: ViewQuery, order: Callable[[T], Any]
) -> tuple[Sequence[T], ListPart, list[str]]:
    """Return the objects of the page, their place in the list, and the namespaces of all objects."""
    known = list(objects)
    found = [
        each
        for each in known
        if query.namespace in ("", each.meta.namespace) and query.text in _words(each.meta, each.status)
    ]
    found.sort(key=order)
    part = part_of(len(known), len(found), query.first)
    namespaces = sorted({each.meta.namespace for each in known})[:MOST_NAMESPACES]
    return rows_of(found, part), part, namespaces


def _words(meta: ObjectMeta, status: Mapping[str, Any]) -> str:
    """Return the text of an object in which a filter looks: its name and phase."""
    return f"{meta.key} {status.get('phase', '')}".lower()


# Groups.


def _group_order(group: ReservationGroup) -> tuple[int, float, str]:
    phase = Phase(group.status.get("phase", Phase.PENDING))
    coming = min(_group_events(group), default=None)
    place = coming.at if coming is not None else 0.0
    if group.finished_at is not None:
        place = -group.finished_at
    return URGENCY[phase], place, str(group.key)


def _group_events(group: ReservationGroup) -> Iterator[Upcoming]:
    phase = group.status.get("phase", Phase.PENDING)
    ends, spec = stored_instant(group.status.get("expiresAt")), group.spec
    if phase in ENDED_PHASES:
        if group.removable_at is not None and group.meta.deletion_timestamp is None:
            yield Upcoming(group.removable_at, NextEvent.REMOVED)
    elif ends is not None:
        yield Upcoming(ends, NextEvent.ENDS)
    if phase == Phase.PENDING and spec is not None and "activatedAt" not in group.status:
        yield Upcoming(group.meta.created + spec.pending_deadline_seconds, NextEvent.REJECTED)


def _group_row(group: ReservationGroup) -> GroupRow:
    status, size = group.status, len(group.members)
    least = group.spec.min_members if group.spec is not None else None
    phase = str(status.get("phase", Phase.PENDING))
    return GroupRow(
        name=str(group.key),
        phase=phase,
        ready=status.get("ready", 0),
        consumed=status.get("consumed", 0),
        members=size,
        needed=min(least or size, size),
        upcoming=min(_group_events(group), default=None),
        ended_at=group.finished_at,
        why=_why(status, "Active"),
        trouble=_holds(status, "Stalled"),
    )


# Schedules.


def _schedule_order(schedule: ReservationSchedule) -> tuple[bool, float, str]:
    begins = stored_instant(schedule.status.get("nextStart"))
    return begins is None, begins or 0.0, str(schedule.key)


def _schedule_row(schedule: ReservationSchedule) -> ScheduleRow:
    status, spec = schedule.status, schedule.spec
    zone = f" {spec.time_zone}" if spec is not None else ""
    return ScheduleRow(
        name=str(schedule.key),
        timetable=printable(f"{spec.schedule}{zone}") if spec is not None else "",
        seconds=spec.duration_seconds if spec is not None else 0,
        next_start=stored_instant(status.get("nextStart")),
        last_start=stored_instant(status.get("lastStart")),
        windows=[
            WindowRow(each["name"], stored_instant(each.get("startAt")), each.get("phase", ""))
            for each in status.get("windows", ())
        ],
        why=_why(status, "Ready"),
        trouble=not _holds(status, "Ready") and "conditions" in status,
    )


# Quotas.


def _quota_row(quota: ReservationQuota, used: Charge, now: float) -> QuotaRow:
    status = render_quota(quota, used, now)
    lines = [*_lines(quota.hard, used.reserved, ""), *_lines(quota.hard_seconds, used.seconds, " seconds")]
    return QuotaRow(
        name=str(quota.meta.key),
        lines=lines,
        rules=list(_rules(quota)),
        why=printable(quota.problem),
        trouble=_holds(status, "Stalled"),
    )


def _lines(hard: Resources, used: Resources, unit: str) -> Iterator[QuotaLine]:
    for resource, limit in hard.items():
        units = used.get(resource, 0)
        share = units / limit if limit else float(units > 0)
        texts = (format_quantity(resource, each) for each in (units, limit))
        yield QuotaLine(f"{resource}{unit}", share, *texts)


def _rules(quota: ReservationQuota) -> Iterator[str]:
    spec = quota.spec
    if quota.max_amounts:
        yield f"each at most {amounts(quota.max_amounts)}"
    if spec.max_life_seconds is not None:
        yield f"each for at most {spec.max_life_seconds} s"
    if spec.max_priority is not None:
        yield f"priority at most {spec.max_priority}"
    if spec.preemption_policy is not None:
        yield f"preemption: {spec.preemption_policy}"
    if spec.weight is not None:
        yield f"weight {spec.weight}"
    if spec.count_against_resource_quota:
        yield "counts against ResourceQuotas"


# Conditions.


def _why(status: Mapping[str, Any], name: str) -> str:
    """Return reason and message of a condition."""
    for each in status.get("conditions", ()):
        if each.get("type") == name:
            return printable(f"{each.get('reason', '')}: {each.get('message', '')}")
    return UNPROCESSED


def _holds(status: Mapping[str, Any], name: str) -> bool:
    conditions = status.get("conditions", ())
    return any(each.get("type") == name and each.get("status") == "True" for each in conditions)
