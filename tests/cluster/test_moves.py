"""Reservations for which pods are moved, on a real API server with real PodDisruptionBudgets.

It needs an API server that counts evictions against PodDisruptionBudgets.
"""

from typing import Any

import pytest

from cluster.api import Manifest, RefusedError
from cluster.budgets import allow, budget
from cluster.live import Lock, Node, Pod, condition
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import wait_for
from tidelock.scheduler.defrag.movable import MOVABLE

_WEB = {"app": "web"}
_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}


@pytest.fixture
def world(private_world: World, private_operator: OperatorProcess) -> World:
    del private_operator
    return private_world


class Fragmented:
    """Two nodes of 4 cores, each with two pods of 1 core that a ReplicaSet replaces."""

    def __init__(self, world: World, **annotations: str) -> None:
        self.world = world
        self.nodes = [world.node(name) for name in "ab"]
        self.pods: dict[str, Pod] = {}
        for node, place in zip(self.nodes, "ab", strict=True):
            for number in range(2):
                name = f"{place}-{number}"
                metadata = {"labels": _WEB, "annotations": annotations, "ownerReferences": [_OWNER]}
                self.pods[name] = self._bound(name, node, metadata)

    def reservation(self, name: str = "large-0", cpu: str = "3", **may_move: Any) -> Lock:
        return self.world.reservation(
            name, cpu, mayMove=may_move, pendingDeadlineSeconds=3600, retention="Retain"
        )

    def evicted(self) -> list[str]:
        """Return the names of the pods that are gone or being deleted."""
        found = {name: pod.read() for name, pod in self.pods.items()}
        return sorted(n for n, pod in found.items() if pod is None or "deletionTimestamp" in pod["metadata"])

    def until_evicted(self, *names: str) -> None:
        wait_for(self.evicted, until=lambda found: found == sorted(names), what=f"eviction of {names}")

    def end(self, name: str) -> None:
        """End a pod as its kubelet would, and create another one as its ReplicaSet would."""
        self.pods.pop(name).delete()
        metadata = {"labels": _WEB, "ownerReferences": [_OWNER]}
        self.pods[f"{name}-again"] = self.world.pod(f"{name}-again", metadata=metadata)

    def _bound(self, name: str, node: Node, metadata: Manifest) -> Pod:
        pod = self.world.bound_pod(node, name, metadata=metadata, terminationGracePeriodSeconds=3600)
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        pod.merge({"status": running}, "status")  # budgets count running pods
        return pod


def plan_of(reservation: Lock) -> Manifest:
    """Wait until a reservation has a migration plan, and return it."""
    found = reservation.until(lambda found: found["status"].get("plan"), "have a plan")
    plan: Manifest = found["status"]["plan"]
    return plan


def approve(reservation: Lock, token: str) -> None:
    reservation.edit(mayMove={"approve": token})


def test_an_approved_plan_moves_its_pods_and_the_reservation_gets_the_capacity(world: World) -> None:
    scene = Fragmented(world)
    reservation = scene.reservation()
    plan = plan_of(reservation)
    (move,) = plan["evictions"]
    source, target = scene.nodes
    assert (plan["nodeName"], move["name"], move["to"]) == (source.name, "a-0", target.name)
    told = reservation.until_condition("MovePlanned", "True", "MovePlanned")
    assert plan["token"] in told["message"]
    approve(reservation, "another")
    reservation.until_condition("MovePlanned", "True", "TokenMismatch")
    assert scene.evicted() == []

    approve(reservation, plan["token"])
    scene.until_evicted("a-0")
    reservation.until_condition("MovePlanned", "True", "Moving")
    rival = world.pod("rival", cpu="3")
    ending = scene.pods["a-0"].until(
        lambda found: "deletionTimestamp" in found["metadata"], "be asked to end"
    )
    mark = condition(ending["status"], "DisruptionTarget")
    assert mark["reason"] == "EvictionByEvictionAPI"
    scene.end("a-0")
    status = reservation.until_phase("Active")
    assert (status["nodeName"], status["moved"]) == (source.name, 1)
    assert "plan" not in status
    assert scene.pods["a-0-again"].until_bound() == target.name
    rival.until_refused("Insufficient cpu")
    events = {"MovePlanned", "Moving", "Admitted"}
    wait_for(lambda: world.event_reasons(reservation), until=events.issubset, what="the lock's events")


def test_no_plan_exceeds_a_disruption_budget_and_evictions_use_it_up(world: World) -> None:
    guard = budget(world, 0, **_WEB)
    scene = Fragmented(world)
    reservation = scene.reservation(automatically=True, maxPods=1)
    reservation.until_condition("MovePlanned", "False", "NoMoves")
    assert scene.evicted() == []
    allow(guard, 1)
    scene.until_evicted("a-0")
    found = guard.read()
    assert found is not None
    assert found["status"]["disruptionsAllowed"] == 0
    scene.end("a-0")
    reservation.until_phase("Active")
    other = scene.reservation("large-1", automatically=True)
    other.until_condition("MovePlanned", "False", "NoMoves")
    assert scene.evicted() == []


def test_pods_that_are_annotated_as_not_movable_stay(world: World) -> None:
    scene = Fragmented(world, **{MOVABLE: "false"})
    reservation = scene.reservation(automatically=True)
    reservation.until_condition("MovePlanned", "False", "NoMoves")
    assert scene.evicted() == []
    assert "Moving" not in world.event_reasons(reservation)


def test_a_plan_under_way_continues_after_a_crash(world: World, private_operator: OperatorProcess) -> None:
    guard = budget(world, 1, **_WEB)
    scene = Fragmented(world)
    reservation = scene.reservation(cpu="4", maxPods=2)
    reservation.until_condition("MovePlanned", "False", "NoMoves")
    allow(guard, 2)
    plan = plan_of(reservation)
    assert sorted(each["name"] for each in plan["evictions"]) == ["a-0", "a-1"]
    approve(reservation, plan["token"])
    scene.until_evicted("a-0", "a-1")
    scene.end("a-0")
    private_operator.kill()
    scene.end("a-1")
    private_operator.start()
    private_operator.ready()
    status = reservation.until_phase("Active")
    assert (status["nodeName"], status["moved"]) == (scene.nodes[0].name, 2)


def test_may_move_excludes_preemption_a_deadline_of_zero_and_more_than_8_pods(world: World) -> None:
    with pytest.raises(RefusedError, match="preemptionPolicy is refused beside mayMove"):
        world.reservation(mayMove={}, preemptionPolicy="PreemptLowerPriority")
    with pytest.raises(RefusedError, match="waits until pods have moved"):
        world.reservation(mayMove={}, pendingDeadlineSeconds=0)
    with pytest.raises(RefusedError, match="less than or equal to 8"):
        world.reservation(mayMove={"maxPods": 9})
