"""Leases: reservations that their holders must renew."""

from typing import Any

import pytest

from builders import NOW, Json, pod
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.output.status import render_reservation
from tidelock.model import reasons
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


def test_a_lease_that_is_not_renewed_lapses_and_then_the_reservation_expires(ledger: LedgerScene) -> None:
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


def test_conditions_show_the_grace_period_while_the_capacity_is_still_held(ledger: LedgerScene) -> None:
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
def test_a_renewal_counts_from_when_it_is_seen_whatever_the_holders_clock_shows(
    ledger: LedgerScene, skew: float
) -> None:
    entry = ledger.active(lease=LEASE)
    ledger.edit(at=NOW + 20, **renewed(NOW + 20 + skew))
    assert ledger.ledger.next_deadline() == NOW + 50
    assert render_reservation(entry, NOW + 20)["lease"]["renewBy"] == format_instant(NOW + 50)
    assert events(ledger) == [Event.ADMIT]


def test_a_renewal_within_the_grace_period_keeps_the_reservation(ledger: LedgerScene) -> None:
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


def test_without_a_grace_period_a_reservation_expires_when_its_lease_lapses(ledger: LedgerScene) -> None:
    entry = ledger.active(lease={"durationSeconds": 30, "graceSeconds": 0})
    ledger.ledger.advance(LAPSE)
    assert entry.phase is Phase.EXPIRED
    assert events(ledger) == [Event.ADMIT, Event.LAPSE, Event.FORFEIT]


def test_a_waiting_reservation_expires_with_its_lease(ledger: LedgerScene) -> None:
    entry = ledger.reservation(lease=LEASE, pendingDeadlineSeconds=600)
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    ledger.ledger.advance(LAPSE)
    told = conditions(render_reservation(entry, LAPSE))
    assert told["Active"] == ("False", "InsufficientCapacity", "full")
    assert told["LeaseLapsed"][0] == "True"
    ledger.ledger.advance(LOSS)
    assert (entry.phase, ledger.ledger.waiting_reservations.waiting) == (Phase.EXPIRED, {})


def test_a_renewal_neither_retries_a_waiting_reservation_nor_revives_a_rejected_one(
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
def test_the_earlier_of_expiry_and_lease_loss_ends_the_reservation(
    ledger: LedgerScene, ttl: int, reason: str
) -> None:
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
def test_after_a_failed_binding_the_lease_counts_as_if_there_was_no_claim(
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


def test_a_lease_can_be_added_changed_and_removed(ledger: LedgerScene) -> None:
    entry = ledger.active(ttlSeconds=600)
    ledger.edit(at=NOW + 10, lease=LEASE)
    assert ledger.ledger.next_deadline() == NOW + 40
    ledger.ledger.advance(NOW + 40)
    ledger.edit(at=NOW + 41, lease={"durationSeconds": 60})
    assert ledger.ledger.next_deadline() == NOW + 70
    ledger.edit(at=NOW + 42, lease=None)
    assert (entry.lease, ledger.ledger.next_deadline()) == (None, NOW + 600)


def test_the_next_process_continues_to_count_a_lease(ledger: LedgerScene) -> None:
    ledger.active(**renewed(NOW))
    successor, _ = ledger.succeeded(at=NOW + 20)
    assert successor.ledger.next_deadline() == LAPSE


def test_a_renewal_during_a_downtime_counts_from_the_restart(ledger: LedgerScene) -> None:
    ledger.active(**renewed(NOW))
    successor, _ = ledger.succeeded(at=NOW + 500, generation=2, **renewed(NOW + 490))
    assert successor.ledger.next_deadline() == NOW + 530


def test_a_lease_that_ended_with_its_grace_period_during_a_downtime_is_lost_at_once(
    ledger: LedgerScene,
) -> None:
    """Guard against another whole grace period from the restart, although the holder was gone long before."""
    ledger.active(lease=LEASE)
    successor, entry = ledger.succeeded(at=NOW + 500)
    successor.ledger.advance(NOW + 500)
    assert (entry.phase, entry.reason, successor.reserved()) == (Phase.EXPIRED, reasons.LEASE_EXPIRED, 0)
    assert [(change.event, change.due) for change in successor.ledger.effects.transitions] == [
        (Event.LAPSE, LAPSE),
        (Event.FORFEIT, LOSS),
    ]


def test_a_grace_period_that_began_during_a_downtime_is_not_restarted(ledger: LedgerScene) -> None:
    ledger.active(lease=LEASE)
    successor, entry = ledger.succeeded(at=LAPSE + 4)
    successor.ledger.advance(LAPSE + 4)
    assert (entry.phase, successor.ledger.next_deadline()) == (Phase.ACTIVE, LOSS)


def test_an_announced_loss_is_kept_by_the_next_process(ledger: LedgerScene) -> None:
    ledger.active(lease=LEASE)
    ledger.ledger.advance(LAPSE)
    render_reservation(ledger.entry(), LAPSE)
    successor, entry = ledger.succeeded(at=NOW + 35)
    assert successor.ledger.next_deadline() == LOSS
    successor.ledger.advance(NOW + 500)
    assert entry.reason == reasons.LEASE_EXPIRED


def test_an_announced_loss_is_kept_when_the_clock_is_set_back(ledger: LedgerScene) -> None:
    """Guard against a clock behind the end of the lease, which the next process took for a longer lease.

    It withdrew the announced loss and granted the holder another grace period, unlike the process before.
    """
    ledger.active(lease=LEASE)
    ledger.ledger.advance(LAPSE)
    render_reservation(ledger.entry(), LAPSE)
    successor, entry = ledger.succeeded(at=NOW + 10)
    assert entry.lease is not None
    assert (entry.lease.lost_at, successor.ledger.next_deadline()) == (LOSS, LOSS)


def test_a_retained_reservation_shows_how_its_lease_was_lost(ledger: LedgerScene) -> None:
    entry = ledger.active(lease=LEASE, retention="Retain")
    ledger.ledger.advance(LAPSE)
    ledger.ledger.advance(LOSS)
    status = render_reservation(entry, LOSS)
    assert conditions(status)["Expired"][1] == "LeaseExpired"
    assert status["lease"]["lostAt"] == format_instant(LOSS)
    assert render_reservation(ledger.readopted(at=LOSS + 5), LOSS + 5) == status


def test_a_renewal_in_the_last_second_of_the_year_9999_has_a_status(ledger: LedgerScene) -> None:
    """Guard against a `renewTime` of 9999-12-31T23:59:59.9999999Z that is rounded up to the year 10000.

    Its status could not be written, and the operator ended, again after each restart.
    """
    entry = ledger.active(lease=LEASE | {"renewTime": "9999-12-31T23:59:59.9999999Z"})
    assert render_reservation(entry, NOW)["lease"]["renewTime"] == "9999-12-31T23:59:59.999Z"
