"""How much of the use of pods their requests do not explain."""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest

import builders
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.load.unexplained_use import (
    UnexplainedUse,
    largest_unexplained_part,
    unexplained_part,
    use_and_requests,
)
from tidelock.model.usage_annotations import PodMeans

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
        [10, 60, 20, 50, 30, 55, 35, 45, 90, 40],
    ],
)
def test_the_part_is_that_of_the_least_squares_line(use: list[int]) -> None:
    expected = min(exact(use, REQUESTED), Fraction(1))
    assert expected > 0
    assert part(list(use), list(REQUESTED)) == pytest.approx(float(expected))


def test_equal_requests_explain_nothing() -> None:
    assert part(list(REQUESTED), [50] * 10) == 1


def test_less_use_for_more_requests_explains_nothing() -> None:
    assert part([90, 80, 75, 60, 40, 50, 33, 20, 12, 1], list(REQUESTED)) == 1


def test_few_pods_and_equal_use_say_nothing() -> None:
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


def test_an_unknown_part_changes_nothing() -> None:
    learned = UnexplainedUse()
    learned.learn(None, HOUR)
    assert learned.part is None
    learned.learn(0.3, HOUR)
    learned.learn(None, 2 * HOUR)
    assert learned.part == 0.3


def test_the_resource_with_the_larger_part_counts() -> None:
    requested = np.array([[each, each] for each in REQUESTED], np.float64)
    use = requested / 2
    use[:, 1] = use[::-1, 1]
    assert largest_unexplained_part(use, requested) == 1
    use[3:, 1] = np.nan  # of three pods nothing is known
    assert largest_unexplained_part(use, requested) == pytest.approx(0, abs=1e-9)
    assert largest_unexplained_part(np.full_like(use, np.nan), requested) is None


async def test_pods_that_are_gone_or_were_not_measured_lately_are_left_out() -> None:
    cache = Cache(Columns())
    cache.put_node(builders.node("node-a", cpu="4"))
    pods = [builders.pod(name, requests={"cpu": "1", "memory": "1Gi"}) for name in ("new", "old")]
    for pod in pods:
        cache.assume(pod, "node-a")
    means = [0.5, 1e9, 0.6, 1e9, 0.7, 1e9]
    measured = {pod.uid: PodMeans(at, means) for pod, at in zip(pods, (100.0, 50.0), strict=True)}
    measured["gone"] = PodMeans(100.0, means)

    use, requested = await use_and_requests(measured, cache.get, 60.0)

    assert use[0].tolist() == [0.5, 1e9]
    assert requested[0].tolist() == [pods[0].requests["cpu"], pods[0].requests["memory"]]
    assert np.isnan(use[1:]).all()
