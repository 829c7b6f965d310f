"""The end of a lock's time, and of its object's."""

from typing import Any

import pytest

from builders import NOW, pod
from tidelock.ledger import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from unit.ledger.ledger import Ledger

OWNER = pod("web-0")


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def test_a_lock_frees_its_room_at_the_instant_itself(ledger: Ledger) -> None:
    entry = ledger.active(ttlSeconds=60)
    freed = ledger.columns.freed
    assert ledger.book.next_deadline() == NOW + 60
    ledger.book.advance(NOW + 59.999)
    assert (entry.phase, ledger.locked(), ledger.columns.freed) == (Phase.ACTIVE, 1000, freed)
    ledger.book.advance(NOW + 60)
    assert (entry.phase, entry.reason, ledger.locked()) == (Phase.EXPIRED, reasons.EXPIRED, 0)
    assert ledger.columns.freed > freed
    assert ledger.book.ownership.of(OWNER) == []


def test_a_late_expiry_tells_when_it_was_due(ledger: Ledger) -> None:
    ledger.active(ttlSeconds=60)
    ledger.book.advance(NOW + 61)
    change = ledger.book.changes[-1]
    assert (change.at, change.due, change.message) == (NOW + 61, NOW + 60, "spec.ttlSeconds has passed")


def test_a_claim_wins_over_expiry(ledger: Ledger) -> None:
    entry = ledger.active(ttlSeconds=60)
    ledger.book.claim(OWNER, "node-a", NOW + 59)
    assert ledger.book.next_deadline() is None
    ledger.book.advance(NOW + 600)
    ledger.book.owner_bound(OWNER, "node-a", NOW + 601)
    assert entry.phase is Phase.CONSUMED


def test_locks_expire_in_the_order_of_their_instants(ledger: Ledger) -> None:
    ledger.active("late", ttlSeconds=20)
    ledger.active("early", ttlSeconds=10)
    ledger.book.changes.clear()
    ledger.book.advance(NOW + 30)
    assert [change.meta.name for change in ledger.book.changes] == ["early", "late"]


def test_an_edit_moves_the_expiry_but_not_its_beginning(ledger: Ledger) -> None:
    entry = ledger.active(ttlSeconds=60)
    ledger.edit(ttlSeconds=120, at=NOW + 30)
    assert (entry.phase, entry.expires_at, ledger.book.next_deadline()) == (
        Phase.ACTIVE,
        NOW + 120,
        NOW + 120,
    )


@pytest.mark.parametrize("held", [True, False])
def test_an_edit_that_puts_the_expiry_in_the_past_ends_the_lock(ledger: Ledger, held: bool) -> None:
    entry = ledger.active() if held else ledger.lock()
    ledger.edit(ttlSeconds=None, expireAt=format_instant(NOW + 5), at=NOW + 10)
    assert (entry.phase, ledger.locked()) == (Phase.EXPIRED, 0)


CONSUMED, EXPIRED, LOST, REJECTED = Phase.CONSUMED, Phase.EXPIRED, Phase.LOST, Phase.REJECTED
END = NOW + 5
AT_EXPIRE_AT = {"ttlSeconds": None, "expireAt": format_instant(END)}


@pytest.mark.parametrize(
    ("phase", "spec", "removable_at"),
    [
        (CONSUMED, {}, END),
        (EXPIRED, {}, END),
        (LOST, {}, END + 600),
        (REJECTED, {}, END + 600),
        (LOST, AT_EXPIRE_AT, END),
        (REJECTED, AT_EXPIRE_AT, END),
        (CONSUMED, {"ttlSecondsAfterFinished": 30}, END),
        (EXPIRED, {"ttlSecondsAfterFinished": 30}, END),
        (LOST, {"ttlSecondsAfterFinished": 30}, END + 30),
        (REJECTED, {"ttlSecondsAfterFinished": 0}, END),
        *((phase, {"retention": "Retain"}, None) for phase in (CONSUMED, EXPIRED, LOST, REJECTED)),
        *(
            (phase, {"retention": "Retain", "ttlSecondsAfterFinished": 30}, END + 30)
            for phase in (CONSUMED, EXPIRED, LOST, REJECTED)
        ),
    ],
)
def test_an_object_goes_at_its_time(
    ledger: Ledger, phase: Phase, spec: dict[str, Any], removable_at: float | None
) -> None:
    entry = ledger.lock(**spec)
    assert entry.removable_at() is None
    entry.phase, entry.finished_at = phase, END
    assert entry.removable_at() == removable_at
    assert entry.deadline() == removable_at


def test_an_object_whose_spec_was_never_readable_stays(ledger: Ledger) -> None:
    entry = ledger.lock(owners=[])
    assert (entry.phase, entry.finished_at, entry.removable_at()) == (Phase.REJECTED, NOW, None)
    assert entry.expiry_from(NOW) is None


def test_a_tombstone_is_taken_up_when_it_may_go(ledger: Ledger) -> None:
    entry = ledger.active(retention="Retain", ttlSecondsAfterFinished=30)
    ledger.consume(OWNER, "node-a")
    ledger.book.changed.clear()
    ledger.book.advance(NOW + 29)
    assert not ledger.book.changed
    ledger.book.advance(NOW + 30)
    assert list(ledger.book.changed) == [entry.key]
    assert ledger.book.next_deadline() is None


def test_what_a_tombstone_locked_is_not_locked_again_by_an_edit(ledger: Ledger) -> None:
    entry = ledger.active(retention="Retain")
    ledger.book.advance(NOW + 600)
    ledger.edit(ttlSeconds=6000, ttlSecondsAfterFinished=60, at=NOW + 601)
    assert (entry.phase, entry.expires_at) == (Phase.EXPIRED, NOW + 600)
    assert not ledger.book.waitlist.waiting
    assert ledger.book.ownership.of(OWNER) == []
    assert ledger.book.next_deadline() == NOW + 660
