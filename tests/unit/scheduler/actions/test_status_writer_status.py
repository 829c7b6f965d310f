"""The status of a reservation: when it is written, and when not."""

from builders import NAMESPACE, node, pod
from tidelock.ledger.messages import holding_text
from tidelock.model.meta import Key
from unit.scheduler.machinery import Shell, lock_path, turns

KEY = Key(NAMESPACE, "lock")


async def test_a_status_is_written_for_the_version_from_which_it_was_computed() -> None:
    shell = Shell(node("node-a"))
    shell.store_reservation(version=7)
    shell.step()
    await shell.publish()

    (asked,) = shell.api.asked
    assert (asked.method, asked.path) == ("PUT", f"{lock_path()}/status")
    identity = {"name": "lock", "namespace": "shop"}
    assert asked.body["metadata"] == identity | {"uid": "uid-lock", "resourceVersion": "7"}
    assert "spec" not in asked.body
    assert shell.stored_status()["phase"] == "Active"
    assert shell.stored_status()["nodeName"] == "node-a"


async def test_fields_that_are_no_longer_wanted_are_removed() -> None:
    shell = Shell(node("node-a"))
    shell.store_reservation(
        status={"phase": "Pending", "nodeName": "node-b", "surprise": 1}, nodeName="node-c"
    )
    shell.step()
    await shell.publish()

    assert not {"surprise", "nodeName"} & shell.stored_status().keys()


async def test_nothing_is_written_if_nothing_differs() -> None:
    shell = Shell(node("node-a"))
    shell.store_reservation()
    shell.step()
    await shell.publish()
    shell.see_reservation()
    await shell.publish()
    shell.publisher.reconcile(KEY)
    await shell.settle()

    assert shell.api.verbs == ["PUT"]
    assert not shell.publisher.lags(KEY)


async def test_a_status_that_another_client_has_changed_is_corrected() -> None:
    shell = Shell(node("node-a"))
    shell.store_reservation()
    shell.step()
    await shell.publish()
    shell.api.edit(lock_path(), {"status": {"phase": "Consumed"}})
    shell.see_reservation()
    assert shell.publisher.lags(KEY)
    await shell.publish()

    assert shell.stored_status()["phase"] == "Active"


async def test_an_unknown_reservation_is_ignored() -> None:
    shell = Shell()
    shell.publisher.reconcile(KEY)

    assert not shell.publisher.lags(KEY)
    assert len(shell.tasks) == 0


async def test_a_change_during_a_write_is_written_after_it() -> None:
    shell = Shell(node("node-a"))
    shell.store_reservation()
    shell.step()
    shell.api.gate.clear()
    shell.flush()
    await turns()
    shell.reservation(resources={"cpu": "500m"}, generation=2)  # the ledger is ahead of the write
    shell.flush()
    await turns()
    assert len(shell.api.asked) == 1
    assert not shell.publisher.lags(KEY)

    shell.api.gate.set()
    await shell.publish()

    assert shell.api.verbs == ["PUT", "PUT"]
    assert shell.stored_status()["resources"] == {"cpu": "500m"}
    assert shell.stored_status()["observedGeneration"] == 2


async def test_a_claim_is_not_written() -> None:
    shell = Shell(node("node-a"))
    shell.store_reservation()
    shell.step()
    await shell.publish()
    shell.add(pod())
    shell.place()
    await shell.publish()

    assert shell.api.verbs == ["PUT"]
    assert shell.recorder.reasons == []


async def test_the_first_status_gets_no_event_and_its_activation_is_counted_once() -> None:
    shell = Shell(node("node-a"))
    shell.store_reservation()
    shell.clock.advance(0.25)
    shell.step()
    await shell.publish()
    await shell.publish()

    assert shell.recorder.reasons == []
    assert shell.metric("tidelock_locks_total") == 1
    assert shell.metric("tidelock_reservation_activation_seconds_count", waited="false") == 1
    assert shell.metric("tidelock_reservation_activation_seconds_sum", waited="false") == 0.25


async def test_a_wait_and_the_capacity_after_it_get_one_event_each() -> None:
    shell = Shell(node("node-a", cpu="500m"))
    shell.store_reservation()
    shell.step()
    await shell.publish()
    shell.see_reservation()
    shell.event_handlers.nodes.upsert(node("node-a", cpu="500m"), node("node-a", cpu="1", version=2))
    shell.step()
    await shell.publish()
    await shell.publish()

    waits, told = shell.recorder
    assert (waits.type, waits.reason) == ("Warning", "InsufficientCapacity")
    assert (told.regarding.kind, told.regarding.name, told.regarding.uid) == (
        "Reservation",
        "lock",
        "uid-lock",
    )
    assert (told.type, told.reason, told.action) == ("Normal", "Admitted", "Active")
    assert told.note == holding_text("cpu 1", "node-a")


async def test_the_activation_of_a_reservation_is_measured_again_from_the_loss_of_its_capacity() -> None:
    """Regression: it was measured from when it was first seen, as if it had not been active in between."""
    shell = Shell(node("node-a", cpu="1"))
    shell.store_reservation()
    shell.step()
    await shell.publish()
    shell.see_reservation()
    shell.clock.advance(300)
    shell.event_handlers.nodes.upsert(node("node-a", cpu="1"), node("node-a", cpu="500m", version=2))
    shell.step()
    await shell.publish()
    shell.see_reservation()
    shell.clock.advance(0.5)
    shell.event_handlers.nodes.upsert(
        node("node-a", cpu="500m", version=2), node("node-a", cpu="1", version=3)
    )
    shell.step()
    await shell.publish()

    assert shell.stored_status()["phase"] == "Active"
    assert shell.metric("tidelock_reservation_activation_seconds_sum", waited="false") == 0
    assert shell.metric("tidelock_reservation_activation_seconds_sum", waited="true") == 0.5


async def test_the_loss_of_the_node_is_a_warning() -> None:
    shell = Shell(node("node-a"))
    shell.store_reservation(nodeName="node-a")
    shell.step()
    shell.event_handlers.nodes.remove(node("node-a"))
    await shell.publish()

    assert [(told.type, told.reason) for told in shell.recorder] == [("Warning", "NodeLost")]


async def test_a_flush_starts_a_limited_number_of_writes_and_returns_whether_more_are_left() -> None:
    shell = Shell(node("node-a", pods="300"))
    names = [f"lock-{index}" for index in range(300)]
    for name in names:
        shell.store_reservation(name, resources={"cpu": "1m"})
    shell.decide()

    assert shell.flush()
    assert not shell.flush()
    await shell.settle()
    assert {shell.stored_status(name)["phase"] for name in names} == {"Active"}


async def test_few_statuses_of_waiting_reservations_are_written_at_once_and_namespaces_take_turns() -> None:
    shell = Shell()
    for namespace in ("shop", "mill"):
        for index in range(5):
            shell.reservation(f"lock-{index}", namespace=namespace)
    shell.api.gate.clear()
    shell.flush()
    await turns()
    assert sorted(asked.path.split("/namespaces/")[1].split("/")[0] for asked in shell.api.asked) == [
        "mill",
        "shop",
    ]

    shell.api.gate.set()
    await shell.publish()
    assert len(shell.api.asked) == 10


async def test_a_grant_does_not_queue_behind_statuses_of_waiting_reservations() -> None:
    shell = Shell()
    for index in range(5):
        shell.store_reservation(f"lock-{index}")
    shell.api.gate.clear()
    shell.flush()
    await turns()
    assert len(shell.api.asked) == 2

    shell.event_handlers.nodes.upsert(None, node("node-a", cpu="8"))
    for _ in range(5):
        shell.step()
    shell.flush()
    await turns()
    assert len(shell.api.asked) == 5
    shell.api.gate.set()
    await shell.publish()
    assert {shell.stored_status(f"lock-{index}")["phase"] for index in range(5)} == {"Active"}


async def test_a_resource_that_is_removed_from_the_spec_is_removed_from_the_status() -> None:
    """Regression: a merge patch kept the memory.

    It was written for ever, and reserved again after a restart.
    """
    shell = Shell(node("node-a"))
    shell.store_reservation(resources={"cpu": "2", "memory": "4Gi"})
    shell.step()
    await shell.publish()
    shell.api.edit(lock_path(), {"metadata": {"generation": 2}, "spec": {"resources": {"memory": None}}})
    shell.see_reservation()
    await shell.publish()

    assert shell.stored_status()["resources"] == {"cpu": "2"}
    assert not shell.publisher.lags(KEY)
