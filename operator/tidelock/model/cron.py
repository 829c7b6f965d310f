"""Recurring instants: a cron expression, read by the clocks of a time zone.

The expression has the meaning that CronJobs give it. An instant is on the schedule if the zone's clocks then
show a time that the expression names. A time that clocks skip when they are put forward does not occur that
day. A time that clocks show twice when they are put back occurs twice.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from math import inf
from types import MappingProxyType
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

FIELDS = "minute (0-59), hour (0-23), day of the month (1-31), month (1-12) and day of the week (0-7)"
NICKNAMES = MappingProxyType(
    {
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        "@monthly": "0 0 1 * *",
        "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@hourly": "0 * * * *",
    }
)

_COUNT = 5
# Years without an instant after which a schedule has ended, as in the cron library. The fifth Monday of a
# February occurs at least every 40 years.
_PATIENCE = 50
# An upper bound of the minutes that clocks skip at once when a zone moves across the date line.
_MOST_SKIPPED = 1500
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_HOUR_SECONDS = 3600.0
_STARRED = re.compile(r"(?:^|(?<=,))[*?]/(?!0*1(?:,|$))")
_FROM_DAY = re.compile(r"(?:^|(?<=,))(\w+)/")


@dataclass(frozen=True, slots=True)
class Timetable:
    """The instants of a schedule, in seconds since the epoch."""

    expression: str
    """In the form that the cron library reads."""
    zone: ZoneInfo

    def after(self, instant: float, until: float = inf) -> Iterator[float]:
        """Return all instants of the schedule that are later than one, in order.

        The iteration ends when the next instant is later than `until`. It also ends when no instant comes for
        _PATIENCE years: a time that clocks skip whenever it is named, such as 02:30 on the day of the change,
        never comes.
        """
        again: deque[float] = deque()  # times that clocks show a second time
        begin = self._shown_before(instant)
        last, skipped = begin.year, 0
        for shown in CronSim(self.expression, begin):
            if shown.year > last + _PATIENCE or skipped > _MOST_SKIPPED:
                return
            first, second = (shown.replace(tzinfo=self.zone, fold=fold).timestamp() for fold in (0, 1))
            while again and again[0] < first:
                yield again.popleft()
            if min(first, second) > until:
                return
            skipped = skipped + 1 if first > second else 0
            if instant < first <= second:  # otherwise it is past, or skipped
                last = shown.year
                yield first
            if instant < second > first:
                again.append(second)

    def latest(self, until: float, since: float) -> float | None:
        """Return the last instant of the schedule up to one and later than another, if there is any."""
        span = _HOUR_SECONDS
        while since < until:
            begin = max(until - span, since)
            found = list(takewhile(lambda each: each <= until, self.after(begin, until)))
            if found:
                return found[-1]
            if begin == since:
                return None
            span *= 4
        return None

    def _shown_before(self, instant: float) -> datetime:
        """Return the time, without its zone, after which clocks show nothing that was before the instant.

        Clocks may show it for the first time now, and again when they are put back within a day.
        """
        moment = _EPOCH + timedelta(seconds=instant)
        today, later = moment.astimezone(self.zone), (moment + _DAY).astimezone(self.zone)
        return min(today.replace(tzinfo=None), later.replace(tzinfo=None) - _DAY)


def read_expression(schedule: str) -> str:
    """Return a schedule in the cron library's form, or raise ValueError for one that names no times."""
    fields = NICKNAMES.get(schedule, schedule).split()
    if len(fields) != _COUNT:
        raise ValueError(
            f"{schedule!r} should be {_COUNT} fields, {FIELDS}, or one of {', '.join(NICKNAMES)}"
        )
    expression = " ".join(_as_cronjob(fields))
    try:
        CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001 -- as clocks show it
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        raise ValueError(
            f"{schedule!r}: its {field} can't be read or never comes; expected {FIELDS}"
        ) from error
    return expression


def read_zone(name: str) -> ZoneInfo:
    """Return a time zone by its name, or raise ValueError for an unknown name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"{name!r} should be a time zone of the IANA database, such as Europe/Berlin"
        ) from error


def _as_cronjob(fields: list[str]) -> Iterator[str]:
    """Return the fields in a form that gives the cron library the meaning of a CronJob's.

    For a CronJob `?` is `*`, a day with a step, such as `*/2`, is not any day, and `1/2` ends on Saturday,
    not on a second Sunday.
    """
    *times, day, month, weekday = fields
    yield from times
    yield _STARRED.sub("1-31/", day).replace("?", "*")
    yield month
    yield _FROM_DAY.sub(r"\1-6/", _STARRED.sub("0-6/", weekday)).replace("?", "*")
