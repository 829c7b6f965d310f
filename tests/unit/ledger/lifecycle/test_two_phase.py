"""Two-phase reservations, which lose their capacity unless their holder commits them."""

from typing import Any

import pytest

from builders import NOW, Json, pod
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.lifecycle.two_phase import TwoPhaseState
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from unit.ledger.ledger import LedgerScene

OWNER = pod("web-0")
DUE = NOW + 30
TWO_PHASES: Json = {"commit": {"withinSeconds": 30}}


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


def token(entry: ReservationInfo) -> str:
    """Return the token that commits a reservation, which its holder reads from the status."""
    told: str = render_reservation(entry, NOW)["commit"]["token"]
    return told


def commit(ledger: LedgerScene, token: str, *, at: float = NOW, **changed: Any) -> None:
    ledger.edit(at=at, commit={"withinSeconds": 30, "token": token}, **changed)
    ledger.ledger.advance(at)


def conditions(entry: ReservationInfo, at: float = NOW) -> dict[str, tuple[str, str, str]]:
    found = render_reservation(entry, at)["conditions"]
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found}


def events(ledger: LedgerScene) -> list[Event]:
    return [change.event for change in ledger.ledger.effects.transitions]


def test_a_reservation_that_is_not_committed_frees_its_capacity_when_due(ledger: LedgerScene) -> None:
    entry = ledger.active(**TWO_PHASES)
    ledger.ledger.advance(DUE - 0.001)
    assert (entry.phase, ledger.reserved()) == (Phase.ACTIVE, 1000)
    assert ledger.ledger.next_deadline() == DUE
    ledger.ledger.advance(DUE)
    assert (entry.phase, entry.reason, ledger.reserved()) == (Phase.EXPIRED, reasons.NOT_COMMITTED, 0)
    assert (
        ledger.ledger.effects.transitions[-1].event,
        ledger.ledger.effects.transitions[-1].due,
    ) == (Event.ABORT, DUE)


def test_a_prepared_reservation_holds_capacity_and_shows_its_token(ledger: LedgerScene) -> None:
    entry = ledger.active(**TWO_PHASES)
    text = f"to be committed with spec.commit.token uid-lock.1 by {format_instant(DUE)}"
    told = conditions(entry)
    assert told["Active"][0] == "True"
    assert told["Committed"] == told["Ready"] == ("False", reasons.AWAITING_COMMIT, text)
    assert told["Reconciling"] == ("True", reasons.AWAITING_COMMIT, text)
    assert render_reservation(entry, NOW)["commit"] == {
        "holds": 1,
        "token": "uid-lock.1",
        "dueAt": format_instant(DUE),
    }


def test_a_reservation_that_is_committed_in_time_is_like_any_other(ledger: LedgerScene) -> None:
    entry = ledger.active(**TWO_PHASES)
    commit(ledger, token(entry), at=NOW + 20)
    told = conditions(entry)
    assert told["Committed"] == ("True", "Committed", f"committed at {format_instant(NOW + 20)}")
    assert told["Ready"][:2] == ("True", reasons.HELD)
    assert "Reconciling" not in told
    assert events(ledger) == [Event.ADMIT, Event.COMMIT]
    assert ledger.ledger.next_deadline() == NOW + 600
    ledger.ledger.advance(NOW + 600)
    assert entry.reason == reasons.EXPIRED


def test_a_commit_is_due_at_once(ledger: LedgerScene) -> None:
    ledger.active(**TWO_PHASES)
    ledger.ledger.advance(NOW)
    ledger.edit(commit={"withinSeconds": 30, "token": "uid-lock.1"})
    assert ledger.ledger.next_deadline() == 0.0


@pytest.mark.parametrize("late", [0, 5])
def test_a_commit_that_is_seen_too_late_has_no_effect(ledger: LedgerScene, late: float) -> None:
    entry = ledger.active(**TWO_PHASES)
    commit(ledger, "uid-lock.1", at=DUE + late)
    assert (entry.phase, entry.reason) == (Phase.EXPIRED, reasons.NOT_COMMITTED)
    assert events(ledger) == [Event.ADMIT, Event.ABORT]


def test_a_late_commit_is_not_said_to_be_of_another_hold(ledger: LedgerScene) -> None:
    """Until the abort is done, its token is still that of the hold."""
    entry = ledger.active(**TWO_PHASES)
    ledger.edit(at=DUE, commit={"withinSeconds": 30, "token": token(entry)})
    status, reason, _ = conditions(entry)["Committed"]
    assert (entry.phase, status, reason) == (Phase.ACTIVE, "False", reasons.AWAITING_COMMIT)


def test_a_commit_does_not_retry_a_waiting_reservation(ledger: LedgerScene) -> None:
    entry = ledger.reservation(**TWO_PHASES)
    ledger.ledger.waiting_reservations.take(untried_only=True)
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    commit(ledger, "uid-lock.1")
    assert not ledger.ledger.waiting_reservations.untried


def test_capacity_that_is_granted_again_is_another_hold_with_another_token(ledger: LedgerScene) -> None:
    """Check that a manager cannot commit other capacity than it was promised.

    The new capacity may be on another node, or was used by other pods in between.
    """
    entry = ledger.active(**TWO_PHASES)
    old = token(entry)
    ledger.ledger.placement.preempt(entry, "pod shop/urgent", NOW + 1)
    commit(ledger, old, at=NOW + 2)
    text = f"spec.commit.token {old} is of another hold; no capacity is held that could be committed"
    assert conditions(entry)["Committed"] == ("False", reasons.TOKEN_MISMATCH, text)
    assert render_reservation(entry, NOW)["commit"] == {"holds": 1}
    ledger.admit(entry, "node-b", at=NOW + 10)
    ledger.ledger.advance(NOW + 10)
    assert token(entry) != old
    status, reason, message = conditions(entry)["Committed"]
    assert (status, reason) == ("False", reasons.TOKEN_MISMATCH)
    assert old in message
    assert token(entry) in message
    assert ledger.ledger.next_deadline() == NOW + 40
    commit(ledger, token(entry), at=NOW + 11)
    assert conditions(entry)["Committed"][0] == "True"


def test_a_commit_ends_with_its_hold(ledger: LedgerScene) -> None:
    entry = ledger.active(**TWO_PHASES)
    commit(ledger, token(entry))
    ledger.ledger.placement.preempt(entry, "pod shop/urgent", NOW + 50)
    assert conditions(entry)["Committed"][0] == "False"
    ledger.admit(entry, at=NOW + 60)
    ledger.ledger.advance(NOW + 90)
    assert entry.reason == reasons.NOT_COMMITTED


def test_a_move_and_a_resize_leave_the_hold_as_it_is(ledger: LedgerScene) -> None:
    entry = ledger.active(**TWO_PHASES)
    commit(ledger, token(entry), resources={"cpu": "2"})
    ledger.admit(entry, "node-b")
    assert (ledger.reserved("node-b"), entry.hold) == (2000, TwoPhaseState("uid-lock", 1, DUE, NOW))


def test_an_owner_consumes_a_reservation_that_is_not_committed(ledger: LedgerScene) -> None:
    entry = ledger.active(**TWO_PHASES)
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    ledger.ledger.advance(DUE + 5)
    ledger.ledger.claims.owner_bound(OWNER, "node-a", DUE + 5)
    assert entry.phase is Phase.CONSUMED
    assert conditions(entry)["Committed"][:2] == ("False", "Consumed")


@pytest.mark.parametrize(("commits", "phase"), [(True, Phase.ACTIVE), (False, Phase.EXPIRED)])
def test_after_a_failed_binding_the_commit_deadline_counts_again(
    ledger: LedgerScene, commits: bool, phase: Phase
) -> None:
    entry = ledger.active(**TWO_PHASES)
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    if commits:
        commit(ledger, "uid-lock.1", at=NOW + 1)
        assert ledger.ledger.effects.transitions[-1].phase is Phase.BOUND
    ledger.ledger.claims.unclaim(OWNER.uid, DUE + 5)
    assert entry.phase is phase


def test_a_planned_reservation_must_be_committed_once_its_window_begins(ledger: LedgerScene) -> None:
    entry = ledger.active(startAt=format_instant(NOW + 100), **TWO_PHASES)
    assert (entry.phase, "commit" in render_reservation(entry, NOW)) == (Phase.PLANNED, False)
    ledger.ledger.advance(NOW + 100)
    assert (entry.phase, ledger.ledger.next_deadline()) == (Phase.ACTIVE, NOW + 130)
    commit(ledger, token(entry), at=NOW + 110)
    assert conditions(entry)["Committed"][0] == "True"


def test_a_reservation_without_two_phases_has_no_hold(ledger: LedgerScene) -> None:
    entry = ledger.active()
    assert "commit" not in render_reservation(entry, NOW)
    assert "Committed" not in conditions(entry)


@pytest.mark.parametrize("commits", [True, False])
def test_the_next_process_keeps_the_commit_deadline(ledger: LedgerScene, commits: bool) -> None:
    entry = ledger.active(**TWO_PHASES)
    if commits:
        commit(ledger, token(entry), at=NOW + 5)
    before = render_reservation(entry, NOW + 20)
    successor, taken_over = ledger.succeeded(at=NOW + 20)
    assert render_reservation(taken_over, NOW + 20) == before
    successor.ledger.advance(DUE)
    assert taken_over.phase is (Phase.ACTIVE if commits else Phase.EXPIRED)


def test_a_commit_during_a_downtime_counts_if_the_next_process_sees_it_in_time(ledger: LedgerScene) -> None:
    ledger.active(**TWO_PHASES)
    commits: Json = {"commit": {"withinSeconds": 30, "token": "uid-lock.1"}, "generation": 2}
    for seen_at, phase in ((DUE - 1, Phase.ACTIVE), (DUE, Phase.EXPIRED)):
        successor, entry = ledger.succeeded(at=seen_at, **commits)
        successor.ledger.advance(seen_at)
        assert entry.phase is phase


def test_the_next_process_continues_the_numbers_of_holds(ledger: LedgerScene) -> None:
    entry = ledger.active(**TWO_PHASES)
    ledger.ledger.placement.preempt(entry, "pod shop/urgent", NOW)
    successor, taken_over = ledger.succeeded()
    successor.admit(taken_over)
    assert token(taken_over) == "uid-lock.2"


def test_capacity_granted_by_an_older_version_must_be_committed_from_the_restart(ledger: LedgerScene) -> None:
    ledger.active()
    successor, entry = ledger.succeeded(at=NOW + 50, **TWO_PHASES)
    assert (token(entry), successor.ledger.next_deadline()) == ("uid-lock.1", 0.0)
    successor.ledger.advance(NOW + 50)
    assert successor.ledger.next_deadline() == NOW + 80


def test_a_corrected_spec_adds_the_second_phase_and_the_alternatives(ledger: LedgerScene) -> None:
    entry = ledger.reservation(owners="nobody")
    ledger.edit(owners=[{"pod": {"name": "web-0"}}], anyOf="web", **TWO_PHASES)
    other = ledger.reservation("other", anyOf="web")
    ledger.admit(entry)
    commit(ledger, token(entry))
    assert (entry.phase, other.reason) == (Phase.ACTIVE, reasons.ANOTHER_CHOSEN)


def test_a_retained_reservation_shows_that_it_was_not_committed(ledger: LedgerScene) -> None:
    entry = ledger.active(retention="Retain", **TWO_PHASES)
    ledger.ledger.advance(DUE)
    status = render_reservation(entry, DUE)
    told = conditions(entry)
    assert told["Expired"] == ("True", *told["Committed"][1:])
    assert told["Committed"][1:] == (
        reasons.NOT_COMMITTED,
        f"it was to be committed with spec.commit.token uid-lock.1 by {format_instant(DUE)}",
    )
    assert render_reservation(ledger.readopted(at=DUE + 5), DUE + 5) == status


def test_an_unreadable_spec_does_not_change_the_commit(ledger: LedgerScene) -> None:
    entry = ledger.active(**TWO_PHASES)
    commit(ledger, token(entry))
    ledger.edit(owners="nobody")
    assert entry.reservation.spec is None
    assert conditions(entry)["Committed"][0] == "True"
    assert conditions(ledger.readopted())["Committed"][0] == "True"
