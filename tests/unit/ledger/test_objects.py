"""What the API server says of Reservations, in whatever order it arrives."""

from dataclasses import replace

import pytest

from builders import NOW, pod
from tidelock.model.api.reservation import Phase
from unit.ledger.ledger import Ledger


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def nothing_is_left(ledger: Ledger) -> bool:
    book = ledger.book
    empty = not (
        book.entries
        or book.waitlist.waiting
        or book.waitlist.untried
        or book.changed
        or book.rooms.nodes_with_locks()
    )
    return empty and book.next_deadline() is None and book.ownership.of(pod()) == [] and ledger.locked() == 0


@pytest.mark.parametrize("held", [True, False])
def test_a_lock_that_is_deleted_leaves_nothing(ledger: Ledger, held: bool) -> None:
    ledger.active() if held else ledger.lock()
    ledger.book.remove(ledger.reservation())
    assert nothing_is_left(ledger)
    ledger.book.remove(ledger.reservation())
    assert nothing_is_left(ledger)


@pytest.mark.parametrize("known", [True, False])
def test_of_a_lock_that_is_being_deleted_the_status_alone_is_left(ledger: Ledger, known: bool) -> None:
    if known:
        ledger.active()
    ledger.book.upsert(ledger.reservation(deleted=True), NOW)
    assert list(ledger.book.changed) == list(ledger.book.leaving)
    ledger.book.changed.clear()
    assert nothing_is_left(ledger)
    ledger.book.upsert(ledger.reservation(version=0), NOW)  # an older version comes late
    assert nothing_is_left(ledger)
    ledger.book.upsert(ledger.reservation("lock", uid="another", deleted=False, version=9), NOW)
    assert ledger.entry().uid == "another"
    assert not ledger.book.leaving


def test_a_lock_of_the_same_name_is_another(ledger: Ledger) -> None:
    ledger.active()
    recreated = ledger.lock(uid="another")
    assert (recreated.phase, recreated.uid, ledger.locked()) == (Phase.PENDING, "another", 0)
    ledger.book.remove(ledger.reservation(uid="uid-lock"))
    assert ledger.entry() is recreated


def test_the_same_version_again_changes_nothing(ledger: Ledger) -> None:
    entry = ledger.active()
    ledger.book.upsert(entry.reservation, NOW + 1)
    assert ledger.entry() is entry
    assert (entry.phase, ledger.locked(), len(ledger.book.changes)) == (Phase.ACTIVE, 1000, 1)


def test_the_version_of_an_own_write_is_known_before_the_watch_tells(ledger: Ledger) -> None:
    entry = ledger.active()
    ledger.book.acknowledge(ledger.reservation(version=5, status={"phase": "Active"}))
    assert (entry.reservation.meta.version, entry.reservation.status) == (5, {"phase": "Active"})


def test_an_echo_from_before_an_own_write_is_passed_over(ledger: Ledger) -> None:
    entry = ledger.active()
    ledger.book.acknowledge(ledger.reservation(version=5, status={"phase": "Active"}))
    ledger.book.upsert(ledger.reservation(version=4, status={}), NOW)
    assert entry.reservation.status == {"phase": "Active"}


def test_an_own_write_does_not_hide_an_edit_that_it_answers_with(ledger: Ledger) -> None:
    entry = ledger.active(resources={"cpu": "2"})
    edited = ledger.reservation(version=5, generation=2, resources={"cpu": "1"})
    ledger.book.acknowledge(edited)
    assert (entry.reservation.meta.generation, ledger.locked()) == (1, 2000)
    ledger.book.upsert(edited, NOW)
    assert (entry.reservation.meta.generation, ledger.locked()) == (2, 1000)


def test_an_own_write_that_the_watch_has_told_of_is_no_news(ledger: Ledger) -> None:
    entry = ledger.active(version=6, status={"phase": "Active"})
    ledger.book.acknowledge(ledger.reservation(version=5, status={}))
    assert (entry.reservation.meta.version, entry.reservation.status) == (6, {"phase": "Active"})


def test_a_write_to_a_lock_that_is_gone_or_another_is_passed_over(ledger: Ledger) -> None:
    entry = ledger.active()
    ledger.book.acknowledge(ledger.reservation(uid="another", version=9))
    assert entry.reservation.meta.version == 1
    elsewhere = ledger.reservation("elsewhere")
    ledger.book.acknowledge(replace(elsewhere, status={"phase": "Active"}))
    assert list(ledger.book.entries) == [entry.key]
