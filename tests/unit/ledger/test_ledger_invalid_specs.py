"""Invalid specs that only the operator can detect."""

import pytest

from builders import NOW, pod
from tidelock.ledger.lifecycle import deadlines
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from unit.ledger.ledger import LedgerScene

BAD = {"cpu": "much"}
MENDED = {"cpu": "1"}
OWNER = pod("web-0")


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


def test_a_new_reservation_with_an_invalid_spec_is_rejected_at_once(ledger: LedgerScene) -> None:
    entry = ledger.reservation(resources=BAD)
    assert (entry.phase, entry.reason, entry.finished_at) == (Phase.REJECTED, reasons.INVALID_SPEC, NOW)
    assert "spec.resources" in entry.message
    assert (entry.message, entry.order[0], entry.reservation.retained) == (entry.problem, 0, False)
    assert not ledger.ledger.waiting_reservations.waiting
    assert ledger.ledger.ownership.of(OWNER) == []


def test_a_waiting_reservation_is_rejected_when_its_spec_becomes_invalid(ledger: LedgerScene) -> None:
    entry = ledger.reservation()
    ledger.edit(resources=BAD, at=NOW + 1)
    assert (entry.phase, entry.reason, entry.finished_at) == (Phase.REJECTED, reasons.INVALID_SPEC, NOW + 1)
    assert not ledger.ledger.waiting_reservations.waiting
    assert ledger.ledger.ownership.of(OWNER) == []


def test_a_rejected_reservation_shows_that_its_spec_has_become_invalid(ledger: LedgerScene) -> None:
    entry = ledger.reservation(pendingDeadlineSeconds=0)
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    ledger.edit(resources=BAD)
    assert (entry.phase, entry.reason, entry.message) == (Phase.REJECTED, reasons.INVALID_SPEC, entry.problem)


@pytest.mark.parametrize("known_before", [True, False])
def test_a_reservation_waits_again_when_its_spec_is_corrected(
    ledger: LedgerScene, known_before: bool
) -> None:
    entry = ledger.reservation(resources=MENDED if known_before else BAD)
    ledger.edit(resources=BAD)
    ledger.edit(resources=MENDED, at=NOW + 5)
    assert (entry.phase, entry.reason, entry.problem) == (Phase.PENDING, reasons.WAITING, "")
    assert (entry.pending_since, entry.finished_at) == (NOW + 5, None)
    assert ledger.ledger.waiting_reservations.take(untried_only=True) == [entry]
    assert ledger.ledger.ownership.of(OWNER) == [entry]


def test_held_capacity_follows_the_last_readable_spec(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "2"}, ttlSeconds=60)
    ledger.edit(resources=BAD, ttlSeconds=6000)
    assert (entry.phase, ledger.reserved(), entry.reservation.meta.generation) == (Phase.ACTIVE, 2000, 2)
    assert "spec.resources" in entry.problem
    assert ledger.ledger.ownership.of(OWNER) == [entry]
    ledger.ledger.advance(NOW + 60)
    assert (entry.phase, deadlines.removable_at(entry)) == (Phase.EXPIRED, NOW + 60)


def test_held_capacity_follows_the_corrected_spec(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "2"})
    ledger.edit(resources=BAD)
    ledger.edit(resources=MENDED)
    assert (entry.phase, entry.problem, ledger.reserved()) == (Phase.ACTIVE, "", 1000)


def test_an_active_reservation_with_an_invalid_spec_is_rejected_when_it_loses_its_capacity(
    ledger: LedgerScene,
) -> None:
    entry = ledger.active()
    ledger.edit(resources=BAD)
    ledger.drop_node("node-a", at=NOW + 1)
    assert (entry.phase, entry.reason, entry.message) == (Phase.REJECTED, reasons.INVALID_SPEC, entry.problem)
    assert (entry.finished_at, ledger.ledger.waiting_reservations.waiting) == (NOW + 1, {})


def test_a_waiting_reservation_that_became_invalid_during_a_claim_is_rejected_afterwards(
    ledger: LedgerScene,
) -> None:
    entry = ledger.reservation()
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    ledger.edit(resources=BAD)
    assert entry.phase is Phase.BOUND
    ledger.ledger.claims.unclaim(OWNER.uid, NOW + 1)
    assert (entry.phase, entry.reason) == (Phase.REJECTED, reasons.INVALID_SPEC)


def test_an_invalid_spec_does_not_change_a_retained_reservation(ledger: LedgerScene) -> None:
    entry = ledger.active(retention="Retain")
    ledger.consume(OWNER, "node-a")
    ledger.edit(resources=BAD)
    assert (entry.phase, entry.reason, entry.reservation.retained) == (Phase.CONSUMED, reasons.CONSUMED, True)


def test_the_next_process_keeps_an_active_reservation_with_an_invalid_spec(ledger: LedgerScene) -> None:
    ledger.active(resources={"cpu": "2"})
    ledger.edit(resources=BAD)
    adopted = ledger.readopted(at=NOW + 1)
    assert (adopted.phase, adopted.held, adopted.reservation.pinned) == (
        Phase.ACTIVE,
        {"cpu": 2000, "pods": 1},
        False,
    )
    assert (adopted.expires_at, adopted.wanting) == (NOW + 600, False)
    assert "spec.resources" in adopted.problem


def test_a_restored_reservation_with_an_invalid_spec_is_rejected_when_it_is_displaced(
    ledger: LedgerScene,
) -> None:
    ledger.active(resources={"cpu": "2"})
    ledger.edit(resources=BAD)
    successor, adopted = ledger.succeeded()
    successor.put_node("node-a", cpu="1")
    assert (adopted.phase, adopted.reason) == (Phase.REJECTED, reasons.INVALID_SPEC)
    assert (successor.reserved(), successor.ledger.waiting_reservations.waiting) == (0, {})
