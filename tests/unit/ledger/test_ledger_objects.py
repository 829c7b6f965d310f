"""Events and answers about Reservations from the API server, in any order."""

from dataclasses import replace

import pytest

from builders import NOW, pod
from tidelock.model.api.reservation import Phase
from unit.ledger.ledger import LedgerScene


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


def nothing_is_left(ledger: LedgerScene) -> bool:
    book = ledger.ledger
    empty = not (
        book.entries
        or book.waiting_reservations.waiting
        or book.waiting_reservations.untried
        or book.effects.statuses
        or book.holdings.nodes_with_reservations()
    )
    return (
        empty and book.next_deadline() is None and book.ownership.of(pod()) == [] and ledger.reserved() == 0
    )


@pytest.mark.parametrize("held", [True, False])
def test_a_deleted_reservation_leaves_nothing(ledger: LedgerScene, held: bool) -> None:
    ledger.active() if held else ledger.reservation()
    ledger.ledger.remove(ledger.next_version())
    assert nothing_is_left(ledger)
    ledger.ledger.remove(ledger.next_version())
    assert nothing_is_left(ledger)


@pytest.mark.parametrize("known", [True, False])
def test_a_reservation_that_is_being_deleted_only_has_a_status_left(ledger: LedgerScene, known: bool) -> None:
    if known:
        ledger.active()
    ledger.ledger.upsert(ledger.next_version(deleted=True), NOW)
    assert list(ledger.ledger.effects.statuses) == list(ledger.ledger.records.leaving)
    ledger.ledger.effects.statuses.clear()
    assert nothing_is_left(ledger)
    ledger.ledger.upsert(ledger.next_version(version=0), NOW)  # an older version comes late
    assert nothing_is_left(ledger)
    ledger.ledger.upsert(ledger.next_version("lock", uid="another", deleted=False, version=9), NOW)
    assert ledger.entry().uid == "another"
    assert not ledger.ledger.records.leaving


def test_a_reservation_with_the_same_name_and_another_uid_is_another(ledger: LedgerScene) -> None:
    ledger.active()
    recreated = ledger.reservation(uid="another")
    assert (recreated.phase, recreated.uid, ledger.reserved()) == (Phase.PENDING, "another", 0)
    ledger.ledger.remove(ledger.next_version(uid="uid-lock"))
    assert ledger.entry() is recreated


def test_the_same_version_again_changes_nothing(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.ledger.upsert(entry.reservation, NOW + 1)
    assert ledger.entry() is entry
    assert (entry.phase, ledger.reserved(), len(ledger.ledger.effects.transitions)) == (
        Phase.ACTIVE,
        1000,
        1,
    )


def test_the_version_of_an_own_write_is_known_before_its_watch_event(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.ledger.acknowledge(ledger.next_version(version=5, status={"phase": "Active"}))
    assert (entry.reservation.meta.version, entry.reservation.status) == (5, {"phase": "Active"})


def test_a_watch_event_from_before_an_own_write_is_ignored(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.ledger.acknowledge(ledger.next_version(version=5, status={"phase": "Active"}))
    ledger.ledger.upsert(ledger.next_version(version=4, status={}), NOW)
    assert entry.reservation.status == {"phase": "Active"}


def test_the_watch_event_of_an_acknowledged_write_publishes_nothing(ledger: LedgerScene) -> None:
    """Guard against another comparison and another update of all indexes for each status of its own."""
    ledger.active()
    written = ledger.next_version(version=5, status={"phase": "Active"})
    ledger.ledger.acknowledge(written)
    ledger.ledger.effects.take()
    ledger.ledger.upsert(written, NOW + 1)
    assert not ledger.ledger.effects
    ledger.ledger.upsert(replace(written, status={"phase": "Pending"}), NOW + 1)
    assert list(ledger.ledger.effects.statuses) == [written.key]


def test_an_edit_in_the_answer_to_an_own_write_is_applied_with_its_watch_event(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "2"})
    edited = ledger.next_version(version=5, generation=2, resources={"cpu": "1"})
    ledger.ledger.acknowledge(edited)
    assert (entry.reservation.meta.generation, ledger.reserved()) == (1, 2000)
    ledger.ledger.upsert(edited, NOW)
    assert (entry.reservation.meta.generation, ledger.reserved()) == (2, 1000)


def test_an_answer_that_is_older_than_the_last_watch_event_is_ignored(ledger: LedgerScene) -> None:
    entry = ledger.active(version=6, status={"phase": "Active"})
    ledger.ledger.acknowledge(ledger.next_version(version=5, status={}))
    assert (entry.reservation.meta.version, entry.reservation.status) == (6, {"phase": "Active"})


def test_an_answer_about_an_unknown_or_recreated_reservation_is_ignored(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.ledger.acknowledge(ledger.next_version(uid="another", version=9))
    assert entry.reservation.meta.version == 1
    elsewhere = ledger.next_version("elsewhere")
    ledger.ledger.acknowledge(replace(elsewhere, status={"phase": "Active"}))
    assert list(ledger.ledger.entries) == [entry.key]
