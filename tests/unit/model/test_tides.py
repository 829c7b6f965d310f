"""Tides: whole nights, clocks that change, and tides that overlap."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from tidelock.model.cron import Timetable, read_expression, read_zone
from tidelock.model.tides import Overlap, TideTimes, first_overlap

BERLIN = "Europe/Berlin"


def tide(start: str, end: str, zone: str = BERLIN) -> TideTimes:
    starts, ends = (Timetable(read_expression(each), read_zone(zone)) for each in (start, end))
    return TideTimes(starts, ends)


NIGHT = tide("0 22 * * *", "0 6 * * *")
WORK = tide("0 8 * * 1-5", "0 18 * * 1-5")


def at(text: str, zone: str = BERLIN) -> float:
    """Return an instant by the clocks of a zone. With "Z" it is in UTC."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).timestamp()


@pytest.mark.parametrize(
    ("clock", "in_force", "change"),
    [
        ("2027-06-01T21:59:59", False, "2027-06-01T22:00"),
        ("2027-06-01T22:00:00", True, "2027-06-02T06:00"),
        ("2027-06-02T00:00:00", True, "2027-06-02T06:00"),
        ("2027-06-02T05:59:59", True, "2027-06-02T06:00"),
        ("2027-06-02T06:00:00", False, "2027-06-02T22:00"),
    ],
)
def test_a_tide_is_in_force_from_its_start_on_and_not_at_its_end(
    clock: str, in_force: bool, change: str
) -> None:
    assert NIGHT.in_force(at(clock)) is in_force
    assert NIGHT.next_change(at(clock)) == at(change)


def test_a_tide_of_workdays_is_not_in_force_on_weekends() -> None:
    assert WORK.in_force(at("2027-06-04T17:00"))  # a Friday
    assert not WORK.in_force(at("2027-06-05T12:00"))
    assert WORK.next_change(at("2027-06-05T12:00")) == at("2027-06-07T08:00")


@pytest.mark.parametrize(("evening", "hours"), [("2027-03-27", 7), ("2027-10-30", 9), ("2027-06-01", 8)])
def test_a_night_lasts_an_hour_less_or_more_when_clocks_change(evening: str, hours: int) -> None:
    start = at(f"{evening}T22:00")
    (night,) = list(NIGHT.spans(start - 1, start))
    assert (night.end - night.start) / 3600 == hours
    assert NIGHT.in_force(night.end - 1)
    assert not NIGHT.in_force(night.end)


def test_a_start_that_clocks_skip_does_not_come_that_day() -> None:
    early = tide("30 2 * * *", "0 4 * * *")
    assert early.next_change(at("2027-03-28T00:00")) == at("2027-03-29T02:30")


def test_a_start_that_clocks_show_twice_begins_once_and_an_end_at_its_first_time() -> None:
    """On 31 October 2027 at 01:00 UTC, clocks go from 03:00 back to 02:00."""
    begun = list(tide("30 2 * * *", "0 4 * * *").spans(at("2027-10-31T00:00"), at("2027-10-31T12:00")))
    assert begun == [(at("2027-10-31T00:30Z"), at("2027-10-31T03:00Z"))]
    ended = list(tide("0 1 * * *", "30 2 * * *").spans(at("2027-10-31T00:00"), at("2027-10-31T12:00")))
    assert ended == [(at("2027-10-30T23:00Z"), at("2027-10-31T00:30Z"))]


def test_a_tide_can_follow_another_one_without_a_gap() -> None:
    day = tide("0 6 * * *", "0 22 * * *")
    assert first_overlap([NIGHT, day]) is None
    for hour in range(24):
        assert NIGHT.in_force(at(f"2027-06-01T{hour:02}:00")) is not day.in_force(
            at(f"2027-06-01T{hour:02}:00")
        )


def test_a_tide_that_ends_at_its_own_start_goes_on() -> None:
    always = tide("0 0 * * *", "0 0 * * *")
    assert always.in_force(at("2027-06-01T00:00"))
    assert always.in_force(at("2027-06-01T23:00"))


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        (NIGHT, tide("0 5 * * *", "0 7 * * *"), Overlap(0, 1, at("2028-01-02T05:00"))),
        (WORK, tide("0 12 * * 3", "0 13 * * 3"), Overlap(0, 1, at("2028-01-05T12:00"))),
        # Only while clocks in Europe and not yet those in America are put forward, in March 2028.
        (
            tide("0 8 * * *", "0 12 * * *", "America/New_York"),
            tide("30 13 * * *", "0 14 * * *"),
            Overlap(0, 1, at("2028-03-12T13:30")),
        ),
        # Only on 29 February.
        (tide("0 0 29 2 *", "0 1 29 2 *"), tide("0 9 28 2 *", "0 9 1 3 *"), Overlap(1, 0, at("2028-02-29"))),
        # Across New Year.
        (tide("0 0 20 12 *", "0 0 5 1 *"), tide("0 0 2 1 *", "0 0 3 1 *"), Overlap(0, 1, at("2029-01-02"))),
    ],
)
def test_an_overlap_is_found_anywhere_in_the_year(
    first: TideTimes, second: TideTimes, overlap: Overlap
) -> None:
    assert first_overlap([first, second]) == overlap


def test_tides_that_begin_too_often_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 1000 times a year"):
        first_overlap([tide("0 * * * *", "30 * * * *")])
