"""The expiry of a reservation: its capacity is free from that instant on, and its object is updated later.

Each reservation begins with a long life. An edit shortens it after the test has seen the earlier events.

It needs an API server that deletes objects with a precondition, and shows each version to watches.
"""

from cluster.live import condition, in_seconds, until_past
from cluster.operator_process import OperatorProcess
from cluster.world import World
from tidelock.model.instants import parse_instant


def lags(operator: OperatorProcess) -> float:
    """Return the number of expiries with a measured delay."""
    return operator.metrics()["tidelock_expiry_lag_seconds_count"]


def test_capacity_is_free_from_the_expiry_on_and_not_before(world: World, operator: OperatorProcess) -> None:
    node = world.node(cpu="8")
    expiring = [
        world.active_reservation(f"expiring-{n}", "2", node, expireAt=in_seconds(600), retention="Retain")
        for n in range(4)
    ]
    next_ones = [world.reservation(f"next-{n}", "2", node) for n in range(4)]
    for reservation in next_ones:
        reservation.until_condition("Active", "False", "InsufficientCapacity")
    count = lags(operator)
    end = in_seconds(2)
    for reservation in expiring:
        reservation.edit(expireAt=end)

    given = [parse_instant(reservation.until_phase("Active")["activatedAt"]) for reservation in next_ones]
    assert min(given) >= parse_instant(end)
    for reservation in expiring:
        assert reservation.until_phase("Expired")["finishedAt"] >= end
    assert lags(operator) == count + 4


def test_a_pod_that_waits_for_the_capacity_is_bound_when_the_reservation_expires(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="2", node=node, expireAt=in_seconds(600))
    stranger = world.pod("stranger", cpu="2")
    stranger.until_refused("reserved by")
    reservation.edit(expireAt=in_seconds(1))
    assert stranger.until_bound() == node.name


def test_an_expired_reservation_is_marked_and_then_deleted(world: World) -> None:
    reservation = world.active_reservation(node=world.node())
    reservation.edit(ttlSeconds=1)
    reservation.until_gone()
    history = reservation.history()
    assert reservation.phases() == ["Active", "Expired"]
    assert history[-1][0] == "DELETED"
    expired = condition(history[-1][1]["status"], "Expired")
    assert (expired["status"], expired["reason"]) == ("True", "Expired")
    assert "spec.ttlSeconds" in expired["message"]


def test_a_retained_reservation_stays_as_expired_with_settled_conditions(world: World) -> None:
    reservation = world.reservation(node=world.node(), ttlSeconds=1, retention="Retain")
    status = reservation.until_phase("Expired")
    assert status["finishedAt"] >= status["expiresAt"]
    assert [
        condition(status, kind).get("status") for kind in ("Active", "Ready", "Reconciling", "Stalled")
    ] == [
        "False",
        None,
        None,
        None,
    ]


def test_a_reservation_that_waits_beyond_its_expire_at_expires(world: World) -> None:
    reservation = world.reservation(
        cpu="5", node=world.node(cpu="4"), expireAt=in_seconds(600), retention="Retain"
    )
    reservation.until_phase("Pending")
    reservation.edit(expireAt=in_seconds(1))
    reservation.until_phase("Expired")
    assert reservation.phases() == ["Pending", "Expired"]


def test_expires_at_is_the_instant_that_the_manager_asked_for(world: World) -> None:
    end = in_seconds(300)
    assert world.active_reservation(node=world.node(), expireAt=end).status()["expiresAt"] == end


def test_an_edit_extends_or_shortens_a_reservation(world: World) -> None:
    first, later = in_seconds(10), in_seconds(300)
    reservation = world.active_reservation(node=world.node(), expireAt=first, retention="Retain")
    reservation.edit(expireAt=later)
    reservation.until(lambda found: found["status"]["expiresAt"] == later, "be prolonged")
    until_past(first)  # the former end, at which nothing must happen
    assert reservation.status()["phase"] == "Active"

    reservation.edit(expireAt=in_seconds(-1))
    reservation.until_phase("Expired")
