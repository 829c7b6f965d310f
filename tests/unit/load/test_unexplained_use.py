"""How much of the use of nodes their requests do not explain."""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest

import builders
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.load.unexplained_use import UnexplainedUse, unexplained_part, use_and_requests

HOUR = 3600.0
REQUESTED = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]


def part(use: list[float], requested: list[float]) -> float | None:
    return unexplained_part(np.array(use, np.float64), np.array(requested, np.float64))


def total(values: Iterable[Fraction]) -> Fraction:
    return sum(values, Fraction(0))


def exact(use: list[int], requested: list[int]) -> Fraction:
    """Compute the residual variance of the least squares line over the total one, by degrees of freedom."""
    count = len(use)
    xs = [Fraction(each) - Fraction(sum(requested), count) for each in requested]
    ys = [Fraction(each) - Fraction(sum(use), count) for each in use]
    slope = total(x * y for x, y in zip(xs, ys, strict=True)) / total(x * x for x in xs)
    left = total((y - slope * x) * (y - slope * x) for x, y in zip(xs, ys, strict=True))
    return (left / (count - 2)) / (total(y * y for y in ys) / (count - 1))


def test_use_that_is_a_fixed_share_of_requests_is_explained() -> None:
    assert part([each / 2 for each in REQUESTED], list(REQUESTED)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    "use",
    [
        [12, 14, 40, 35, 60, 44, 70, 90, 66, 99],
        [30, 5, 41, 16, 22, 70, 11, 9, 38, 33],
        [90, 80, 75, 60, 40, 50, 33, 20, 12, 1],
    ],
)
def test_the_part_is_that_of_the_least_squares_line(use: list[int]) -> None:
    expected = min(exact(use, REQUESTED), Fraction(1))
    assert expected > 0
    assert part(list(use), list(REQUESTED)) == pytest.approx(float(expected))


def test_equal_requests_explain_nothing() -> None:
    assert part(list(REQUESTED), [50] * 10) == 1


def test_few_nodes_and_equal_use_say_nothing() -> None:
    assert part(list(REQUESTED[:9]), list(REQUESTED[:9])) is None
    assert part([50] * 10, list(REQUESTED)) is None


def test_the_mean_follows_within_hours_and_not_at_once() -> None:
    learned = UnexplainedUse()
    learned.learn(1.0, 0.0)
    learned.learn(0.0, 60.0)
    assert learned.part == pytest.approx(np.exp(-1 / 60))
    for minute in range(2, 5 * 60):
        learned.learn(0.0, minute * 60.0)
    assert learned.part == pytest.approx(np.exp(-299 / 60))
    learned.learn(1.0, 0.0)  # the clock was set back
    assert learned.part == pytest.approx(np.exp(-299 / 60))


@pytest.mark.parametrize(
    ("stored", "expected"), [(40, 0.4), (0, 0), (-5, 0), (1000, 1), (None, None), ("40", None)]
)
def test_a_stored_part_is_restored_if_it_can_be_read(stored: object, expected: float | None) -> None:
    learned = UnexplainedUse()
    learned.restore(stored, HOUR)
    assert learned.part == expected


def test_a_learned_part_is_not_replaced_by_a_stored_one() -> None:
    learned = UnexplainedUse()
    learned.learn(0.3, HOUR)
    learned.restore(40, HOUR)
    assert learned.part == 0.3


def test_nodes_that_are_gone_or_have_nothing_are_left_out() -> None:
    cache = Cache(Columns())
    cache.put_node(builders.node("node-a", cpu="4"))
    cache.put_node(builders.node("node-b", cpu="0"))
    cache.assume(builders.pod(requests={"cpu": "1"}), "node-a")
    use, requested = use_and_requests(cache.columns, {"node-a": 50.0, "node-b": 5.0, "node-c": 9.0}, "cpu")
    assert (use.tolist(), requested.tolist()) == ([50], [25])
