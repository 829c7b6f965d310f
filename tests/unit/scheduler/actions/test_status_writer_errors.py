import pytest

from builders import NAMESPACE, encode, node, reservation_json
from tidelock.kube.errors import (
    AdmissionUnavailable,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from tidelock.model.meta import Key
from tidelock.model.reservation import decode_reservation
from unit.scheduler.machinery import Shell, lock_path, turns

KEY = Key(NAMESPACE, "lock")


async def active() -> Shell:
    """Build a scheduler with a reservation that has just become active and is not written yet."""
    shell = Shell(node("node-a"))
    shell.store_reservation()
    shell.step()
    return shell


async def test_a_write_that_conflicts_with_a_newer_version_is_computed_again() -> None:
    shell = await active()
    shell.api.gate.clear()
    shell.flush()
    await turns()
    shell.api.edit(lock_path(), {"metadata": {"generation": 2}, "spec": {"resources": {"cpu": "500m"}}})
    shell.see_reservation()
    shell.api.gate.set()
    await shell.publish()

    assert [asked.body["metadata"]["resourceVersion"] for asked in shell.api.asked] == ["1", "2"]
    assert shell.stored_status()["resources"] == {"cpu": "500m"}


async def test_a_write_that_conflicts_with_an_unseen_version_waits_for_the_watch() -> None:
    shell = await active()
    shell.api.edit(lock_path(), {"metadata": {"labels": {"a": "b"}}})
    await shell.publish()
    assert shell.api.verbs == ["PUT"]

    shell.see_reservation()
    await shell.publish()

    assert shell.api.verbs == ["PUT", "PUT"]
    assert shell.stored_status()["phase"] == "Active"


async def test_an_object_that_is_gone_gets_no_status() -> None:
    shell = await active()
    del shell.api.objects[lock_path()]
    await shell.publish()

    assert shell.api.verbs == ["PUT"]


async def test_a_new_object_of_the_same_name_gets_its_status_after_a_write_found_the_old_one_gone() -> None:
    """Regression: the response ended the write, and the new status waited for the next event."""
    shell = await active()
    shell.api.gate.clear()
    shell.flush()
    await turns()
    shell.api.fails(NotFound("no such object", status=404))
    shell.store_reservation(uid="another", version=9)
    shell.step()
    shell.api.gate.set()
    await shell.publish()

    assert [asked.body["metadata"]["uid"] for asked in shell.api.asked[1:]] == ["another"]
    assert shell.stored_status()["phase"] == "Active"


async def test_a_conflict_over_an_object_that_was_removed_in_the_meantime_ends_the_write() -> None:
    shell = await active()
    shell.api.gate.clear()
    shell.flush()
    await turns()
    shell.api.objects[lock_path()] = reservation_json(uid="another", version=9)
    shell.event_handlers.reservations.remove(decode_reservation(encode(reservation_json())))
    shell.api.gate.set()
    await shell.settle()

    assert shell.api.verbs == ["PUT"]


async def test_a_response_for_an_object_that_was_removed_in_the_meantime_is_ignored() -> None:
    shell = await active()
    shell.api.gate.clear()
    shell.flush()
    await turns()
    shell.event_handlers.reservations.remove(decode_reservation(encode(reservation_json())))
    shell.api.gate.set()
    await shell.settle()

    assert KEY not in shell.ledger.entries


async def test_a_failed_write_is_repeated_with_growing_pauses() -> None:
    shell = await active()
    shell.api.fails(*(ServerError("etcd is down", status=500) for _ in range(9)))
    await shell.publish_through_pauses()

    assert len(shell.api.asked) == 10
    assert shell.stored_status()["phase"] == "Active"
    ceilings = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert all(
        ceiling / 2 <= pause <= ceiling for pause, ceiling in zip(shell.tasks.pauses, ceilings, strict=True)
    )
    assert shell.metric("tidelock_api_write_errors_total", write="reservation", reason="ServerError") == 9


async def test_a_retry_waits_for_as_long_as_the_server_asks() -> None:
    shell = await active()
    shell.api.fails(TooManyRequests("slow down", status=429, retry_after=3.0))
    await shell.publish()

    assert shell.tasks.pauses == [3.0]


async def test_a_write_that_admission_could_not_judge_is_soon_retried() -> None:
    """A refused write pauses for longer and longer, up to a minute, and this one for seconds."""
    shell = await active()
    shell.api.fails(*[AdmissionUnavailable("failed to configure binding", status=422) for _ in range(30)])
    await shell.publish_through_pauses()

    assert shell.stored_status()["phase"] == "Active"
    assert len(shell.tasks.pauses) == 30
    assert max(shell.tasks.pauses) <= 5


async def test_a_forbidden_write_is_retried_as_roles_may_be_created_late(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shell = await active()
    shell.api.fails(Forbidden("no", status=403))
    await shell.publish_through_pauses()

    assert shell.stored_status()["phase"] == "Active"
    assert caplog.messages == ["an object was not written"]


async def test_a_status_with_a_lost_response_is_not_written_again_once_the_watch_has_delivered_it() -> None:
    shell = await active()
    shell.api.loses(Unreachable("time-out", outcome_unknown=True))
    await shell.publish_through_pauses()
    assert shell.api.verbs == ["PUT", "PUT"]  # the second conflicts with the first

    shell.see_reservation()
    await shell.publish()

    assert shell.api.verbs == ["PUT", "PUT"]
    assert shell.stored_status()["phase"] == "Active"
