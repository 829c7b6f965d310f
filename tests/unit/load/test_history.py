import math

import numpy as np
import pytest

from tidelock.load.history import History, statistics
from tidelock.model.usage_annotations import WINDOW_SECONDS, WindowName

NAN = math.nan
START = 1_800_000_000.0  # a multiple of every step


def history(*readings: tuple[float, float], now: float | None = None) -> History[str]:
    """Return the history of one object, with readings at some seconds after the start, as of `now`."""
    made: History[str] = History(1)
    for at, value in readings:
        made.advance(START + at)
        made.put([("a", (value,), (START + at,))])
        made.looked(START + at)
    if now is not None:
        made.advance(START + now)
    for _ in made.judge():
        pass
    return made


def stats(made: History[str], window: WindowName, key: str = "a") -> list[float]:
    row = dict(made.rows())[key].number
    return [float(value) for value in made.stats()[window][:, row, 0]]


def test_mean_maximum_and_percentile_are_computed_as_in_promql() -> None:
    values = np.array([[3, NAN, 1, 2, 4], [5, NAN, NAN, NAN, NAN], [NAN] * 5], np.float32)
    mean, top, p95 = statistics(values)

    assert mean[:2].tolist() == [2.5, 5]
    assert top[:2].tolist() == [4, 5]
    assert p95[:2].tolist() == pytest.approx([3.85, 5])  # rank 0.95 * (n - 1)
    assert np.isnan([mean[2], top[2], p95[2]]).all()


def test_each_window_covers_its_own_time() -> None:
    made = history((0, 10), (600, 40), (3000, 70))

    assert stats(made, "15m") == pytest.approx([70, 70, 70])
    assert stats(made, "1h")[:2] == pytest.approx([40, 70])
    assert stats(made, "1d")[:2] == pytest.approx([40, 70])


def test_the_first_reading_of_a_slot_counts() -> None:
    made = history((0, 10), (30, 90), (60, 20))

    assert stats(made, "15m")[0] == pytest.approx(15)
    assert stats(made, "1h")[0] == pytest.approx(10)


@pytest.mark.parametrize("window", WINDOW_SECONDS)
def test_values_older_than_a_window_are_missing_and_not_zero(window: WindowName) -> None:
    seconds = WINDOW_SECONDS[window]
    assert stats(history((0, 50), now=seconds - 1), window)[0] == 50
    assert math.isnan(stats(history((0, 50), now=seconds), window)[0])
    assert math.isnan(stats(history((0, 50), now=10 * seconds), window)[0])


def test_nan_is_no_reading() -> None:
    made = history((0, 50), (60, NAN))

    assert stats(made, "15m")[0] == 50
    assert dict(made.rows())["a"].latest.tolist() == [START]


def test_a_reading_that_is_too_new_or_too_old_is_not_kept() -> None:
    made = history((0, 50))
    made.put([("a", (99,), (START + 7200,)), ("a", (99,), (START - 2 * 86_400,))])
    for _ in made.judge():
        pass

    assert stats(made, "1d")[:2] == [50, 50]


def test_unread_instants_are_returned_by_window_until_they_are_read() -> None:
    made = history((0, 10), (60, 20), (240, 30))

    quarter, *others = made.unread()
    assert quarter == range(int(START) - 600, int(START) + 181, 60)
    assert [times.step for times in others] == [300, 900]
    for at in quarter:
        made.looked(at)
    assert [times.step for times in made.unread()] == [300, 900]


def test_past_readings_are_added() -> None:
    made = history((0, 10))
    made.put([("a", (30.0,), (START - 300,))])
    for _ in made.judge():
        pass

    assert stats(made, "15m")[0] == stats(made, "1h")[0] == 20
    assert dict(made.rows())["a"].latest.tolist() == [START]


def test_a_forgotten_object_leaves_no_values_to_the_next_one() -> None:
    made = history((0, 50))
    for _ in made.retain(lambda key: key != "a"):
        pass
    made.put([("b", (NAN,), (START,))])
    for _ in made.judge():
        pass

    assert len(made) == 1
    assert math.isnan(stats(made, "15m", "b")[0])
    assert dict(made.rows())["b"].latest.tolist() == [-math.inf]


def test_many_objects_have_separate_values() -> None:
    made: History[int] = History(1)
    made.advance(START)
    made.put([(key, (float(key),), (START,)) for key in range(1000)])
    for _ in made.judge():
        pass
    table = made.stats()["1d"]

    assert {key: table[0, row.number, 0] for key, row in made.rows()} == {key: key for key in range(1000)}
