"""Windows whose start has passed before they are created."""

from builders import NOW
from tidelock.model.instants import format_instant
from unit.scheduler.scheduled import FIRST, HOUR, MINUTE, Works, name


async def test_a_clock_that_is_set_back_makes_no_window_late_and_the_next_windows_are_kept() -> None:
    """Regression: the last window in the status was older than the one that the process remembered."""
    works = Works()
    works.ask()
    await works.at(NOW + FIRST + HOUR)
    await works.take(FIRST, FIRST + HOUR)
    await works.go_on()
    works.clock.time = NOW + FIRST + MINUTE
    for _ in range(2):
        await works.go_on()
        assert works.status["lastStart"] == format_instant(NOW + FIRST + HOUR)
        assert works.windows == [FIRST + HOUR]
        works.restart()


async def test_a_window_that_is_under_way_is_created_late_and_ends_at_its_planned_time() -> None:
    works = Works()
    works.ask()
    await works.at(NOW + FIRST + 9 * MINUTE)
    assert works.windows == [FIRST, FIRST + HOUR]
    assert (works.status["planned"], works.status["active"]) == (1, 1)
    assert works.shell.stored_status(name(FIRST))["expiresAt"] == format_instant(NOW + FIRST + 600)


async def test_a_window_that_is_over_is_not_created() -> None:
    works = Works()
    works.ask()
    await works.at(NOW + FIRST + 10 * MINUTE)
    assert works.windows == [FIRST + HOUR]
    assert "lastStart" not in works.status


async def test_of_several_missed_windows_only_the_last_is_created() -> None:
    works = Works()
    works.ask(schedule="*/10 * * * *", durationSeconds=HOUR)
    await works.at(NOW + 35 * MINUTE)
    assert works.windows == [30 * MINUTE, 40 * MINUTE]


async def test_the_starting_deadline_limits_how_late_a_missed_window_is_created() -> None:
    works = Works()
    works.ask(startingDeadlineSeconds=120)
    works.clock.time = NOW + FIRST + 121
    await works.go_on()
    assert works.windows == [FIRST + HOUR]
    works = Works()
    works.ask(startingDeadlineSeconds=120)
    await works.at(NOW + FIRST + 119)
    assert works.windows == [FIRST, FIRST + HOUR]


async def test_a_window_that_began_before_the_schedule_was_created_is_not_created() -> None:
    works = Works()
    works.clock.time = NOW + FIRST + MINUTE
    works.ask()
    await works.go_on()
    assert works.windows == [FIRST + HOUR]
