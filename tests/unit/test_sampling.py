import pytest

import sampling

VARIABLE = "TIDELOCK_SEEDS_OF_THIS_TEST"


@pytest.mark.parametrize(("all_", "count"), [(False, 3), (True, 8)])
def test_make_test_takes_a_part_and_make_test_all_the_whole(
    monkeypatch: pytest.MonkeyPatch, all_: bool, count: int
) -> None:
    monkeypatch.setattr(sampling, "ALL", all_)
    assert sampling.sample(3, 8) == count
    assert sampling.seeds(VARIABLE, 3, 8) == range(count)


@pytest.mark.parametrize(("selected", "expected"), [("17", range(17, 18)), ("4-6", range(4, 7))])
def test_a_variable_selects_other_seeds(
    monkeypatch: pytest.MonkeyPatch, selected: str, expected: range
) -> None:
    monkeypatch.setenv(VARIABLE, selected)
    assert sampling.seeds(VARIABLE, 3, 8) == expected
