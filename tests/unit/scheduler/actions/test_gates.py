"""Gated pods get the reason once, and again when it changes."""

from typing import Any

import pytest

from builders import encode, node, pod_json
from tidelock.framework.api import Status
from tidelock.kube.client import PODS
from tidelock.kube.errors import ServerError
from tidelock.ledger.owners.awaited import NAMED_BY_NONE, awaited_text
from tidelock.model.pods import REQUIRE_RESERVATION, Pod, decode_pod
from unit.scheduler.machinery import Shell, lock_path, pod_path

REQUIRES = {REQUIRE_RESERVATION: "true"}
OWN_GATES = [{"name": "example.com/quota"}]


def shell_with_a_gated_pod(**fields: Any) -> Shell:
    """Build a cluster of one node with 1 CPU, and a pod that requires its reservation."""
    shell = Shell(node("node-a", cpu="1"))
    shell.store_pod(annotations=REQUIRES, **fields)
    shell.step()
    return shell


async def look(shell: Shell, seconds: float = 11.0) -> None:
    """Let some time pass, write the reasons that are new, and deliver the pod by the watch."""
    shell.step()
    shell.clock.advance(seconds)
    namespaces, shell.effects.namespaces = shell.effects.namespaces, set()
    shell.gates.note(namespaces)
    shell.gates.look()
    await shell.settle()
    shell.see_pod()


def conditions(shell: Shell, name: str = "web-0") -> list[tuple[str, str, str]]:
    stored = shell.api.objects[pod_path(name)]["status"].get("conditions", ())
    return [(each["type"], each["status"], each["reason"]) for each in stored]


def message(shell: Shell, name: str = "web-0") -> str:
    """Return the message of the stored pod. Its last event must have the same one."""
    [condition] = shell.api.objects[pod_path(name)]["status"]["conditions"]
    told = list(shell.recorder)[-1]
    assert (told.type, told.reason, told.note) == ("Warning", "FailedScheduling", condition["message"])
    return str(condition["message"])


async def test_a_pod_without_a_reservation_gets_the_reason() -> None:
    """Regression: the pod had no condition and no event, so users could not see the reason."""
    shell = shell_with_a_gated_pod()
    await look(shell)

    assert message(shell) == NAMED_BY_NONE
    assert conditions(shell) == [("PodScheduled", "False", "SchedulingGated")]
    assert [(each.verdict, each.why) for each in shell.recent] == [("Unschedulable", NAMED_BY_NONE)]


async def test_a_pod_gets_a_message_with_the_reservation_that_it_waits_for_and_its_reason() -> None:
    shell = shell_with_a_gated_pod()
    shell.store_reservation(resources={"cpu": "2"})
    await look(shell)
    assert message(shell) == awaited_text("shop/lock", "Pending: InsufficientCapacity")

    shell.see_reservation()
    shell.api.objects[lock_path()]["spec"]["nodeName"] = "node-b"
    shell.api.objects[lock_path()]["metadata"] |= {"generation": 2, "resourceVersion": "2"}
    shell.see_reservation()
    await look(shell)
    assert message(shell) == awaited_text("shop/lock", "Pending: NodeNotFound")


async def test_a_pod_gets_no_new_message_when_only_amounts_change() -> None:
    shell = shell_with_a_gated_pod()
    shell.store_reservation(resources={"cpu": "3"})
    await look(shell)
    told = len(shell.api.asked), len(list(shell.recorder))
    for number, cpu in enumerate(("1500m", "2"), 2):
        shell.event_handlers.nodes.upsert(None, node("node-a", cpu=cpu, version=number))
        await look(shell)

    assert "2 free" in shell.ledger.entries[next(iter(shell.ledger.entries))].message
    assert (len(shell.api.asked), len(list(shell.recorder))) == told


@pytest.mark.parametrize("retention", ["Delete", "Retain"])
async def test_a_pod_gets_a_message_with_the_end_of_its_reservation(retention: str) -> None:
    shell = shell_with_a_gated_pod()
    ends: dict[str, Any] = {"expireAt": "2027-01-15T08:10:00Z", "ttlSeconds": None}
    entry = shell.store_reservation(
        resources={"cpu": "2"}, pendingDeadlineSeconds=3600, retention=retention, **ends
    )
    await look(shell)

    shell.clock.advance(600)
    shell.step()
    ended = f"{NAMED_BY_NONE}: shop/lock is Expired since 2027-01-15T08:10:11Z: spec.expireAt has passed"
    if retention == "Delete":
        shell.event_handlers.reservations.remove(entry.reservation)
    await look(shell)
    assert message(shell) == ended
    await look(shell)
    assert message(shell) == ended


async def test_a_pod_gets_a_message_when_its_reservation_is_deleted() -> None:
    shell = shell_with_a_gated_pod()
    entry = shell.store_reservation(resources={"cpu": "2"})
    await look(shell)
    shell.event_handlers.reservations.remove(entry.reservation)
    await look(shell)
    assert message(shell) == f"{NAMED_BY_NONE}: shop/lock was deleted"

    shell.store_reservation("next", resources={"cpu": "2"})
    await look(shell)
    assert message(shell) == awaited_text("shop/next", "Pending: InsufficientCapacity")


async def test_a_message_that_an_earlier_process_has_written_is_not_written_again() -> None:
    shell = Shell(node("node-a", cpu="1"))
    told = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    for name, text in (("web-0", NAMED_BY_NONE), ("web-1", f"{NAMED_BY_NONE}: shop/lock was deleted")):
        shell.store_pod(name, annotations=REQUIRES, status={"conditions": [told | {"message": text}]})
    await look(shell)

    assert not shell.api.asked
    assert not list(shell.recorder)


async def test_a_pod_with_other_gates_gets_its_message_once_these_gates_are_gone() -> None:
    """Regression: the message of the API server about the gates stayed after the gates were gone."""
    stale = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "by gates"}
    shell = shell_with_a_gated_pod(schedulingGates=OWN_GATES, status={"conditions": [stale]})
    await look(shell)
    assert not shell.api.asked

    del shell.api.objects[pod_path()]["spec"]["schedulingGates"]
    shell.api.objects[pod_path()]["metadata"]["resourceVersion"] = "2"
    shell.see_pod()
    await look(shell)
    assert message(shell) == NAMED_BY_NONE


async def test_a_condition_that_could_not_be_written_is_written_later() -> None:
    shell = shell_with_a_gated_pod()
    shell.api.fails(ServerError("etcd is down", status=500))
    await look(shell)
    assert not conditions(shell)
    await look(shell)
    assert message(shell) == NAMED_BY_NONE


async def test_a_condition_that_fails_after_a_success_is_repeated_without_a_long_pause() -> None:
    shell = shell_with_a_gated_pod()
    shell.api.fails(*[ServerError("etcd is down", status=500)] * 9)
    for _ in range(10):
        await look(shell, 60.0)
    assert message(shell) == NAMED_BY_NONE

    shell.store_reservation(resources={"cpu": "2"}, pendingDeadlineSeconds=3600)
    shell.api.fails(ServerError("etcd is down", status=500))
    await look(shell)
    await look(shell, 1.0)
    assert message(shell) == awaited_text("shop/lock", "Pending: InsufficientCapacity")


@pytest.mark.parametrize("gone", [True, False], ids=["deleted", "ungated"])
async def test_a_pod_that_gets_no_message_after_a_failed_write_is_forgotten(gone: bool) -> None:
    """Regression: a back-off was kept for each such pod until the end of the process."""
    shell = shell_with_a_gated_pod()
    shell.api.fails(ServerError("etcd is down", status=500))
    await look(shell)
    assert len(shell.gates._backoffs) == 1
    if gone:
        shell.event_handlers.pods.remove(shell.see_pod())
    else:
        shell.store_reservation()
        shell.step()
    shell.clock.advance(60)
    shell.gates.look()
    await shell.settle()

    assert not conditions(shell)
    assert len(shell.gates._backoffs) == 0


async def test_a_pod_that_has_changed_in_the_meantime_is_not_overwritten() -> None:
    """Otherwise the condition PodScheduled=False could overwrite a binding that came first."""
    shell = shell_with_a_gated_pod()
    shell.api.objects[pod_path()]["metadata"]["resourceVersion"] = "7"
    shell.gates.look()
    await shell.settle()
    assert not conditions(shell)


async def test_a_pod_that_is_ungated_or_gone_gets_no_message() -> None:
    shell = shell_with_a_gated_pod()
    shell.store_reservation()
    shell.step()
    gone = shell.store_pod("web-1", annotations=REQUIRES)
    shell.event_handlers.pods.remove(gone)
    await look(shell)
    assert not [told for told in shell.recorder if told.reason == "FailedScheduling"]


async def test_the_number_of_messages_at_a_time_is_limited() -> None:
    shell = Shell(node("node-a", cpu="1"))
    for number in range(120):
        shell.store_pod(f"web-{number}", annotations=REQUIRES)
    told = []
    for _ in range(4):
        shell.clock.advance(1.0)
        shell.gates.look()
        await shell.settle()
        told.append(len(shell.api.asked))
    assert told == [50, 100, 120, 120]


async def test_a_look_has_a_time_limit_and_leaves_out_a_namespace_that_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: comparing 220 pods with 5,000 selectors of 64 expressions took 30 s in one step."""
    shell = Shell(node("node-a", cpu="1"))
    for number in range(5):
        shell.store_pod(f"web-{number}", annotations=REQUIRES)
    for namespace in ("other", "slow", "slower"):
        waiting = pod_json("web", namespace=namespace, uid=f"uid-{namespace}", annotations=REQUIRES)
        shell.api.objects[PODS.item("web", namespace)] = waiting
        shell.event_handlers.pods.upsert(None, decode_pod(encode(waiting)))
    gate = next(each for each in shell.decider.profile.pre_enqueue if each.name == "Reservation")
    ask = gate.pre_enqueue

    def slowly(each: Pod) -> Status:
        shell.clock.advance(0.0 if each.meta.namespace == "other" else 0.03)
        return ask(each)

    monkeypatch.setattr(gate, "pre_enqueue", slowly)
    told = []
    for _ in range(4):
        shell.clock.advance(1.0)
        before = len(shell.api.asked)
        shell.gates.look()
        await shell.settle()
        told.append([each.path.split("/")[4] for each in shell.api.asked[before:]])
    assert told == [["shop", "other", "slow"], ["slower", "shop"], ["shop"], ["shop"]]


async def test_a_pod_gets_no_new_message_within_ten_seconds() -> None:
    shell = shell_with_a_gated_pod()
    await look(shell)
    shell.store_reservation(resources={"cpu": "2"})
    await look(shell, 1.0)
    assert message(shell) == NAMED_BY_NONE
    await look(shell, 9.0)
    assert message(shell) == awaited_text("shop/lock", "Pending: InsufficientCapacity")


async def test_namespaces_take_turns_for_messages() -> None:
    """Regression: a pod beside 10,000 gated ones of another namespace got its message after 200 s."""
    shell = Shell(node("node-a", cpu="1"))
    for number in range(200):
        shell.store_pod(f"web-{number}", annotations=REQUIRES)
    for namespace in ("mill", "port"):
        waiting = pod_json("web", namespace=namespace, uid=f"uid-{namespace}", annotations=REQUIRES)
        shell.api.objects[PODS.item("web", namespace)] = waiting
        shell.event_handlers.pods.upsert(None, decode_pod(encode(waiting)))
    shell.gates.look()
    await shell.settle()
    assert len(shell.api.asked) == 50
    assert {each.path.split("/")[4] for each in shell.api.asked} == {"shop", "mill", "port"}


async def test_the_namespaces_of_a_look_are_not_the_first_ones_in_the_next() -> None:
    shell = Shell(node("node-a", cpu="1"))
    for index in range(80):
        for number in range(2):
            name, namespace = f"web-{number}", f"team-{index}"
            plain = pod_json(name, namespace=namespace, uid=f"uid-{index}-{number}", annotations=REQUIRES)
            shell.api.objects[PODS.item(name, namespace)] = plain
            shell.event_handlers.pods.upsert(None, decode_pod(encode(plain)))
    told = []
    for _ in range(2):
        shell.gates.look()
        await shell.settle()
        told.append({each.path.split("/")[4] for each in shell.api.asked})
    assert [len(each) for each in told] == [50, 80]
