"""Pods of a PodGroup are placed in one step, or none of them is."""

import pytest

from builders import NAMESPACE, node, pod
from devices import claiming, device_class, device_slice, put, resource_claim
from tidelock.framework.rejections import nodes_by_reason
from tidelock.model.meta import Key
from tidelock.model.pods import assigned_to
from tidelock.model.quantities import CPU
from tidelock.plugins.gang_scheduling import group_awaited
from tidelock.plugins.node_resources_fit import insufficient
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.pod_group_scheduler import unsatisfied_text
from tidelock.scheduler.core.queued_pod import QueueName
from tidelock.scheduler.informers.informers import listers_of
from unit.scheduler.machinery import Core
from unit.scheduler.pod_groups import (
    decide_one_step,
    deliver,
    grouping,
    member,
    members,
    placed,
    pod_group,
    refusals,
)


def test_all_pods_of_a_gang_are_placed_in_one_step() -> None:
    core = grouping(node("node-a", cpu="2"), node("node-b", cpu="2"))
    deliver(core, pod_group(min_count=3))
    core.add(*members(3))

    outcome, results = decide_one_step(core)

    assert isinstance(outcome, AssumedPod)
    assert len(core.cache) == 3
    assert [(each.scheduled, each.reason, each.message) for each in results] == [(True, "Scheduled", "")]
    assert len(placed(core.decide())) == 2


def test_a_gang_that_does_not_fit_keeps_nothing() -> None:
    core = grouping(node(cpu="2"))
    deliver(core, pod_group(min_count=3))
    core.add(*members(3))

    outcomes = core.decide()

    assert placed(outcomes) == []
    assert core.used() == 0
    assert len(core.cache) == 0
    text = f"{unsatisfied_text(3, 2, 0)}; pod train-2 does not fit: 0/1 nodes"
    found = refusals(outcomes)
    assert found["train-0"] == found["train-1"]
    assert found["train-0"].startswith(f"pod group is unschedulable, {text}")
    assert found["train-2"].startswith(nodes_by_reason(1, {insufficient(CPU): 1}))
    core.add(pod("other", requests={"cpu": "2"}))
    assert placed(core.decide()) == ["other"]


def test_a_gang_is_placed_with_the_devices_of_the_claim_that_it_shares() -> None:
    core = grouping(node("node-a", cpu="2"), node("node-b", cpu="8"))
    put(core.decider.objects, device_class(), device_slice("a", "d0"), resource_claim())
    deliver(core, pod_group(min_count=2))
    core.add(*members(2, **claiming("gpu")))

    assert placed(core.decide()) == ["train-0", "train-1"]
    found = [core.cache.get(each.uid) for each in members(2)]
    assert [each and each.node_name for each in found] == ["node-a", "node-a"]


def test_the_condition_says_why_a_gang_does_not_fit() -> None:
    core = grouping(node(cpu="2"))
    deliver(core, pod_group(min_count=3))
    core.add(*members(3))

    _, (found,) = decide_one_step(core)

    assert found.group.key == Key(NAMESPACE, "train")
    assert (found.scheduled, found.reason) == (False, "Unschedulable")
    assert found.message.startswith(unsatisfied_text(3, 2, 0))


def test_trials_end_once_too_few_pods_are_left() -> None:
    core = grouping(node(cpu="1"))
    deliver(core, pod_group(min_count=4))
    core.add(*members(5, requests={"cpu": "2"}))

    outcomes = core.decide()

    assert sum(insufficient(CPU) in text for text in refusals(outcomes).values()) == 5
    assert sum(text.startswith("0/1") for text in refusals(outcomes).values()) == 2
    assert "0 scheduled, 3 remaining" in refusals(outcomes)["train-4"]


@pytest.mark.parametrize("before", ["group", "pods"])
def test_pods_wait_for_their_group_and_for_each_other(before: str) -> None:
    core = grouping(node(cpu="4"))
    if before == "group":
        deliver(core, pod_group(min_count=2))
    core.add(member("train-0"))
    assert core.decide() == []
    assert core.queue.counts()[QueueName.GATED] == 1
    core.add(member("train-1"))
    if before == "pods":
        assert core.decide() == []
        deliver(core, pod_group(min_count=2))
    assert placed(core.decide()) == ["train-0", "train-1"]


def test_a_new_node_brings_back_the_whole_gang() -> None:
    core = grouping(node("node-a", cpu="2"))
    deliver(core, pod_group(min_count=3))
    core.add(*members(3))
    core.decide()

    core.event_handlers.nodes.upsert(None, node("node-b", cpu="1"))
    core.clock.advance(1.0)

    assert sorted(placed(core.decide())) == ["train-0", "train-1", "train-2"]


def test_a_pod_that_fitted_is_woken_for_a_pod_that_did_not() -> None:
    """Only the second pod was refused, but a node for the first one leaves the other node to the second."""
    core = grouping(node("node-a", cpu="1", labels={"disk": "ssd"}))
    deliver(core, pod_group(min_count=2))
    core.add(member("any"), member("ssd", nodeSelector={"disk": "ssd"}))
    assert placed(core.decide()) == []

    core.event_handlers.nodes.upsert(None, node("node-b", cpu="4"))
    core.clock.advance(1.0)

    assert sorted(placed(core.decide())) == ["any", "ssd"]


def test_a_gang_that_was_undone_wakes_nobody() -> None:
    core = grouping(node(cpu="2"))
    core.add(pod("large", requests={"cpu": "8"}))
    core.decide()
    freed, enqueued = core.decider.columns.freed, len(core.enqueued)
    deliver(core, pod_group(min_count=3))
    core.add(*members(3))

    core.decide()

    assert core.decider.columns.freed == freed
    woken = [event for place, event in core.enqueued[enqueued:] if place == "active"]
    assert woken == ["UnscheduledPodAdd"] * 3
    assert core.decider.next_due() != 0.0


def test_pods_beyond_the_needed_ones_follow_alone() -> None:
    core = grouping(node(cpu="3"))
    deliver(core, pod_group(min_count=2))
    core.add(*members(4))

    outcomes = core.decide()

    assert placed(outcomes) == ["train-0", "train-1", "train-2"]
    assert list(refusals(outcomes)) == ["train-3"]
    assert refusals(outcomes)["train-3"].startswith(nodes_by_reason(1, {insufficient(CPU): 1}))


@pytest.mark.parametrize("letters", ["abcd", "bcda", "cdab", "dabc"])
def test_the_first_pod_in_the_queue_is_placed_whatever_its_name(letters: str) -> None:
    core = grouping(node("node-a", cpu="8"))
    deliver(core, pod_group(min_count=3))
    names = [f"train-{letter}" for letter in letters]
    for name in names:
        core.add(member(name))
    assert sorted(placed(core.decide())) == sorted(names)


def test_a_pod_that_joins_a_refused_gang_waits_for_its_backoff() -> None:
    core = grouping(node(cpu="2"))
    deliver(core, pod_group(min_count=3))
    core.add(*members(3))
    core.decide()

    core.add(member("small", requests={"cpu": "0"}), pod("other", requests={"cpu": "0"}))

    joined = core.queue.get("uid-small")
    assert joined is not None
    assert joined.queue is QueueName.BACKOFF
    assert core.place().pod.meta.name == "other"
    core.clock.advance(1.0)
    assert sorted(placed(core.decide())) == ["small", "train-0", "train-1"]


def test_a_group_of_the_basic_policy_is_scheduled_pod_by_pod() -> None:
    core = grouping(node(cpu="1"))
    deliver(core, pod_group(min_count=None))
    core.add(*members(2))

    first, results = decide_one_step(core)

    assert isinstance(first, AssumedPod)
    assert [each.scheduled for each in results] == [True]
    assert list(refusals(core.decide())) == ["train-1"]


def test_pods_of_other_profiles_are_scheduled_alone_and_the_group_is_ignored() -> None:
    core = Core(node(cpu="1"))
    core.add(*members(2))
    outcomes = core.decide()
    assert placed(outcomes) == ["train-0"]
    assert not core.decider.schedules_groups


def test_a_failed_binding_costs_its_pod_alone() -> None:
    core = grouping(node(cpu="3"))
    deliver(core, pod_group(min_count=3))
    core.add(*members(3))
    outcomes = core.decide()
    first, second, third = (each for each in outcomes if isinstance(each, AssumedPod))
    for each in (first, second):
        core.decider.bound(each, core.clock.now())
        core.event_handlers.pods.upsert(each.pod, assigned_to(each.pod, each.node_name))

    core.decider.binding_failed(third, core.clock.now())
    assert core.used() == 2000
    core.clock.advance(1.0)

    assert placed(core.decide()) == [third.pod.meta.name]


def test_pods_wait_again_once_their_group_is_gone() -> None:
    core = grouping(node(cpu="2"))
    deliver(core, pod_group(min_count=3))
    core.add(*members(3))
    core.event_handlers.others["pod_groups"].remove(pod_group(min_count=3))

    assert set(refusals(core.decide()).values()) == {group_awaited("train")}
    deliver(core, pod_group(min_count=2))
    core.clock.advance(1.0)
    assert len(placed(core.decide())) == 2


def test_a_refused_gang_is_gated_once_its_group_is_gone() -> None:
    core = grouping(node("node-a", cpu="2"))
    deliver(core, pod_group(min_count=3))
    core.add(*members(3))
    core.decide()
    core.event_handlers.others["pod_groups"].remove(pod_group(min_count=3))
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="4"))
    core.clock.advance(1.0)

    assert core.decide() == []
    assert core.queue.counts()[QueueName.GATED] == 3


def test_a_gang_that_needs_fewer_pods_than_before_is_tried_again() -> None:
    core = grouping(node(cpu="2"))
    deliver(core, pod_group(min_count=3))
    core.add(*members(3))
    core.decide()

    deliver(core, pod_group(min_count=2, version=2))
    core.clock.advance(1.0)

    assert len(placed(core.decide())) == 2


def test_a_pod_with_a_gate_of_its_own_is_left_out() -> None:
    core = grouping(node(cpu="4"))
    deliver(core, pod_group(min_count=3))
    gated = member("train-2", schedulingGates=[{"name": "quota"}])
    core.add(*members(2), gated)
    assert list(refusals(core.decide())) == ["train-0", "train-1"]

    core.event_handlers.pods.upsert(gated, member("train-2", version=2))
    core.clock.advance(1.0)

    assert len(placed(core.decide())) == 3


def test_a_pod_that_has_finished_counts_no_more() -> None:
    core = grouping(node(cpu="4"))
    deliver(core, pod_group(min_count=2))
    core.add(member("train-0", node_name="node-a"), member("train-1", node_name="node-a"))
    core.event_handlers.pods.upsert(None, member("train-1", node_name="node-a", phase="Succeeded"))
    core.event_handlers.pods.upsert(None, member("train-0", node_name="node-a", phase="Failed"))

    core.add(member("train-2"))

    assert core.decide() == []
    core.add(member("train-3"))
    assert placed(core.decide()) == ["train-2", "train-3"]


def test_pods_that_others_have_bound_count() -> None:
    core = grouping(node(cpu="4"))
    deliver(core, pod_group(min_count=3))
    core.add(*members(2))
    assert core.decide() == []

    core.add(member("bound", node_name="node-a"))

    assert placed(core.decide()) == ["train-0", "train-1"]


def test_a_pod_that_is_being_deleted_counts_no_more() -> None:
    core = grouping(node(cpu="4"))
    deliver(core, pod_group(min_count=2))
    core.add(member("train-0"))
    core.event_handlers.pods.upsert(None, member("train-0", deleted=True))
    core.add(member("train-1"))
    assert core.decide() == []


def test_groups_are_only_read_for_a_profile_with_the_plugin() -> None:
    assert "pod_groups" in listers_of(grouping().decider)
    assert "pod_groups" not in listers_of(Core().decider)


def test_gangs_of_other_namespaces_and_names_are_apart() -> None:
    core = grouping(node(cpu="4"))
    deliver(core, pod_group("one", 2), pod_group("two", 2))
    core.add(*members(1, "one"), *members(1, "two"))
    assert core.decide() == []
    core.add(member("one-1", "one"))
    assert placed(core.decide()) == ["one-0", "one-1"]


def test_owners_of_reservations_give_them_back_if_their_gang_does_not_fit() -> None:
    core = grouping(node(cpu="2"))
    deliver(core, pod_group(min_count=2))
    core.reservation(resources={"cpu": "1"}, owners=[{"pod": {"name": "train-0"}}])
    core.decide()
    assert core.reserved() == 1000

    core.add(member("train-0"), member("train-1", requests={"cpu": "2"}))
    core.decide()

    assert (core.reserved(), core.used()) == (1000, 0)
