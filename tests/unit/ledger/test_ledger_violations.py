"""Effects of a pod of another scheduler that takes the capacity of a reservation."""

import pytest

from builders import NOW, Json, pod
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.messages import taken_text
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.quantities import CPU, PODS
from unit.ledger.ledger import LedgerScene

INTRUDER = pod("intruder", node_name="node-a")


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


def intrude(ledger: LedgerScene, cpu: int) -> None:
    ledger.use("node-a", cpu)
    ledger.ledger.placement.settle_node("node-a", NOW, INTRUDER)


def conditions(entry: ReservationInfo) -> dict[str, Json]:
    return {condition["type"]: condition for condition in render_reservation(entry, NOW)["conditions"]}


def test_the_rest_of_the_capacity_stays_reserved(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "3"})
    intrude(ledger, 2000)
    assert (entry.phase, entry.held[CPU], ledger.reserved()) == (Phase.ACTIVE, 2000, 2000)
    assert ledger.columns.shortfall("node-a") == {}


def test_the_conditions_name_the_intruder_and_deny_the_guarantee(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "3"})
    intrude(ledger, 2000)
    told = conditions(entry)
    text = taken_text("pod shop/intruder", "cpu 1", "node-a")
    assert (told["Violated"]["status"], told["Violated"]["reason"]) == ("True", "CapacityTaken")
    assert told["Violated"]["message"] == told["Active"]["message"] == text
    assert (told["Active"]["status"], told["Active"]["reason"]) == ("False", "Violated")
    assert told["Ready"]["status"] == "False"


def test_as_few_reservations_as_possible_are_violated_the_least_important_first(ledger: LedgerScene) -> None:
    important = ledger.active("important", priority=5)
    older = ledger.active("older", at=NOW)
    newer = ledger.active("newer", at=NOW + 1)
    intrude(ledger, 2000)
    assert [bool(each.violation) for each in (important, older, newer)] == [False, False, True]
    intrude(ledger, 1000)
    assert [bool(each.violation) for each in (important, older, newer)] == [False, True, True]


def test_a_reservation_without_any_capacity_left_waits_again(ledger: LedgerScene) -> None:
    ledger.put_node("node-a", cpu="4", pods="1")
    entry = ledger.active(resources={"cpu": "1"})
    ledger.columns.request("node-a", {CPU: 4000, PODS: 1}, (0, 0), 1)
    ledger.ledger.placement.settle_node("node-a", NOW, INTRUDER)
    assert (entry.phase, entry.held, ledger.reserved()) == (Phase.PENDING, {}, 0)
    assert entry.violation == taken_text("pod shop/intruder", "cpu 1, pods 1", "node-a")


def test_a_reservation_with_on_violation_move_waits_for_capacity_at_once(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "3"}, onViolation="Move")
    intrude(ledger, 2000)
    assert (entry.phase, entry.reason, entry.held) == (Phase.PENDING, reasons.VIOLATED, {})
    assert conditions(entry)["Violated"]["status"] == "True"
    ledger.admit(entry, "node-b")
    assert (entry.node, entry.violation) == ("node-b", "")


def test_a_violation_ends_when_all_capacity_is_restored(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "3"})
    intrude(ledger, 2000)
    assert ledger.ledger.waiting_reservations.waiting == {entry.key: entry}
    ledger.use("node-a", -2000)
    ledger.ledger.effects.transitions.clear()
    ledger.admit(entry)
    assert (entry.violation, ledger.reserved()) == ("", 3000)
    assert [(change.event, change.reason) for change in ledger.ledger.effects.transitions] == [
        (Event.RESTORE, "Restored")
    ]
    assert conditions(entry)["Active"]["status"] == "True"
    assert "Violated" not in conditions(entry)


def test_a_request_for_at_most_the_remaining_capacity_ends_a_violation(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "3"})
    intrude(ledger, 2000)
    ledger.edit(resources={"cpu": "2"})
    assert (entry.violation, entry.held[CPU]) == ("", 2000)


def test_a_smaller_request_above_the_remaining_capacity_does_not_end_a_violation(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "4"})
    intrude(ledger, 2000)
    ledger.edit(resources={"cpu": "3"})
    assert entry.violation
    assert conditions(entry)["Active"]["message"] == entry.violation


def test_a_failed_claim_returns_the_remaining_capacity(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "3"})
    intrude(ledger, 2000)
    owner = pod("web-0")
    ledger.ledger.claims.claim(owner, "node-b", NOW)
    ledger.ledger.claims.unclaim(owner.uid, NOW)
    assert (entry.phase, entry.held[CPU], entry.reason) == (Phase.ACTIVE, 2000, reasons.VIOLATED)
    assert conditions(entry)["Violated"]["status"] == "True"


def test_the_next_process_restores_a_violation(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "3"})
    intrude(ledger, 2000)
    adopted = ledger.readopted()
    assert (adopted.violation, adopted.held[CPU]) == (entry.violation, 2000)
    assert render_reservation(adopted, NOW) == render_reservation(entry, NOW)


def test_an_ended_reservation_is_not_violated(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "3"})
    intrude(ledger, 2000)
    ledger.ledger.advance(NOW + 600)
    assert entry.phase is Phase.EXPIRED
    assert "Violated" not in conditions(entry)


def test_a_node_that_shrinks_is_no_violation(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "3"})
    ledger.put_node("node-a", cpu="2")
    assert (entry.reason, entry.violation) == (reasons.OVERCOMMITTED, "")
