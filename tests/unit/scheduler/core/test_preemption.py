"""Preemption by pods and reservations, and its victims."""

from dataclasses import replace
from typing import Any

import pytest

from builders import node, pod
from tidelock.framework.rejections import nodes_by_reason, shortage_text
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU
from tidelock.plugins.default_preemption import plugin as default_preemption
from tidelock.plugins.default_preemption.plugin import (
    PREEMPTION_LATER,
    PREEMPTION_NOT_HELPFUL,
    VICTIM_TERMINATING,
)
from tidelock.plugins.default_preemption.trial import NO_VICTIMS
from tidelock.plugins.node_resources_fit import insufficient
from tidelock.plugins.reservation.plugin import insufficient_beside
from tidelock.scheduler.core.diagnosis import NO_NODES, Diagnosis, beside_text
from tidelock.scheduler.core.preemption import PreemptionAttempt
from unit.scheduler.machinery import Core

PREEMPTING = {"preemptionPolicy": "PreemptLowerPriority"}


def crowded(*names: str) -> Core:
    """Build nodes of 4 CPU, each with a pod of priority 0 that uses all of it."""
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
    """Remove the victims, and let the backoff of waiting pods end."""
    for name in names:
        placed = core.cache.get(f"uid-{name}")
        assert placed is not None
        core.event_handlers.pods.remove(placed.pod)
    core.clock.advance(10)


def test_a_pod_is_nominated_and_gets_the_capacity_of_its_victims() -> None:
    core = crowded()
    core.add(high())

    diagnosis = core.refuse().diagnosis
    attempt = attempted(core)
    assert (attempt.node_name, [each.meta.name for each in attempt.victims]) == ("node-a", ["low-node-a"])
    assert (attempt.kind, attempt.scheduler_name, attempt.chosen) == ("pod", "tidelock-scheduler", 1)
    assert core.cache.nominator.node_of("uid-web-0") == "node-a"
    found = "preemption: found a potential placement for pod on node node-a, preempting 1 victims"
    assert diagnosis.message.endswith(found)

    leave(core, "low-node-a")
    assert core.place().node_name == "node-a"
    assert list(core.cache.nominator.nodes) == []


def test_a_pod_that_is_retried_in_the_meantime_waits_for_its_victims() -> None:
    core = crowded("node-a", "node-b")
    core.add(high())
    core.refuse()
    chosen = attempted(core).node_name
    core.clock.advance(10)
    core.queue.activate("uid-web-0", core.clock.now())

    diagnosis = core.refuse().diagnosis

    assert VICTIM_TERMINATING in diagnosis.message
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


def test_capacity_that_is_freed_for_a_pod_is_left_to_it_by_pods_of_at_most_its_priority() -> None:
    core = crowded()
    core.add(high("web-0", cpu="3"))
    core.refuse()
    leave(core, "low-node-a")
    core.queue.remove("uid-web-0")  # keeps the pod from being tried
    core.add(high("web-1", cpu="2"))

    refused = core.refuse()
    assert (
        f"{nodes_by_reason(1, {insufficient(CPU): 1})} "
        f"node-a: {shortage_text('cpu', '2', '1')}, {beside_text('shop/web-0')}." in refused.diagnosis.message
    )

    core.add(high("web-2", cpu="2", priority=11))
    assert core.place().pod.meta.name == "web-2"


def test_a_label_change_of_a_nominated_pod_ends_its_conflict_with_anti_affinity() -> None:
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


def test_the_node_of_a_nomination_is_tried_first() -> None:
    core = Core(node("node-a", cpu="64"), node("node-b", cpu="4"))
    core.add(high(status={"nominatedNodeName": "node-b"}))
    assert core.place().node_name == "node-b"

    core.add(high("web-1", cpu="3", status={"nominatedNodeName": "node-b"}))
    assert core.place().node_name == "node-a"


def test_a_nomination_for_a_node_where_no_eviction_helps_is_removed() -> None:
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

    assert [each.meta.name for each in attempt.cleared] == ["web-0"]
    assert (attempt.victims, attempt.chosen) == ((), 0), "the victim is terminating already"
    assert [each.meta.name for each in core.cache.nominator.on("node-a")] == ["web-1"]


def test_the_deletion_of_a_nominated_pod_wakes_others() -> None:
    core = crowded()
    core.add(high("web-0", cpu="4"))
    core.refuse()
    leave(core, "low-node-a")
    core.queue.remove("uid-web-0")
    core.add(high("web-1"))
    core.refuse()

    core.event_handlers.pods.remove(high("web-0"))
    assert core.place().pod.meta.name == "web-1"


def test_nominations_of_pods_of_other_schedulers_are_ignored() -> None:
    core = Core(node("node-a"))
    core.add(high(scheduler="default-scheduler", status={"nominatedNodeName": "node-a"}))
    assert list(core.cache.nominator.nodes) == []


def test_a_nomination_ends_when_its_pod_is_assumed_and_a_late_event_does_not_restore_it() -> None:
    core = Core(node("node-a"))
    core.add(high(status={"nominatedNodeName": "node-a"}))
    core.place()
    core.add(high(status={"nominatedNodeName": "node-a"}, labels={"new": "yes"}))
    assert list(core.cache.nominator.nodes) == []


# Reservations as victims.


def test_a_reservation_of_lower_priority_is_preempted_and_waits_again() -> None:
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
    assert entry.reason == reasons.PREEMPTED, "the cause of the loss is not overwritten"


def test_a_reservation_of_equal_priority_is_never_preempted() -> None:
    core = Core(node("node-a", cpu="4"))
    entry = core.reservation(resources={"cpu": "4"}, owner="db-0", priority=10)
    core.step()
    core.add(high())

    assert f"1 {NO_VICTIMS}" in core.refuse().diagnosis.message
    assert entry.phase is Phase.ACTIVE


def test_a_pod_is_retried_when_a_reservation_that_kept_evictions_from_helping_is_removed() -> None:
    """Regression: a pod was in its way before any reservation was.

    The removal of a reservation did not wake it, so it waited for minutes.
    """
    core = Core(node("node-a", cpu="4"))
    core.add(resident("low", cpu="2"))
    entry = core.reservation(resources={"cpu": "2"}, owner="nobody", priority=10)
    core.step()
    core.add(high(cpu="4"))
    assert core.refuse().diagnosis.message.endswith(
        f"preemption: {nodes_by_reason(1, {insufficient_beside(CPU): 1})}"
    )
    attempted(core)

    core.event_handlers.reservations.remove(entry.reservation)
    core.clock.advance(10)
    core.refuse()
    assert [each.meta.name for each in attempted(core).victims] == ["low"]


def test_the_removal_of_a_reservation_does_not_wake_a_pod_that_no_reservation_blocks() -> None:
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


def test_no_eviction_helps_a_pod_with_its_reservation_on_another_node() -> None:
    core = Core(node("node-a", cpu="64"), node("node-b", cpu="1"))
    core.add(resident("low", cpu="1"))
    core.reservation(resources={"cpu": "1"}, nodeName="node-b", owner="web-0")
    core.step()
    core.add(high(annotations={"tidelock.dev/require-reservation": "true"}))

    assert core.refuse().diagnosis.message.endswith(
        f"preemption: {nodes_by_reason(2, {PREEMPTION_NOT_HELPFUL: 2})}"
    )
    assert attempted(core).node_name == ""


# Reservations that preempt.


def test_a_reservation_evicts_no_pod_by_default() -> None:
    core = crowded()
    entry = core.reservation(resources={"cpu": "2"}, priority=10)
    core.step()

    assert core.take_preemptions() == []
    assert (entry.phase, "preemption" in entry.message) == (Phase.PENDING, False)


def test_a_reservation_that_may_preempt_is_active_once_the_capacity_is_free() -> None:
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


def test_capacity_that_is_freed_for_a_reservation_is_only_used_by_its_owner() -> None:
    core = crowded()
    core.reservation(resources={"cpu": "4"}, priority=10, owner="web-0", **PREEMPTING)
    core.step()
    core.cache.remove("uid-low-node-a")  # the capacity is free, and no step has run yet
    core.decider.reservation_scheduler._freed = core.decider.columns.freed
    core.ledger.waiting_reservations.untried.clear()

    core.add(pod("thief", requests={"cpu": "2"}, priority=10))
    assert insufficient(CPU) in core.refuse().diagnosis.message
    core.add(pod("web-0", requests={"cpu": "2"}))
    assert core.place().pod.meta.name == "web-0"


def test_a_reservation_only_preempts_reservations_of_lower_priority() -> None:
    core = Core(node("node-a", cpu="4"))
    low = core.reservation("low", resources={"cpu": "2"}, owner="db-0", priority=1)
    equal = core.reservation("equal", resources={"cpu": "2"}, owner="db-1", priority=10)
    core.step()
    new = core.reservation("new", resources={"cpu": "2"}, owner="web-0", priority=10, **PREEMPTING)
    core.step()
    core.step()

    assert (new.phase, low.phase, equal.phase) == (Phase.ACTIVE, Phase.PENDING, Phase.ACTIVE)
    assert low.message == "preempted on node-a by reservation shop/new"


def test_a_reservation_with_a_deadline_of_zero_evicts_no_pod() -> None:
    core = crowded()
    entry = core.reservation(resources={"cpu": "2"}, priority=10, pendingDeadlineSeconds=0, **PREEMPTING)
    core.step()

    assert core.take_preemptions() == []
    assert entry.phase is Phase.REJECTED


def test_a_nomination_ends_with_its_reservation() -> None:
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


def test_two_reservations_that_are_nominated_for_a_node_come_to_rest() -> None:
    """Regression: each attempt of the first ended the nomination of the second, which had both retried."""
    core = Core(node("node-a", cpu="4"))
    core.add(resident("leaving", deleted=True))
    for name, priority in (("first", 5), ("second", 1)):
        core.reservation(name, owner="nobody", priority=priority, **PREEMPTING)
    core.decide()
    core.add(small := resident("small", cpu="0"))
    core.event_handlers.pods.remove(small)
    core.take_preemptions()
    for _ in range(2):
        core.step()

    assert [attempt.pod.meta.name for attempt in core.take_preemptions()] == ["first", "second"]
    assert [core.cache.nominator.node_of(f"uid-{name}") for name in ("first", "second")] == ["node-a"] * 2


def test_a_reservation_that_may_no_longer_preempt_loses_its_nomination() -> None:
    core = crowded()
    core.reservation(resources={"cpu": "2"}, priority=10, **PREEMPTING)
    core.step()
    core.reservation(resources={"cpu": "2"}, priority=10, generation=2, version=2)
    core.step()
    assert list(core.cache.nominator.nodes) == []


def test_a_nominated_reservation_with_a_lowered_priority_lets_others_try() -> None:
    """Regression: while its victim terminated, a pod that was above it by then had to wait too."""
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


def test_reservations_that_differ_only_in_their_preemption_policy_are_not_refused_together() -> None:
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


def nine_and_one() -> Core:
    """Build ten nodes that are full, where evictions help only on the last one."""
    names = [f"node-{number}" for number in range(10)]
    core = Core(*(node(name, cpu="4") for name in names))
    core.add(*(resident(f"on-{name}", name, priority=0 if name == "node-9" else 20) for name in names))
    return core


def test_a_pod_with_anti_affinity_tries_evictions_on_a_few_nodes_at_a_time(
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
        assert (f"7 {PREEMPTION_LATER}" in diagnosis.message) is diagnosis.again
        core.clock.advance(10)  # its backoff

    core = nine_and_one()
    core.add(high())
    core.refuse()
    assert core.cache.nominator.node_of("uid-web-0") == "node-9"


def test_a_reservation_with_anti_affinity_tries_evictions_on_a_few_nodes_at_a_time(
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


def test_without_a_plugin_or_a_node_preemption_is_not_tried() -> None:
    core = Core()
    core.add(high(status={"nominatedNodeName": "node-a"}))
    assert core.refuse().diagnosis.message == NO_NODES
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


def test_an_owner_is_placed_in_its_reservation_while_the_node_is_freed_for_another_pod() -> None:
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
