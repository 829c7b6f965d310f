"""Edits of an active reservation."""

from math import inf

import pytest

from builders import NOW, pod
from tidelock.ledger.messages import edited_text, holding_text
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from unit.ledger.ledger import EPOCH, LedgerScene


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


def test_a_reservation_shrinks_at_once(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "2", "memory": "1Gi"})
    ledger.edit(resources={"cpu": "500m"})
    assert (entry.phase, ledger.reserved(), entry.message) == (
        Phase.ACTIVE,
        500,
        holding_text("cpu 500m", "node-a"),
    )
    assert not ledger.ledger.waiting_reservations.waiting


def test_growth_waits_while_the_old_size_is_held(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "1"})
    ledger.edit(resources={"cpu": "3"})
    assert (entry.phase, ledger.reserved(), entry.message) == (
        Phase.ACTIVE,
        1000,
        holding_text("cpu 1", "node-a"),
    )
    assert ledger.ledger.waiting_reservations.take(untried_only=True) == [entry]

    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "cpu 2 missing", NOW)
    assert (entry.phase, entry.reason, entry.resize_problem) == (
        Phase.ACTIVE,
        reasons.ADMITTED,
        "cpu 2 missing",
    )

    ledger.admit(entry, at=NOW + 1)
    assert (entry.reason, entry.message, entry.resize_problem) == (
        reasons.ADMITTED,
        holding_text("cpu 3", "node-a"),
        "",
    )
    assert (ledger.reserved(), entry.expires_at, entry.epoch) == (3000, NOW + 600, EPOCH)
    assert not ledger.ledger.waiting_reservations.waiting


def test_growth_that_is_refused_has_no_deadline(ledger: LedgerScene) -> None:
    entry = ledger.active(pendingDeadlineSeconds=0)
    ledger.edit(resources={"cpu": "5"})
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "cpu 4 missing", NOW)
    ledger.ledger.advance(NOW + 599)
    assert (entry.phase, ledger.reserved()) == (Phase.ACTIVE, 1000)


def test_growth_that_is_reverted_waits_no_more(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "1"})
    ledger.edit(resources={"cpu": "9"})
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "cpu 5 missing", NOW)
    ledger.edit(resources={"cpu": "1"})
    assert (ledger.reserved(), entry.resize_problem) == (1000, "")
    assert not ledger.ledger.waiting_reservations.waiting


def test_growth_that_is_edited_is_tried_again(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "1"})
    ledger.edit(resources={"cpu": "9"})
    ledger.ledger.waiting_reservations.take(untried_only=True)
    ledger.edit(resources={"cpu": "2"})
    assert ledger.ledger.waiting_reservations.take(untried_only=True) == [entry]


def test_a_reservation_that_shrinks_in_one_resource_and_grows_in_another_shows_its_amounts(
    ledger: LedgerScene,
) -> None:
    """Guard against a condition with the amounts from before the edit until the growth is admitted."""
    entry = ledger.active(resources={"cpu": "2", "memory": "1Gi"})
    ledger.edit(resources={"cpu": "1", "memory": "2Gi"})
    assert entry.growing
    assert ledger.reserved() == 1000
    assert entry.message == holding_text("cpu 1, memory 1Gi", "node-a")


def test_a_reservation_that_names_another_node_waits_for_that_node(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.store()
    ledger.edit(nodeName="node-b", at=NOW + 1)
    assert (entry.phase, entry.reason, entry.message) == (
        Phase.PENDING,
        reasons.WAITING,
        edited_text("node-b"),
    )
    assert (ledger.reserved(), entry.pending_since) == (0, NOW + 1)
    assert ledger.ledger.waiting_reservations.take(untried_only=True) == [entry]


def test_a_reservation_that_names_its_present_node_stays(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.edit(nodeName="node-a")
    assert (entry.phase, ledger.reserved(), entry.reservation.pinned) == (Phase.ACTIVE, 1000, True)


def test_edited_owners_replace_the_former_owners(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.edit(owners=[{"pod": {"name": "web-1"}}])
    assert ledger.ledger.ownership.of(pod("web-0")) == []
    assert ledger.ledger.ownership.of(pod("web-1")) == [entry]


def test_the_lowest_priority_is_that_of_reservations_with_capacity(ledger: LedgerScene) -> None:
    assert ledger.ledger.holdings.lowest() == inf
    ledger.active("high", priority=9)
    ledger.reservation("waits", priority=1)
    assert ledger.ledger.holdings.lowest() == 9
    ledger.active("low", priority=3)
    assert ledger.ledger.holdings.lowest() == 3
    ledger.edit("low", priority=5)
    assert ledger.ledger.holdings.lowest() == 5
    ledger.consume(pod("web-0", uid="uid-owner"))
    assert ledger.ledger.holdings.lowest() == inf
