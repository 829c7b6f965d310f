from typing import Any

import pytest

from builders import NOW, reservation
from tidelock.cli.documents import Document
from tidelock.cli.failure import Failure
from tidelock.cli.lint import problems_of
from tidelock.cli.options_spec import asked, pairs, seconds
from tidelock.cli.reservations import ListedReservation
from tidelock.cli.reserve import ReservationOptions, Result, manifest, owner, progress, screen, sentence
from tidelock.framework.rejections import shortage_text
from tidelock.ledger.messages import bound_text
from tidelock.model.outlook import UNPROCESSED
from unit.cli.scenes import LOCKS, active_json, condition, consumed_json, lock, pending_json, prepared_json
from unit.cli.screens import assert_screen


def options(**fields: Any) -> ReservationOptions:
    ordinary: dict[str, Any] = {
        "name": "web-0",
        "asked": asked("cpu=2,memory=4Gi", "", "", 0),
        "owners": ({"pod": {"name": "web-0"}},),
        "ttl": 600,
        "until": "",
        "deadline": 60,
        "commit_within": None,
        "preempt": False,
        "retain": False,
    }
    return ReservationOptions(**(ordinary | fields))


def test_a_manifest_has_only_the_given_fields() -> None:
    assert manifest(options()) == {
        "apiVersion": "tidelock.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "web-0"},
        "spec": {
            "resources": {"cpu": "2", "memory": "4Gi"},
            "owners": [{"pod": {"name": "web-0"}}],
            "ttlSeconds": 600,
            "pendingDeadlineSeconds": 60,
            "answer": "Immediate",
        },
    }


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {
            "asked": asked("cpu=1", "a", "", -5),
            "ttl": None,
            "until": "2027-01-01T00:00:00Z",
            "deadline": 0,
            "commit_within": 30,
            "retain": True,
        },
        {"preempt": True},
        {"asked": asked("cpu=1", "", "zone=a", 0), "owners": (owner("deployment/web"), owner("app=web"))},
    ],
)
def test_every_combination_of_options_makes_a_valid_reservation(fields: dict[str, Any]) -> None:
    assert problems_of(Document("options", manifest(options(**fields)))) == ()


def test_an_invalid_amount_is_reported_by_its_field() -> None:
    (problem,) = problems_of(Document("options", manifest(options(asked=asked("cpu=two", "", "", 0)))))
    assert problem.startswith("""spec.resources: Invalid value: {"cpu": "two"}: cpu: 'two' is not""")


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("0s", 0)]
)
def test_a_duration_is_read(text: str, expected: int) -> None:
    assert seconds("--ttl", text) == expected


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "1.5h", "-1s", "1h-1m"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(Failure, match=f"--ttl: '{text}': should be a duration such as 90s"):
        seconds("--ttl", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pod/web-0", {"pod": {"name": "web-0"}}),
        (
            "StatefulSet/db",
            {"controller": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}},
        ),
        ("job/load", {"controller": {"apiVersion": "batch/v1", "kind": "Job", "name": "load"}}),
        ("app=web,tier=db", {"selector": {"matchLabels": {"app": "web", "tier": "db"}}}),
        ("example.org/app=web", {"selector": {"matchLabels": {"example.org/app": "web"}}}),
    ],
)
def test_an_owner_is_read(text: str, expected: dict[str, Any]) -> None:
    assert owner(text) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [("node/a", "should begin with pod/, or with one of deployment"), ("web", "should be name=value")],
)
def test_an_invalid_owner_is_refused(text: str, told: str) -> None:
    with pytest.raises(Failure, match=told):
        owner(text)


@pytest.mark.parametrize("text", ["", "cpu", "cpu=", "=2", "cpu=2,,memory=1Gi"])
def test_invalid_amounts_are_refused(text: str) -> None:
    with pytest.raises(Failure, match=r"--requests: .*should be name=value,name=value"):
        pairs("--requests", text)


def test_an_active_reservation_is_reported_with_node_and_end() -> None:
    fresh, held = (
        ListedReservation(reservation("new")),
        ListedReservation(lock(active_json("new", ends=NOW + 600))),
    )

    assert (fresh.active, fresh.ended) == (False, False)
    assert progress(fresh) == UNPROCESSED
    assert (held.active, held.ended) == (True, False)
    assert progress(held) == "holds cpu=2,memory=1Gi on node-a"
    assert sentence(held) == "holds cpu=2,memory=1Gi on node-a until 2027-01-15T08:10:00Z"


def test_a_waiting_reservation_is_reported_with_the_numbers() -> None:
    waiting = ListedReservation(lock(pending_json()))
    assert (waiting.active, waiting.ended) == (False, False)
    assert progress(waiting).startswith("InsufficientCapacity: 0/4 nodes are available: ")
    assert shortage_text("cpu", "9", "4") in sentence(waiting)


def test_a_reservation_with_an_existing_owner_has_ended() -> None:
    consumed = ListedReservation(lock(consumed_json()))
    assert (consumed.active, consumed.ended) == (False, True)
    assert sentence(consumed) == (
        f"nothing is reserved, as its owner exists already: {bound_text('shop/used', 'node-b')}"
    )


def test_a_rejected_reservation_has_ended_and_is_reported_with_its_reason() -> None:
    plain = pending_json()
    plain["status"] |= {
        "phase": "Rejected",
        "conditions": [
            condition("Active", "False", "DeadlineExceeded", "no room"),
            condition("Stalled", "True", "DeadlineExceeded", "no room"),
        ],
    }
    rejected = ListedReservation(lock(plain))
    assert rejected.ended
    assert sentence(rejected) == "DeadlineExceeded: no room"


def test_each_reservation_is_reported_by_a_line() -> None:
    listed = [
        ListedReservation(lock(each)) for each in (*LOCKS, prepared_json(), prepared_json(committed=True))
    ]
    assert_screen("reserve", screen([Result(each, {}, sentence(each)) for each in listed]))


def test_a_status_of_an_older_generation_does_not_count() -> None:
    edited = ListedReservation(lock(active_json("new", generation=2)))
    assert (edited.active, edited.decided) == (False, False)


def test_a_violated_reservation_is_reported_with_the_violating_pod() -> None:
    plain = active_json("new")
    plain["status"]["conditions"] = [
        condition("Active", "False", "Violated", "gone"),
        condition("Violated", "True", "CapacityTaken", "pod shop/x took cpu 1"),
    ]
    assert ListedReservation(lock(plain)).why == "CapacityTaken: pod shop/x took cpu 1"
