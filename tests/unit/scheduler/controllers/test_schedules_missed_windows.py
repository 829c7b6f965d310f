"""Windows that are created after their start."""

from builders import NOW
from tidelock.model.instants import format_instant
from unit.scheduler.scheduled import FIRST, HOUR, MINUTE, ScheduleScene, name


async def test_a_clock_that_is_set_back_makes_no_window_late_and_the_next_windows_are_kept() -> None:
    """Regression: the last window in the status was older than the one that the process remembered."""
    scene = ScheduleScene()
    scene.ask()
    await scene.at(NOW + FIRST + HOUR)
    await scene.take(FIRST, FIRST + HOUR)
    await scene.go_on()
    scene.clock.time = NOW + FIRST + MINUTE
    for _ in range(2):
        await scene.go_on()
        assert scene.status["lastStart"] == format_instant(NOW + FIRST + HOUR)
        assert scene.windows == [FIRST + HOUR]
        scene.restart()


async def test_a_window_that_is_under_way_is_created_late_and_ends_at_its_planned_time() -> None:
    scene = ScheduleScene()
    scene.ask()
    await scene.at(NOW + FIRST + 9 * MINUTE)
    assert scene.windows == [FIRST, FIRST + HOUR]
    assert (scene.status["planned"], scene.status["active"]) == (1, 1)
    assert scene.shell.stored_status(name(FIRST))["expiresAt"] == format_instant(NOW + FIRST + 600)


async def test_a_window_that_is_over_is_not_created() -> None:
    scene = ScheduleScene()
    scene.ask()
    await scene.at(NOW + FIRST + 10 * MINUTE)
    assert scene.windows == [FIRST + HOUR]
    assert "lastStart" not in scene.status


async def test_of_several_missed_windows_only_the_last_is_created() -> None:
    scene = ScheduleScene()
    scene.ask(schedule="*/10 * * * *", durationSeconds=HOUR)
    await scene.at(NOW + 35 * MINUTE)
    assert scene.windows == [30 * MINUTE, 40 * MINUTE]


async def test_the_starting_deadline_limits_how_late_a_missed_window_is_created() -> None:
    scene = ScheduleScene()
    scene.ask(startingDeadlineSeconds=120)
    scene.clock.time = NOW + FIRST + 121
    await scene.go_on()
    assert scene.windows == [FIRST + HOUR]
    scene = ScheduleScene()
    scene.ask(startingDeadlineSeconds=120)
    await scene.at(NOW + FIRST + 119)
    assert scene.windows == [FIRST, FIRST + HOUR]


async def test_a_window_that_began_before_the_schedule_was_created_is_not_created() -> None:
    scene = ScheduleScene()
    scene.clock.time = NOW + FIRST + MINUTE
    scene.ask()
    await scene.go_on()
    assert scene.windows == [FIRST + HOUR]
