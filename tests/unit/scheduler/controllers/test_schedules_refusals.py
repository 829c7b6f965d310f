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
    Works,
    name,
    schedule,
)


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
