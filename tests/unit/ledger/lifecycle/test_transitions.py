"""The table of all transitions of a reservation. Any other transition is an error."""

from itertools import product

import pytest

from tidelock.ledger.lifecycle.transitions import FINAL, SETTLED, TRANSITIONS, Event, after
from tidelock.model.api.reservation import Phase


@pytest.mark.parametrize(("phase", "event"), TRANSITIONS)
def test_events_lead_to_the_phases_of_the_table(phase: Phase, event: Event) -> None:
    assert after(phase, event) is TRANSITIONS[phase, event]


@pytest.mark.parametrize(("phase", "event"), sorted(set(product(Phase, Event)) - TRANSITIONS.keys()))
def test_an_event_that_is_not_in_the_table_is_an_error(phase: Phase, event: Event) -> None:
    with pytest.raises(ValueError, match=f"^{event} cannot happen to a reservation that is {phase}$"):
        after(phase, event)


def test_phases_without_an_event_are_final() -> None:
    assert set(Phase) - {phase for phase, _ in TRANSITIONS} == FINAL


def test_a_rejected_reservation_only_changes_with_an_edit() -> None:
    assert {phase for phase in SETTLED if phase not in FINAL} == {Phase.REJECTED}
    assert [event for phase, event in TRANSITIONS if phase is Phase.REJECTED] == [Event.REVISE]


def test_every_phase_can_be_reached_and_every_event_can_happen() -> None:
    assert {Phase.PENDING, *TRANSITIONS.values()} == set(Phase)
    assert {event for _, event in TRANSITIONS} == set(Event)
