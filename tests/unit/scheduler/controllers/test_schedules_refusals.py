"""Creations that are refused, other objects, and the end of a schedule."""

import asyncio
from typing import Any

import pytest

from builders import NAMESPACE, NOW, encode
from tidelock.kube.errors import Conflict, Forbidden, Invalid
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.quotas import decode_reservation_quota
from unit.scheduler.machinery import turns
from unit.scheduler.scheduled import (
    FIRST,
    HOUR,
    KEY,
    MINUTE,
    PATH,
    ScheduleScene,
    name,
    schedule,
)


async def test_a_creation_that_is_refused_is_reported_and_retried() -> None:
    scene = ScheduleScene()
    scene.api.refuses["POST"] = Forbidden("exceeded quota", status=403)
    scene.ask()
    scene.controller.reconcile(KEY)
    await turns(30)
    assert scene.condition("Ready")["reason"] == "NotMade"
    assert scene.condition("Reconciling")["message"] == "403: exceeded quota"
    del scene.api.refuses["POST"]
    scene.clock.advance(1)
    await scene.go_on()
    assert scene.condition("Ready")["status"] == "True"
    assert not scene.condition("Reconciling")
    assert scene.windows == [FIRST]


def set_quota(scene: ScheduleScene, **spec: Any) -> None:
    """Deliver the quota of the namespace, new or edited."""
    quota = {"metadata": {"name": "quota", "namespace": NAMESPACE}, "spec": spec}
    scene.shell.decider.objects.reservation_quotas.upsert(None, decode_reservation_quota(encode(quota)))


async def rest(scene: ScheduleScene, seconds: int) -> int:
    """Run the controller each second for so much time. Return how often it tried to create a window."""
    before = scene.api.verbs.count("POST")
    for _ in range(seconds):
        scene.clock.advance(1)
        scene.controller.look()
        await scene.shell.settle()
        scene._see()
    return scene.api.verbs.count("POST") - before


async def test_a_schedule_with_refused_windows_is_retried_with_growing_pauses() -> None:
    """Regression: each window was requested every five seconds, by a task that never ended."""
    scene = ScheduleScene()
    scene.api.refuses["POST"] = Forbidden("exceeded quota: small, requested: maxPriority=2", status=403)
    scene.ask()
    scene.controller.look()
    await scene.shell.settle()
    assert scene.condition("Ready")["reason"] == "NotMade"

    asked = [await rest(scene, minutes * MINUTE) for minutes in (1, 5)]
    assert asked[0] <= 6
    assert asked[1] <= 5


async def test_an_edit_of_the_schedule_or_of_its_quota_ends_the_pause_of_its_retries() -> None:
    scene = ScheduleScene()
    scene.api.refuses["POST"] = Forbidden("exceeded quota", status=403)
    scene.ask()
    await rest(scene, 10 * MINUTE)
    del scene.api.refuses["POST"]
    set_quota(scene, maxPriority=5)
    assert await rest(scene, 1) == 1
    assert scene.windows == [FIRST]

    scene.api.refuses["POST"] = Invalid("exceeded quota", status=422)
    scene.edit(ahead=2)
    await rest(scene, 10)
    del scene.api.refuses["POST"]
    scene.edit(ahead=3)
    await scene.go_on()
    assert scene.windows == [FIRST, FIRST + HOUR, FIRST + 2 * HOUR]


async def test_a_foreign_reservation_with_the_name_of_a_window_is_reported() -> None:
    scene = ScheduleScene()
    scene.shell.store_reservation(name(FIRST))
    scene.ask()
    scene.controller.reconcile(KEY)
    await turns(30)
    assert scene.condition("Ready")["message"] == f"there is another Reservation {name(FIRST)}"
    scene.edit(suspend=True)
    await asyncio.sleep(0.3)
    await scene.go_on()
    assert scene.windows == [FIRST]


async def test_a_window_that_changes_while_it_is_deleted_is_deleted_in_a_second_attempt() -> None:
    scene = ScheduleScene()
    scene.ask()
    await scene.go_on()
    scene.edit(suspend=True)
    scene.api.fails(Conflict("it has changed", status=409))
    scene.controller.reconcile(KEY)
    await scene.shell.settle()
    assert scene.windows == [FIRST]
    assert scene.shell.tasks.await_pause()
    await scene.go_on()
    assert scene.windows == []


async def test_reservations_that_do_not_belong_to_a_schedule_are_ignored() -> None:
    scene = ScheduleScene()
    scene.shell.store_reservation("other", startAt=format_instant(NOW + FIRST))
    scene.ask()
    await scene.go_on()
    assert scene.status["planned"] == 1
    assert len(scene.shell.ledger.schedules.windows("uid-nightly")) == 1
    await scene.take(FIRST)
    assert scene.shell.ledger.schedules.windows("uid-nightly") == []


async def test_a_schedule_that_is_gone_is_forgotten_with_its_windows() -> None:
    scene = ScheduleScene()
    scene.ask()
    await scene.at(NOW + FIRST)
    scene.controller.synced()
    scene.controller.remove(schedule())
    del scene.api.objects[PATH]
    await scene.take(FIRST, FIRST + HOUR)
    assert not scene.controller.lags(KEY)
    assert scene.controller._begun == {}


@pytest.mark.parametrize("namesake", [[], ["another"]])
async def test_a_schedule_that_is_deleted_while_its_status_is_written_is_forgotten(
    namesake: list[str],
) -> None:
    """Regression: the response came after the deletion, and the schedule was kept for ever.

    Its windows were created again each time that they had been collected. A schedule of the same name was
    forgotten.
    """
    scene = ScheduleScene()
    scene.ask()
    scene.api.gate.clear()
    scene.edit(suspend=True)
    scene.controller.reconcile(KEY)
    await turns()
    scene.controller.remove(schedule())
    for uid in namesake:
        scene.controller.upsert(None, schedule(uid=uid))
    scene.api.gate.set()
    await scene.shell.settle()
    assert [kept.meta.uid for kept in scene.controller._kept.values()] == namesake


async def test_a_schedule_that_is_being_deleted_has_the_reason_terminating_and_creates_no_windows() -> None:
    """Regression: while a finalizer kept the schedule, its status still had the start of the next window."""
    scene = ScheduleScene()
    scene.ask()
    await scene.go_on()
    assert scene.windows == [FIRST]
    scene.api.objects[PATH]["metadata"]["deletionTimestamp"] = format_instant(NOW)
    scene.see()
    await scene.at(NOW + FIRST)

    status = scene.api.objects[PATH]["status"]
    [ready] = status["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", "Terminating")
    assert "nextStart" not in status
    assert scene.posted == [name(FIRST)]
    entry = scene.shell.ledger.entries[Key(NAMESPACE, name(FIRST))]
    assert not entry.start_unacknowledged, "nothing waits for a status that will not be written"
    assert not scene.controller.lags(KEY)
