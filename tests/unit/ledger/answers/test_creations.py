"""Reservations that are proposed, answered, and not stored yet."""

from builders import NOW
from tidelock.model import reasons
from tidelock.model.answer import UNSEEN_SECONDS
from tidelock.model.api.reservation import Phase
from unit.ledger.answered import OWNER, Scene

# Creations.


def test_a_proposed_reservation_is_decided_like_any_other_and_is_no_object(ledger: Scene) -> None:
    entry = ledger.propose(resources={"cpu": "2"})
    assert ledger.ledger.waiting_reservations.untried == {entry.key: entry}
    ledger.admit(entry)
    assert (entry.phase, ledger.reserved()) == (Phase.ACTIVE, 2000)
    assert ledger.ledger.effects.answers == {entry.key: None}
    assert ledger.effects() == ([], [], set())
    assert ledger.ledger.ownership.of(OWNER) == []


def test_a_creation_that_is_not_decided_gets_no_answer(ledger: Scene) -> None:
    entry = ledger.propose()
    assert ledger.answers.conclude("once", NOW, stored=True) is None
    assert entry.key not in ledger.ledger.entries
    assert ledger.ledger.next_deadline() is None


def test_a_refused_creation_holds_nothing_and_waits_for_nothing(ledger: Scene) -> None:
    entry = ledger.propose()
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    status = ledger.answers.conclude("once", NOW, stored=True)
    assert status is not None
    assert status["phase"] == "Pending"
    assert not ledger.ledger.entries
    assert not ledger.ledger.waiting_reservations.waiting


def test_a_dry_run_is_answered_and_holds_nothing(ledger: Scene) -> None:
    ledger.admit(ledger.propose())
    status = ledger.answers.conclude("once", NOW, stored=False)
    assert status is not None
    assert (status["phase"], ledger.reserved(), ledger.answers.find("once")) == ("Active", 0, None)


def test_a_withdrawn_creation_frees_its_capacity(ledger: Scene) -> None:
    ledger.admit(ledger.propose())
    freed = ledger.columns.freed
    ledger.answers.withdraw("once")
    assert (ledger.reserved(), ledger.columns.freed > freed) == (0, True)
    assert ledger.effects() == ([], [], set())
    ledger.answers.withdraw("once")


def test_two_creations_of_one_name_hold_both(ledger: Scene) -> None:
    first, second = ledger.grant("one"), ledger.grant("two")
    assert ledger.reserved() == 2000
    ledger.reservation(annotations=second)
    assert (ledger.entry().phase, ledger.reserved()) == (Phase.ACTIVE, 2000)
    ledger.ledger.advance(NOW + UNSEEN_SECONDS)
    assert ledger.reserved() == 1000
    assert first != second


def test_a_creation_that_is_not_stored_lapses(ledger: Scene) -> None:
    ledger.grant()
    assert ledger.ledger.next_deadline() == NOW + UNSEEN_SECONDS
    ledger.ledger.advance(NOW + UNSEEN_SECONDS - 0.001)
    assert ledger.reserved() == 1000
    ledger.ledger.advance(NOW + UNSEEN_SECONDS)
    assert (ledger.reserved(), ledger.answers.find("once"), ledger.ledger.next_deadline()) == (0, None, None)


def test_a_creation_lapses_in_time_when_the_clock_is_set_back(ledger: Scene) -> None:
    ledger.grant()
    ledger.ledger.advance(NOW + 30)
    ledger.ledger.advance(NOW - 3600)
    assert ledger.ledger.next_deadline() == NOW - 3600 + UNSEEN_SECONDS - 30
    ledger.ledger.advance(NOW - 3600 + UNSEEN_SECONDS - 30)
    assert ledger.reserved() == 0
