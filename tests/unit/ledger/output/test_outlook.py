"""The state of a reservation in words, for every state, and its nearest event beside the ledger's timers."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from builders import NOW, Json, reservation
from tidelock.ledger.lifecycle import deadlines
from tidelock.ledger.output.status import preview_reservation, render_reservation
from tidelock.model.outlook import UNPROCESSED, NextEvent, Outlook, Upcoming, outlook
from unit.ledger import states
from unit.ledger.ledger import LedgerScene

Scene = Callable[[LedgerScene], None]


def seen(case: Scene) -> Outlook:
    ledger = LedgerScene()
    case(ledger)
    entry = ledger.entry()
    stored = replace(entry.reservation, status=render_reservation(entry, NOW))
    return outlook(stored, entry.move_at)


def coming(event: NextEvent, seconds: float) -> Upcoming:
    return Upcoming(NOW + seconds, event)


ENDS = coming(NextEvent.ENDS, 600)


@pytest.mark.parametrize(
    ("case", "phase", "marks", "upcoming"),
    [
        (states.pending, "Pending", (), coming(NextEvent.REJECTED, 60)),
        (states.planned, "Planned", (), coming(NextEvent.BEGINS, 60)),
        (states.active, "Active", (), ENDS),
        (states.on_a_cordoned_node, "Active", ("NodeCordoned",), coming(NextEvent.MOVES, 300)),
        (states.with_a_lease, "Active", (), coming(NextEvent.LAPSES, 30)),
        (states.with_a_lapsed_lease, "Active", ("LeaseLapsed",), coming(NextEvent.LOST, 60)),
        (states.uncommitted, "Active", ("AwaitingCommit",), coming(NextEvent.COMMIT_DUE, 30)),
        (states.committed, "Active", (), ENDS),
        (states.growing, "Active", ("ResizePending",), ENDS),
        (states.held_with_an_invalid_spec, "Active", ("InvalidSpec",), ENDS),
        (states.violated, "Active", ("Violated",), ENDS),
        (states.bound, "Bound", (), None),
        (states.consumed, "Consumed", (), coming(NextEvent.REMOVED, 0)),
        (states.expired, "Expired", (), coming(NextEvent.REMOVED, 600)),
        (states.not_committed, "Expired", (), coming(NextEvent.REMOVED, 30)),
        (states.lost, "Lost", ("NodeLost",), coming(NextEvent.REMOVED, 600)),
        (states.rejected, "Rejected", ("DeadlineExceeded",), coming(NextEvent.REMOVED, 600)),
        (states.invalid, "Rejected", ("InvalidSpec",), coming(NextEvent.REMOVED, 600)),
        (states.terminating, "Terminating", (), None),
    ],
)
def test_each_state_has_its_marks_and_its_nearest_event(
    case: Scene, phase: str, marks: tuple[str, ...], upcoming: Upcoming | None
) -> None:
    state = seen(case)
    assert (state.phase, state.marks, state.next) == (phase, marks, upcoming)


TROUBLES = {
    states.on_a_cordoned_node,
    states.with_a_lapsed_lease,
    states.held_with_an_invalid_spec,
    states.violated,
    states.lost,
    states.rejected,
    states.invalid,
}


def every_state() -> list[Scene]:
    return [case for case in vars(states).values() if getattr(case, "__module__", "") == states.__name__]


@pytest.mark.parametrize("case", every_state())
def test_troubles_are_the_states_that_need_attention(case: Scene) -> None:
    trouble = case in TROUBLES or case is states.expired_with_an_invalid_spec
    assert seen(case).trouble == (trouble and seen(case).phase != "Expired")


@pytest.mark.parametrize("case", every_state())
def test_the_nearest_event_is_the_next_one_of_the_ledger(case: Scene) -> None:
    ledger = LedgerScene()
    case(ledger)
    entry = ledger.entry()
    due, state = deadlines.next_due(entry), seen(case)
    if entry.phase == "Pending":
        assert state.next is not None
        # Before its first decision, the ledger allows for the whole seconds of a creation time.
        assert due is None or due == pytest.approx(state.next.at, abs=2)
    else:
        assert due == (None if state.next is None else state.next.at)


@pytest.mark.parametrize("case", every_state())
def test_a_preview_equals_the_status_and_changes_nothing(case: Scene) -> None:
    ledger = LedgerScene()
    case(ledger)
    entry = ledger.entry()
    before = dict(entry.transition_times)
    preview = preview_reservation(entry, NOW + 5)
    assert entry.transition_times == before
    assert preview == render_reservation(entry, NOW + 5)


def test_a_reservation_that_was_not_processed_is_pending() -> None:
    state = outlook(reservation())
    assert (state.phase, state.marks, state.why) == ("Pending", (), UNPROCESSED)


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Active", "expiresAt": "soon", "lease": {"renewBy": 3}, "conditions": [{}]},
        {"phase": "Other", "conditions": [{"type": "Stalled", "status": "True"}]},
    ],
)
def test_a_status_of_another_author_is_read_as_far_as_possible(status: Json) -> None:
    assert outlook(reservation(status=status)).phase == status["phase"]


def test_the_reason_of_a_growing_reservation_is_that_of_its_resize() -> None:
    assert seen(states.growing).why == "ResizePending"
