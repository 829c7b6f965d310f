"""All histories of a reservation that is answered in the response to its creation. Each rule is needed."""

import pytest

from model.answers import Rules, explore


def test_no_history_gives_granted_capacity_twice_or_loses_a_stored_grant() -> None:
    states, found = explore(Rules())
    assert not found, "\n".join(f"{wrong}: {' | '.join(history)}" for wrong, history in found.items())
    assert states > 1000


@pytest.mark.parametrize("rule", ["fence", "keep", "resume", "once"])
def test_each_rule_is_needed(rule: str) -> None:
    _, found = explore(Rules(**{rule: False}))
    assert found


def test_an_object_that_is_stored_long_after_its_check_may_lose_its_grant_and_takes_no_capacity() -> None:
    _, found = explore(Rules(at_once=False, elections=3))
    assert found.keys() == {"granted capacity is given to another", "a stored grant is lost"}


def test_such_a_grant_is_lost_before_capacity_that_a_later_leader_has_given() -> None:
    _, found = explore(Rules(at_once=False, elections=3, judge=False), until="the node is given twice")
    assert "the node is given twice" in found
