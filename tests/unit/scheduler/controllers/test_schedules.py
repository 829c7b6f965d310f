"""The windows of a schedule, and its status. The time is 8:00 UTC."""

import asyncio

from builders import NOW, Json, encode
from tidelock.kube.client import RESERVATIONSCHEDULES
from tidelock.kube.errors import Unreachable
from tidelock.model.instants import format_instant
from tidelock.model.reservation_schedule import decode_schedule
from unit.scheduler.machinery import lock_path, turns
from unit.scheduler.scheduled import (
    FIRST,
    HOUR,
    KEY,
    MINUTE,
    OWNERS,
    PATH,
    ScheduleScene,
    name,
    schedule,
    schedule_json,
)


async def test_a_window_is_a_reservation_that_is_owned_by_its_schedule() -> None:
    scene = ScheduleScene()
    labels, annotations = {"team": "night"}, {"note": "hello"}
    template = {"resources": {"cpu": "2"}, "owners": OWNERS, "runSeconds": 60}
    scene.ask(template={"metadata": {"labels": labels, "annotations": annotations}, "spec": template})
    await scene.go_on()
    made = scene.api.objects[lock_path(name(FIRST))]
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
    scene = ScheduleScene()
    scene.ask(ahead=2)
    await scene.go_on()
    assert scene.windows == [FIRST, FIRST + HOUR]
    assert scene.status == {
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
    assert len(scene.posted) == 2


async def test_when_a_window_begins_another_one_is_planned() -> None:
    scene = ScheduleScene()
    scene.ask()
    await scene.go_on()
    assert scene.controller._due.next() == NOW + FIRST
    await scene.at(NOW + FIRST)
    assert scene.windows == [FIRST, FIRST + HOUR]
    assert (scene.status["planned"], scene.status["active"]) == (1, 1)
    assert scene.status["lastStart"] == format_instant(NOW + FIRST)
    assert scene.status["nextStart"] == format_instant(NOW + FIRST + HOUR)
    assert [each["phase"] for each in scene.status["windows"]] == ["Active", "Planned"]
    await scene.at(NOW + FIRST + 600)
    assert scene.windows == [FIRST + HOUR]
    assert scene.status["active"] == 0
    assert scene.status["lastStart"] == format_instant(NOW + FIRST)


async def test_the_controller_plans_windows_by_itself() -> None:
    scene = ScheduleScene()
    scene.ask()
    started = asyncio.Event()
    started.set()
    running = asyncio.create_task(scene.controller.run(started))
    await turns(30)
    assert scene.windows == [FIRST]
    scene.clock.time = NOW + FIRST
    scene._see()
    await turns(30)
    assert scene.windows == [FIRST, FIRST + HOUR]
    running.cancel()
    await asyncio.wait([running])


async def test_a_consumed_window_is_not_created_again_by_this_process_or_the_next() -> None:
    scene = ScheduleScene()
    scene.ask()
    await scene.go_on()
    scene.clock.time = NOW + FIRST + MINUTE
    scene.restart()
    await scene.take(FIRST)  # before the status has the start
    await scene.go_on()
    assert scene.windows == [FIRST + HOUR]
    scene.restart()
    await scene.go_on()
    assert scene.windows == [FIRST + HOUR]


async def test_a_window_that_is_consumed_while_the_status_cannot_be_written_is_not_created_again() -> None:
    scene = ScheduleScene()
    scene.ask()
    scene.clock.time = NOW + FIRST - 1
    scene.restart()
    scene.clock.time = NOW + FIRST + MINUTE
    scene.api.refuses["PUT"] = Unreachable("gone")
    scene.controller.reconcile(KEY)
    await turns(30)
    assert scene.windows == [FIRST, FIRST + HOUR]
    scene._see()
    await scene.take(FIRST)
    scene.clock.time += MINUTE  # the controller does not expect created objects any more
    del scene.api.refuses["PUT"]
    scene.shell.tasks.await_pause()
    await scene.go_on()
    assert scene.windows == [FIRST + HOUR]
    assert scene.status["lastStart"] == format_instant(NOW + FIRST)


async def test_a_window_that_is_over_stays_until_the_status_has_its_start() -> None:
    """Regression: a window that was created late could be gone before the status was written.

    The next process created it again.
    """
    scene = ScheduleScene()
    scene.ask()
    scene.clock.time = NOW + FIRST + MINUTE
    for _ in range(2):
        await scene.go_untold()
        assert scene.windows == [FIRST, FIRST + HOUR]
        scene.restart()
    scene.bind_owner()
    await scene.go_on()
    assert scene.status["lastStart"] == format_instant(NOW + FIRST)
    assert scene.windows == [FIRST + HOUR]
    scene.restart()
    await scene.go_on()
    assert scene.windows == [FIRST + HOUR]
    assert scene.posted == []


async def begun_without_status() -> ScheduleScene:
    """Begin the first window of a schedule while no status can be written."""
    scene = ScheduleScene()
    scene.ask()
    scene.clock.time = NOW + FIRST + MINUTE
    scene.api.refuses["PUT"] = Unreachable("gone")
    scene.controller.reconcile(KEY)
    await turns(30)
    return scene


async def test_the_windows_of_a_deleted_schedule_do_not_wait_for_its_status() -> None:
    scene = await begun_without_status()
    scene.restart()
    scene.bind_owner()
    gone = scene.api.objects.pop(PATH)
    await scene.shell.publish()
    assert FIRST in scene.windows
    scene.controller.synced()
    scene.controller.remove(decode_schedule(encode(gone)))
    scene.shell.step()
    await scene.shell.publish()
    assert scene.windows == [FIRST + HOUR]


async def test_the_windows_of_a_schedule_that_was_deleted_before_a_start_do_not_wait_for_it() -> None:
    scene = await begun_without_status()
    del scene.api.objects[PATH]
    scene.restart()
    scene.bind_owner()
    await scene.shell.publish()
    assert FIRST in scene.windows
    scene.controller.synced()
    scene.shell.step()
    await scene.shell.publish()
    assert scene.windows == [FIRST + HOUR]


async def test_a_window_that_was_rejected_before_its_start_is_not_created_again_afterwards() -> None:
    scene = ScheduleScene(cpu="500m")
    template = {"resources": {"cpu": "1"}, "owners": OWNERS, "pendingDeadlineSeconds": 0}
    scene.ask(template={"spec": template | {"ttlSecondsAfterFinished": FIRST + MINUTE}})
    await scene.go_on()
    await scene.at(NOW + FIRST)
    assert scene.status["lastStart"] == format_instant(NOW + FIRST)
    await scene.at(NOW + FIRST + MINUTE)
    assert scene.windows == [FIRST + HOUR]


def test_unknown_fields_of_a_newer_version_in_the_status_are_ignored() -> None:
    stored: Json = {"lastStart": None, "windows": [{"name": "nightly-1", "more": True}]}
    known = schedule()
    assert known.last_start(NOW) == 0.0
    known.status.update(stored)
    assert known.last_start(NOW) == 0.0


async def test_a_window_that_was_never_seen_is_created_again_even_if_the_clock_is_set_back() -> None:
    """Regression: the controller believed for an hour more that it had created the window."""
    scene = ScheduleScene()
    scene.ask()
    scene.controller.look()
    await scene.shell.settle()
    scene.api.objects.pop(lock_path(name(FIRST)))
    scene.clock.jump(-HOUR / 4)
    scene.clock.advance(11)
    scene.controller.look()
    await scene.shell.settle()
    assert scene.posted.count(name(FIRST)) == 2


async def test_many_schedules_are_reconciled_over_several_iterations_of_the_event_loop() -> None:
    """Regression: all changed schedules shared one iteration, and 1,000 of them took seconds."""
    scene = ScheduleScene()
    for number in range(3):
        raw = schedule_json(uid=f"uid-{number}")
        raw["metadata"]["name"] = f"nightly-{number}"
        scene.controller.upsert(None, decode_schedule(encode(raw)))
    scene.clock.tick = 1.0

    assert [scene.controller.look() for _ in range(3)] == [True, True, False]
    await scene.shell.settle()


async def test_a_schedule_gets_an_event_when_its_reason_changes_and_not_for_each_window() -> None:
    scene = ScheduleScene()
    scene.ask()
    await scene.go_on()
    await scene.at(NOW + FIRST)
    await scene.at(NOW + FIRST + HOUR)
    told = [each for each in scene.shell.recorder if each.regarding.kind == "ReservationSchedule"]
    assert [(each.type, each.reason) for each in told] == [("Normal", "Scheduled")]
    scene.edit(suspend=True)
    await scene.go_on()
    about = [each.reason for each in scene.shell.recorder if each.regarding.kind == "ReservationSchedule"]
    assert about == ["Scheduled", "Suspended"]
