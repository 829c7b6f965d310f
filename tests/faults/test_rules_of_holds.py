"""Histories that keep or break the rules of leases, two phases and alternatives."""

from typing import Any

import pytest

from faults.histories import START, HistoryBuilder, at, broken, condition_of
from faults.history import Json
from faults.observations import Delivery

LEASE = {"durationSeconds": 5, "graceSeconds": 2}
COMMIT = {"withinSeconds": 5}


# Leases.


def leased(renew_by: float, lost_at: float | None = None) -> Json:
    lost = {} if lost_at is None else {"lostAt": at(lost_at)}
    return {"renewedAt": at(renew_by - 5), "renewBy": at(renew_by), **lost}


def test_a_lease_that_is_not_renewed_ends_its_reservation(history: HistoryBuilder) -> None:
    history.reservation(also={"lease": LEASE}, lease=leased(7))
    history.clock = START + 10
    history.reservation(
        reason="LeaseExpired", phase="Expired", also={"lease": LEASE}, lease=leased(7, 9), finishedAt=at(10)
    )
    assert history.check() == []


def test_a_lease_lost_before_the_end_of_its_grace_period_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"lease": LEASE}, lease=leased(7))
    history.clock = START + 10
    history.reservation(
        reason="LeaseExpired", phase="Expired", also={"lease": LEASE}, lease=leased(7, 8), finishedAt=at(10)
    )
    assert broken(history.check(), "lost before its time")


def test_a_lease_lost_after_a_renewal_is_a_violation(history: HistoryBuilder) -> None:
    long, renewed = LEASE | {"durationSeconds": 30}, LEASE | {"durationSeconds": 30, "renewTime": at(0)}
    told = {"renewedAt": at(2), "renewBy": at(32)}
    history.reservation(also={"lease": long}, lease=told)
    history.reservation(also={"lease": renewed}, lease=told)
    heard = Delivery("reservations", 3, listed=False, at=history.clock)
    history.clock = START + 35
    lost = told | {"lostAt": at(34)}
    history.reservation(
        reason="LeaseExpired", phase="Expired", also={"lease": renewed}, lease=lost, finishedAt=at(34)
    )
    assert broken(history.check(deliveries=[heard]), "after it was renewed")
    assert history.check(deliveries=[heard], crashes=[history.clock - 1]) == []
    assert history.check() == [], "the operator had not received the renewal"


def test_a_lease_kept_after_its_end_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"lease": LEASE}, lease=leased(7))
    history.clock = START + 20
    assert broken(history.check_at_rest(), "the lease of lock was due")


def test_an_ignored_renewal_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"lease": LEASE | {"renewTime": at(1)}}, lease=leased(50))
    assert broken(history.check_at_rest(), "nobody has heard")


# Two phases.


def committed(*, number: int = 1, by: float | None = None) -> dict[str, Any]:
    """Return fields of a status with the state of a hold that is due after 5 s."""
    told = {"holds": number, "token": f"lock.{number}", "dueAt": at(5)}
    if by is not None:
        told["committedAt"] = at(by)
    return {
        "commit": told,
        "conditions": [condition_of("Active", True), condition_of("Committed", by is not None)],
    }


def test_a_hold_committed_in_time_has_no_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"commit": COMMIT}, **committed())
    history.reservation(also={"commit": COMMIT | {"token": "lock.1"}}, **committed())
    history.reservation(also={"commit": COMMIT | {"token": "lock.1"}}, **committed(by=3))
    history.clock = START + 60
    assert history.check_at_rest() == []


@pytest.mark.parametrize(("token", "by"), [("lock.0", 3), ("lock.1", 6)])
def test_a_hold_committed_with_an_old_token_or_too_late_is_a_violation(
    history: HistoryBuilder, token: str, by: float
) -> None:
    history.reservation(also={"commit": COMMIT | {"token": token}}, **committed(by=by))
    assert broken(history.check(), "it was not committed in time")


def test_a_commit_taken_back_is_a_violation_unless_its_node_has_shrunk(history: HistoryBuilder) -> None:
    spec = {"commit": COMMIT | {"token": "lock.1"}}
    history.reservation(also=spec, **committed(by=3))
    history.reservation(also=spec, **committed(number=2))
    assert broken(history.check(), "it was committed, and is so no more")
    history.changes.insert(2, history.changes[2])
    history.node("3")
    history.changes.insert(2, history.changes.pop())
    assert history.check() == [], "its node has shrunk"


def test_a_committed_reservation_that_ends_as_uncommitted_is_a_violation(history: HistoryBuilder) -> None:
    spec = {"commit": COMMIT | {"token": "lock.1"}}
    history.reservation(also=spec, **committed(by=3))
    history.clock = START + 10
    end = committed() | {"conditions": [condition_of("Active", False, "NotCommitted")]}
    history.reservation(reason="NotCommitted", also=spec, finishedAt=at(9), **end | {"phase": "Expired"})
    assert broken(history.check(), "it was told to be committed", "its hold was", "no reason")


def test_an_ignored_commit_in_time_is_a_violation(history: HistoryBuilder) -> None:
    due: dict[str, Any] = {"commit": {"holds": 1, "token": "lock.1", "dueAt": at(60)}}
    active: dict[str, Any] = {"conditions": [condition_of("Active", True), condition_of("Committed", False)]}
    history.reservation(also={"commit": COMMIT}, **due, **active)
    history.reservation(also={"commit": COMMIT | {"token": "lock.1"}}, **due, **active)
    assert broken(history.check_at_rest(), "the commit of lock is not heard")
    heard = Delivery("reservations", 3, listed=False, at=history.clock)
    history.clock = START + 60
    over: dict[str, Any] = {
        "conditions": [condition_of("Active", False, "NotCommitted")],
        "finishedAt": at(60),
        "phase": "Expired",
    }
    history.reservation(reason="NotCommitted", also={"commit": COMMIT | {"token": "lock.1"}}, **due, **over)
    assert broken(history.check(deliveries=[heard]), "before it was due")


def test_an_uncommitted_reservation_that_stays_active_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"commit": COMMIT}, **committed())
    history.clock = START + 60
    assert broken(history.check_at_rest(), "was not committed in time")


# Alternatives.


def test_two_chosen_alternatives_of_a_set_are_a_violation(history: HistoryBuilder) -> None:
    for name in ("one", "other"):
        history.reservation(name, owner=name, also={"anyOf": "set"}, resources={"cpu": "1"})
    assert broken(history.check(), "['one', 'other'] of one set are chosen")


def test_an_alternative_that_waits_beside_the_choice_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation("one", also={"anyOf": "set"})
    history.reservation("other", "InsufficientCapacity", owner="db", also={"anyOf": "set"}, phase="Pending")
    assert broken(history.check_at_rest(), "of the set set one is chosen")


def test_an_alternative_that_ends_without_a_choice_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation("one", "InsufficientCapacity", also={"anyOf": "set"}, phase="Pending")
    history.reservation("other", "AnotherChosen", owner="db", also={"anyOf": "set"}, phase="Expired")
    assert broken(history.check_at_rest(), "no other of its set was chosen")
