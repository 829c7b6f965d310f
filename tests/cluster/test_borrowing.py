"""Borrowable reservations on a real API server: borrowing, eviction, and the messages about both.

It needs an API server that evicts pods through the Eviction API.
"""

import pytest

from cluster.api import Manifest, RefusedError
from cluster.live import Pod, condition
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import wait_for
from tidelock.model.pods import BORROWS


@pytest.fixture
def world(private_world: World, private_operator: OperatorProcess) -> World:
    del private_operator
    return private_world


def borrower(world: World, name: str = "batch-0", cpu: str = "2", **spec: object) -> Pod:
    return world.pod(name, cpu, metadata={"annotations": {BORROWS: "true"}}, **spec)


def ending(pod: Pod) -> Manifest:
    """Wait until a pod is being deleted, and return it."""
    return pod.until(lambda found: "deletionTimestamp" in found["metadata"], "be asked to end")


def test_a_borrower_uses_reserved_capacity_until_the_owner_comes(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="2", node=node, borrowable=True, retention="Retain")
    stranger = world.pod("stranger", cpu="1")
    stranger.until_refused("1 Insufficient cpu beside reservations")
    batch = borrower(world, terminationGracePeriodSeconds=3600)
    assert batch.until_bound() == node.name
    reservation.until_condition("Lent", "True", "Lent")
    assert (reservation.status()["lent"], reservation.status()["borrowers"]) == ({"cpu": "2"}, 1)

    owner = world.pod(cpu="2")
    owner.until(lambda found: found["status"].get("nominatedNodeName") == node.name, "be nominated")
    mark = condition(ending(batch)["status"], "DisruptionTarget")
    assert mark["reason"] == "EvictionByEvictionAPI"
    assert reservation.status()["phase"] == "Active"
    late = borrower(world, "batch-1", "1")
    late.until_refused("Insufficient cpu")
    wait_for(lambda: world.event_reasons(batch), until={"Reclaimed"}.issubset, what="the borrower's event")

    batch.delete()
    assert owner.until_bound() == node.name
    reservation.until_phase("Consumed")
    stranger.until_refused("1 Insufficient cpu")
    late.until_refused("1 Insufficient cpu")
    wait_for(
        lambda: world.event_reasons(reservation),
        until={"Lent", "Consumed"}.issubset,
        what="the lock's events",
    )


def test_a_borrower_stays_when_the_reservation_is_deleted(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="2", node=node, borrowable=True)
    batch = borrower(world)
    assert batch.until_bound() == node.name
    reservation.delete()
    world.pod(cpu="1").until_refused("1 Insufficient cpu")
    found = batch.read()
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]


def test_borrowable_excludes_reuse_and_is_immutable(world: World) -> None:
    with pytest.raises(RefusedError, match="reuse is refused beside borrowable"):
        world.reservation(borrowable=True, reuse="Always")
    reservation = world.reservation(borrowable=True)
    with pytest.raises(RefusedError, match="borrowable is immutable"):
        reservation.edit(borrowable=None)
