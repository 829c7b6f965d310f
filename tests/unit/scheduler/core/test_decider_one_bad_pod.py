"""A pod for which the program fails costs no other object anything."""

from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from builders import SCHEDULER, node, pod
from tidelock.framework.events import NODE_ADD, Registration
from tidelock.model.api.reservation import Phase
from tidelock.model.unusable import unusable
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.outcomes import Unschedulable
from unit.scheduler.failing import Fed, planted


def test_a_pod_with_a_failing_decision_gets_the_error_and_others_are_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = Fed(node("node-a", cpu="8"))
    schedule = core.decider._cycle.schedule

    def fails(profile: Any, waiting: Any, *arguments: Any, **options: Any) -> Any:
        if waiting.meta.name == "bad":
            raise ValueError("a plugin's bug")
        return schedule(profile, waiting, *arguments, **options)

    monkeypatch.setattr(core.decider._cycle, "schedule", fails)
    core.add(pod("bad"), pod("good"))
    outcomes = [core.step(), core.step()]
    refused = next(each for each in outcomes if isinstance(each, Unschedulable))
    assert refused.diagnosis.error
    assert "a plugin's bug" in refused.diagnosis.message
    assert any(isinstance(each, AssumedPod) and each.pod.meta.name == "good" for each in outcomes)
    assert core.isolation.faults == ["decision shop/bad: a plugin's bug"]


def test_a_failing_queueing_hint_wakes_its_pod_and_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: each event logged a traceback for each such pod."""
    core = Fed(node("node-a", cpu="1"))
    core.add(pod("bad", requests={"cpu": "2"}))
    core.refuse()

    def fails(*_: Any) -> bool:
        raise LookupError("a hint's bug")

    listeners = {(SCHEDULER, "NodeResourcesFit"): (Registration(NODE_ADD, fails),)}
    monkeypatch.setattr(core.queue.hints, "listeners", lambda _event: listeners)
    for _ in range(5):
        core.event_handlers.nodes.upsert(None, node("node-b", cpu="1"))
        core.event_handlers.nodes.remove(node("node-b", cpu="1"))
        core.clock.advance(20)
        core.refuse()
    told = core.isolation.faults
    assert len(told) >= 5
    assert set(told) == {"hint shop/bad: a hint's bug"}
    assert sum(record.exc_info is not None for record in caplog.records) == 1


def test_a_failing_gate_keeps_its_pod_gated_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Fed(node("node-a", cpu="8"))
    gate = core.decider.profile.pre_enqueue[0]
    ask = gate.pre_enqueue
    monkeypatch.setattr(gate, "pre_enqueue", lambda each: 1 / 0 if each.meta.name == "bad" else ask(each))
    core.add(pod("bad"), pod("good"))
    assert core.place().pod.meta.name == "good"
    assert core.step() is None
    assert core.isolation.faults == ["gate shop/bad: division by zero"]


def test_a_failing_gate_is_called_again_without_any_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the pod stayed gated until its next event, although the gate had failed only once."""
    core = Fed(node("node-a", cpu="8"))
    gate = core.decider.profile.pre_enqueue[0]
    ask, failures = gate.pre_enqueue, iter((True, True))
    monkeypatch.setattr(gate, "pre_enqueue", lambda each: 1 / 0 if next(failures, False) else ask(each))
    core.add(pod("bad"))
    begun = core.clock.now()
    for tries, pause in ((1, 1), (2, 2)):
        assert core.step() is None
        assert core.isolation.faults == tries * ["gate shop/bad: division by zero"]
        assert core.decider.next_due() == core.clock.now() + pause
        core.clock.advance(pause)
    assert core.place().pod.meta.name == "bad"
    assert core.clock.now() == begun + 3


def test_a_pod_that_is_removed_while_its_gate_fails_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Fed(node("node-a", cpu="8"))
    gate = core.decider.profile.pre_enqueue[0]
    monkeypatch.setattr(gate, "pre_enqueue", lambda _: 1 / 0)
    core.add(pod("bad"))
    core.queue.remove(pod("bad").uid)
    core.clock.advance(10)
    assert core.step() is None
    assert core.queue.next_due() is None
    assert len(core.isolation.faults) == 1


def test_unreserve_is_called_for_all_plugins_even_if_one_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: each attempt of such a pod logged a traceback."""
    core = Fed(node("node-a", cpu="8"))
    core.deliver("bad", owner="bad")
    core.steps()
    volumes, reservation = (core.decider.profile.plugins[name] for name in ("VolumeBinding", "Reservation"))
    assert core.decider.profile.reserve[0] is volumes
    assert core.decider.profile.reserve[-1] is reservation
    monkeypatch.setattr(reservation, "unreserve", lambda *_: 1 / 0)
    undone = list[str]()
    monkeypatch.setattr(volumes, "unreserve", lambda _state, pod, *_: undone.append(pod.meta.name))
    core.add(pod("bad"))
    for _ in range(3):
        core.decider.binding_failed(core.place(), core.clock.now())
        core.clock.advance(20)
    assert undone == ["bad"] * 3
    assert core.isolation.faults == ["unreserve shop/bad: division by zero"] * 3
    assert sum(record.exc_info is not None for record in caplog.records) == 1


@pytest.mark.parametrize(
    "part", ["affinity_terms.count", "pod_counts.count", "pod_counts.place", "columns.request"]
)
def test_a_pod_for_which_an_index_fails_changes_no_sum(part: str) -> None:
    core = Fed(node("node-a", cpu="4"))
    core.add(pod("a", node_name="node-a", requests={"cpu": "1"}))
    columns = core.decider.columns
    before = columns.requested.copy()
    bad = pod("bad", node_name="node-a", requests={"cpu": "2"})
    *parents, method = part.split(".")
    owner = attrgetter(".".join(parents))(core.cache)
    original = getattr(owner, method)

    def fails(*arguments: Any, **options: Any) -> Any:
        known = [getattr(each, "pod", each) for each in arguments]
        if bad in known or bad.requests in [each for each in known if isinstance(each, dict)]:
            raise LookupError("planted")
        return original(*arguments, **options)

    setattr(owner, method, fails)
    with pytest.raises(LookupError):
        core.event_handlers.pods.upsert(None, bad)
    setattr(owner, method, original)
    assert np.array_equal(columns.requested, before)
    assert core.cache.get(bad.uid) is None
    core.event_handlers.pods.upsert(None, unusable(bad, "the operator failed"))
    core.add(pod("next"))
    refused = core.refuse()
    assert "unreadable" in refused.diagnosis.message
    core.event_handlers.pods.upsert(unusable(bad, "the operator failed"), bad)
    assert core.used() == 3000


def test_a_waiting_pod_that_cannot_be_processed_gets_the_reason_and_is_placed_later() -> None:
    """Regression: there was only an event."""
    core, bad = Fed(node("node-a", cpu="4")), pod("bad", requests={"cpu": "1"})
    core.event_handlers.pods.upsert(None, unusable(bad, "the operator failed"))
    assert "pod can't be read: the operator failed." in core.refuse().diagnosis.message
    core.event_handlers.pods.upsert(unusable(bad, "the operator failed"), bad)
    core.clock.advance(10)
    assert core.place().pod == bad


def test_a_pod_with_a_failing_sort_key_is_sorted_by_its_priority(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = Fed(node("node-a", cpu="8"))
    sort = core.decider.profile.queue_sort
    key = sort.sort_key
    odd: dict[str, Any] = {"bad": None, "odd": ("first", "second")}
    monkeypatch.setattr(
        sort,
        "sort_key",
        lambda each, since: odd[each.meta.name] if each.meta.name in odd else key(each, since),
    )
    core.add(pod("bad"), pod("good"), pod("odd"), pod("better", priority=5))
    assert [core.place().pod.meta.name for _ in range(4)] == ["better", "bad", "good", "odd"]
    assert {fault.partition(":")[0] for fault in core.isolation.faults} == {"sort shop/bad", "sort shop/odd"}


def test_a_pod_that_cannot_be_queued_is_queued_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the pod was known to the queue, but in none of its parts."""
    core, bad = Fed(node("node-a", cpu="4")), pod("bad")
    with monkeypatch.context() as patch:
        patch.setattr(core.queue, "_on_enqueue", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            core.event_handlers.pods.upsert(None, bad)
    core.event_handlers.pods.upsert(None, bad)
    assert core.place().pod is bad


@pytest.mark.parametrize(
    "part", ["cache.assume", "ledger.holdings.hold", "ledger.records.commit", "ledger.records.note"]
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_decision_that_fails_midway_leaves_its_pod_unplaced_and_its_reservation_active(
    part: str, times: int
) -> None:
    core = Fed(node("node-a", cpu="1"))
    core.deliver("bad", owner="bad")
    core.steps()
    core.store("bad")
    core.add(pod("bad", requests={"cpu": "1"}))
    with planted(core, part, times=times) as failed:
        for _ in range(times):
            core.step()
            core.clock.advance(20)
    assert failed
    core.check()
    if core.cache.get("uid-bad") is None:
        assert core.used() == 0
        assert core.phases() == {"bad": Phase.ACTIVE}
        core.steps()
    core.check()
    assert core.used() == 1000
