"""Two-phase reservations and sets of alternatives, on a real API server.

It needs an API server that keeps a commit and a status that are written at once.
"""

from cluster.api import Manifest
from cluster.live import Lock, condition
from cluster.operator_process import Launch
from cluster.world import World

LONG = {"commit": {"withinSeconds": 600}}


def token(reservation: Lock) -> str:
    """Return the token that commits the capacity of a reservation."""
    told: str = reservation.status()["commit"]["token"]
    return told


def commit(reservation: Lock, token: str) -> None:
    reservation.edit(commit={"token": token})


def test_a_committed_reservation_stays_and_an_uncommitted_one_expires(world: World) -> None:
    node = world.node(cpu="2")
    kept = world.active_reservation("kept", "1", node, **LONG)
    commit(kept, token(kept))
    kept.until_condition("Committed", "True", "Committed")
    lapsed = world.reservation("lapsed", "1", node, commit={"withinSeconds": 1}, retention="Retain")
    status = lapsed.until_phase("Expired")
    assert condition(status, "Expired")["reason"] == "NotCommitted"
    assert condition(status, "Committed")["status"] == "False"
    world.active_reservation("next", "1", node)
    assert condition(kept.status(), "Ready")["status"] == "True"


def test_an_old_token_does_not_commit_a_new_hold(world: World) -> None:
    node = world.node(cpu="1")
    reservation = world.active_reservation("web-0", "1", node, **LONG)
    old = token(reservation)
    node.resize(cpu="500m")
    reservation.until_phase("Pending")
    node.resize(cpu="1")
    reservation.until_phase("Active")
    commit(reservation, old)
    told = reservation.until_condition("Committed", "False", "TokenMismatch")
    assert old in told["message"]
    assert token(reservation) in told["message"]
    commit(reservation, token(reservation))
    reservation.until_condition("Committed", "True", "Committed")


def test_a_commit_survives_a_crash_of_the_operator(launch: Launch, private_world: World) -> None:
    world, operator = private_world, launch()
    node = world.node()
    kept, open_ = (world.active_reservation(name, "1", node, **LONG) for name in ("kept", "open"))
    commit(kept, token(kept))
    told = kept.until_condition("Committed", "True", "Committed")
    prepared = open_.status()["commit"]
    operator.kill()
    commit(open_, prepared["token"])
    operator.start()
    operator.ready()
    open_.until_condition("Committed", "True", "Committed")
    assert condition(kept.status(), "Committed") == told
    assert prepared.items() <= open_.status()["commit"].items()


def test_the_alternatives_of_a_committed_reservation_end(world: World) -> None:
    node = world.node(cpu="2")
    chosen, other = (
        world.active_reservation(name, "1", node, anyOf="web", retention="Retain", **LONG) for name in "ab"
    )
    commit(chosen, token(chosen))
    status = other.until_phase("Expired")
    assert condition(status, "Expired")["reason"] == "AnotherChosen"
    assert "a was chosen" in condition(status, "Expired")["message"]
    world.active_reservation("next", "1", node)
    chosen.until_condition("Committed", "True", "Committed")


def test_the_first_alternative_with_capacity_is_chosen_without_two_phases(world: World) -> None:
    node = world.node(cpu="1")
    large, small = (
        world.reservation(name, cpu, node, anyOf="web", retention="Retain")
        for name, cpu in (("large", "2"), ("small", "1"))
    )
    small.until_phase("Active")
    assert condition(large.until_phase("Expired"), "Expired")["reason"] == "AnotherChosen"
    assert "Active" not in large.phases()


def test_the_binding_of_an_owner_chooses_an_alternative_without_a_commit(world: World) -> None:
    node = world.node()
    first: Manifest = {"owners": [{"pod": {"name": "web-1"}}], "anyOf": "web", "retention": "Retain"}
    other = world.active_reservation("a", "1", node, **first, **LONG)
    taken = world.active_reservation("web-0", "1", node, anyOf="web", retention="Retain", **LONG)
    world.pod("web-0").until_bound()
    taken.until_phase("Consumed")
    other.until_phase("Expired")
