"""Which objects are deleted, and what is written before."""

from typing import Any

import pytest

from builders import NAMESPACE, encode, node, pod
from tidelock.kube.errors import ServerError
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.reservation import decode_reservation
from unit.scheduler.machinery import Shell, lock_path, turns

KEY = Key(NAMESPACE, "lock")


async def stored(**spec: Any) -> Shell:
    """Give a scheduler whose one lock is stored as Active."""
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


async def test_an_expired_lock_says_so_and_is_deleted() -> None:
    shell = await stored()
    await expire(shell)

    status, deletion = shell.api.asked
    assert (status.method, status.body["status"]["phase"]) == ("PUT", "Expired")
    assert (deletion.method, deletion.path) == ("DELETE", lock_path())
    assert deletion.body["preconditions"]["uid"] == "uid-lock"
    assert not shell.publisher.lags(KEY)


async def test_what_is_deleted_is_not_deleted_again_before_the_watch_tells() -> None:
    shell = await stored()
    await expire(shell)
    shell.publisher.reconcile(KEY)
    await shell.settle()

    assert shell.api.verbs == ["PUT", "DELETE"]


async def test_a_consumed_lock_is_deleted_straight_away() -> None:
    shell = await stored()
    shell.add(pod(node_name="node-a"))
    shell.answer()
    await shell.publish()

    assert shell.api.verbs == ["DELETE"]
    assert lock_path() not in shell.api.objects


async def test_a_retained_lock_stays_as_a_tombstone() -> None:
    shell = await stored(retention="Retain")
    await expire(shell)

    assert shell.api.verbs == ["PUT"]
    assert shell.stored_status()["phase"] == "Expired"


async def test_a_tombstone_goes_when_its_time_is_over() -> None:
    shell = await stored(retention="Retain", ttlSecondsAfterFinished=60)
    await expire(shell)
    shell.clock.advance(60)
    shell.step()
    await shell.publish()

    assert shell.api.verbs == ["PUT", "DELETE"]


@pytest.mark.parametrize("written", [False, True], ids=["before the write", "as the write begins"])
async def test_a_tombstone_whose_time_was_over_until_the_clock_was_set_back_goes_later(written: bool) -> None:
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


async def test_a_deletion_that_fails_is_repeated_without_the_status(naps: list[float]) -> None:
    shell = await stored()
    shell.add(pod(node_name="node-a"))
    shell.answer()
    shell.api.fails(ServerError("etcd is down", status=500))
    await shell.publish()

    assert shell.api.verbs == ["DELETE", "DELETE"]
    assert len(naps) == 1


async def test_an_edit_that_is_seen_while_the_last_status_is_written_saves_the_lock() -> None:
    shell = Shell(node("node-a", cpu="4"))
    shell.store_reservation(resources={"cpu": "5"}, pendingDeadlineSeconds=0, ttlSecondsAfterFinished=0)
    shell.step()
    shell.api.gate.clear()
    shell.flush()
    await turns()
    entry = shell.reservation(resources={"cpu": "1"}, generation=2)
    shell.api.gate.set()
    await shell.settle()

    assert shell.api.verbs == ["PUT", "PUT"]
    assert entry.phase is Phase.PENDING


async def test_a_rejected_lock_that_is_edited_at_the_last_moment_is_not_deleted() -> None:
    """The deletion asked for the uid alone, so it took away what had been edited to be served after all."""
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


async def test_the_end_of_a_lock_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    shell = await stored(ttlSeconds=60)
    with caplog.at_level("INFO", logger="tidelock.audit"):
        await expire(shell)
        await shell.publish()
    (note,) = [told.note for told in shell.recorder if told.reason == "Expired"]
    assert note.endswith(" has passed (waited 0s, idle 600s)")
    (line,) = [each for each in caplog.records if each.name == "tidelock.audit"]
    assert (line.message, vars(line)["outcome"]) == ("a reservation has ended", "Expired")
    assert shell.metric("tidelock_reservations_ended_total", namespace="shop", outcome="Expired") == 1


# Somebody's finalizer keeps the object.


def delete(shell: Shell) -> None:
    """Have somebody delete the lock, whose object a finalizer keeps."""
    metadata = shell.api.objects[lock_path()]["metadata"]
    metadata |= {"deletionTimestamp": format_instant(shell.clock.now()), "finalizers": ["example.com/keep"]}
    metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
    see(shell)


def see(shell: Shell) -> None:
    new = decode_reservation(encode(shell.api.objects[lock_path()]))
    shell.event_handlers.reservations.upsert(None, new)


def told(shell: Shell) -> dict[str, tuple[str, str]]:
    conditions = shell.stored_status()["conditions"]
    return {each["type"]: (each["status"], each["reason"]) for each in conditions}


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_lock_that_is_being_deleted_says_that_it_holds_nothing(restarts: bool) -> None:
    """It went on saying Active=True, though its room was given away."""
    shell = await stored()
    if restarts:
        successor = Shell(node("node-a"))
        successor.api.objects |= shell.api.objects
        shell = successor
    delete(shell)
    await shell.publish()

    assert shell.reserved() == 0
    assert shell.stored_status()["phase"] == "Terminating"
    assert told(shell) == {"Active": ("False", "Terminating"), "Ready": ("False", "Terminating")}
    assert shell.api.verbs == ["PUT"]
    see(shell)
    shell.clock.advance(1000)
    shell.step()
    await shell.publish()
    assert not shell.publisher.lags(KEY)
    assert shell.api.verbs == ["PUT"], "said once, and deleted by nobody else"


async def test_a_lock_that_waits_and_is_being_deleted_waits_no_more() -> None:
    shell = await stored(resources={"cpu": "100"}, pendingDeadlineSeconds=600)
    delete(shell)
    await shell.publish()

    assert shell.stored_status()["phase"] == "Terminating"
    assert "Reconciling" not in told(shell)
    assert not shell.ledger.waiting_reservations.waiting


async def test_a_consumed_lock_whose_object_is_kept_says_that_it_was_consumed() -> None:
    """Its status is not written before its deletion, so it went on saying Active=True beside its owner."""
    shell = await stored()
    kept = shell.api.objects[lock_path()]
    shell.add(pod(node_name="node-a"))
    shell.answer()
    await shell.publish()
    shell.api.objects[lock_path()] = kept
    delete(shell)
    await shell.publish()

    assert (shell.stored_status()["phase"], told(shell)["Active"]) == ("Consumed", ("False", "Consumed"))
    assert shell.stored_status()["boundPod"]["name"] == "web-0"
    assert shell.api.verbs == ["DELETE", "PUT"]


async def test_a_lock_that_had_ended_stays_as_it_was_while_its_object_is_kept() -> None:
    shell = await stored(retention="Retain")
    await expire(shell)
    before = shell.stored_status()
    delete(shell)
    await shell.publish()

    assert (shell.stored_status(), shell.api.verbs) == (before, ["PUT"])


async def test_once_its_object_has_gone_another_may_have_its_name() -> None:
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
