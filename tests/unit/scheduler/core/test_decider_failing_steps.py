"""Parts of a step, and writes, that fail."""

from operator import attrgetter
from typing import Any

import pytest

from builders import NAMESPACE, node, pod
from tidelock.framework.extension_point_timer import PluginError
from tidelock.kube.client import PODS
from tidelock.model.api.reservation import Phase
from tidelock.scheduler.core.diagnosis import Diagnosis
from unit.scheduler.failing import BAD, Fed, planted
from unit.scheduler.machinery import Shell, pod_path, turns


def test_a_failing_part_of_a_step_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Fed(node("node-a", cpu="8"))
    calls: list[float] = []

    def fails(now: float) -> None:
        calls.append(now)
        raise ValueError("a bug")

    monkeypatch.setattr(core.decider._backfill, "step", fails)
    core.deliver("huge", resources={"cpu": "9"}, pendingDeadlineSeconds=3600)
    for name in ("a", "b", "c"):
        core.deliver(name, owner=name)
        core.steps(3)
    assert [core.phases()[name] for name in ("a", "b", "c")] == [Phase.ACTIVE] * 3
    assert len(calls) == 1
    core.clock.advance(10)
    core.steps(3)
    assert len(calls) == 2


async def test_a_status_that_cannot_be_rendered_does_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = Shell(node("node-a", cpu="8"))
    difference = shell.publisher._status_difference
    monkeypatch.setattr(
        shell.publisher, "_status_difference", lambda entry: 1 / 0 if entry.key == BAD else difference(entry)
    )
    for name in ("a", "bad", "c"):
        shell.store_reservation(name, owner=name)
    shell.step()
    await shell.publish()
    assert shell.stored_status("a")["phase"] == shell.stored_status("c")["phase"] == "Active"
    assert "phase" not in shell.stored_status("bad")
    assert shell.isolation.faults == ["status shop/bad: division by zero"]


async def test_a_fault_during_a_binding_returns_the_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(node("node-a", cpu="1"))
    stored = shell.store_pod("bad", requests={"cpu": "1"})

    async def fails(*_: Any) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(shell.binder, "_wait_on_permit", fails)
    shell.binder.bind(shell.place(), 0.0)
    await shell.settle()
    assert shell.cache.get(stored.uid) is None
    assert shell.used() == 0
    assert shell.isolation.faults == ["binding shop/bad: a bug"]
    await turns()
    assert PODS.item("bad", NAMESPACE) in shell.api.objects


PARTS_OF_A_STEP = (
    "decider._backfill.step",
    "decider.moving.step",
    "decider.reservation_scheduler._fill_queue",
    "decider._capacity_events.notify",
    "ledger.queue_positions.renew",
)


@pytest.mark.parametrize("path", PARTS_OF_A_STEP)
def test_a_step_goes_on_without_a_failing_part(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: some faults ended the process. After others the loop ran again and again at once."""
    core = Fed(node("node-a", cpu="8"))
    core.deliver("huge", resources={"cpu": "9"}, pendingDeadlineSeconds=3600, mayMove={"maxPods": 1})
    core.steps()
    *owner, method = path.split(".")
    part, calls = attrgetter(".".join(owner))(core), list[float]()
    original = getattr(part, method)

    def fails(*_: Any, **__: Any) -> None:
        calls.append(core.clock.now())
        raise ValueError("a bug")

    monkeypatch.setattr(part, method, fails)
    core.deliver("a", owner="a", ttlSeconds=60, pendingDeadlineSeconds=3600)
    core.deliver("next", resources={"cpu": "9"}, pendingDeadlineSeconds=3600)
    core.clock.advance(20)
    for _ in range(100):
        core.add(pod("plain", requests={"cpu": "1"}))
        for _ in range(5):
            core.step()
        due = core.decider.next_due()
        assert due is None or due > core.clock.now()
        core.clock.advance(0.1)
    assert 1 <= len(calls) <= 4
    assert core.cache.get("uid-plain") is not None
    monkeypatch.setattr(part, method, original)
    core.clock.advance(600)
    core.steps(20)
    assert core.phases()["huge"] is Phase.PENDING
    assert core.phases()["a"] in {Phase.ACTIVE, Phase.EXPIRED}


async def test_a_decision_that_cannot_be_recorded_does_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = Shell(node("node-a", cpu="8"))
    monkeypatch.setattr(shell.recent, "refused", lambda *_: 1 / 0)
    shell.store_pod("bad", requests={"cpu": "9"})
    shell.store_pod("good", requests={"cpu": "1"})
    shell.loop._work()
    await shell.settle()
    assert shell.api.objects[pod_path("good")]["spec"]["nodeName"] == "node-a"
    assert shell.isolation.faults == ["decision shop/bad: division by zero"]


@pytest.mark.parametrize(
    "path", ["decider.rejected", "ledger.placement.settle_unseen", "queue.back_off", "cache.forget"]
)
@pytest.mark.parametrize("times", [1, 3])
async def test_a_failed_binding_is_undone_later_if_undoing_it_fails(
    path: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the capacity stayed in use, and the pod in flight, until the next process."""
    shell = Shell(node("node-a", cpu="1"))
    shell.isolation.pause = 0.0
    stored = shell.store_pod("bad", requests={"cpu": "1"})
    *owner, method = path.split(".")
    part = attrgetter(".".join(owner))(shell)
    original, failed = getattr(part, method), list[int]()

    def fails(*arguments: Any) -> Any:
        if len(failed) < times:
            failed.append(1)
            raise LookupError("planted")
        return original(*arguments)

    async def refuses(*_: Any) -> None:
        if path == "decider.rejected":
            return shell.decider.rejected(assumed, Diagnosis("no", frozenset()), 0.0)
        raise PluginError("no")

    monkeypatch.setattr(part, method, fails)
    monkeypatch.setattr(shell.binder, "_wait_on_permit", refuses)
    assumed = shell.place()
    shell.binder.bind(assumed, 0.0)
    await shell.settle()
    assert failed
    assert shell.cache.get(stored.uid) is None
    assert shell.used() == 0
    shell.clock.advance(20)
    assert shell.place().pod.uid == stored.uid


async def test_a_binding_that_cannot_be_processed_is_processed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the reservation stayed claimed until a restart if the watch preceded the response."""
    shell = Shell(node("node-a", cpu="1"))
    shell.isolation.pause = 0.0
    shell.store_reservation("bad", owner="bad")
    shell.step()
    await shell.publish()
    shell.store_pod("bad", requests={"cpu": "1"})
    with planted(shell.ledger, "claims.owner_bound", times=2) as failed:
        shell.binder.bind(shell.place(), 0.0)
        await shell.settle()
    assert len(failed) == 2
    assert shell.ledger.entries[BAD].phase is Phase.CONSUMED
    assert (shell.used(), shell.reserved()) == (1000, 0)
