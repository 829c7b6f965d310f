"""Instants and spans of time: their texts, and the fields of the calendar."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from tidelock.cel.errors import EvaluationError, shown
from tidelock.cel.functions import Overload, method
from tidelock.cel.values import Duration, Timestamp, checked_int, footprint

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"(\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_DURATION = re.compile(rf"([+-]?)(?:0|((?:{_PART.pattern})+))", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:[.,](\d{1,40}))?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII
)
_NANOSECONDS = 10**9
_MINUTES = tuple(f"{minute:02d}" for minute in range(60))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Characters of the name of a time zone. The longest ones have 32.
_LONGEST_ZONE = 100
# The first and the last second of the years 1 to 9999.
_FIRST, _LAST = -62_135_596_800, 253_402_300_799


def read_duration(text: str) -> Duration:
    """Parse a duration such as `1h30m` or `1.5s`, as Go does. Raises EvaluationError."""
    found = _DURATION.fullmatch(text)
    total = (
        sum(Decimal(number) * _UNITS[unit] for number, unit in _PART.findall(text)) if found else Decimal(0)
    )
    nanoseconds = checked_int(int(total))
    if found is None or nanoseconds is None:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'")
    return Duration(-nanoseconds if found[1] == "-" else nanoseconds)


def duration_cost(text: str) -> int:
    """Return the cost of parsing a duration, which has a number for each unit."""
    return 5 * len(text)


def duration_text(span: Duration) -> str:
    """Return a duration in seconds, as in `5400s`."""
    return f"{Decimal(repr(span.nanoseconds / _NANOSECONDS)).normalize():f}s"


def read_timestamp(text: str) -> Timestamp:
    """Parse a time of RFC 3339 in the years 1 to 9999. Raises EvaluationError."""
    found = _TIMESTAMP.fullmatch(text)
    try:
        day, clock, fraction, sign, hours, minutes = found.groups() if found else ("",) * 6
        local = datetime.fromisoformat(f"{day}T{clock}+00:00")
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    except ValueError:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Timestamp'") from None
    seconds = (local - _EPOCH) // timedelta(seconds=1) + int(offset.total_seconds()) * (
        1 if sign == "-" else -1
    )
    return in_range(Timestamp(seconds * _NANOSECONDS + int((fraction or "").ljust(9, "0")[:9])))


def timestamp_cost(text: str) -> int:
    """Return the cost of parsing a time. Most of it is the same for every text."""
    return 50 + footprint(text)


def in_range(instant: Timestamp) -> Timestamp:
    """Return an instant of the years 1 to 9999. Raises EvaluationError for another one."""
    if not _FIRST <= instant.nanoseconds // _NANOSECONDS <= _LAST:
        raise EvaluationError("timestamp overflow")
    return instant


def timestamp_text(instant: Timestamp) -> str:
    """Return an instant in RFC 3339 and UTC, with as many decimals as it needs."""
    seconds, nanoseconds = divmod(instant.nanoseconds, _NANOSECONDS)
    moment = _EPOCH + timedelta(seconds=seconds)
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    return f"{moment.replace(tzinfo=None).isoformat()}{fraction}Z"


def _zone(name: str) -> tzinfo:
    """Return a time zone by its name, or by an offset such as `-08:00`. Raises EvaluationError."""
    unknown = EvaluationError(f"unknown time zone {shown(name)}")
    if len(name) > _LONGEST_ZONE:
        raise unknown
    hours, colon, minutes = name.partition(":")
    try:
        if colon:
            after_hours = timedelta(minutes=_MINUTES.index(minutes.zfill(2)))
            return timezone(timedelta(hours=int(hours)) + (-after_hours if name[0] == "-" else after_hours))
        return UTC if name in {"", "UTC"} else _zone_by_name(name)
    except (ValueError, OSError, KeyError):
        raise unknown from None


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones())


def _zone_by_name(name: str) -> tzinfo:
    """Return a time zone of the IANA database. Raises KeyError for an unknown name.

    No unknown name reaches the file system, where a miss takes as long as hundreds of steps of an expression.
    """
    if name not in _zone_names():
        raise KeyError(name)
    return _loaded_zone(name)


@cache  # of as many as there are names
def _loaded_zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _local(instant: Timestamp, zone: str = "UTC") -> datetime:
    try:
        return (_EPOCH + timedelta(microseconds=instant.nanoseconds // 1000)).astimezone(_zone(zone))
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None


def _field(read: Callable[[datetime], int]) -> Callable[..., int]:
    return lambda instant, zone="UTC": read(_local(instant, zone))


_FIELDS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}
_PARTS_OF_A_DURATION = {"getHours": "h", "getMinutes": "m", "getSeconds": "s", "getMilliseconds": "ms"}


def _whole(unit: int) -> Callable[[Duration], int]:
    """Return how many whole units a duration has, towards zero."""
    return lambda span: abs(span.nanoseconds) // unit * (-1 if span.nanoseconds < 0 else 1)


OVERLOADS: tuple[Overload, ...] = (
    *(method(name, "timestamp -> int", _field(read)) for name, read in _FIELDS.items()),
    *(
        method(name, "timestamp, string -> int", _field(read), lambda _instant, _zone: 100)
        for name, read in _FIELDS.items()
    ),
    *(method(name, "duration -> int", _whole(_UNITS[unit])) for name, unit in _PARTS_OF_A_DURATION.items()),
)
