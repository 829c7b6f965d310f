"""The reservation queue: positions and estimated starts in statuses, and fair share between namespaces.

It needs an API server that gives statuses and pods to watches in their order.
"""

from typing import Any

from cluster.api import Manifest
from cluster.live import Lock
from cluster.world import World


def queue(reservation: Lock, **expected: Any) -> Manifest:
    """Wait until a reservation's status has a queue with these values, and return it."""

    def as_expected(found: Manifest) -> bool:
        known = found.get("status", {}).get("queue", {})
        return bool(known) and expected.items() <= known.items()

    place: Manifest = reservation.until(as_expected, f"have the queue position {expected}")["status"]["queue"]
    return place


def test_the_status_of_a_waiting_reservation_has_its_position_and_estimated_start(world: World) -> None:
    """These reservations are the last of the queue, because no other one has such a low priority.

    Those of earlier tests, which are being deleted, still have places before them at first.
    """
    world.node(cpu="4")
    held = world.active_reservation("held", "3", ttlSeconds=600)
    expires = held.until_phase("Active")["expiresAt"]
    wait: Manifest = {"cpu": "2", "pendingDeadlineSeconds": 600, "ttlSeconds": 60}
    first = world.reservation("first", priority=-900, **wait)
    position = queue(first, position=1, length=1)
    assert position["place"] == "1/1"
    assert position["estimatedStart"] == expires

    second = world.reservation("second", priority=-901, **wait)
    assert queue(second, position=2, length=2)["place"] == "2/2"
    first.delete()
    queue(second, position=1, length=1)
    held.delete()
    assert "queue" not in second.until_phase("Active")


def test_the_namespace_with_the_smaller_share_gets_free_capacity_first(
    world: World, other_world: World
) -> None:
    """Both reservations wait for the capacity of a third one, and the younger of them gets it."""
    node = world.node(cpu="4")
    held = other_world.active_reservation("held", "1", node, ttlSeconds=600)
    freed = world.active_reservation("freed", "3", node, ttlSeconds=600)
    ask: Manifest = {"node": node, "pendingDeadlineSeconds": 600, "ttlSeconds": 600, "cpu": "3"}
    richer = other_world.reservation("richer", priority=-950, **ask)
    richer.until_condition("Active", "False", "InsufficientCapacity")
    poorer = world.reservation("poorer", priority=-950, **ask)
    poorer.until_condition("Active", "False", "InsufficientCapacity")
    freed.delete()
    poorer.until_phase("Active")
    assert richer.status()["phase"] == "Pending"
    held.delete()
