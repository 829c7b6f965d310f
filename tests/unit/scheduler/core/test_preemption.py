"""What becomes of a pod or lock that makes room for itself, and of those who must leave it."""

from dataclasses import replace
from typing import Any

import pytest

from builders import node, pod
from tidelock.ledger import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import Pod
from tidelock.plugins.default_preemption import plugin as default_preemption
from tidelock.scheduler.core.diagnosis import Diagnosis
from tidelock.scheduler.core.preemption import PreemptionAttempt
from unit.scheduler.machinery import Core

PREEMPTING = {"preemptionPolicy": "PreemptLowerPriority"}


def crowded(*names: str) -> Core:
    """Give nodes of 4 cpu, each with a pod of priority 0 that takes all of it."""
    core = Core(*(node(name, cpu="4") for name in names or ("node-a",)))
    core.add(*(resident(f"low-{name}", name) for name in names or ("node-a",)))
    return core


def resident(name: str, node_name: str = "node-a", cpu: str = "4", **fields: Any) -> Pod:
    return pod(name, requests={"cpu": cpu}, node_name=node_name, **fields)


def high(name: str = "web-0", cpu: str = "2", priority: int = 10, **fields: Any) -> Pod:
    return pod(name, requests={"cpu": cpu}, priority=priority, **fields)


def attempted(core: Core) -> PreemptionAttempt:
    (attempt,) = core.take_preemptions()
    return attempt


def leave(core: Core, *names: str) -> None:
    """Have the victims be gone, and the backoff of those who wait be over."""
    for name in names:
        placed = core.cache.get(f"uid-{name}")
        assert placed is not None
        core.event_handlers.pods.remove(placed.pod)
    core.clock.advance(10)


def test_a_pod_is_nominated_and_gets_the_room_of_its_victims() -> None:
    core = crowded()
    core.add(high())

    diagnosis = core.refuse().diagnosis
    attempt = attempted(core)
    assert (attempt.node_name, [each.meta.name for each in attempt.victims]) == ("node-a", ["low-node-a"])
    assert (attempt.kind, attempt.scheduler_name, attempt.chosen) == ("pod", "tidelock-scheduler", 1)
    assert core.cache.nominator.node_of("uid-web-0") == "node-a"
    assert "preemption" not in diagnosis.message

    leave(core, "low-node-a")
    assert core.place().node_name == "node-a"
    assert list(core.cache.nominator.nodes) == []


def test_a_pod_that_is_tried_again_meanwhile_waits_for_its_victims() -> None:
    core = crowded("node-a", "node-b")
    core.add(high())
    core.refuse()
    chosen = attempted(core).node_name
    core.clock.advance(10)
    core.queue.activate("uid-web-0", core.clock.now())

    diagnosis = core.refuse().diagnosis

    assert "not eligible due to a terminating pod on the nominated node." in diagnosis.message
    assert core.cache.nominator.node_of("uid-web-0") == chosen
    assert attempted(core).victims == ()
    assert core.cache.nominator.node_of("uid-web-0") != ""


def test_a_failed_eviction_lets_the_pod_choose_again() -> None:
    core = crowded()
    core.add(high())
    core.refuse()
    attempted(core)
    core.decider.eviction_failed("uid-low-node-a", "uid-web-0", core.clock.now())
    core.clock.advance(10)

    core.refuse()
    assert [each.meta.name for each in attempted(core).victims] == ["low-node-a"]


def test_room_that_is_made_for_a_pod_is_left_to_it_by_those_not_above_it() -> None:
    core = crowded()
    core.add(high("web-0", cpu="3"))
    core.refuse()
    leave(core, "low-node-a")
    core.queue.remove("uid-web-0")  # it is away for a moment
    core.add(high("web-1", cpu="2"))

    refused = core.refuse()
    assert (
        "0/1 nodes are available: 1 Insufficient cpu."
        " node-a: cpu 2 needed, 1 free, beside shop/web-0, for which capacity is kept."
        in refused.diagnosis.message
    )

    core.add(high("web-2", cpu="2", priority=11))
    assert core.place().pod.meta.name == "web-2"


def test_a_pod_that_others_avoid_by_its_labels_no_longer_keeps_them_away_when_these_change() -> None:
    core = Core(node("node-a", cpu="4", labels={"kubernetes.io/hostname": "node-a"}))
    gated: dict[str, Any] = {
        "status": {"nominatedNodeName": "node-a"},
        "schedulingGates": [{"name": "later"}],
    }
    core.add(high("web-0", labels={"app": "db"}, **gated))
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    core.add(
        high(
            "web-1", affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        )
    )
    assert "pod anti-affinity rules" in core.refuse().diagnosis.message

    core.add(high("web-0", labels={"app": "web"}, **gated))
    core.clock.advance(10)
    assert core.place().pod.meta.name == "web-1"


def test_the_node_that_a_pod_is_nominated_for_is_tried_first() -> None:
    core = Core(node("node-a", cpu="64"), node("node-b", cpu="4"))
    core.add(high(status={"nominatedNodeName": "node-b"}))
    assert core.place().node_name == "node-b"

    core.add(high("web-1", cpu="3", status={"nominatedNodeName": "node-b"}))
    assert core.place().node_name == "node-a"


def test_a_nomination_for_a_node_where_nothing_helps_is_taken_away() -> None:
    core = Core(node("node-a", cpu="1"))
    core.add(high(status={"nominatedNodeName": "node-a"}))

    core.refuse()
    assert core.cache.nominator.node_of("uid-web-0") == ""
    assert list(core.cache.nominator.nodes) == []


def test_lower_nominations_on_the_chosen_node_end() -> None:
    core = crowded()
    core.add(high("web-0", priority=5))
    core.refuse()
    attempted(core)
    core.add(high("web-1", cpu="4", priority=10))

    core.refuse()
    attempt = attempted(core)

    assert [each.meta.name for each in attempt.outdone] == ["web-0"]
    assert (attempt.victims, attempt.chosen) == ((), 0), "the victim is going already"
    assert [each.meta.name for each in core.cache.nominator.on("node-a")] == ["web-1"]


def test_a_nominated_pod_that_goes_lets_others_try() -> None:
    core = crowded()
    core.add(high("web-0", cpu="4"))
    core.refuse()
    leave(core, "low-node-a")
    core.queue.remove("uid-web-0")
    core.add(high("web-1"))
    core.refuse()

    core.event_handlers.pods.remove(high("web-0"))
    assert core.place().pod.meta.name == "web-1"


def test_pods_of_other_schedulers_are_nominated_by_them() -> None:
    core = Core(node("node-a"))
    core.add(high(scheduler="default-scheduler", status={"nominatedNodeName": "node-a"}))
    assert list(core.cache.nominator.nodes) == []


def test_a_nomination_ends_when_its_pod_is_assumed_and_stays_so() -> None:
    core = Core(node("node-a"))
    core.add(high(status={"nominatedNodeName": "node-a"}))
    core.place()
    core.add(high(status={"nominatedNodeName": "node-a"}, labels={"new": "yes"}))
    assert list(core.cache.nominator.nodes) == []


# Locks as victims.


def test_a_lower_lock_is_broken_and_waits_again() -> None:
    core = Core(node("node-a", cpu="4"))
    entry = core.reservation(resources={"cpu": "4"}, owner="db-0", priority=3)
    core.step()
    core.add(high())

    core.refuse()
    attempt = attempted(core)

    assert (attempt.victims, attempt.chosen) == ((), 1)
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.PREEMPTED)
    assert entry.message == "preempted on node-a by pod shop/web-0"
    assert core.reserved() == 0
    core.clock.advance(10)
    assert core.place().node_name == "node-a"
    assert entry.reason == reasons.PREEMPTED, "what it lost its room to is not overwritten"


def test_an_equal_lock_is_never_broken() -> None:
    core = Core(node("node-a", cpu="4"))
    entry = core.reservation(resources={"cpu": "4"}, owner="db-0", priority=10)
    core.step()
    core.add(high())

    assert "1 No preemption victims found for incoming pod" in core.refuse().diagnosis.message
    assert entry.phase is Phase.ACTIVE


def test_a_pod_is_tried_again_when_a_lock_goes_that_kept_evictions_from_helping() -> None:
    """It waited for minutes: a pod was in its way before any lock was, so it heard of no lock that went."""
    core = Core(node("node-a", cpu="4"))
    core.add(resident("low", cpu="2"))
    entry = core.reservation(resources={"cpu": "2"}, owner="nobody", priority=10)
    core.step()
    core.add(high(cpu="4"))
    assert core.refuse().diagnosis.message.endswith(
        "preemption: 0/1 nodes are available: 1 Insufficient cpu beside reservations."
    )
    attempted(core)

    core.event_handlers.reservations.remove(entry.reservation)
    core.clock.advance(10)
    core.refuse()
    assert [each.meta.name for each in attempted(core).victims] == ["low"]


def test_a_pod_that_locks_are_not_in_the_way_of_is_left_alone_when_one_goes() -> None:
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="4"))
    core.add(resident("equal", "node-a", priority=10), resident("low", "node-b", cpu="2"))
    core.add(resident("equal-too", "node-b", cpu="2", priority=10))
    entry = core.reservation(resources={"memory": "1Mi"}, nodeName="node-a", owner="nobody", priority=10)
    core.step()
    core.add(high(cpu="4"))
    core.refuse()

    core.event_handlers.reservations.remove(entry.reservation)
    core.clock.advance(10)
    assert core.step() is None


def test_no_eviction_helps_a_pod_whose_reservation_is_elsewhere() -> None:
    core = Core(node("node-a", cpu="64"), node("node-b", cpu="1"))
    core.add(resident("low", cpu="1"))
    core.reservation(resources={"cpu": "1"}, nodeName="node-b", owner="web-0")
    core.step()
    core.add(high(annotations={"tidelock.dev/require-reservation": "true"}))

    assert core.refuse().diagnosis.message.endswith(
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    assert attempted(core).node_name == ""


# Locks that preempt.


def test_a_lock_evicts_nobody_by_default() -> None:
    core = crowded()
    entry = core.reservation(resources={"cpu": "2"}, priority=10)
    core.step()

    assert core.take_preemptions() == []
    assert (entry.phase, "preemption" in entry.message) == (Phase.PENDING, False)


def test_a_lock_that_may_preempt_is_active_once_the_room_is_free() -> None:
    core = crowded()
    entry = core.reservation(resources={"cpu": "2"}, priority=10, **PREEMPTING)
    core.step()

    attempt = attempted(core)
    assert (attempt.kind, attempt.node_name, attempt.pod.uid) == ("reservation", "node-a", entry.uid)
    assert [each.meta.name for each in attempt.victims] == ["low-node-a"]
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.INSUFFICIENT_CAPACITY)
    core.add(pod("thief", requests={"cpu": "3"}, priority=10))

    leave(core, "low-node-a")
    core.step()
    assert (entry.phase, entry.node) == (Phase.ACTIVE, "node-a")
    assert list(core.cache.nominator.nodes) == []


def test_room_that_is_made_for_a_lock_is_left_to_it_but_for_its_owner() -> None:
    core = crowded()
    core.reservation(resources={"cpu": "4"}, priority=10, owner="web-0", **PREEMPTING)
    core.step()
    core.cache.remove("uid-low-node-a")  # the room is free, and nobody has looked yet
    core.decider.reservation_scheduler._freed = core.decider.columns.freed
    core.ledger.waiting_reservations.untried.clear()

    core.add(pod("thief", requests={"cpu": "2"}, priority=10))
    assert "Insufficient cpu" in core.refuse().diagnosis.message
    core.add(pod("web-0", requests={"cpu": "2"}))
    assert core.place().pod.meta.name == "web-0"


def test_a_lock_preempts_lower_locks_and_no_others() -> None:
    core = Core(node("node-a", cpu="4"))
    low = core.reservation("low", resources={"cpu": "2"}, owner="db-0", priority=1)
    equal = core.reservation("equal", resources={"cpu": "2"}, owner="db-1", priority=10)
    core.step()
    new = core.reservation("new", resources={"cpu": "2"}, owner="web-0", priority=10, **PREEMPTING)
    core.step()
    core.step()

    assert (new.phase, low.phase, equal.phase) == (Phase.ACTIVE, Phase.PENDING, Phase.ACTIVE)
    assert low.message == "preempted on node-a by reservation shop/new"


def test_a_lock_that_takes_room_now_or_never_evicts_nobody() -> None:
    core = crowded()
    entry = core.reservation(resources={"cpu": "2"}, priority=10, pendingDeadlineSeconds=0, **PREEMPTING)
    core.step()

    assert core.take_preemptions() == []
    assert entry.phase is Phase.REJECTED


def test_a_nomination_ends_with_its_lock() -> None:
    core = crowded()
    entry = core.reservation(resources={"cpu": "2"}, priority=10, pendingDeadlineSeconds=5, **PREEMPTING)
    core.step()
    assert list(core.cache.nominator.nodes) == ["node-a"]
    core.clock.advance(6)
    core.step()
    assert (entry.phase, list(core.cache.nominator.nodes)) == (Phase.REJECTED, [])

    gone = core.reservation("gone", resources={"cpu": "2"}, priority=10, owner="db-0", **PREEMPTING)
    core.decider.eviction_failed("uid-low-node-a", "uid-web-0", core.clock.now())
    core.step()
    assert list(core.cache.nominator.nodes) == ["node-a"]
    core.event_handlers.reservations.remove(gone.reservation)
    assert list(core.cache.nominator.nodes) == []


def test_a_lock_that_may_no_longer_preempt_loses_its_nomination() -> None:
    core = crowded()
    core.reservation(resources={"cpu": "2"}, priority=10, **PREEMPTING)
    core.step()
    core.reservation(resources={"cpu": "2"}, priority=10, generation=2, version=2)
    core.step()
    assert list(core.cache.nominator.nodes) == []


def test_a_nominated_lock_whose_priority_sinks_lets_others_try() -> None:
    """It stayed nominated while its victim was leaving: a pod that was above it by now had to wait too."""
    core = Core(node("node-a", cpu="6"))
    core.add(resident("low"))
    core.reservation(resources={"cpu": "4"}, priority=10, owner="nobody", **PREEMPTING)
    core.add(high(priority=5))
    core.refuse()
    core.event_handlers.pods.upsert(resident("low"), resident("low", deleted=True))
    core.step()

    core.reservation(
        resources={"cpu": "4"}, priority=1, owner="nobody", generation=2, version=2, **PREEMPTING
    )
    assert core.place().pod.meta.name == "web-0"
    assert core.cache.nominator.node_of("uid-lock") == "node-a"


def test_locks_alike_but_for_their_leave_to_preempt_are_not_refused_together() -> None:
    core = crowded()
    core.reservation("meek", resources={"cpu": "2"}, priority=10)
    core.reservation("bold", resources={"cpu": "2"}, priority=10, **PREEMPTING)
    core.step()
    assert attempted(core).pod.meta.name == "bold"


LONELY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "none"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
LATER = "Preemption is tried on in a later attempt"


def nine_and_one() -> Core:
    """Give ten nodes that are full, where evictions help on the last one alone."""
    names = [f"node-{number}" for number in range(10)]
    core = Core(*(node(name, cpu="4") for name in names))
    core.add(*(resident(f"on-{name}", name, priority=0 if name == "node-9" else 20) for name in names))
    return core


def test_a_pod_that_looks_at_others_tries_evictions_on_some_nodes_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(default_preemption, "_WORK", 30)  # three nodes
    core = nine_and_one()
    core.add(high(affinity=LONELY))
    attempts = 0
    while not core.cache.nominator.node_of("uid-web-0"):
        diagnosis = core.refuse().diagnosis
        attempts += 1
        assert attempts <= 4
        assert diagnosis.again is not (attempted(core).node_name == "node-9")
        assert (f"7 {LATER}" in diagnosis.message) is diagnosis.again
        core.clock.advance(10)  # its backoff

    core = nine_and_one()
    core.add(high())
    core.refuse()
    assert core.cache.nominator.node_of("uid-web-0") == "node-9"


def test_a_lock_that_looks_at_others_tries_evictions_on_some_nodes_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(default_preemption, "_WORK", 30)
    core = nine_and_one()
    template = {
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
            "affinity": LONELY,
        }
    }
    entry = core.reservation(
        resources=None, template=template, priority=10, pendingDeadlineSeconds=60, **PREEMPTING
    )
    for _ in range(4):
        core.step()
        core.clock.advance(1)
    assert core.cache.nominator.node_of(entry.uid) == "node-9"
    assert entry.phase is Phase.PENDING


def test_without_a_plugin_or_a_node_there_is_nothing_to_try() -> None:
    core = Core()
    core.add(high(status={"nominatedNodeName": "node-a"}))
    assert core.refuse().diagnosis.message == "0/0 nodes are available."
    assert core.cache.nominator.node_of("uid-web-0") == ""

    crowd = crowded()
    waiting = high()
    crowd.add(waiting)
    entry = crowd.queue.pop(crowd.clock.now())
    assert entry is not None
    bare = replace(crowd.decider.profile, post_filter=())
    outcome = crowd.decider._cycle.schedule(bare, waiting, crowd.clock.now())
    assert isinstance(outcome, Diagnosis)
    assert "preemption" not in outcome.message


def test_an_owner_need_not_wait_until_the_node_of_its_lock_is_cleared_for_another() -> None:
    core = Core(node("node-a", cpu="4"))
    core.reservation(owner="web-0", resources={"cpu": "2"}, priority=20)
    core.step()
    core.add(resident("low", cpu="2"), high("urgent"))
    core.refuse()
    assert core.cache.nominator.node_of("uid-urgent") == "node-a"

    core.add(pod("web-0", requests={"cpu": "2"}))
    assert core.place().pod.meta.name == "web-0"
    leave(core, "low")
    assert core.place().pod.meta.name == "urgent"
