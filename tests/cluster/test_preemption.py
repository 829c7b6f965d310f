"""Preemption on a real API server: the victims, the messages about them, and the protected pods.

It needs an API server that deletes victims with their grace period, and stores nominated nodes.
"""

from contextlib import closing
from typing import Any

import pytest

from cluster.api import Manifest
from cluster.budgets import budget
from cluster.disks import Disks, selected_node, using
from cluster.live import Live, Node, Pod, condition
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import wait_for
from tidelock.kube.client import EVENTS

PREEMPTING = {"preemptionPolicy": "PreemptLowerPriority"}


@pytest.fixture
def world(private_world: World, private_operator: OperatorProcess) -> World:
    del private_operator
    private_world.quota()
    return private_world


def of_priority(world: World, value: int, *, policy: str = "PreemptLowerPriority") -> Manifest:
    """Create the PriorityClass of a priority, and return the field of a pod's spec that names it."""
    name = f"{policy.lower()}-{value}"
    world.priority_class(name, value, policy)
    return {"priorityClassName": name}


def high(world: World, cpu: str = "2", name: str = "web-0", value: int = 1000, **spec: Any) -> Pod:
    return world.pod(name, cpu, **of_priority(world, value), **spec)


def low(world: World, node: Node, name: str = "low", cpu: str = "4", value: int = 10, **more: Any) -> Pod:
    return world.bound_pod(node, name, cpu, **of_priority(world, value), **more)


def events(world: World, about: Live, reason: str) -> list[Manifest]:
    """Return the events of a reason about an object."""
    return [
        event
        for event in world.api.get(EVENTS.collection(world.namespace))["items"]
        if event["regarding"].get("uid") == about.uid and event["reason"] == reason
    ]


def notes(world: World, about: Live, reason: str) -> list[str]:
    """Return the notes of the events of a reason about an object."""
    return [event["note"] for event in events(world, about, reason)]


def test_a_victim_is_marked_and_deleted_and_the_pod_gets_its_capacity(
    world: World, private_operator: OperatorProcess
) -> None:
    node = world.node(cpu="4")
    victim = low(world, node)
    pod = high(world)
    victim.until_gone()
    assert pod.until_bound() == node.name

    marks = [condition(seen["status"], "DisruptionTarget") for _, seen in victim.history()]
    (mark, *_) = [each for each in marks if each]
    assert (mark["status"], mark["reason"]) == ("True", "PreemptionByScheduler")
    assert mark["message"] == "tidelock-scheduler: preempting to accommodate a higher priority pod"
    assert mark["observedGeneration"] == 1
    note = f"Preempted by pod {pod.uid} on node {node.name}"
    assert wait_for(lambda: notes(world, victim, "Preempted"), what="the event") == [note]
    (event,) = events(world, victim, "Preempted")
    assert event["reportingController"] == "tidelock-scheduler"
    assert event["related"]["uid"] == pod.uid
    metrics = private_operator.metrics()
    assert metrics["scheduler_preemption_attempts_total"] >= 1
    assert metrics["scheduler_preemption_victims_count"] >= 1


def test_a_nominated_pod_waits_for_victims_that_terminate_slowly(world: World) -> None:
    node = world.node(cpu="4")
    victim = low(world, node, terminationGracePeriodSeconds=3600)
    pod = high(world)
    pod.until(lambda seen: seen["status"].get("nominatedNodeName") == node.name, "be nominated")
    victim.until(lambda seen: "deletionTimestamp" in seen["metadata"], "be asked to end")

    rival = high(world, name="rival", cpu="3")
    rival.until_refused("preemption: 0/")
    victim.delete()
    assert pod.until_bound() == node.name


def test_a_victim_that_waits_for_its_volume_goes_back_to_the_queue(world: World) -> None:
    with closing(Disks(world)) as disks:
        disks.storage_class("fast", ready=False)
        node = disks.node("a")
        claim = disks.claim(kind="fast")
        victim = world.pod("low", "4", **of_priority(world, 10), **using(claim))
        assert selected_node(claim) == node.name

        assert high(world, "4").until_bound() == node.name
        victim.until_refused("Insufficient cpu")
        assert all("deletionTimestamp" not in seen["metadata"] for _, seen in victim.history())


def test_no_more_pods_are_evicted_than_needed(world: World) -> None:
    node = world.node(cpu="4")
    dear, cheap = low(world, node, "dear", "2", value=20), low(world, node, "cheap", "2")
    assert high(world).until_bound() == node.name
    cheap.until_gone()
    assert dear.read() is not None


def test_a_pod_with_an_exhausted_disruption_budget_is_not_preempted(
    world: World, private_operator: OperatorProcess
) -> None:
    guarded, other = world.node("a", cpu="4"), world.node("b", cpu="4")
    protected = low(world, guarded, "protected", metadata={"labels": {"app": "db"}})
    victim = low(world, other, value=20)
    budget(world, 0, app="db")
    private_operator.kill()  # a starting operator reads all budgets before its first decision
    private_operator.start()
    private_operator.ready()
    assert high(world, "4").until_bound() == other.name
    victim.until_gone()
    assert protected.read() is not None


def test_equal_priority_and_the_policy_never_preempt_no_pod(world: World) -> None:
    node = world.node(cpu="4")
    resident = low(world, node)
    world.pod("equal", "2", **of_priority(world, 10)).until_refused(
        "No preemption victims found for incoming pod"
    )
    never = world.pod("never", "2", **of_priority(world, 1000, policy="Never"))
    never.until_refused("preemption: not eligible due to preemptionPolicy=Never.")
    assert resident.read() is not None


def test_a_pod_preempts_a_reservation_of_lower_priority_and_none_of_equal_priority(world: World) -> None:
    node = world.node(cpu="4")
    equal = world.active_reservation("db-0", "2", node, priority=1000)
    lower = world.active_reservation("db-1", "2", node, priority=999)
    high(world, "3", "large").until_refused("Insufficient cpu beside reservations")
    assert [equal.status()["phase"], lower.status()["phase"]] == ["Active", "Active"]

    pod = high(world, "2")
    assert pod.until_bound() == node.name
    lost = lower.until_condition("Active", "False", "Preempted")
    assert lost["message"] == f"preempted on {node.name} by pod {world.namespace}/web-0"
    assert equal.phases() == ["Active"]
    assert wait_for(lambda: notes(world, lower, "Preempted"), what="the event") == [lost["message"]]


def test_no_pod_is_preempted_on_a_node_without_the_required_reservation(world: World) -> None:
    node = world.node(cpu="4")
    resident = low(world, node, cpu="1")
    world.active_reservation(cpu="1", node=world.node("b", cpu="1"))
    metadata = {
        "name": "web-0",
        "namespace": world.namespace,
        "annotations": {"tidelock.dev/require-reservation": "true"},
    }
    pod = world.pod(cpu="2", metadata=metadata, **of_priority(world, 1000))
    pod.until_refused("Preemption is not helpful for scheduling")
    assert resident.read() is not None


def test_a_pending_reservation_preempts_only_if_its_policy_allows_it(world: World) -> None:
    node = world.node(cpu="4")
    victim = low(world, node)
    meek = world.reservation("db-0", "2", node, priority=1000)
    meek.until_condition("Active", "False", "InsufficientCapacity")
    assert victim.read() is not None

    bold = world.reservation("web-0", "2", node, priority=1000, **PREEMPTING)
    bold.until_phase("Active")
    victim.until_gone()
    note = f"Preempted by reservation {bold.uid} on node {node.name}"
    assert wait_for(lambda: notes(world, victim, "Preempted"), what="the event") == [note]
    assert high(world, "2", value=10).until_bound() == node.name


def test_a_pending_reservation_preempts_nothing_of_equal_priority(world: World) -> None:
    node = world.node(cpu="4")
    resident = low(world, node, cpu="2")
    reservation = world.active_reservation("db-0", "2", node, priority=10)
    waiting = world.reservation("web-0", "2", node, priority=10, **PREEMPTING)
    waiting.until_condition("Active", "False", "InsufficientCapacity")
    assert "No preemption victims found for incoming pod" in condition(waiting.status(), "Active")["message"]
    assert resident.read() is not None
    assert reservation.phases() == ["Active"]
