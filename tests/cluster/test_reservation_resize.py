"""Edits of a reservation: a smaller size counts at once, and a larger one needs a new admission.

It needs an API server that counts a generation for each edit of a spec, and none for a status.
"""

import pytest

from cluster.api import RefusedError
from cluster.live import condition
from cluster.world import World
from devcluster import wait_for


def test_shrinking_frees_the_difference_at_once(world: World) -> None:
    node = world.node(cpu="4")
    reservation = world.active_reservation(cpu="4", node=node)
    waiting = world.reservation("waiting", "3", node)
    waiting.until_phase("Pending")
    reservation.edit(resources={"cpu": "1"})
    waiting.until_phase("Active")
    status = reservation.until(lambda found: found["status"]["resources"] == {"cpu": "1"}, "shrink")["status"]
    assert (status["phase"], status["observedGeneration"]) == ("Active", 2)
    assert reservation.phases() == ["Active"]


def test_growing_uses_free_capacity(world: World) -> None:
    node = world.node(cpu="4")
    reservation = world.active_reservation(cpu="1", node=node)
    before = reservation.status()
    reservation.edit(resources={"cpu": "4"})
    status = reservation.until(lambda found: found["status"]["resources"] == {"cpu": "4"}, "grow")["status"]
    assert status["expiresAt"] == before["expiresAt"]
    assert not condition(status, "Reconciling")
    world.pod("stranger").until_refused(f"4 reserved by {world.namespace}/web-0")


def test_growing_beyond_the_free_capacity_keeps_the_old_size_until_more_is_free(world: World) -> None:
    node = world.node(cpu="4")
    resident = world.bound_pod(node, cpu="2")
    reservation = world.active_reservation(cpu="1", node=node)
    reservation.edit(resources={"cpu": "3"})
    pending = reservation.until_condition("Reconciling", "True", "ResizePending")
    assert "cpu 3 needed, 2 free" in pending["message"]
    status = reservation.status()
    assert (status["phase"], status["resources"]) == ("Active", {"cpu": "1"})
    assert condition(status, "Active")["status"] == condition(status, "Ready")["status"] == "True"
    world.pod("stranger", cpu="2").until_refused(f"1 reserved by {world.namespace}/web-0")

    resident.delete()
    reservation.until(lambda found: found["status"]["resources"] == {"cpu": "3"}, "grow")
    assert not condition(reservation.status(), "Reconciling")


def test_another_edit_cancels_a_pending_growth(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="1", node=node)
    reservation.edit(resources={"cpu": "8"})
    reservation.until_condition("Reconciling", "True", "ResizePending")
    reservation.edit(resources={"cpu": "1"})
    reservation.until(lambda found: not condition(found["status"], "Reconciling"), "be content")
    assert reservation.status()["phase"] == "Active"


def test_one_resource_shrinks_at_once_while_another_waits_to_grow(world: World) -> None:
    node = world.node(cpu="4", extended={"example.org/gpu": "1"})
    reservation = world.active_reservation(cpu="3", node=node)
    world.active_reservation("other", node=node, resources={"example.org/gpu": "1"})
    reservation.edit(resources={"cpu": "1", "example.org/gpu": "1"})
    reservation.until_condition("Reconciling", "True", "ResizePending")
    assert reservation.status()["resources"] == {"cpu": "1"}
    world.active_reservation("freed", "3", node)


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"owners": [{"pod": {"name": "other"}}]}, "owners"), ({"nodeName": "other"}, "nodeName")],
    ids=["owners", "nodeName"],
)
def test_owners_and_node_of_an_active_reservation_are_immutable(
    world: World, changes: dict[str, object], field: str
) -> None:
    reservation = world.active_reservation(node=world.node())
    with pytest.raises(RefusedError, match=f"{field} is immutable while the reservation is Active"):
        reservation.edit(**changes)


def test_owners_and_node_of_a_waiting_reservation_can_change(world: World) -> None:
    full, free = world.node("full", cpu="1"), world.node("free")
    reservation = world.reservation(cpu="2", node=full)
    reservation.until_condition("Active", "False", "InsufficientCapacity")
    reservation.edit(nodeName=free.name, owners=[{"pod": {"name": "other"}}])
    assert reservation.until_phase("Active")["nodeName"] == free.name
    assert world.pod("other", cpu="2").until_bound() == free.name
    reservation.until_gone()


def test_an_edited_reservation_tries_again_after_its_rejection(world: World) -> None:
    node = world.node(cpu="2")
    world.active_reservation("known", "1", node)
    reservation = world.reservation(cpu="2", node=node, pendingDeadlineSeconds=0)
    reservation.until_phase("Rejected")
    reservation.edit(resources={"cpu": "1"})
    reservation.until_phase("Active")
    wait_for(lambda: not condition(reservation.status(), "Stalled"), what="the lock to be well")
