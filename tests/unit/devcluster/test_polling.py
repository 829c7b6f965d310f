import itertools

import pytest

from devcluster.polling import WaitTimeoutError, wait_for


def test_first_accepted_value_is_returned() -> None:
    numbers = itertools.count()
    assert wait_for(lambda: next(numbers), until=lambda number: number > 2, what="3", interval=0) == 3
    assert next(numbers) == 4


def test_a_true_value_is_accepted_by_default() -> None:
    answers = iter([None, [], ["pod"]])
    assert wait_for(lambda: next(answers), what="a pod", interval=0) == ["pod"]


def test_timeout_names_the_awaited_state_and_the_last_value() -> None:
    with pytest.raises(WaitTimeoutError, match=r"^waited 0\.01 s for web to run; last seen: 'Pending'$"):
        wait_for(
            lambda: "Pending",
            until=lambda phase: phase == "Running",
            what="web to run",
            timeout=0.01,
            interval=0,
        )


def test_at_least_one_probe_is_made_without_time() -> None:
    assert wait_for(lambda: True, what="nothing", timeout=0)
