from dataclasses import dataclass

import pytest

from tidelock.framework.cyclestate import CycleState


@dataclass(frozen=True)
class Mine:
    number: int


@dataclass(frozen=True)
class Another:
    number: int


def test_a_value_is_found_by_its_type() -> None:
    state = CycleState()
    state.write(Mine(1))
    state.write(Another(2))

    assert state.expect(Mine) == Mine(1)
    assert state.read(Another) == Another(2)


def test_a_later_value_replaces_an_earlier_one() -> None:
    state = CycleState()
    state.write(Mine(1))
    state.write(Mine(2))

    assert state.expect(Mine) == Mine(2)


def test_a_value_that_was_not_written_is_none_or_an_error() -> None:
    state = CycleState()

    assert state.read(Mine) is None
    with pytest.raises(KeyError, match="Mine"):
        state.expect(Mine)


def test_a_copy_knows_the_temporary_values() -> None:
    state = CycleState()
    state.write(Mine(1), temporary=True)
    state.write(Another(2))
    copy = state.clone()
    for each in (state, copy):
        each.drop_temporary()
        assert each.read(Mine) is None
        assert each.read(Another) == Another(2)


def test_a_value_that_was_temporary_can_be_written_again_to_stay() -> None:
    state = CycleState()
    state.write(Mine(1), temporary=True)
    state.write(Mine(2))
    state.drop_temporary()
    assert state.read(Mine) == Mine(2)
