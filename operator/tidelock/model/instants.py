"""Instants on the wire: RFC 3339, UTC, with milliseconds if they are not zero.

Inside the process an instant is a float: seconds since the epoch, in whole milliseconds.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The years that RFC 3339 and a datetime can represent.
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LATEST = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC).timestamp()


@lru_cache(maxsize=4096)  # a status is rendered, and compared, several times with the same instants
def format_instant(seconds: float) -> str:
    """Format an instant; whole seconds have no fraction, like the API's own times.

    An instant outside the years 1 to 9999 is formatted as the nearest one inside. A sum with a duration that
    a user set can lie beyond.
    """
    seconds = min(max(seconds, _EARLIEST), _LATEST)
    moment = _EPOCH + timedelta(milliseconds=round(seconds * 1000))
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def from_datetime(moment: datetime) -> float:
    """Return the instant of an aware datetime, rounded to milliseconds."""
    return round(moment.timestamp(), 3)


@lru_cache(maxsize=4096)  # the annotations of many nodes have the same time
def parse_instant(text: str) -> float:
    """Parse an instant from its wire form, or raise ValueError for a bad text or one without a zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return from_datetime(moment)


def earliest(*instants: float | None) -> float | None:
    """Return the first of some instants, where None never comes, or None if none does."""
    return min((instant for instant in instants if instant is not None), default=None)


def stored_instant(value: object) -> float | None:
    """Parse an instant of a stored status, or None if it can't be parsed.

    A client that may write statuses can store variants of RFC 3339 that only the API server reads, such as a
    lower-case t.
    """
    try:
        return parse_instant(value) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None
