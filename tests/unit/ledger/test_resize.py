"""Edits of a lock that is held."""

from math import inf

import pytest

from builders import NOW, pod
from tidelock.ledger import reasons
from tidelock.model.api.reservation import Phase
from unit.ledger.ledger import EPOCH, Ledger


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def test_a_lock_shrinks_at_once(ledger: Ledger) -> None:
    entry = ledger.active(resources={"cpu": "2", "memory": "1Gi"})
    ledger.edit(resources={"cpu": "500m"})
    assert (entry.phase, ledger.locked(), entry.message) == (Phase.ACTIVE, 500, "cpu 500m held on node-a")
    assert not ledger.book.waitlist.waiting


def test_growth_waits_while_the_old_size_holds(ledger: Ledger) -> None:
    entry = ledger.active(resources={"cpu": "1"})
    ledger.edit(resources={"cpu": "3"})
    assert (entry.phase, ledger.locked(), entry.message) == (Phase.ACTIVE, 1000, "cpu 1 held on node-a")
    assert ledger.book.waitlist.take(untried_only=True) == [entry]

    ledger.book.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "cpu 2 missing", NOW)
    assert (entry.phase, entry.reason, entry.resize_problem) == (
        Phase.ACTIVE,
        reasons.ADMITTED,
        "cpu 2 missing",
    )

    ledger.admit(entry, at=NOW + 1)
    assert (entry.reason, entry.message, entry.resize_problem) == (
        reasons.ADMITTED,
        "cpu 3 held on node-a",
        "",
    )
    assert (ledger.locked(), entry.expires_at, entry.epoch) == (3000, NOW + 600, EPOCH)
    assert not ledger.book.waitlist.waiting


def test_growth_that_is_refused_has_no_deadline(ledger: Ledger) -> None:
    entry = ledger.active(pendingDeadlineSeconds=0)
    ledger.edit(resources={"cpu": "5"})
    ledger.book.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "cpu 4 missing", NOW)
    ledger.book.advance(NOW + 599)
    assert (entry.phase, ledger.locked()) == (Phase.ACTIVE, 1000)


def test_growth_that_is_taken_back_waits_no_more(ledger: Ledger) -> None:
    entry = ledger.active(resources={"cpu": "1"})
    ledger.edit(resources={"cpu": "9"})
    ledger.book.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "cpu 5 missing", NOW)
    ledger.edit(resources={"cpu": "1"})
    assert (ledger.locked(), entry.resize_problem) == (1000, "")
    assert not ledger.book.waitlist.waiting


def test_growth_that_is_edited_is_tried_again(ledger: Ledger) -> None:
    entry = ledger.active(resources={"cpu": "1"})
    ledger.edit(resources={"cpu": "9"})
    ledger.book.waitlist.take(untried_only=True)
    ledger.edit(resources={"cpu": "2"})
    assert ledger.book.waitlist.take(untried_only=True) == [entry]


def test_a_lock_that_shrinks_in_one_resource_and_grows_in_another_says_what_it_holds(ledger: Ledger) -> None:
    """The condition went on to claim the amounts from before the edit until the growth was admitted."""
    entry = ledger.active(resources={"cpu": "2", "memory": "1Gi"})
    ledger.edit(resources={"cpu": "1", "memory": "2Gi"})
    assert entry.growing
    assert ledger.locked() == 1000
    assert entry.message == "cpu 1, memory 1Gi held on node-a"


def test_a_lock_that_names_another_node_in_a_race_is_placed_there(ledger: Ledger) -> None:
    entry = ledger.active()
    ledger.store()
    ledger.edit(nodeName="node-b", at=NOW + 1)
    assert (entry.phase, entry.reason, entry.message) == (
        Phase.PENDING,
        reasons.WAITING,
        "the spec now names node-b",
    )
    assert (ledger.locked(), entry.pending_since) == (0, NOW + 1)
    assert ledger.book.waitlist.take(untried_only=True) == [entry]


def test_a_lock_that_names_the_node_it_is_on_stays(ledger: Ledger) -> None:
    entry = ledger.active()
    ledger.edit(nodeName="node-a")
    assert (entry.phase, ledger.locked(), entry.pinned) == (Phase.ACTIVE, 1000, True)


def test_owners_that_change_in_a_race_are_the_owners(ledger: Ledger) -> None:
    entry = ledger.active()
    ledger.edit(owners=[{"pod": {"name": "web-1"}}])
    assert ledger.book.ownership.of(pod("web-0")) == []
    assert ledger.book.ownership.of(pod("web-1")) == [entry]


def test_the_lowest_priority_is_that_of_the_locks_that_hold_room(ledger: Ledger) -> None:
    assert ledger.book.rooms.lowest() == inf
    ledger.active("high", priority=9)
    ledger.lock("waits", priority=1)
    assert ledger.book.rooms.lowest() == 9
    ledger.active("low", priority=3)
    assert ledger.book.rooms.lowest() == 3
    ledger.edit("low", priority=5)
    assert ledger.book.rooms.lowest() == 5
    ledger.consume(pod("web-0", uid="uid-owner"))
    assert ledger.book.rooms.lowest() == inf
