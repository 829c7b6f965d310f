"""The instants of a cron expression in a time zone, at which a CronJob would start."""

from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from tidelock.model.cron import NICKNAMES, Timetable, read_expression, read_zone

NEW_YORK = "America/New_York"


def timetable(schedule: str, zone: str = "Etc/UTC") -> Timetable:
    return Timetable(read_expression(schedule), read_zone(zone))


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def starts(schedule: str, zone: str, after: str, count: int = 3) -> list[str]:
    """Return the next starts in the local time of the zone."""
    found = islice(timetable(schedule, zone).after(instant(after)), count)
    return [datetime.fromtimestamp(each, ZoneInfo(zone)).isoformat(timespec="minutes") for each in found]


def test_the_next_start_is_later_than_the_given_instant() -> None:
    assert starts("0 2 * * *", "Etc/UTC", "2026-05-01T02:00Z", 1) == ["2026-05-02T02:00+00:00"]
    assert starts("0 2 * * *", "Etc/UTC", "2026-05-01T01:59:59.999Z", 1) == ["2026-05-01T02:00+00:00"]


def test_a_schedule_is_read_by_the_clocks_of_its_zone() -> None:
    assert starts("30 9 * * 1-5", "Asia/Kolkata", "2026-05-01T03:30Z", 2) == [
        "2026-05-01T09:30+05:30",
        "2026-05-04T09:30+05:30",
    ]


def test_a_time_that_clocks_skip_has_no_start_that_day() -> None:
    assert starts("30 2 * * *", NEW_YORK, "2026-03-07T12:00Z", 2) == [
        "2026-03-09T02:30-04:00",
        "2026-03-10T02:30-04:00",
    ]


def test_a_day_with_a_skipped_midnight_has_its_other_starts() -> None:
    """Check a day in Cairo, where clocks are put forward from 0:00 to 1:00."""
    assert starts("0 */8 * * *", "Africa/Cairo", "2026-04-23T14:00Z", 3) == [
        "2026-04-24T08:00+03:00",
        "2026-04-24T16:00+03:00",
        "2026-04-25T00:00+03:00",
    ]


def test_a_time_that_clocks_show_twice_has_two_starts() -> None:
    assert starts("30 1 * * *", NEW_YORK, "2026-10-31T12:00Z") == [
        "2026-11-01T01:30-04:00",
        "2026-11-01T01:30-05:00",
        "2026-11-02T01:30-05:00",
    ]


@pytest.mark.parametrize(
    ("after", "count"),
    [("2026-11-01T05:00Z", 5), ("2026-11-01T05:40Z", 4), ("2026-11-01T06:00Z", 3), ("2026-11-01T06:40Z", 1)],
)
def test_an_hour_that_clocks_show_twice_has_its_starts_in_order(after: str, count: int) -> None:
    """Check the hour from 1:00, which begins for the second time at 6:00 UTC."""
    in_order = [
        "2026-11-01T01:20-04:00",
        "2026-11-01T01:40-04:00",
        "2026-11-01T01:00-05:00",
        "2026-11-01T01:20-05:00",
        "2026-11-01T01:40-05:00",
        "2026-11-01T02:00-05:00",
    ]
    shown = starts("*/20 1,2 * * *", NEW_YORK, after, count)
    assert shown == [each for each in in_order if instant(each) > instant(after)][:count]


def test_clocks_are_put_back_by_half_an_hour_too() -> None:
    assert starts("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00Z", 3) == [
        "2026-04-05T01:45+11:00",
        "2026-04-05T01:45+10:30",
        "2026-04-06T01:45+10:30",
    ]


@pytest.mark.parametrize(
    ("schedule", "same_as"),
    [
        ("0 0 ? * ?", "0 0 * * *"),
        ("0 0 */1 * 1", "0 0 * * 1"),
        ("0 0 * JAN mon-fri", "0 0 * 1 1-5"),
        ("0 0 * * 7", "0 0 * * SUN"),
        ("0 0 * * 1/2", "0 0 * * 1,3,5"),
        ("0 0 * * 0,3/2", "0 0 * * 0,3,5"),
        ("5/20 * * * *", "5,25,45 * * * *"),
        *NICKNAMES.items(),
    ],
)
def test_equivalent_schedules_have_the_same_starts(schedule: str, same_as: str) -> None:
    first, second = (islice(timetable(each).after(1_800_000_000), 50) for each in (schedule, same_as))
    assert list(first) == list(second)


@pytest.mark.parametrize(
    ("schedule", "days"),
    [
        ("0 0 1 * 1", ["01", "04", "11", "18"]),
        ("0 0 * * 1", ["04", "11", "18", "25"]),
        ("0 0 */10 * 1", ["01", "04", "11", "18"]),
        ("0 0 30 * */3", ["02", "03", "06", "09"]),
        ("0 0 L * *", ["31", "30", "31", "31"]),
    ],
    ids=[
        "either",
        "weekday alone",
        "days with a step are named",
        "weekdays with a step are named",
        "last day",
    ],
)
def test_a_schedule_with_a_day_and_a_weekday_starts_on_either(schedule: str, days: list[str]) -> None:
    shown = starts(schedule, "Etc/UTC", "2026-04-30T12:00Z", 4)
    assert [each[8:10] for each in shown] == days


def test_the_29th_of_february_is_found() -> None:
    assert starts("0 0 29 2 *", "Etc/UTC", "2026-01-01T00:00Z", 2) == [
        "2028-02-29T00:00+00:00",
        "2032-02-29T00:00+00:00",
    ]


@pytest.mark.parametrize(
    ("schedule", "until", "since", "latest"),
    [
        ("0 2 * * *", "2026-05-03T01:59Z", "2026-05-01T00:00Z", "2026-05-02T02:00Z"),
        ("0 2 * * *", "2026-05-03T02:00Z", "2026-05-01T00:00Z", "2026-05-03T02:00Z"),
        ("0 2 * * *", "2026-05-03T01:00Z", "2026-05-02T02:00Z", None),
        ("0 2 * * *", "2026-05-03T02:00Z", "2026-05-03T02:00Z", None),
        ("* * * * *", "2026-05-03T02:00:59Z", "2025-05-03T02:00Z", "2026-05-03T02:00Z"),
        ("0 0 1 1 *", "2026-05-03T02:00Z", "2025-05-03T02:00Z", "2026-01-01T00:00Z"),
        ("0 0 1 1 *", "2026-05-03T02:00Z", "2026-02-03T02:00Z", None),
    ],
)
def test_the_latest_start_is_found(schedule: str, until: str, since: str, latest: str | None) -> None:
    found = timetable(schedule).latest(instant(until), instant(since))
    assert found == (None if latest is None else instant(latest))


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("", "should be 5 fields"),
        ("* * * *", "should be 5 fields"),
        ("0 * * * * *", "should be 5 fields"),
        ("@every 1h", "should be 5 fields"),
        ("60 * * * *", "its minute can't be read"),
        ("* 24 * * *", "its hour can't be read"),
        ("* * 0 * *", "its day-of-month can't be read"),
        ("* * 30 2 *", "its day-of-month can't be read or never comes"),
        ("* * * JANUARY *", "its month can't be read"),
        ("* * * * 8", "its day-of-week can't be read"),
        ("*/0 * * * *", "its minute can't be read"),
        ("5-1 * * * *", "its minute can't be read"),
    ],
)
def test_an_invalid_expression_is_refused(schedule: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_expression(schedule)


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "Local", "America", "../etc/passwd", "/etc", "+02:00"])
def test_a_zone_that_is_not_in_the_database_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="should be a time zone of the IANA database"):
        read_zone(name)


@pytest.mark.parametrize("schedule", ["30 2 * 3 0L", "* 2 * 3 0L"])
def test_a_time_that_clocks_always_skip_has_no_start(schedule: str) -> None:
    """Guard against a search up to the year 9999.

    In Berlin clocks skip this time on the last Sunday of each March.
    """
    assert starts(schedule, "Europe/Berlin", "2026-05-01T00:00Z") == []
    begun = instant("2026-05-01T00:00Z")
    assert timetable(schedule, "Europe/Berlin").latest(begun, begun - 366 * 86_400) is None


def test_the_rarest_day_is_found() -> None:
    """Check the fifth Monday of February. The next one after 2072 is 40 years later."""
    assert starts("0 0 * 2 1#5", "Etc/UTC", "2030-01-01T00:00Z", 3) == [
        "2044-02-29T00:00+00:00",
        "2072-02-29T00:00+00:00",
        "2112-02-29T00:00+00:00",
    ]
