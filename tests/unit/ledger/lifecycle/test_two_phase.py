"""Locks in two phases: room that is lost again unless its holder commits it."""

from typing import Any

import pytest

from builders import NOW, Json, pod
from tidelock.ledger import reasons
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.lifecycle.two_phase import TwoPhaseState
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
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
    """Read what commits a lock from its status, as its holder does."""
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


def test_room_that_nobody_commits_is_free_when_it_is_due(ledger: LedgerScene) -> None:
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


def test_what_is_prepared_holds_and_says_how_it_is_committed(ledger: LedgerScene) -> None:
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


def test_what_is_committed_in_time_is_a_lock_like_any_other(ledger: LedgerScene) -> None:
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


def test_a_commit_is_looked_at_at_once(ledger: LedgerScene) -> None:
    ledger.active(**TWO_PHASES)
    ledger.ledger.advance(NOW)
    ledger.edit(commit={"withinSeconds": 30, "token": "uid-lock.1"})
    assert ledger.ledger.next_deadline() == 0.0


@pytest.mark.parametrize("late", [0, 5])
def test_a_commit_that_is_seen_too_late_is_none(ledger: LedgerScene, late: float) -> None:
    entry = ledger.active(**TWO_PHASES)
    commit(ledger, "uid-lock.1", at=DUE + late)
    assert (entry.phase, entry.reason) == (Phase.EXPIRED, reasons.NOT_COMMITTED)
    assert events(ledger) == [Event.ADMIT, Event.ABORT]


def test_a_commit_tries_nothing_again(ledger: LedgerScene) -> None:
    entry = ledger.reservation(**TWO_PHASES)
    ledger.ledger.waiting_reservations.take(untried_only=True)
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    commit(ledger, "uid-lock.1")
    assert not ledger.ledger.waiting_reservations.untried


def test_room_that_was_lost_and_found_anew_is_another_hold(ledger: LedgerScene) -> None:
    """Else a manager would take room on another node, or after others had it, for what it was promised."""
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


def test_an_owner_that_comes_takes_it_committed_or_not(ledger: LedgerScene) -> None:
    entry = ledger.active(**TWO_PHASES)
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    ledger.ledger.advance(DUE + 5)
    ledger.ledger.claims.owner_bound(OWNER, "node-a", DUE + 5)
    assert entry.phase is Phase.CONSUMED
    assert conditions(entry)["Committed"][:2] == ("False", "Consumed")


@pytest.mark.parametrize(("commits", "phase"), [(True, Phase.ACTIVE), (False, Phase.EXPIRED)])
def test_after_a_failed_binding_its_time_counts_again(
    ledger: LedgerScene, commits: bool, phase: Phase
) -> None:
    entry = ledger.active(**TWO_PHASES)
    ledger.ledger.claims.claim(OWNER, "node-a", NOW)
    if commits:
        commit(ledger, "uid-lock.1", at=NOW + 1)
        assert ledger.ledger.effects.transitions[-1].phase is Phase.BOUND
    ledger.ledger.claims.unclaim(OWNER.uid, DUE + 5)
    assert entry.phase is phase


def test_what_is_planned_is_to_be_committed_once_it_begins(ledger: LedgerScene) -> None:
    entry = ledger.active(startAt=format_instant(NOW + 100), **TWO_PHASES)
    assert (entry.phase, "commit" in render_reservation(entry, NOW)) == (Phase.PLANNED, False)
    ledger.ledger.advance(NOW + 100)
    assert (entry.phase, ledger.ledger.next_deadline()) == (Phase.ACTIVE, NOW + 130)
    commit(ledger, token(entry), at=NOW + 110)
    assert conditions(entry)["Committed"][0] == "True"


def test_a_lock_with_one_phase_has_no_hold(ledger: LedgerScene) -> None:
    entry = ledger.active()
    assert "commit" not in render_reservation(entry, NOW)
    assert "Committed" not in conditions(entry)


@pytest.mark.parametrize("commits", [True, False])
def test_the_next_process_goes_on_counting(ledger: LedgerScene, commits: bool) -> None:
    entry = ledger.active(**TWO_PHASES)
    if commits:
        commit(ledger, token(entry), at=NOW + 5)
    before = render_reservation(entry, NOW + 20)
    successor, taken_over = ledger.succeeded(at=NOW + 20)
    assert render_reservation(taken_over, NOW + 20) == before
    successor.ledger.advance(DUE)
    assert taken_over.phase is (Phase.ACTIVE if commits else Phase.EXPIRED)


def test_a_commit_while_no_process_ran_counts_if_the_next_one_sees_it_in_time(ledger: LedgerScene) -> None:
    ledger.active(**TWO_PHASES)
    commits: Json = {"commit": {"withinSeconds": 30, "token": "uid-lock.1"}, "generation": 2}
    for seen_at, phase in ((DUE - 1, Phase.ACTIVE), (DUE, Phase.EXPIRED)):
        successor, entry = ledger.succeeded(at=seen_at, **commits)
        successor.ledger.advance(seen_at)
        assert entry.phase is phase


def test_the_next_process_counts_the_holds_on(ledger: LedgerScene) -> None:
    entry = ledger.active(**TWO_PHASES)
    ledger.ledger.placement.preempt(entry, "pod shop/urgent", NOW)
    successor, taken_over = ledger.succeeded()
    successor.admit(taken_over)
    assert token(taken_over) == "uid-lock.2"


def test_room_that_an_older_version_has_given_is_to_be_committed_from_now_on(ledger: LedgerScene) -> None:
    ledger.active()
    successor, entry = ledger.succeeded(at=NOW + 50, **TWO_PHASES)
    assert (token(entry), successor.ledger.next_deadline()) == ("uid-lock.1", 0.0)
    successor.ledger.advance(NOW + 50)
    assert successor.ledger.next_deadline() == NOW + 80


def test_a_spec_that_could_not_be_read_at_first_counts_when_it_can(ledger: LedgerScene) -> None:
    entry = ledger.reservation(owners="nobody")
    ledger.edit(owners=[{"pod": {"name": "web-0"}}], anyOf="web", **TWO_PHASES)
    other = ledger.reservation("other", anyOf="web")
    ledger.admit(entry)
    commit(ledger, token(entry))
    assert (entry.phase, other.reason) == (Phase.ACTIVE, reasons.ANOTHER_CHOSEN)


def test_how_it_ended_is_told_of_a_tombstone(ledger: LedgerScene) -> None:
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


def test_what_is_held_with_a_spec_that_is_lost_is_committed_as_it_was(ledger: LedgerScene) -> None:
    entry = ledger.active(**TWO_PHASES)
    commit(ledger, token(entry))
    ledger.edit(owners="nobody")
    assert entry.reservation.spec is None
    assert conditions(entry)["Committed"][0] == "True"
    assert conditions(ledger.readopted())["Committed"][0] == "True"
