"""Histories that keep or break the rules of owners, quotas and quotes."""

from typing import Any

import pytest

from faults.histories import START, HistoryBuilder, at, broken, condition_of
from faults.history import Json
from faults.observations import Delivery

# Owners.


def test_a_reservation_ended_by_a_former_owner_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(reason="InsufficientCapacity", phase="Pending")
    history.reservation(reason="InsufficientCapacity", phase="Pending", owner="other")
    known = history.clock
    history.clock += 20
    history.bound("web")
    history.reservation(reason="InsufficientCapacity", phase="Pending", owner="other")
    history.gone()
    heard, late = (Delivery("reservations", 3, listed=False, at=at) for at in (known, history.clock))
    assert broken(history.check(deliveries=[heard]), "deleted by the operator")
    assert history.check(deliveries=[late]) == [], "the operator had not received the edit"


@pytest.mark.parametrize("shrinks", [False, True])
def test_a_pod_takes_a_reservation_on_another_node_only_if_that_node_shrank(
    history: HistoryBuilder, shrinks: bool
) -> None:
    """The reservation may have moved from a node that shrank, before its status could be written."""
    for cpu in ("4", "2" if shrinks else "4"):
        status = {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]}
        history.tell("nodes", {"metadata": {"name": "b", "uid": "m"}, "spec": {}, "status": status})
    for_any = {"owners": [{"selector": {"matchLabels": {"app": "web"}}}], "nodeName": None}
    history.reservation(also=for_any, nodeName="b", nodeUID="m")
    history.pod("web", "", cpu="1")
    pod = history.changes[-1].state
    metadata = pod["metadata"] | {"annotations": {"tidelock.dev/claimed-locks": "lock"}}
    history.tell("pods", pod | {"metadata": metadata, "spec": pod["spec"] | {"nodeName": "a"}})
    assert ("it took a lock on b" in str(history.check())) is not shrinks


# Quotas and quotes.


def quota(history: HistoryBuilder, **spec: Any) -> None:
    history.tell("reservationquotas", {"metadata": {"name": "team", "uid": "q"}, "spec": spec, "status": {}})


@pytest.mark.parametrize(
    "limits", [{"hard": {"cpu": "2"}}, {"hard": {"pods": "1"}}, {"hardSeconds": {"cpu": "900"}}]
)
def test_reservations_beyond_a_quota_are_a_violation(history: HistoryBuilder, limits: Json) -> None:
    quota(history, **limits)
    told = [Delivery("reservationquotas", 2, listed=False, at=START)]
    history.clock = START + 60
    for number in range(3):
        given: dict[str, Any] = {"activatedAt": at(60), "resources": {"cpu": "1"}}
        history.reservation(f"lock-{number}", owner=f"web-{number}", **given)
    assert broken(history.check(deliveries=told), "more than team allows")
    assert history.check() == [], "the operator had not received the quota"


def test_reservations_that_are_older_than_a_quota_stay(history: HistoryBuilder) -> None:
    history.reservation()
    quota(history, hard={"cpu": "1"})
    told = [Delivery("reservationquotas", 3, listed=False, at=history.clock)]
    history.clock = START + 60
    history.reservation()
    assert history.check(deliveries=told) == []


def quote(history: HistoryBuilder, **status: Any) -> None:
    spec = {"resources": {"cpu": "1"}, "ttlSeconds": 5}
    history.tell(
        "reservationquotes", {"metadata": {"name": "quote", "uid": "q"}, "spec": spec, "status": status}
    )


def test_a_quote_is_answered_once_and_deleted_after_its_time(history: HistoryBuilder) -> None:
    quote(history)
    assert broken(history.check_at_rest(), "quote is not answered")
    quote(history, answeredAt=at(3))
    assert history.check_at_rest() == []
    quote(history, answeredAt=at(4))
    assert broken(history.check(), "it was answered otherwise")
    history.clock = START + 60
    assert any("was to go" in each for each in history.check_at_rest())


def test_a_quote_beyond_the_capacity_of_the_nodes_is_a_violation(history: HistoryBuilder) -> None:
    quote(history, answeredAt=at(3), count=5, conditions=[condition_of("Feasible", True)])
    assert broken(history.check(), "more than there is")
