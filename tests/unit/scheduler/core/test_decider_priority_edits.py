"""Edits of spec.priority: the order of the queue, and preemption by others."""

from typing import Any

from builders import encode, node, pod, quota, reservation_json
from tidelock.ledger.output.status import render_reservation
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import assigned_to
from tidelock.model.reasons import PREEMPTED
from tidelock.model.reservation import decode_reservation
from tidelock.scheduler.core.reservation_scheduler import RESERVATIONS_A_STEP
from unit.scheduler.machinery import Core


def fill(core: Core, cpu: str) -> None:
    """Bind a pod that no reservation of these tests may preempt."""
    core.add(assigned_to(pod("resident", requests={"cpu": cpu}, priority=1000), "node-a"))


def test_a_reservation_in_a_long_queue_moves_to_the_position_of_its_new_priority() -> None:
    """Regression: it stayed in the queue of its former priority, and got capacity of another reservation."""
    core = Core(node("node-a", cpu="1"))
    for number in range(RESERVATIONS_A_STEP):
        core.reservation(f"large-{number}", resources={"cpu": "2"}, priority=20, ttlSeconds=600 + number)
    first, second = core.reservation("a", priority=10), core.reservation("b", priority=5)
    core.step()
    core.reservation("a", priority=0, generation=2, version=2)
    core.step()
    core.step()

    assert (first.phase, second.phase) == (Phase.PENDING, Phase.ACTIVE)


def test_positions_in_the_queue_follow_an_edited_priority() -> None:
    """Regression: a reservation that was refused for the same reason again kept its position."""
    core = Core(node("node-a", cpu="1"))
    fill(core, "1")
    entries = [core.reservation(name, created=core.clock.now(), pendingDeadlineSeconds=3600) for name in "ab"]
    core.step()
    core.clock.advance(2)
    core.step()
    assert [render_reservation(each, core.clock.now())["queue"]["place"] for each in entries] == [
        "1/2",
        "2/2",
    ]
    core.clock.advance(3)

    entries[1] = core.reservation("b", priority=5, generation=2, version=2, pendingDeadlineSeconds=3600)
    core.step()
    core.clock.advance(10)
    core.step()
    assert [render_reservation(each, core.clock.now())["queue"]["place"] for each in entries] == [
        "2/2",
        "1/2",
    ]


def test_a_pod_may_preempt_a_reservation_after_its_priority_was_lowered() -> None:
    """Regression: no event woke the pod, which waited for five minutes."""
    core = Core(node("node-a", cpu="1"))
    entry = core.reservation(priority=10, owner="another")
    core.add(pod(priority=5))
    core.refuse()
    core.reservation(priority=0, owner="another", generation=2, version=2)
    for _ in range(2):
        core.step()

    assert (entry.phase, entry.reason) == (Phase.PENDING, PREEMPTED)


def test_a_pod_may_preempt_a_reservation_after_its_quota_lowered_its_priority() -> None:
    """Regression: the effective priority fell with the quota's maxPriority, but the pod was not retried."""
    core = Core(node("node-a", cpu="1"))
    entry = core.reservation(priority=10, owner="another")
    core.add(pod(priority=5))
    core.refuse()
    quotas = core.decider.objects.reservation_quotas
    quotas.upsert(quota(), quota(maxPriority=0))
    for _ in range(2):
        core.step()
    assert (entry.phase, entry.reason) == (Phase.PENDING, PREEMPTED)


def test_a_reservation_may_preempt_one_after_the_quota_of_that_namespace_lowered_its_priority() -> None:
    """Regression: it was not retried until capacity came free. A restarted operator had it preempt."""
    core = Core(node("node-a", cpu="1"))
    entry = core.reservation(priority=10, owner="another")
    core.step()
    quotas = core.decider.objects.reservation_quotas
    quotas.upsert(None, quota(namespace="other"))
    preempts = reservation_json(namespace="other", priority=5, preemptionPolicy="PreemptLowerPriority")
    other = decode_reservation(encode(preempts))
    core.event_handlers.reservations.upsert(None, other)
    core.step()
    assert entry.phase is Phase.ACTIVE
    quotas.upsert(quota(), quota(maxPriority=0))
    for _ in range(2):
        core.step()
    assert (entry.phase, entry.reason) == (Phase.PENDING, PREEMPTED)
    assert core.ledger.entries[other.key].phase is Phase.ACTIVE


def test_a_reservation_may_preempt_one_after_its_priority_was_lowered() -> None:
    """Regression: it was only retried when other capacity came free."""
    core = Core(node("node-a", cpu="1"))
    low = core.reservation("low", priority=10)
    high = core.reservation(
        "high", priority=5, preemptionPolicy="PreemptLowerPriority", pendingDeadlineSeconds=3600
    )
    core.step()
    assert high.phase is Phase.PENDING
    core.reservation("low", priority=0, generation=2, version=2)
    for _ in range(3):
        core.step()

    assert (low.phase, high.phase) == (Phase.PENDING, Phase.ACTIVE)


def test_an_earmark_follows_a_lowered_priority_at_once() -> None:
    """Regression: the earmark kept the former priority until the next turn of the backfill."""
    core = Core(node("node-a", cpu="2"))
    fill(core, "1")
    ask: dict[str, Any] = {"resources": {"cpu": "2"}, "pendingDeadlineSeconds": 3600, "owner": "large"}
    entry = core.reservation(created=core.clock.now(), priority=10, **ask)
    core.step()
    core.clock.advance(60)
    core.step()
    assert entry.earmark == "node-a"
    core.add(pod("middle", priority=5))
    core.refuse()
    core.clock.advance(0.5)
    core.reservation(created=core.clock.now(), priority=0, generation=2, version=2, **ask)

    assert core.place().pod.meta.name == "middle"
