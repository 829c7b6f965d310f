"""Edits of schedules and of their windows, and specs that can not be read."""

from builders import NAMESPACE, NOW
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from unit.scheduler.machinery import lock_path
from unit.scheduler.scheduled import FIRST, HOUR, MINUTE, Works, name


async def test_an_edit_of_a_schedule_changes_planned_windows_and_keeps_those_that_have_begun() -> None:
    works = Works()
    works.ask(ahead=2)
    await works.at(NOW + FIRST)
    assert works.windows == [FIRST, FIRST + HOUR, FIRST + 2 * HOUR]
    works.edit(schedule="0 * * * *")
    await works.go_on()
    assert works.windows == [FIRST, HOUR, 2 * HOUR]
    works.edit(ahead=1)
    await works.go_on()
    assert works.windows == [FIRST, HOUR]
    works.edit(timeZone="Asia/Kolkata")  # half an hour off
    await works.go_on()
    assert works.windows == [FIRST, FIRST + HOUR]


async def test_an_edit_of_the_duration_changes_only_windows_that_have_not_begun() -> None:
    works = Works()
    works.ask()
    await works.at(NOW + FIRST)
    before = works.api.objects[lock_path(name(FIRST))]["spec"]
    works.edit(durationSeconds=1200)
    await works.go_on()
    assert works.api.objects[lock_path(name(FIRST))]["spec"] == before
    later = works.api.objects[lock_path(name(FIRST + HOUR))]["spec"]
    assert later["expireAt"] == format_instant(NOW + FIRST + HOUR + 1200)


async def test_a_window_that_was_edited_by_hand_stays_as_it_is() -> None:
    works = Works()
    works.ask()
    await works.go_on()
    works.api.edit(lock_path(name(FIRST)), {"spec": {"resources": {"cpu": "3"}}})
    await works.go_on()
    assert works.api.objects[lock_path(name(FIRST))]["spec"]["resources"] == {"cpu": "3"}
    assert len(works.posted) == 1


async def test_a_window_that_is_deleted_before_it_begins_is_created_again() -> None:
    works = Works()
    works.ask()
    await works.go_on()
    await works.take(FIRST)
    await works.go_on()
    assert works.windows == [FIRST]
    assert works.posted == [name(FIRST)] * 2


async def test_the_deletion_of_a_window_alone_makes_its_schedule_create_it_again() -> None:
    works = Works()
    works.ask()
    await works.go_on()
    works.keeper.look()
    del works.api.objects[lock_path(name(FIRST))]
    window = works.shell.ledger.entries[Key(NAMESPACE, name(FIRST))]
    works.shell.event_handlers.reservations.remove(window.reservation)
    works.keeper.look()
    await works.shell.settle()
    assert works.posted == [name(FIRST)] * 2


async def test_a_suspended_schedule_plans_no_windows() -> None:
    works = Works()
    works.ask(ahead=3)
    await works.at(NOW + FIRST)
    works.edit(suspend=True)
    await works.go_on()
    assert works.windows == [FIRST]
    assert (works.condition("Ready")["status"], works.condition("Ready")["reason"]) == ("True", "Suspended")
    assert "nextStart" not in works.status
    await works.at(NOW + FIRST + HOUR + MINUTE)
    assert works.windows == []
    works.edit(suspend=False)
    await works.go_on()
    # As for a CronJob: the missed window begins on resumption, unless it is over.
    assert works.windows == [FIRST + HOUR, FIRST + 2 * HOUR, FIRST + 3 * HOUR, FIRST + 4 * HOUR]


async def test_an_unreadable_spec_is_reported_and_changes_no_window() -> None:
    works = Works()
    works.ask()
    await works.go_on()
    works.edit(schedule="0 26 * * *")
    await works.go_on()
    assert works.windows == [FIRST]
    told = works.condition("Stalled")
    assert (told["status"], told["reason"]) == ("True", "InvalidSpec")
    assert told["message"].startswith("spec.schedule: '0 26 * * *': its hour can't be read")
    assert works.condition("Ready")["status"] == "False"
    works.edit(schedule="30 * * * *", timeZone="Mars/Olympus")
    await works.go_on()
    assert works.condition("Ready")["message"].startswith("spec.timeZone: 'Mars/Olympus' should be")


async def test_windows_that_begin_while_the_spec_is_unreadable_are_reported() -> None:
    works = Works()
    works.ask()
    await works.go_on()
    works.edit(schedule="0 26 * * *")
    await works.go_on()
    assert "lastStart" not in works.status
    assert works.keeper._due.next() == NOW + FIRST
    await works.at(NOW + FIRST)
    assert works.status["lastStart"] == format_instant(NOW + FIRST)
    assert works.keeper._due.next() is None


async def test_a_schedule_with_times_that_clocks_always_skip_is_reported_as_invalid() -> None:
    """Regression: the search went on up to the year 9999, and then ended in an OverflowError."""
    works = Works()
    works.ask(schedule="30 2 * 3 0L", timeZone="Europe/Berlin")
    await works.go_on()
    assert works.windows == []
    for aspect, status in (("Ready", "False"), ("Stalled", "True")):
        told = works.condition(aspect)
        assert (told["status"], told["reason"]) == (status, "InvalidSpec")
        assert told["message"].startswith("spec.schedule: no window begins within 50 years")
