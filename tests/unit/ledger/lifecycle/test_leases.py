"""Leases: locks whose holders have to renew them."""

from typing import Any

import pytest

from builders import NOW, Json, pod
from tidelock.ledger import reasons
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.output.status import render_reservation
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from unit.ledger.ledger import LedgerScene

OWNER = pod("web-0")
LEASE = {"durationSeconds": 30, "graceSeconds": 10}
LAPSE, LOSS = NOW + 30, NOW + 40
NOT_RENEWED = f"not renewed since {format_instant(NOW)}, lost at {format_instant(LOSS)}"


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


def renewed(at: float) -> dict[str, Any]:
    return {"lease": LEASE | {"renewTime": format_instant(at)}}


def events(ledger: LedgerScene) -> list[Event]:
    found = [change.event for change in ledger.ledger.effects.transitions]
    ledger.ledger.effects.transitions.clear()
    return found


def conditions(status: Json) -> dict[str, tuple[str, str, str]]:
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in status["conditions"]}


def test_a_lock_that_is_not_renewed_lapses_and_is_then_lost(ledger: LedgerScene) -> None:
    entry = ledger.active(lease=LEASE)
    assert events(ledger) == [Event.ADMIT]
    assert ledger.ledger.next_deadline() == LAPSE
    ledger.ledger.advance(LAPSE - 0.001)
    assert events(ledger) == []
    ledger.ledger.advance(LAPSE)
    assert (entry.phase, ledger.reserved(), ledger.ledger.next_deadline()) == (Phase.ACTIVE, 1000, LOSS)
    assert events(ledger) == [Event.LAPSE]
    ledger.ledger.advance(LOSS)
    assert (entry.phase, entry.reason, ledger.reserved()) == (Phase.EXPIRED, reasons.LEASE_EXPIRED, 0)
    assert entry.message == f"spec.lease: {NOT_RENEWED}"
    assert (
        ledger.ledger.effects.transitions[-1].event,
        ledger.ledger.effects.transitions[-1].due,
    ) == (Event.FORFEIT, LOSS)


def test_the_grace_is_told_while_the_lock_still_holds(ledger: LedgerScene) -> None:
    entry = ledger.active(lease=LEASE)
    ledger.ledger.advance(LAPSE)
    status = render_reservation(entry, LAPSE)
    told = conditions(status)
    assert told["Active"][0] == "True"
    assert told["Ready"] == ("False", "NotRenewed", NOT_RENEWED)
    assert told["LeaseLapsed"] == ("True", "NotRenewed", NOT_RENEWED)
    assert status["lease"] == {
        "renewedAt": format_instant(NOW),
        "renewBy": format_instant(LAPSE),
        "lostAt": format_instant(LOSS),
    }


@pytest.mark.parametrize("skew", [-1000, 0, 1000])
def test_a_renewal_counts_from_when_it_is_seen_whatever_the_clock_of_the_holder(
    ledger: LedgerScene, skew: float
) -> None:
    entry = ledger.active(lease=LEASE)
    ledger.edit(at=NOW + 20, **renewed(NOW + 20 + skew))
    assert ledger.ledger.next_deadline() == NOW + 50
    assert render_reservation(entry, NOW + 20)["lease"]["renewBy"] == format_instant(NOW + 50)
    assert events(ledger) == [Event.ADMIT]


def test_a_renewal_within_the_grace_saves_the_lock(ledger: LedgerScene) -> None:
    entry = ledger.active(lease=LEASE)
    ledger.ledger.advance(LAPSE)
    ledger.edit(at=NOW + 35, **renewed(NOW + 35))
    assert events(ledger)[-1] is Event.RENEW
    assert ledger.ledger.next_deadline() == NOW + 65
    assert "LeaseLapsed" not in conditions(render_reservation(entry, NOW + 35))


def test_the_same_renew_time_is_no_renewal(ledger: LedgerScene) -> None:
    ledger.active(**renewed(NOW))
    ledger.edit(at=NOW + 20, priority=1)
    assert ledger.ledger.next_deadline() == LAPSE


def test_without_grace_a_lock_is_lost_when_it_lapses(ledger: LedgerScene) -> None:
    entry = ledger.active(lease={"durationSeconds": 30, "graceSeconds": 0})
    ledger.ledger.advance(LAPSE)
    assert entry.phase is Phase.EXPIRED
    assert events(ledger) == [Event.ADMIT, Event.LAPSE, Event.FORFEIT]


def test_a_waiting_lock_goes_with_its_holder(ledger: LedgerScene) -> None:
    entry = ledger.reservation(lease=LEASE, pendingDeadlineSeconds=600)
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    ledger.ledger.advance(LAPSE)
    told = conditions(render_reservation(entry, LAPSE))
    assert told["Active"] == ("False", "InsufficientCapacity", "full")
    assert told["LeaseLapsed"][0] == "True"
    ledger.ledger.advance(LOSS)
    assert (entry.phase, ledger.ledger.waiting_reservations.waiting) == (Phase.EXPIRED, {})


def test_a_renewal_neither_tries_a_waiting_lock_again_nor_brings_a_rejected_one_back(
    ledger: LedgerScene,
) -> None:
    entry = ledger.reservation(lease=LEASE, pendingDeadlineSeconds=25)
    ledger.ledger.waiting_reservations.take(untried_only=True)
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    ledger.edit(at=NOW + 5, **renewed(NOW + 5))
    assert not ledger.ledger.waiting_reservations.untried
    ledger.ledger.advance(NOW + 25)
    ledger.edit(at=NOW + 26, **renewed(NOW + 26))
    assert entry.phase is Phase.REJECTED
    ledger.edit(at=NOW + 27, resources={"cpu": "2"})
    assert (entry.phase, entry.lease and entry.lease.renew_by) == (Phase.PENDING, NOW + 57)


@pytest.mark.parametrize(("ttl", "reason"), [(35, reasons.EXPIRED), (45, reasons.LEASE_EXPIRED)])
def test_of_expiry_and_loss_the_first_comes(ledger: LedgerScene, ttl: int, reason: str) -> None:
    entry = ledger.active(lease=LEASE, ttlSeconds=ttl)
    ledger.ledger.advance(LAPSE)
    ledger.ledger.advance(NOW + 100)
    assert entry.reason == reason


def test_a_claim_wins_over_the_loss_of_the_lease(ledger: LedgerScene) -> None:
    entry = ledger.active(lease=LEASE)
    ledger.ledger.advance(LAPSE)
    ledger.ledger.claims.claim(OWNER, "node-a", NOW + 39)
    ledger.ledger.advance(NOW + 100)
    ledger.ledger.claims.owner_bound(OWNER, "node-a", NOW + 100)
    assert entry.phase is Phase.CONSUMED


@pytest.mark.parametrize("lapses", [True, False])
def test_after_a_failed_binding_the_lease_counts_as_if_there_had_been_none(
    ledger: LedgerScene, lapses: bool
) -> None:
    entry = ledger.active(lease=LEASE)
    if lapses:
        ledger.ledger.advance(LAPSE)
    ledger.ledger.claims.claim(OWNER, "node-a", LAPSE)
    ledger.ledger.claims.unclaim(OWNER.uid, NOW + 100)
    ledger.ledger.advance(NOW + 100)
    assert (entry.phase, entry.reason) == (Phase.EXPIRED, reasons.LEASE_EXPIRED)
    assert entry.lease is not None
    assert entry.lease.lost_at == LOSS


def test_a_lease_may_come_change_and_go(ledger: LedgerScene) -> None:
    entry = ledger.active(ttlSeconds=600)
    ledger.edit(at=NOW + 10, lease=LEASE)
    assert ledger.ledger.next_deadline() == NOW + 40
    ledger.ledger.advance(NOW + 40)
    ledger.edit(at=NOW + 41, lease={"durationSeconds": 60})
    assert ledger.ledger.next_deadline() == NOW + 70
    ledger.edit(at=NOW + 42, lease=None)
    assert (entry.lease, ledger.ledger.next_deadline()) == (None, NOW + 600)


def test_a_lease_is_counted_on_by_the_next_process(ledger: LedgerScene) -> None:
    ledger.active(**renewed(NOW))
    successor, _ = ledger.succeeded(at=NOW + 20)
    assert successor.ledger.next_deadline() == LAPSE


def test_a_renewal_while_no_process_ran_counts_from_the_start_of_the_next(ledger: LedgerScene) -> None:
    ledger.active(**renewed(NOW))
    successor, _ = ledger.succeeded(at=NOW + 500, generation=2, **renewed(NOW + 490))
    assert successor.ledger.next_deadline() == NOW + 530


def test_a_lease_that_ran_out_with_its_grace_while_no_process_ran_is_lost_at_first_sight(
    ledger: LedgerScene,
) -> None:
    """It had a whole grace more, from when the next process noted it, though its holder was gone for long."""
    ledger.active(lease=LEASE)
    successor, entry = ledger.succeeded(at=NOW + 500)
    successor.ledger.advance(NOW + 500)
    assert (entry.phase, entry.reason, successor.reserved()) == (Phase.EXPIRED, reasons.LEASE_EXPIRED, 0)
    assert [(change.event, change.due) for change in successor.ledger.effects.transitions] == [
        (Event.LAPSE, LAPSE),
        (Event.FORFEIT, LOSS),
    ]


def test_of_a_grace_that_began_while_no_process_ran_the_rest_is_left(ledger: LedgerScene) -> None:
    ledger.active(lease=LEASE)
    successor, entry = ledger.succeeded(at=LAPSE + 4)
    successor.ledger.advance(LAPSE + 4)
    assert (entry.phase, successor.ledger.next_deadline()) == (Phase.ACTIVE, LOSS)


def test_a_loss_that_was_announced_stands_whatever_process_runs(ledger: LedgerScene) -> None:
    ledger.active(lease=LEASE)
    ledger.ledger.advance(LAPSE)
    render_reservation(ledger.entry(), LAPSE)
    successor, entry = ledger.succeeded(at=NOW + 35)
    assert successor.ledger.next_deadline() == LOSS
    successor.ledger.advance(NOW + 500)
    assert entry.reason == reasons.LEASE_EXPIRED


def test_a_loss_that_was_announced_stands_when_the_clock_is_set_back(ledger: LedgerScene) -> None:
    """A next process took a clock that showed less than the end of the lease for a lease that lasts longer.

    It took the announced loss back, and gave the holder another grace, which the process before it did not.
    """
    ledger.active(lease=LEASE)
    ledger.ledger.advance(LAPSE)
    render_reservation(ledger.entry(), LAPSE)
    successor, entry = ledger.succeeded(at=NOW + 10)
    assert entry.lease is not None
    assert (entry.lease.lost_at, successor.ledger.next_deadline()) == (LOSS, LOSS)


def test_how_a_lease_was_lost_is_told_of_a_tombstone(ledger: LedgerScene) -> None:
    entry = ledger.active(lease=LEASE, retention="Retain")
    ledger.ledger.advance(LAPSE)
    ledger.ledger.advance(LOSS)
    status = render_reservation(entry, LOSS)
    assert conditions(status)["Expired"][1] == "LeaseExpired"
    assert status["lease"]["lostAt"] == format_instant(LOSS)
    assert render_reservation(ledger.readopted(at=LOSS + 5), LOSS + 5) == status


def test_a_renewal_in_the_last_second_that_can_be_written_has_a_status(ledger: LedgerScene) -> None:
    """A `renewTime` of 9999-12-31T23:59:59.9999999Z rounded up to the year 10000: its status could not be
    written, and the operator ended, again after each restart.
    """
    entry = ledger.active(lease=LEASE | {"renewTime": "9999-12-31T23:59:59.9999999Z"})
    assert render_reservation(entry, NOW)["lease"]["renewTime"] == "9999-12-31T23:59:59.999Z"
