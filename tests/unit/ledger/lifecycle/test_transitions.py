"""The table of a lock's life: what is not in it cannot happen."""

from itertools import product

import pytest

from tidelock.ledger.lifecycle.transitions import FINAL, SETTLED, TRANSITIONS, Event, after
from tidelock.model.api.reservation import Phase


@pytest.mark.parametrize(("phase", "event"), TRANSITIONS)
def test_events_lead_where_the_table_says(phase: Phase, event: Event) -> None:
    assert after(phase, event) is TRANSITIONS[phase, event]


@pytest.mark.parametrize(("phase", "event"), sorted(set(product(Phase, Event)) - TRANSITIONS.keys()))
def test_what_is_not_in_the_table_cannot_happen(phase: Phase, event: Event) -> None:
    with pytest.raises(ValueError, match=f"^{event} cannot happen to a reservation that is {phase}$"):
        after(phase, event)


def test_phases_that_nothing_leads_out_of_are_final() -> None:
    assert set(Phase) - {phase for phase, _ in TRANSITIONS} == FINAL


def test_a_rejected_lock_waits_for_nothing_but_an_edit() -> None:
    assert {phase for phase in SETTLED if phase not in FINAL} == {Phase.REJECTED}
    assert [event for phase, event in TRANSITIONS if phase is Phase.REJECTED] == [Event.REVISE]


def test_every_phase_can_be_reached_and_every_event_can_happen() -> None:
    assert {Phase.PENDING, *TRANSITIONS.values()} == set(Phase)
    assert {event for _, event in TRANSITIONS} == set(Event)
