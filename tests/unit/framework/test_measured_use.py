from unittest.mock import patch

import numpy as np
import pytest

from tidelock.framework.measured_use import constant_slope_scores, packing_score, packing_scores
from tidelock.plugins.low_risk_over_commitment import beta
from tidelock.plugins.low_risk_over_commitment.beta import probability_below, regularized


@pytest.mark.parametrize(
    ("use", "target", "points"),
    [
        ([1, 5, 25, 50, 99], 20, [24, 40, 18.75, 12.5, 0.25]),
        ([0, 20, 20.5, 100, 130], 20, [20, 100, 19.875, 0, 0]),
        ([0, 1e-9, 50, 100, 130], 0, [100, 0, 0, 0, 0]),
        ([0, 50, 99, 100, 101], 100, [100, 100, 100, 100, 0]),
    ],
)
def test_the_score_rises_to_the_target_and_falls_beyond(
    use: list[float], target: float, points: list[float]
) -> None:
    assert packing_score(np.array(use, np.float64), target) == pytest.approx(points)


def test_each_node_can_have_a_target_of_its_own() -> None:
    found = packing_score(np.array([50.0, 50.0, 50.0]), np.array([50.0, 0.0, 20.0]))
    assert found.tolist() == [100, 0, 12.5]


@pytest.mark.parametrize(
    ("use", "target", "points"),
    [
        ([1, 5, 25, 50, 99], 20, [81, 85, 97.5, 85, 60.5]),
        ([0, 20, 100, 130, 220, 300], 20, [80, 100, 60, 45, 0, 0]),
        ([0, 50, 100, 199, 201], 0, [100, 75, 50, 0.5, 0]),
        ([0, 50, 100, 101], 100, [0, 50, 100, 99.5]),
    ],
)
def test_the_score_with_constant_slopes_falls_with_the_distance_from_the_target(
    use: list[float], target: float, points: list[float]
) -> None:
    assert constant_slope_scores([(np.array(use, np.float64), target, 1.0)], len(use)).tolist() == points


def test_several_figures_count_by_their_weights() -> None:
    first, second = np.array([10.0, 50.0, 130.0]), np.array([40.0, 0.0, 20.0])
    targets = np.array([50.0, 0.0, 20.0])
    found = packing_scores([(first, 20.0, 0.25), (second, targets, np.array([0.5, 0.75, 0.0]))], 3)
    separate = 0.25 * packing_score(first, 20) + np.array([0.5, 0.75, 0.0]) * packing_score(second, targets)
    assert found == pytest.approx(separate)


@pytest.mark.parametrize(
    ("x", "a", "b", "expected"),
    [
        (0.5, 2, 2, 0.5),
        (0, 2, 2, 0),
        (1, 2, 2, 1),
        (0.25, 1, 1, 0.25),
        (0.3, 1, 3, 1 - 0.7**3),
        (0.9, 3, 1, 0.9**3),
    ],
)
def test_the_beta_function_at_known_points(x: float, a: float, b: float, expected: float) -> None:
    found = regularized(np.array([x]), np.array([float(a)]), np.array([float(b)]))
    assert found == pytest.approx([expected], abs=1e-10)


def test_moments_are_matched() -> None:
    """Check a mean of 1/2 with the variances of the uniform distribution, 1/12, and of Beta(2, 2), 1/20."""
    threshold = np.array([0.25, 0.5, 0.25])
    found = probability_below(threshold, np.full(3, 0.5), np.sqrt([1 / 12, 1 / 12, 1 / 20]))
    assert found == pytest.approx([0.25, 0.5, 3 * 0.25**2 - 2 * 0.25**3])


def test_the_number_of_terms_of_a_continued_fraction_is_limited() -> None:
    """Check that a few terms are already close in the middle of a symmetric distribution."""
    with patch.object(beta, "_TERMS", 12):
        found = regularized(np.array([0.5]), np.array([200.0]), np.array([200.0]))[0]
    assert found == pytest.approx(0.5, abs=0.1)
    assert found != pytest.approx(0.5, abs=1e-9)
