"""The deletion of objects, and the last status before it."""

from contextlib import AsyncExitStack
from typing import Any

import pytest

from builders import NAMESPACE, encode, node, pod
from tidelock.kube.errors import Invalid, ServerError
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.reservation import decode_reservation
from unit.scheduler.machinery import Shell, lock_path, turns

KEY = Key(NAMESPACE, "lock")


async def stored(**spec: Any) -> Shell:
    """Build a scheduler with one reservation that is stored as Active."""
    shell = Shell(node("node-a"))
    shell.store_reservation(**spec)
    shell.step()
    await shell.publish()
    del shell.api.asked[:]
    return shell


async def expire(shell: Shell) -> None:
    shell.clock.advance(600)
    shell.step()
    await shell.publish()


async def test_an_expired_reservation_gets_its_phase_and_is_deleted() -> None:
    shell = await stored()
    await expire(shell)

    status, deletion = shell.api.asked
    assert (status.method, status.body["status"]["phase"]) == ("PUT", "Expired")
    assert (deletion.method, deletion.path) == ("DELETE", lock_path())
    assert deletion.body["preconditions"]["uid"] == "uid-lock"
    assert not shell.publisher.lags(KEY)


async def test_a_deleted_object_is_not_deleted_again_before_the_watch_confirms_it() -> None:
    shell = await stored()
    await expire(shell)
    shell.publisher.reconcile(KEY)
    await shell.settle()

    assert shell.api.verbs == ["PUT", "DELETE"]


async def test_a_consumed_reservation_is_deleted_at_once() -> None:
    shell = await stored()
    shell.add(pod(node_name="node-a"))
    shell.answer()
    await shell.publish()

    assert shell.api.verbs == ["DELETE"]
    assert lock_path() not in shell.api.objects


async def test_a_retained_reservation_stays_after_its_end() -> None:
    shell = await stored(retention="Retain")
    await expire(shell)

    assert shell.api.verbs == ["PUT"]
    assert shell.stored_status()["phase"] == "Expired"


async def test_a_retained_reservation_is_deleted_when_its_time_is_over() -> None:
    shell = await stored(retention="Retain", ttlSecondsAfterFinished=60)
    await expire(shell)
    shell.clock.advance(60)
    shell.step()
    await shell.publish()

    assert shell.api.verbs == ["PUT", "DELETE"]


@pytest.mark.parametrize("written", [False, True], ids=["before the write", "as the write begins"])
async def test_a_retained_reservation_is_deleted_later_if_the_clock_is_set_back(
    written: bool,
) -> None:
    shell = await stored(retention="Retain", ttlSecondsAfterFinished=60)
    await expire(shell)
    shell.clock.advance(60)
    shell.step()
    if written:
        shell.flush()
    shell.clock.advance(-2)
    await shell.publish()
    assert shell.api.verbs == ["PUT"]

    shell.clock.advance(2)
    shell.step()
    await shell.publish()

    assert shell.api.verbs == ["PUT", "DELETE"]


async def test_a_failed_deletion_is_repeated_without_the_status() -> None:
    shell = await stored()
    shell.add(pod(node_name="node-a"))
    shell.answer()
    shell.api.fails(ServerError("etcd is down", status=500))
    await shell.publish_through_pauses()

    assert shell.api.verbs == ["DELETE", "DELETE"]
    assert len(shell.tasks.pauses) == 1


async def test_an_edit_that_arrives_while_the_last_status_is_written_keeps_the_reservation() -> None:
    shell = Shell(node("node-a", cpu="4"))
    shell.store_reservation(resources={"cpu": "5"}, pendingDeadlineSeconds=0, ttlSecondsAfterFinished=0)
    shell.step()
    shell.api.gate.clear()
    shell.flush()
    await turns()
    entry = shell.reservation(resources={"cpu": "1"}, generation=2)
    shell.api.gate.set()
    await shell.publish()

    assert shell.api.verbs == ["PUT", "PUT"]
    assert entry.phase is Phase.PENDING


async def test_a_rejected_reservation_that_is_edited_at_the_last_moment_is_not_deleted() -> None:
    """Regression: the deletion had only the UID as its precondition.

    It deleted an object that was just edited.
    """
    shell = Shell(node("node-a", cpu="4"))
    shell.store_reservation(resources={"cpu": "5"}, pendingDeadlineSeconds=0, ttlSecondsAfterFinished=60)
    shell.step()
    await shell.publish()
    assert shell.stored_status()["phase"] == "Rejected"
    shell.clock.advance(60)
    shell.step()
    shell.api.gate.clear()
    shell.flush()
    await turns()
    shell.api.edit(lock_path(), {"metadata": {"generation": 2}, "spec": {"resources": {"cpu": "1"}}})
    shell.api.gate.set()
    await shell.settle()
    entry = shell.see_reservation()
    shell.step()
    await shell.publish()

    assert entry.phase is Phase.ACTIVE
    assert shell.stored_status()["phase"] == "Active"


async def test_the_end_of_a_reservation_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    shell = await stored(ttlSeconds=60)
    with caplog.at_level("INFO", logger="tidelock.audit"):
        await expire(shell)
        await shell.publish()
    (note,) = [event.note for event in shell.recorder if event.reason == "Expired"]
    assert note.endswith(" has passed (waited 0s, idle 600s)")
    (line,) = [each for each in caplog.records if each.name == "tidelock.audit"]
    assert (line.message, vars(line)["outcome"]) == ("a reservation has ended", "Expired")
    assert shell.metric("tidelock_reservations_ended_total", namespace="shop", outcome="Expired") == 1


async def test_a_reservation_that_is_gone_when_its_write_has_its_turn_gets_no_status() -> None:
    shell = Shell(node("node-a"))
    entry = shell.store_reservation()
    shell.step()
    async with AsyncExitStack() as busy:
        for _ in range(8):
            await busy.enter_async_context(shell.publisher.turn(entry.reservation.meta))
        shell.flush()
        await turns()
        shell.event_handlers.reservations.remove(entry.reservation)
    await shell.settle()

    assert (shell.api.asked, shell.isolation.faults) == ([], [])


# A foreign finalizer keeps the object.


def delete(shell: Shell) -> None:
    """Delete the reservation as a user. A finalizer keeps the object, in a new generation."""
    metadata = shell.api.objects[lock_path()]["metadata"]
    metadata["generation"] = metadata.get("generation", 1) + 1
    metadata |= {"deletionTimestamp": format_instant(shell.clock.now()), "finalizers": ["example.com/keep"]}
    metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
    see(shell)


def see(shell: Shell) -> None:
    new = decode_reservation(encode(shell.api.objects[lock_path()]))
    shell.event_handlers.reservations.upsert(None, new)


def conditions(shell: Shell) -> dict[str, tuple[str, str]]:
    stored = shell.stored_status()["conditions"]
    return {each["type"]: (each["status"], each["reason"]) for each in stored}


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_reservation_that_is_being_deleted_gets_the_phase_terminating(restarts: bool) -> None:
    """Regression: its status still had Active=True after its capacity was given to others."""
    shell = await stored()
    if restarts:
        successor = Shell(node("node-a"))
        successor.api.objects |= shell.api.objects
        shell = successor
    delete(shell)
    await shell.publish()

    assert shell.reserved() == 0
    assert shell.stored_status()["phase"] == "Terminating"
    assert conditions(shell) == {"Active": ("False", "Terminating"), "Ready": ("False", "Terminating")}
    assert shell.api.verbs == ["PUT"]
    see(shell)
    shell.clock.advance(1000)
    shell.step()
    await shell.publish()
    assert not shell.publisher.lags(KEY)
    assert shell.api.verbs == ["PUT"], "written once, and not deleted again"


async def test_a_waiting_reservation_that_is_being_deleted_waits_no_longer() -> None:
    shell = await stored(resources={"cpu": "100"}, pendingDeadlineSeconds=600)
    delete(shell)
    await shell.publish()

    assert shell.stored_status()["phase"] == "Terminating"
    assert "Reconciling" not in conditions(shell)
    assert not shell.ledger.waiting_reservations.waiting


async def test_a_consumed_reservation_that_a_finalizer_keeps_gets_the_phase_consumed() -> None:
    """Regression: no status is written before the deletion, so it stayed Active=True beside its owner."""
    shell = await stored()
    kept = shell.api.objects[lock_path()]
    shell.add(pod(node_name="node-a"))
    shell.answer()
    await shell.publish()
    shell.api.objects[lock_path()] = kept
    delete(shell)
    await shell.publish()

    assert (shell.stored_status()["phase"], conditions(shell)["Active"]) == (
        "Consumed",
        ("False", "Consumed"),
    )
    assert shell.stored_status()["boundPod"]["name"] == "web-0"
    assert shell.api.verbs == ["DELETE", "PUT"]


async def test_a_reservation_that_had_ended_keeps_its_status_while_a_finalizer_keeps_its_object() -> None:
    shell = await stored(retention="Retain")
    await expire(shell)
    before = shell.stored_status()
    delete(shell)
    await shell.publish()

    assert (shell.stored_status(), shell.api.verbs) == (before, ["PUT"])


async def test_a_new_object_can_have_the_name_of_one_that_is_gone() -> None:
    shell = await stored()
    delete(shell)
    await shell.publish()
    gone = shell.ledger.records.leaving[KEY].reservation
    shell.event_handlers.reservations.remove(gone)
    assert shell.ledger.records.leaving == {}
    shell.store_reservation(uid="another", version=9)
    shell.step()
    await shell.publish()
    assert shell.stored_status()["phase"] == "Active"


@pytest.mark.parametrize("first", ["write", "refusal"])
async def test_a_reservation_that_expires_during_a_write_that_is_refused_reports_it_at_once(
    first: str,
) -> None:
    """Regression: `Expired` waited for up to a minute, though a new phase ends a pause that has begun."""
    shell = Shell(node("node-a"))
    shell.store_reservation(retention="Retain")
    shell.step()
    if first == "refusal":
        shell.api.fails(*[Invalid("status.phase: unsupported value", status=422)] * 10)
        await shell.publish()
        for _ in range(9):
            assert shell.tasks.await_pause()
            await shell.publish()
        assert shell.tasks.await_pause()
    shell.api.fails(Invalid("status.phase: unsupported value", status=422))
    shell.api.gate.clear()
    shell.flush()
    await turns()
    shell.clock.advance(600)
    shell.step()
    shell.flush()
    shell.api.gate.set()
    await shell.publish()

    assert shell.stored_status()["phase"] == "Expired"
    assert not shell.publisher.lags(KEY)
