"""All histories of two leaders. None grants capacity twice or loses a reservation. Each rule is needed."""

import pytest

from model.leaders import Rules, explore


def test_no_history_grants_capacity_twice() -> None:
    states, found = explore(Rules())
    assert not found, "\n".join(f"{wrong}: {' | '.join(history)}" for wrong, history in found.items())
    assert states > 1000


@pytest.mark.parametrize("rule", ["fence", "delete_after_bind"])
def test_each_rule_is_needed(rule: str) -> None:
    _, found = explore(Rules(**{rule: False}))
    assert found
