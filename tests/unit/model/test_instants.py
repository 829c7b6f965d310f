from datetime import UTC, datetime, timedelta, timezone
from math import inf

import pytest

from tidelock.model.instants import (
    format_instant,
    from_datetime,
    parse_instant,
    stored_instant,
)

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00Z"),
        (NOON, "2026-12-01T12:00:00Z"),
        (NOON + 0.25, "2026-12-01T12:00:00.250Z"),
        (NOON + 0.0004, "2026-12-01T12:00:00Z"),
        (NOON + 0.9996, "2026-12-01T12:00:01Z"),
        (253402300799.9996, "9999-12-31T23:59:59.999Z"),
        (9.3e18, "9999-12-31T23:59:59.999Z"),
        (inf, "9999-12-31T23:59:59.999Z"),
        (-9.3e18, "0001-01-01T00:00:00Z"),
    ],
)
def test_an_instant_is_written_in_utc_with_milliseconds_if_it_has_any(seconds: float, text: str) -> None:
    assert format_instant(seconds) == text


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-01T12:00:00Z",
        "2026-12-01T12:00:00.000000Z",
        "2026-12-01T14:00:00+02:00",
        "2026-12-01T12:00:00.0001Z",
    ],
)
def test_an_instant_is_read_from_any_zone_to_the_millisecond(text: str) -> None:
    assert parse_instant(text) == NOON


def test_a_datetime_of_any_zone_is_the_same_instant() -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    assert from_datetime(datetime(2026, 12, 1, 17, 30, 0, 1499, tzinfo=east)) == NOON + 0.001


@pytest.mark.parametrize("text", ["2026-12-01T12:00:00", "2026-12-01"])
def test_an_instant_without_a_zone_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        parse_instant(text)


@pytest.mark.parametrize("text", ["", "noon", "2026-13-01T12:00:00Z", "1800000000"])
def test_a_text_that_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_instant(text)


@pytest.mark.parametrize(
    "value", ["2035-01-01t00:00:00z", "2035-01-01T00:00:60Z", "9999-12-31T23:59:59-23:59x", "", None, 7]
)
def test_an_invalid_instant_in_a_stored_status_counts_as_none(value: object) -> None:
    assert stored_instant(value) is None


def test_an_instant_in_a_stored_status_is_read() -> None:
    assert stored_instant("2026-12-01T12:00:00Z") == NOON
