"""The expiry of reservations, and the removal of their objects."""

from typing import Any

import pytest

from builders import NOW, pod
from tidelock.ledger.lifecycle import deadlines, lifetime
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from unit.ledger.ledger import LedgerScene

OWNER = pod("web-0")


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


def test_a_reservation_frees_its_capacity_exactly_at_its_expiry(ledger: LedgerScene) -> None:
    entry = ledger.active(ttlSeconds=60)
    freed = ledger.columns.freed
    assert ledger.ledger.next_deadline() == NOW + 60
    ledger.ledger.advance(NOW + 59.999)
    assert (entry.phase, ledger.reserved(), ledger.columns.freed) == (Phase.ACTIVE, 1000, freed)
    ledger.ledger.advance(NOW + 60)
    assert (entry.phase, entry.reason, ledger.reserved()) == (Phase.EXPIRED, reasons.EXPIRED, 0)
    assert ledger.columns.freed > freed
    assert ledger.ledger.ownership.of(OWNER) == []


def test_a_late_expiry_records_when_it_was_due(ledger: LedgerScene) -> None:
    ledger.active(ttlSeconds=60)
    ledger.ledger.advance(NOW + 61)
    change = ledger.ledger.effects.transitions[-1]
    assert (change.at, change.due, change.message) == (NOW + 61, NOW + 60, "spec.ttlSeconds has passed")


def test_a_claim_wins_over_expiry(ledger: LedgerScene) -> None:
    entry = ledger.active(ttlSeconds=60)
    ledger.ledger.claims.claim(OWNER, "node-a", NOW + 59)
    assert ledger.ledger.next_deadline() is None
    ledger.ledger.advance(NOW + 600)
    ledger.ledger.claims.owner_bound(OWNER, "node-a", NOW + 601)
    assert entry.phase is Phase.CONSUMED


def test_reservations_expire_in_the_order_of_their_expiries(ledger: LedgerScene) -> None:
    ledger.active("late", ttlSeconds=20)
    ledger.active("early", ttlSeconds=10)
    ledger.ledger.effects.transitions.clear()
    ledger.ledger.advance(NOW + 30)
    assert [change.meta.name for change in ledger.ledger.effects.transitions] == ["early", "late"]


def test_many_reservations_that_end_at_one_instant_take_several_steps() -> None:
    """Guard against one step for all reservations that a tenant ends at one instant: 50,000 took 2.4 s."""
    ledger = LedgerScene()
    for number in range(1500):
        ledger.reservation(
            f"lock-{number:04}", resources={"cpu": "1m"}, expireAt=format_instant(NOW + 60), ttlSeconds=None
        )
    assert not ledger.ledger.advance(NOW + 60)
    over = [entry for entry in ledger.ledger.entries.values() if entry.phase is Phase.EXPIRED]
    assert 1000 < len(over) < 1500
    assert ledger.ledger.next_deadline() == NOW + 60
    while not ledger.ledger.advance(NOW + 60):
        pass
    assert {entry.phase for entry in ledger.ledger.entries.values()} == {Phase.EXPIRED}


def test_an_edit_moves_the_expiry_but_not_its_beginning(ledger: LedgerScene) -> None:
    entry = ledger.active(ttlSeconds=60)
    ledger.edit(ttlSeconds=120, at=NOW + 30)
    assert (entry.phase, entry.expires_at, ledger.ledger.next_deadline()) == (
        Phase.ACTIVE,
        NOW + 120,
        NOW + 120,
    )


@pytest.mark.parametrize("held", [True, False])
def test_an_edit_with_an_expiry_in_the_past_ends_the_reservation(ledger: LedgerScene, held: bool) -> None:
    entry = ledger.active() if held else ledger.reservation()
    ledger.edit(ttlSeconds=None, expireAt=format_instant(NOW + 5), at=NOW + 10)
    assert (entry.phase, ledger.reserved()) == (Phase.EXPIRED, 0)


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
def test_an_object_is_removable_at_its_time(
    ledger: LedgerScene, phase: Phase, spec: dict[str, Any], removable_at: float | None
) -> None:
    entry = ledger.reservation(**spec)
    assert deadlines.removable_at(entry) is None
    entry.phase, entry.finished_at = phase, END
    assert deadlines.removable_at(entry) == removable_at
    assert deadlines.next_due(entry) == removable_at


def test_an_object_with_a_spec_that_was_never_readable_stays(ledger: LedgerScene) -> None:
    entry = ledger.reservation(owners=[])
    assert (entry.phase, entry.finished_at, deadlines.removable_at(entry)) == (Phase.REJECTED, NOW, None)
    assert lifetime.expiry_from(entry, NOW) is None


def test_a_retained_reservation_is_due_when_it_is_removable(ledger: LedgerScene) -> None:
    entry = ledger.active(retention="Retain", ttlSecondsAfterFinished=30)
    ledger.consume(OWNER, "node-a")
    ledger.ledger.effects.statuses.clear()
    ledger.ledger.advance(NOW + 29)
    assert not ledger.ledger.effects.statuses
    ledger.ledger.advance(NOW + 30)
    assert list(ledger.ledger.effects.statuses) == [entry.key]
    assert ledger.ledger.next_deadline() is None


def test_an_edit_of_an_ended_retained_reservation_reserves_nothing(ledger: LedgerScene) -> None:
    entry = ledger.active(retention="Retain")
    ledger.ledger.advance(NOW + 600)
    ledger.edit(ttlSeconds=6000, ttlSecondsAfterFinished=60, at=NOW + 601)
    assert (entry.phase, entry.expires_at) == (Phase.EXPIRED, NOW + 600)
    assert not ledger.ledger.waiting_reservations.waiting
    assert ledger.ledger.ownership.of(OWNER) == []
    assert ledger.ledger.next_deadline() == NOW + 660
