"""Reservations on nodes that change, on a cluster without kubelets.

It needs an API server that gives a node of the same name another UID.
"""

import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from cluster.api import Manifest
from cluster.live import Node, condition
from cluster.operator_process import OperatorProcess
from cluster.world import World

EVERYTHING = [{"operator": "Exists"}]


@pytest.fixture(scope="module", autouse=True)
def operator_that_moves_reservations_soon(
    private_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    directory = tmp_path_factory.mktemp("operator")
    with OperatorProcess(private_kubeconfig, directory, "--move-after-seconds=1"):
        yield


@pytest.fixture
def world(private_world: World) -> World:
    return private_world


def hold_to_account(world: World, *nodes: Node) -> None:
    """Check that pods and reservations do not exceed the allocatable amount of any of these nodes."""
    for node in nodes:
        allocatable = world.api.get(node.path)["status"]["allocatable"]["cpu"]
        assert world.taken_cpu(node) <= Decimal(allocatable)


def preferring(node: Node) -> Manifest:
    """Build an affinity that prefers a node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node.name]}
    term = {"weight": 100, "preference": {"matchFields": [field]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_a_reservation_is_lost_with_its_node(world: World) -> None:
    node = world.node()
    reservation = world.active_reservation(node=node)
    node.delete()
    status = reservation.until_phase("Lost")
    assert condition(status, "Active")["reason"] == "NodeLost"
    assert condition(status, "Stalled")["status"] == "True"
    assert node.uid in condition(status, "Active")["message"]


def test_a_node_that_is_recreated_under_its_name_is_another_one(world: World) -> None:
    node = world.node()
    reservation = world.active_reservation(cpu="4", node=node)
    node.delete()
    again = world.node()
    reservation.until_phase("Lost")
    assert world.active_reservation("next", "4", again).status()["nodeUID"] == again.uid
    assert reservation.status()["nodeUID"] == node.uid


def test_a_reservation_for_any_node_is_placed_again_when_its_node_is_deleted(world: World) -> None:
    nodes = {node.name: node for node in (world.node("a"), world.node("b"))}
    reservation = world.reservation()
    first = reservation.until_phase("Active")
    nodes.pop(first["nodeName"]).delete()
    (left,) = nodes
    status = reservation.until(lambda found: found["status"].get("nodeName") == left, "be placed again")[
        "status"
    ]
    assert status["phase"] == "Active"
    assert status["expiresAt"] == first["expiresAt"]


def test_a_reservation_for_any_node_waits_when_its_node_was_the_only_one(world: World) -> None:
    node = world.node()
    reservation = world.active_reservation()
    node.delete()
    status = reservation.until_phase("Pending")
    assert "nodeName" not in status
    again = world.node()
    assert reservation.until_phase("Active")["nodeUID"] == again.uid


def test_a_reservation_on_a_cordoned_node_is_held_and_not_ready(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="2", node=node)
    node.cordon()
    reservation.until_condition("Ready", "False", "NodeCordoned")
    assert condition(reservation.status(), "Active")["status"] == "True"
    world.pod("stranger", cpu="1", tolerations=EVERYTHING).until_refused("reserved by")

    node.cordon(on=False)
    reservation.until_condition("Ready", "True", "Held")


def test_a_reservation_on_a_node_that_is_not_ready_is_held_and_not_ready(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="2", node=node)
    node.set_ready("False")
    reservation.until_condition("Ready", "False", "NodeNotReady")
    assert condition(reservation.status(), "Active")["status"] == "True"
    world.pod("stranger", cpu="1").until_refused("reserved by")

    node.set_ready("True")
    reservation.until_condition("Ready", "True", "Held")


@pytest.mark.parametrize("trouble", ["cordoned", "not ready"])
def test_a_reservation_for_any_node_moves_after_the_grace_time(world: World, trouble: str) -> None:
    nodes = {node.name: node for node in (world.node("a"), world.node("b"))}
    reservation = world.reservation()
    first = reservation.until_phase("Active")
    left = nodes.pop(first["nodeName"])
    (other,) = nodes.values()
    if trouble == "cordoned":
        left.cordon()
    else:
        left.merge({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}})
        left.set_ready("False")
    reservation.until_condition("Active", "True", "Moved")
    status = reservation.status()
    assert (status["nodeName"], status["expiresAt"]) == (other.name, first["expiresAt"])
    assert condition(status, "Ready")["status"] == "True"
    assert reservation.phases() == ["Active"]
    hold_to_account(world, left, other)


def test_a_reservation_that_names_its_node_does_not_move(world: World) -> None:
    node = world.node("a")
    world.node("b")
    named = world.active_reservation("named", node=node)
    free = world.active_reservation("free", affinity=preferring(node))
    found = free.status()
    assert found["nodeName"] == node.name, (found, node.read())
    node.cordon()
    free.until_condition("Active", "True", "Moved")
    assert named.status()["nodeName"] == node.name
    named.until_condition("Ready", "False", "NodeCordoned")


def test_a_reservation_without_another_node_to_move_to_stays(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="2")
    node.cordon()
    reservation.until_condition("Ready", "False", "NodeCordoned")
    time.sleep(1.2)  # past the grace time
    world.pod("stranger", cpu="1", tolerations=EVERYTHING).until_refused("reserved by")
    assert (reservation.status()["phase"], reservation.status()["nodeName"]) == ("Active", node.name)
    late = world.node("late")
    reservation.until_condition("Active", "True", "Moved")
    assert reservation.status()["nodeName"] == late.name


def test_a_shrinking_node_displaces_the_lowest_priority_first_and_then_the_newest(world: World) -> None:
    world.quota()
    node = world.node(cpu="4")
    vital = world.active_reservation("vital", "1", node, priority=5)
    older = world.active_reservation("older", "1", node)
    newer = world.active_reservation("newer", "1", node)
    least = world.active_reservation("least", "1", node, priority=-5)

    node.resize(cpu="3")
    lost = least.until_condition("Active", "False", "Overcommitted")
    assert f"{node.name} is overcommitted by cpu 1" in lost["message"]
    node.resize(cpu="2")
    newer.until_condition("Active", "False", "Overcommitted")
    assert [reservation.status()["phase"] for reservation in (vital, older, newer, least)] == [
        "Active",
        "Active",
        "Pending",
        "Pending",
    ]
    hold_to_account(world, node)

    node.resize(cpu="4")
    for reservation in (newer, least):
        reservation.until_phase("Active")
    hold_to_account(world, node)


def test_a_shrinking_node_never_displaces_pods(world: World) -> None:
    node = world.node(cpu="4")
    resident = world.bound_pod(node, cpu="2")
    reservation = world.active_reservation(cpu="2", node=node)
    node.resize(cpu="1")
    reservation.until_condition("Active", "False", "Overcommitted")
    assert resident.read() is not None


def test_a_displaced_reservation_keeps_its_end(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="2", node=node)
    end = reservation.status()["expiresAt"]
    node.resize(cpu="1")
    reservation.until_phase("Pending")
    assert reservation.status()["expiresAt"] == end
    node.resize(cpu="2")
    assert reservation.until_phase("Active")["expiresAt"] == end
