"""Histories that break the rules of answers to creations, and histories that keep them."""

import json
from copy import deepcopy
from dataclasses import replace

import pytest

from faults.creations import Granted
from faults.histories import START, HistoryBuilder, at, broken
from faults.history import Json
from faults.observations import Delivery
from tidelock.model.answer import ANSWER
from tidelock.model.instants import format_instant

GRANTED = [Granted("lock", START)]


@pytest.fixture
def history() -> HistoryBuilder:
    made = HistoryBuilder()
    made.node()
    return made


def answered(history: HistoryBuilder, *, stored: bool = False) -> Json:
    """Give the newest reservation an answer, and no other status unless it is `stored`. Return it."""
    last = history.changes[-1]
    state = deepcopy(last.state)
    answer: Json = state["status"]
    state["metadata"]["annotations"] = {ANSWER: json.dumps({"status": answer})}
    history.changes[-1] = replace(last, state=state if stored else state | {"status": {}})
    return answer


def test_an_answer_that_the_status_repeats_is_kept(history: HistoryBuilder) -> None:
    history.reservation()
    answered(history)
    history.reservation()
    answered(history, stored=True)
    assert history.check(granted=GRANTED) == []


def test_a_pod_in_the_capacity_of_an_answer_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    answered(history)
    history.bound("stranger")
    assert broken(history.check(granted=GRANTED), "overcommitted")
    assert history.check() == [], "the API server has sent no answer"
    assert history.check(granted=GRANTED, peaks=[(START + 0.5, START)]) == [], "the clock jumped meanwhile"


def test_an_answered_reservation_that_is_activated_later_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    answered(history)
    history.reservation(activatedAt=format_instant(START + 5))
    answer = {ANSWER: json.dumps({"status": answered_status()})}
    history.changes[-1].state["metadata"]["annotations"] = answer
    assert broken(history.check(granted=GRANTED), "the answer was", "was given at")


def test_an_answered_reservation_that_waits_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    answered(history)
    history.reservation(reason="InsufficientCapacity", phase="Pending")
    history.changes[-1].state["metadata"]["annotations"] = {ANSWER: json.dumps({"status": answered_status()})}
    assert broken(history.check(granted=GRANTED), "no reason for an end of Active")


def test_an_answer_that_is_added_later_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(reason="InsufficientCapacity", phase="Pending")
    history.reservation(reason="InsufficientCapacity", phase="Pending")
    answered(history, stored=True)
    assert broken(history.check(), "its answer was added or changed")


def test_an_answer_to_another_creation_that_counts_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    answered(history, stored=True)
    assert broken(history.check(), "not its own")


def answered_status() -> Json:
    """Return the status in the answers of these histories."""
    history = HistoryBuilder()
    history.reservation()
    status: Json = history.changes[-1].state["status"]
    return status


@pytest.mark.parametrize("known", [True, False], ids=["answered", "not answered"])
def test_a_lease_runs_from_the_answer_and_not_from_its_delivery(history: HistoryBuilder, known: bool) -> None:
    asked = {"lease": {"durationSeconds": 30, "graceSeconds": 2}}
    lease = {"renewedAt": at(2), "renewBy": at(32)}
    history.clock = START + 5
    history.reservation(also=asked, lease=lease)
    if known:
        answered(history, stored=True)
    first = history.changes[-1]
    heard = Delivery("reservations", first.version, listed=False, at=history.clock)
    history.clock = START + 35
    lost = lease | {"lostAt": at(34)}
    history.reservation(reason="LeaseExpired", phase="Expired", also=asked, lease=lost, finishedAt=at(34))
    history.changes[-1].state["metadata"] |= first.state["metadata"]
    found = history.check(granted=GRANTED if known else [], deliveries=[heard])
    assert (found == []) is known, found
    assert known or broken(found, "after it was renewed")
