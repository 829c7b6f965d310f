"""Edits of schedules and of their windows, and specs that can not be read."""

from builders import NAMESPACE, NOW
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from unit.scheduler.machinery import lock_path
from unit.scheduler.scheduled import FIRST, HOUR, MINUTE, ScheduleScene, name


async def test_an_edit_of_a_schedule_changes_planned_windows_and_keeps_those_that_have_begun() -> None:
    scene = ScheduleScene()
    scene.ask(ahead=2)
    await scene.at(NOW + FIRST)
    assert scene.windows == [FIRST, FIRST + HOUR, FIRST + 2 * HOUR]
    scene.edit(schedule="0 * * * *")
    await scene.go_on()
    assert scene.windows == [FIRST, HOUR, 2 * HOUR]
    scene.edit(ahead=1)
    await scene.go_on()
    assert scene.windows == [FIRST, HOUR]
    scene.edit(timeZone="Asia/Kolkata")  # half an hour off
    await scene.go_on()
    assert scene.windows == [FIRST, FIRST + HOUR]


async def test_an_edit_of_the_duration_changes_only_windows_that_have_not_begun() -> None:
    scene = ScheduleScene()
    scene.ask()
    await scene.at(NOW + FIRST)
    before = scene.api.objects[lock_path(name(FIRST))]["spec"]
    scene.edit(durationSeconds=1200)
    await scene.go_on()
    assert scene.api.objects[lock_path(name(FIRST))]["spec"] == before
    later = scene.api.objects[lock_path(name(FIRST + HOUR))]["spec"]
    assert later["expireAt"] == format_instant(NOW + FIRST + HOUR + 1200)


async def test_a_window_that_was_edited_by_hand_stays_as_it_is() -> None:
    scene = ScheduleScene()
    scene.ask()
    await scene.go_on()
    scene.api.edit(lock_path(name(FIRST)), {"spec": {"resources": {"cpu": "3"}}})
    await scene.go_on()
    assert scene.api.objects[lock_path(name(FIRST))]["spec"]["resources"] == {"cpu": "3"}
    assert len(scene.posted) == 1


async def test_a_window_that_is_deleted_before_it_begins_is_created_again() -> None:
    scene = ScheduleScene()
    scene.ask()
    await scene.go_on()
    await scene.take(FIRST)
    await scene.go_on()
    assert scene.windows == [FIRST]
    assert scene.posted == [name(FIRST)] * 2


async def test_the_deletion_of_a_window_alone_makes_its_schedule_create_it_again() -> None:
    scene = ScheduleScene()
    scene.ask()
    await scene.go_on()
    scene.controller.look()
    del scene.api.objects[lock_path(name(FIRST))]
    window = scene.shell.ledger.entries[Key(NAMESPACE, name(FIRST))]
    scene.shell.event_handlers.reservations.remove(window.reservation)
    scene.controller.look()
    await scene.shell.settle()
    assert scene.posted == [name(FIRST)] * 2


async def test_a_suspended_schedule_plans_no_windows() -> None:
    scene = ScheduleScene()
    scene.ask(ahead=3)
    await scene.at(NOW + FIRST)
    scene.edit(suspend=True)
    await scene.go_on()
    assert scene.windows == [FIRST]
    assert (scene.condition("Ready")["status"], scene.condition("Ready")["reason"]) == ("True", "Suspended")
    assert "nextStart" not in scene.status
    await scene.at(NOW + FIRST + HOUR + MINUTE)
    assert scene.windows == []
    scene.edit(suspend=False)
    await scene.go_on()
    # As for a CronJob: the missed window begins on resumption, unless it is over.
    assert scene.windows == [FIRST + HOUR, FIRST + 2 * HOUR, FIRST + 3 * HOUR, FIRST + 4 * HOUR]


async def test_an_unreadable_spec_is_reported_and_changes_no_window() -> None:
    scene = ScheduleScene()
    scene.ask()
    await scene.go_on()
    scene.edit(schedule="0 26 * * *")
    await scene.go_on()
    assert scene.windows == [FIRST]
    told = scene.condition("Stalled")
    assert (told["status"], told["reason"]) == ("True", "InvalidSpec")
    assert told["message"].startswith("spec.schedule: '0 26 * * *': its hour can't be read")
    assert scene.condition("Ready")["status"] == "False"
    scene.edit(schedule="30 * * * *", timeZone="Mars/Olympus")
    await scene.go_on()
    assert scene.condition("Ready")["message"].startswith("spec.timeZone: 'Mars/Olympus' should be")


async def test_windows_that_begin_while_the_spec_is_unreadable_are_reported() -> None:
    scene = ScheduleScene()
    scene.ask()
    await scene.go_on()
    scene.edit(schedule="0 26 * * *")
    await scene.go_on()
    assert "lastStart" not in scene.status
    assert scene.controller._due.next() == NOW + FIRST
    await scene.at(NOW + FIRST)
    assert scene.status["lastStart"] == format_instant(NOW + FIRST)
    assert scene.controller._due.next() is None


async def test_a_schedule_with_times_that_clocks_always_skip_is_reported_as_invalid() -> None:
    """Regression: the search went on up to the year 9999, and then ended in an OverflowError."""
    scene = ScheduleScene()
    scene.ask(schedule="30 2 * 3 0L", timeZone="Europe/Berlin")
    await scene.go_on()
    assert scene.windows == []
    for aspect, status in (("Ready", "False"), ("Stalled", "True")):
        told = scene.condition(aspect)
        assert (told["status"], told["reason"]) == (status, "InvalidSpec")
        assert told["message"].startswith("spec.schedule: no window begins within 50 years")
