"""The windows that are created for a ReservationSchedule, and its status. The time is 8:00 UTC."""

import asyncio
from typing import Any

import pytest

from builders import NAMESPACE, NOW, Json, encode
from tidelock.kube.client import RESERVATIONSCHEDULES
from tidelock.kube.errors import Conflict, Forbidden, Invalid, Unreachable
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.quotas import decode_reservation_quota
from tidelock.model.reservation_schedule import decode_schedule
from unit.scheduler.machinery import lock_path, turns
from unit.scheduler.scheduled import KEY, OWNERS, PATH, Works, name, schedule, schedule_json

MINUTE, HOUR = 60, 3600
FIRST = 30 * MINUTE


async def test_a_window_is_a_reservation_that_is_owned_by_its_schedule() -> None:
    works = Works()
    labels, annotations = {"team": "night"}, {"note": "hello"}
    template = {"resources": {"cpu": "2"}, "owners": OWNERS, "runSeconds": 60}
    works.ask(template={"metadata": {"labels": labels, "annotations": annotations}, "spec": template})
    await works.go_on()
    made = works.api.objects[lock_path(name(FIRST))]
    assert made["metadata"]["labels"] == labels
    assert made["metadata"]["annotations"].items() > annotations.items()
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": RESERVATIONSCHEDULES.api_version,
            "kind": RESERVATIONSCHEDULES.kind,
            "name": "nightly",
            "uid": "uid-nightly",
            "controller": True,
        }
    ]
    times = {"startAt": format_instant(NOW + FIRST), "expireAt": format_instant(NOW + FIRST + 600)}
    assert made["spec"] == template | times


async def test_as_many_windows_are_planned_as_the_spec_asks_for_and_the_status_lists_them() -> None:
    works = Works()
    works.ask(ahead=2)
    await works.go_on()
    assert works.windows == [FIRST, FIRST + HOUR]
    assert works.status == {
        "observedGeneration": 1,
        "nextStart": "2027-01-15T08:30:00Z",
        "planned": 2,
        "active": 0,
        "windows": [
            {"name": name(FIRST), "startAt": "2027-01-15T08:30:00Z", "phase": "Planned"},
            {"name": name(FIRST + HOUR), "startAt": "2027-01-15T09:30:00Z", "phase": "Planned"},
        ],
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Scheduled",
                "message": "2 planned, the next one begins at 2027-01-15T08:30:00Z",
                "lastTransitionTime": "2027-01-15T08:00:00Z",
                "observedGeneration": 1,
            }
        ],
    }
    assert len(works.posted) == 2


async def test_when_a_window_begins_another_one_is_planned() -> None:
    works = Works()
    works.ask()
    await works.go_on()
    assert works.keeper._due.next() == NOW + FIRST
    await works.at(NOW + FIRST)
    assert works.windows == [FIRST, FIRST + HOUR]
    assert (works.status["planned"], works.status["active"]) == (1, 1)
    assert works.status["lastStart"] == format_instant(NOW + FIRST)
    assert works.status["nextStart"] == format_instant(NOW + FIRST + HOUR)
    assert [each["phase"] for each in works.status["windows"]] == ["Active", "Planned"]
    await works.at(NOW + FIRST + 600)
    assert works.windows == [FIRST + HOUR]
    assert works.status["active"] == 0
    assert works.status["lastStart"] == format_instant(NOW + FIRST)


async def test_the_controller_plans_windows_by_itself() -> None:
    works = Works()
    works.ask()
    started = asyncio.Event()
    started.set()
    running = asyncio.create_task(works.keeper.run(started))
    await turns(30)
    assert works.windows == [FIRST]
    works.clock.time = NOW + FIRST
    works._see()
    await turns(30)
    assert works.windows == [FIRST, FIRST + HOUR]
    running.cancel()
    await asyncio.wait([running])


async def test_a_consumed_window_is_not_created_again_by_this_process_or_the_next() -> None:
    works = Works()
    works.ask()
    await works.go_on()
    works.clock.time = NOW + FIRST + MINUTE
    works.restart()
    await works.take(FIRST)  # before the status has the start
    await works.go_on()
    assert works.windows == [FIRST + HOUR]
    works.restart()
    await works.go_on()
    assert works.windows == [FIRST + HOUR]


async def test_a_window_that_is_consumed_while_the_status_cannot_be_written_is_not_created_again() -> None:
    works = Works()
    works.ask()
    works.clock.time = NOW + FIRST - 1
    works.restart()
    works.clock.time = NOW + FIRST + MINUTE
    works.api.refuses["PUT"] = Unreachable("gone")
    works.keeper.reconcile(KEY)
    await turns(30)
    assert works.windows == [FIRST, FIRST + HOUR]
    works._see()
    await works.take(FIRST)
    works.clock.time += MINUTE  # the controller does not expect created objects any more
    del works.api.refuses["PUT"]
    await asyncio.sleep(0.3)
    await works.go_on()
    assert works.windows == [FIRST + HOUR]
    assert works.status["lastStart"] == format_instant(NOW + FIRST)


async def test_a_window_that_is_over_stays_until_the_status_has_its_start() -> None:
    """Regression: a window that was created late could be gone before the status was written.

    The next process created it again.
    """
    works = Works()
    works.ask()
    works.clock.time = NOW + FIRST + MINUTE
    for _ in range(2):
        await works.go_untold()
        assert works.windows == [FIRST, FIRST + HOUR]
        works.restart()
    works.bind_owner()
    await works.go_on()
    assert works.status["lastStart"] == format_instant(NOW + FIRST)
    assert works.windows == [FIRST + HOUR]
    works.restart()
    await works.go_on()
    assert works.windows == [FIRST + HOUR]
    assert works.posted == []


async def begun_without_status() -> Works:
    """Begin the first window of a schedule while no status can be written."""
    works = Works()
    works.ask()
    works.clock.time = NOW + FIRST + MINUTE
    works.api.refuses["PUT"] = Unreachable("gone")
    works.keeper.reconcile(KEY)
    await turns(30)
    return works


async def test_the_windows_of_a_deleted_schedule_do_not_wait_for_its_status() -> None:
    works = await begun_without_status()
    works.restart()
    works.bind_owner()
    gone = works.api.objects.pop(PATH)
    await works.shell.publish()
    assert FIRST in works.windows
    works.keeper.synced()
    works.keeper.remove(decode_schedule(encode(gone)))
    works.shell.step()
    await works.shell.publish()
    assert works.windows == [FIRST + HOUR]


async def test_the_windows_of_a_schedule_that_was_deleted_before_a_start_do_not_wait_for_it() -> None:
    works = await begun_without_status()
    del works.api.objects[PATH]
    works.restart()
    works.bind_owner()
    await works.shell.publish()
    assert FIRST in works.windows
    works.keeper.synced()
    works.shell.step()
    await works.shell.publish()
    assert works.windows == [FIRST + HOUR]


async def test_a_window_that_was_rejected_before_its_start_is_not_created_again_afterwards() -> None:
    works = Works(cpu="500m")
    template = {"resources": {"cpu": "1"}, "owners": OWNERS, "pendingDeadlineSeconds": 0}
    works.ask(template={"spec": template | {"ttlSecondsAfterFinished": FIRST + MINUTE}})
    await works.go_on()
    await works.at(NOW + FIRST)
    assert works.status["lastStart"] == format_instant(NOW + FIRST)
    await works.at(NOW + FIRST + MINUTE)
    assert works.windows == [FIRST + HOUR]


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


async def test_a_creation_that_is_refused_is_reported_and_retried() -> None:
    works = Works()
    works.api.refuses["POST"] = Forbidden("exceeded quota", status=403)
    works.ask()
    works.keeper.reconcile(KEY)
    await turns(30)
    assert works.condition("Ready")["reason"] == "NotMade"
    assert works.condition("Reconciling")["message"] == "403: exceeded quota"
    del works.api.refuses["POST"]
    works.clock.advance(1)
    await works.go_on()
    assert works.condition("Ready")["status"] == "True"
    assert not works.condition("Reconciling")
    assert works.windows == [FIRST]


def set_quota(works: Works, **spec: Any) -> None:
    """Deliver the quota of the namespace, new or edited."""
    quota = {"metadata": {"name": "quota", "namespace": NAMESPACE}, "spec": spec}
    works.shell.decider.objects.reservation_quotas.upsert(None, decode_reservation_quota(encode(quota)))


async def rest(works: Works, seconds: int) -> int:
    """Run the controller each second for so much time. Return how often it tried to create a window."""
    before = works.api.verbs.count("POST")
    for _ in range(seconds):
        works.clock.advance(1)
        works.keeper.look()
        await works.shell.settle()
        works._see()
    return works.api.verbs.count("POST") - before


async def test_a_schedule_with_refused_windows_is_retried_with_growing_pauses() -> None:
    """Regression: each window was requested every five seconds, by a task that never ended."""
    works = Works()
    works.api.refuses["POST"] = Forbidden("exceeded quota: small, requested: maxPriority=2", status=403)
    works.ask()
    works.keeper.look()
    await works.shell.settle()
    assert works.condition("Ready")["reason"] == "NotMade"

    asked = [await rest(works, minutes * MINUTE) for minutes in (1, 5)]
    assert asked[0] <= 6
    assert asked[1] <= 5


async def test_an_edit_of_the_schedule_or_of_its_quota_ends_the_pause_of_its_retries() -> None:
    works = Works()
    works.api.refuses["POST"] = Forbidden("exceeded quota", status=403)
    works.ask()
    await rest(works, 10 * MINUTE)
    del works.api.refuses["POST"]
    set_quota(works, maxPriority=5)
    assert await rest(works, 1) == 1
    assert works.windows == [FIRST]

    works.api.refuses["POST"] = Invalid("exceeded quota", status=422)
    works.edit(ahead=2)
    await rest(works, 10)
    del works.api.refuses["POST"]
    works.edit(ahead=3)
    await works.go_on()
    assert works.windows == [FIRST, FIRST + HOUR, FIRST + 2 * HOUR]


async def test_a_foreign_reservation_with_the_name_of_a_window_is_reported() -> None:
    works = Works()
    works.shell.store_reservation(name(FIRST))
    works.ask()
    works.keeper.reconcile(KEY)
    await turns(30)
    assert works.condition("Ready")["message"] == f"there is another Reservation {name(FIRST)}"
    works.edit(suspend=True)
    await asyncio.sleep(0.3)
    await works.go_on()
    assert works.windows == [FIRST]


async def test_a_window_that_changes_while_it_is_deleted_is_deleted_in_a_second_attempt() -> None:
    works = Works()
    works.ask()
    await works.go_on()
    works.edit(suspend=True)
    works.api.fails(Conflict("it has changed", status=409))
    works.keeper.reconcile(KEY)
    await works.shell.settle()
    assert works.windows == [FIRST]
    await works.go_on()
    assert works.windows == []


async def test_reservations_that_do_not_belong_to_a_schedule_are_ignored() -> None:
    works = Works()
    works.shell.store_reservation("other", startAt=format_instant(NOW + FIRST))
    works.ask()
    await works.go_on()
    assert works.status["planned"] == 1
    assert len(works.shell.ledger.schedules.windows("uid-nightly")) == 1
    await works.take(FIRST)
    assert works.shell.ledger.schedules.windows("uid-nightly") == []


async def test_a_schedule_that_is_gone_is_forgotten_with_its_windows() -> None:
    works = Works()
    works.ask()
    await works.at(NOW + FIRST)
    works.keeper.synced()
    works.keeper.remove(schedule())
    del works.api.objects[PATH]
    await works.take(FIRST, FIRST + HOUR)
    assert not works.keeper.lags(KEY)
    assert works.keeper._begun == {}


@pytest.mark.parametrize("namesake", [[], ["another"]])
async def test_a_schedule_that_is_deleted_while_its_status_is_written_is_forgotten(
    namesake: list[str],
) -> None:
    """Regression: the response came after the deletion, and the schedule was kept for ever.

    Its windows were created again each time that they had been collected. A schedule of the same name was
    forgotten.
    """
    works = Works()
    works.ask()
    works.api.gate.clear()
    works.edit(suspend=True)
    works.keeper.reconcile(KEY)
    await turns()
    works.keeper.remove(schedule())
    for uid in namesake:
        works.keeper.upsert(None, schedule(uid=uid))
    works.api.gate.set()
    await works.shell.settle()
    assert [kept.meta.uid for kept in works.keeper._kept.values()] == namesake


async def test_a_schedule_that_is_being_deleted_has_the_reason_terminating_and_creates_no_windows() -> None:
    """Regression: while a finalizer kept the schedule, its status still had the start of the next window."""
    works = Works()
    works.ask()
    await works.go_on()
    assert works.windows == [FIRST]
    works.api.objects[PATH]["metadata"]["deletionTimestamp"] = format_instant(NOW)
    works.see()
    await works.at(NOW + FIRST)

    status = works.api.objects[PATH]["status"]
    [ready] = status["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", "Terminating")
    assert "nextStart" not in status
    assert works.posted == [name(FIRST)]
    entry = works.shell.ledger.entries[Key(NAMESPACE, name(FIRST))]
    assert not entry.start_unacknowledged, "nothing waits for a status that will not be written"
    assert not works.keeper.lags(KEY)


def test_unknown_fields_of_a_newer_version_in_the_status_are_ignored() -> None:
    stored: Json = {"lastStart": None, "windows": [{"name": "nightly-1", "more": True}]}
    known = schedule()
    assert known.last_start(NOW) == 0.0
    known.status.update(stored)
    assert known.last_start(NOW) == 0.0


async def test_a_window_that_was_never_seen_is_created_again_even_if_the_clock_is_set_back() -> None:
    """Regression: the controller believed for an hour more that it had created the window."""
    works = Works()
    works.ask()
    works.keeper.look()
    await works.shell.settle()
    works.api.objects.pop(lock_path(name(FIRST)))
    works.clock.jump(-HOUR / 4)
    works.clock.advance(11)
    works.keeper.look()
    await works.shell.settle()
    assert works.posted.count(name(FIRST)) == 2


async def test_many_schedules_are_reconciled_over_several_iterations_of_the_event_loop() -> None:
    """Regression: all changed schedules shared one iteration, and 1,000 of them took seconds."""
    works = Works()
    for number in range(3):
        raw = schedule_json(uid=f"uid-{number}")
        raw["metadata"]["name"] = f"nightly-{number}"
        works.keeper.upsert(None, decode_schedule(encode(raw)))
    works.clock.tick = 1.0

    assert [works.keeper.look() for _ in range(3)] == [True, True, False]
    await works.shell.settle()


async def test_a_schedule_gets_an_event_when_its_reason_changes_and_not_for_each_window() -> None:
    works = Works()
    works.ask()
    await works.go_on()
    await works.at(NOW + FIRST)
    await works.at(NOW + FIRST + HOUR)
    told = [each for each in works.shell.recorder if each.regarding.kind == "ReservationSchedule"]
    assert [(each.type, each.reason) for each in told] == [("Normal", "Scheduled")]
    works.edit(suspend=True)
    await works.go_on()
    about = [each.reason for each in works.shell.recorder if each.regarding.kind == "ReservationSchedule"]
    assert about == ["Scheduled", "Suspended"]
