"""No history of two leaders gives room twice or loses a lock, and each rule is needed for that."""

import pytest

from model.leaders import Rules, explore


def test_no_history_gives_room_twice() -> None:
    states, wrong = explore(Rules())
    assert not wrong, "\n".join(wrong)
    assert states > 1000


@pytest.mark.parametrize("rule", ["fence", "delete_after_bind"])
def test_each_rule_is_needed(rule: str) -> None:
    _, wrong = explore(Rules(**{rule: False}))
    assert wrong
