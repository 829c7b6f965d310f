"""The rendered status of a reservation."""

from collections.abc import Callable

import pytest

from builders import NOW, Json
from tidelock.ledger.messages import cordoned_text, holding_text
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import ReservationStatus
from tidelock.model.instants import format_instant
from unit.ledger.ledger import EPOCH, LedgerScene
from unit.ledger.states import (
    OWNER,
    active,
    bound,
    consumed,
    expired,
    expired_with_an_invalid_spec,
    growing,
    held_with_an_invalid_spec,
    invalid,
    lost,
    on_a_cordoned_node,
    pending,
    planned,
    rejected,
)


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


def conditions(entry: ReservationInfo, at: float = NOW) -> dict[str, Json]:
    return {condition["type"]: condition for condition in render_reservation(entry, at)["conditions"]}


def summary(entry: ReservationInfo) -> dict[str, tuple[str, str]]:
    return {name: (each["status"], each["reason"]) for name, each in conditions(entry).items()}


HELD = {"Active": ("True", "Admitted"), "Ready": ("True", "Held")}


def unmet(reason: str, abnormal: str) -> dict[str, tuple[str, str]]:
    """Return the conditions of a reservation that is neither active nor ready, and an abnormal one."""
    return {"Active": ("False", reason), "Ready": ("False", reason), abnormal: ("True", reason)}


@pytest.mark.parametrize(
    ("case", "phase", "expected"),
    [
        (pending, "Pending", unmet("InsufficientCapacity", "Reconciling")),
        (active, "Active", HELD),
        (planned, "Planned", {"Active": ("False", "Planned")}),
        (on_a_cordoned_node, "Active", HELD | {"Ready": ("False", "NodeCordoned")}),
        (growing, "Active", HELD | {"Reconciling": ("True", "ResizePending")}),
        (held_with_an_invalid_spec, "Active", HELD | {"Stalled": ("True", "InvalidSpec")}),
        (bound, "Bound", unmet("Claimed", "Reconciling")),
        (consumed, "Consumed", {"Active": ("False", "Consumed")}),
        (expired, "Expired", {"Active": ("False", "Expired"), "Expired": ("True", "Expired")}),
        (
            expired_with_an_invalid_spec,
            "Expired",
            {"Active": ("False", "Expired"), "Expired": ("True", "Expired")},
        ),
        (lost, "Lost", unmet("NodeLost", "Stalled")),
        (rejected, "Rejected", unmet("DeadlineExceeded", "Stalled")),
        (invalid, "Rejected", unmet("InvalidSpec", "Stalled")),
    ],
)
def test_only_conditions_that_hold_are_shown(
    ledger: LedgerScene, case: Callable[[LedgerScene], None], phase: str, expected: dict[str, tuple[str, str]]
) -> None:
    case(ledger)
    assert render_reservation(ledger.entry(), NOW)["phase"] == phase
    assert summary(ledger.entry()) == expected
    ReservationStatus.model_validate(render_reservation(ledger.entry(), NOW))


def test_the_status_of_an_active_reservation_is_complete(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "1500m", "memory": "2Gi"}, ttlSeconds=60, generation=3)
    status = render_reservation(entry, NOW)
    shown = {name: value for name, value in status.items() if name != "conditions"}
    assert shown == {
        "observedGeneration": 3,
        "phase": "Active",
        "epoch": EPOCH,
        "activatedAt": format_instant(NOW),
        "expiresAt": format_instant(NOW + 60),
        "nodeName": "node-a",
        "nodeUID": "uid-node-a",
        "resources": {"cpu": "1500m", "memory": "2Gi"},
        "owner": "pod/web-0",
    }
    assert status["conditions"][0] == {
        "type": "Active",
        "status": "True",
        "reason": "Admitted",
        "message": holding_text("cpu 1500m, memory 2Gi", "node-a"),
        "lastTransitionTime": format_instant(NOW),
        "observedGeneration": 3,
    }


def test_a_waiting_reservation_shows_its_request_and_its_known_end(ledger: LedgerScene) -> None:
    entry = ledger.reservation(ttlSeconds=None, expireAt=format_instant(NOW + 90), resources={"cpu": "2"})
    status = render_reservation(entry, NOW)
    assert (status["resources"], status["expiresAt"]) == ({"cpu": "2"}, format_instant(NOW + 90))
    assert status.keys().isdisjoint({"nodeName", "nodeUID", "activatedAt", "finishedAt", "boundPod"})


def test_an_end_is_shown_with_its_time_its_node_and_its_pod(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.consume(OWNER, "node-b", at=NOW + 5)
    status = render_reservation(entry, NOW + 5)
    assert status["finishedAt"] == format_instant(NOW + 5)
    assert status["boundPod"] == {"name": "web-0", "uid": "uid-web-0"}
    assert status["nodeName"] == "node-a"


def test_the_pod_count_is_not_listed_among_the_resources(ledger: LedgerScene) -> None:
    entry = ledger.active(resources=None, template={"spec": {"containers": [{"name": "main"}]}})
    assert render_reservation(entry, NOW)["resources"] == {}


def test_the_readable_part_of_an_unreadable_spec_is_shown(ledger: LedgerScene) -> None:
    invalid(ledger)
    status = render_reservation(ledger.entry(), NOW)
    assert status.keys().isdisjoint({"resources", "expiresAt"})
    assert status["owner"] == "pod/web-0"


def test_a_spec_with_unreadable_owners_shows_nothing(ledger: LedgerScene) -> None:
    ledger.reservation(owners=[])
    assert render_reservation(ledger.entry(), NOW).keys().isdisjoint({"owner", "resources", "expiresAt"})


def test_owners_are_shown_in_short_form(ledger: LedgerScene) -> None:
    entry = ledger.reservation(
        owners=[{"selector": {"matchLabels": {"app": "web"}}}, {"pod": {"name": "web-0"}}]
    )
    assert render_reservation(entry, NOW)["owner"] == "app=web +1"


def test_messages_explain_each_condition(ledger: LedgerScene) -> None:
    growing(ledger)
    ledger.ledger.admission.refuse(ledger.entry(), reasons.INSUFFICIENT_CAPACITY, "cpu 5 missing", NOW)
    ledger.put_node("node-a", cordoned=True)
    texts = {name: condition["message"] for name, condition in conditions(ledger.entry()).items()}
    assert texts == {
        "Active": holding_text("cpu 1", "node-a"),
        "Ready": cordoned_text("node-a"),
        "Reconciling": "cpu 5 missing",
    }


def since(entry: ReservationInfo, at: float) -> dict[str, str]:
    return {name: condition["lastTransitionTime"] for name, condition in conditions(entry, at).items()}


def test_transition_times_stay_while_the_status_lasts(ledger: LedgerScene) -> None:
    entry = ledger.active()
    assert set(since(entry, NOW + 1).values()) == {format_instant(NOW + 1)}
    ledger.put_node("node-a", cordoned=True, at=NOW + 5)
    assert since(entry, NOW + 5) == {"Active": format_instant(NOW + 1), "Ready": format_instant(NOW + 5)}
    ledger.put_node("node-a", ready=False, at=NOW + 6)
    assert since(entry, NOW + 9) == {"Active": format_instant(NOW + 1), "Ready": format_instant(NOW + 5)}


def test_a_reservation_is_inactive_and_reconciling_since_its_creation(ledger: LedgerScene) -> None:
    entry = ledger.reservation(at=NOW + 5)
    times = since(entry, NOW + 5)
    assert (times["Active"], times["Reconciling"]) == (format_instant(NOW), format_instant(NOW))


def test_a_condition_that_returns_has_a_new_transition_time(ledger: LedgerScene) -> None:
    entry = ledger.active()
    for at, cpu in enumerate(("9", "1", "9")):
        ledger.edit(resources={"cpu": cpu}, at=NOW + at)
        assert ("Reconciling" in since(entry, NOW + at)) == (cpu == "9")
    assert since(entry, NOW + 3)["Reconciling"] == format_instant(NOW + 2)


def test_times_of_conditions_are_whole_seconds_and_others_milliseconds(ledger: LedgerScene) -> None:
    status = render_reservation(ledger.active(at=NOW + 0.75), NOW + 0.75)
    assert {condition["lastTransitionTime"] for condition in status["conditions"]} == {format_instant(NOW)}
    assert status["activatedAt"] == format_instant(NOW + 0.75)


def test_rendering_again_gives_the_same(ledger: LedgerScene) -> None:
    growing(ledger)
    assert render_reservation(ledger.entry(), NOW) == render_reservation(ledger.entry(), NOW + 60)


def test_a_borrower_from_before_the_commit_of_a_group_is_shown_after_it(ledger: LedgerScene) -> None:
    """Guard against a member that showed Lent=False for as long as its borrower stayed.

    The borrower was noted while the status without that condition was rendered, which forgot it.
    """
    entry = ledger.active(borrowable=True)
    entry.transition_times["Lent"] = ("True", NOW)
    entry.group_committed = False
    assert "Lent" not in conditions(entry, NOW + 1)
    entry.group_committed = True
    lent = conditions(entry, NOW + 2)["Lent"]
    assert (lent["status"], lent["lastTransitionTime"]) == ("True", format_instant(NOW))
