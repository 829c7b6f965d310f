from collections.abc import Sequence

import numpy as np
import pytest

from tidelock.simulation.engine import Run
from tidelock.simulation.results import as_numbers, averaged, by_day, estimate, figures


def run(cpu: list[list[float]]) -> Run:
    steps = len(cpu)
    nothing = np.zeros(0, np.intp)
    unserved = np.full(steps, 0.25)
    return Run("p", "t", 0, np.array(cpu), unserved, np.arange(steps), nothing, nothing.astype(float))


def test_figures_cover_the_time_after_the_warm_up() -> None:
    of = figures(run([[0.0, 100.0], [10.0, 30.0], [85.0, 95.0]]), warm_up=300.0)

    assert (of.spread, of.range, of.mean, of.hot, of.pending) == (7.5, 15.0, 55.0, 50.0, 1.5)
    assert of.p99 == pytest.approx(94.7)


def test_a_run_within_the_warm_up_has_no_figures() -> None:
    with pytest.raises(ValueError, match=r"^t: 2 steps of 300 s are no longer than the warm-up of 36$"):
        figures(run([[1.0], [1.0]]))


def test_figures_are_averaged_one_by_one() -> None:
    low, high = (figures(run([[0.0, top]]), 0.0) for top in (20.0, 40.0))

    assert as_numbers(averaged([low, high])) == {
        "spread": 15.0,
        "range": 30.0,
        "mean": 15.0,
        "p99": 29.7,
        "hot": 0.0,
        "pending": 0.0,
        "unserved": 25.0,
    }


@pytest.mark.parametrize(
    ("values", "quantile"),
    [
        ([1.0, 2.0], 12.7062),
        ([1.0, 2.0, 3.0], 4.3027),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 2.7764),
        (range(31), 2.0423),
    ],
)
def test_the_interval_is_students(values: Sequence[float], quantile: float) -> None:
    """The quantiles are those of printed tables."""
    found = estimate([[each] for each in values])
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5

    assert found.mean == np.mean(values)
    assert found.high - found.mean == pytest.approx(quantile * error, rel=1e-4)
    assert found.mean - found.low == pytest.approx(quantile * error, rel=1e-4)
    assert str(estimate([[2.0], [2.0]])) == "2.00 (2.00 to 2.00)"


def test_one_group_has_no_interval() -> None:
    assert str(estimate([[1.0, 3.0]])) == "2.00"


def test_an_estimate_needs_values() -> None:
    with pytest.raises(ValueError, match="no values"):
        estimate([])


def test_unserved_cpu_is_a_percentage_of_the_wanted() -> None:
    assert figures(run([[0.0, 20.0]]), 0.0).unserved == 25


def test_groups_count_alike_however_many_values_they_have() -> None:
    assert estimate([[1.0] * 9, [2.0]]) == estimate([[1.0], [2.0]])


def days(*spreads: float) -> Run:
    """Return a run of two nodes with these deviations, each for a day, after an hour of other ones."""
    return run([[0.0, 99.0]] * 12 + [[0.0, 2 * spread] for spread in spreads for _ in range(288)])


def test_runs_are_compared_by_whole_days() -> None:
    found = by_day(days(1.0, 3.0, 9.0), days(2.0, 4.0, 9.0), warm_up=3600.0)

    assert found == estimate([[0.5], [0.75], [1.0]])


def test_one_day_is_not_compared() -> None:
    assert by_day(days(1.0), days(2.0), warm_up=3600.0) is None
