import numpy as np
import pytest

from tidelock.cluster.usage.levels import LevelArray
from tidelock.framework.measured_use import Level
from tidelock.simulation.level_rules import (
    Figure,
    LevelRule,
    gains_of_moves,
    least_used_scores,
    least_variance_scores,
)

USE = np.array([10.0, 40.0, 25.0, 60.0])


def figure(added: LevelArray | float, weight: Level = 1.0) -> Figure:
    return USE + added, USE, weight


def test_the_least_used_node_is_the_best() -> None:
    assert least_used_scores([figure(5.0)], 4).tolist() == [85, 55, 70, 35]


@pytest.mark.parametrize("added", [np.full(4, 5.0), np.array([20.0, 2.5, 5.0, 1.0])])
def test_the_best_node_leaves_the_least_variance(added: LevelArray) -> None:
    variances = [(USE + np.where(np.arange(4) == node, added, 0)).var() for node in range(4)]

    scores = least_variance_scores([figure(added)], 4)

    # The score falls with the variance, by N / 2 over the mean of what the pod adds.
    fall = (np.array(variances) - USE.var()) * 4 / 2 / added.mean()
    assert scores == pytest.approx(-fall)


def test_between_equal_nodes_least_variance_is_least_used() -> None:
    least_used, least_variance = (
        rule([figure(5.0)], 4) for rule in (least_used_scores, least_variance_scores)
    )

    assert np.ptp(least_used - least_variance) == pytest.approx(0)


@pytest.mark.parametrize("rule", [least_used_scores, least_variance_scores])
def test_figures_count_by_their_weights(rule: LevelRule) -> None:
    one, other = rule([figure(5.0)], 4), rule([figure(2.0)], 4)

    both = rule([figure(5.0, weight=0.75), figure(2.0, weight=0.25)], 4)

    assert both == pytest.approx(0.75 * one + 0.25 * other)


def test_the_gain_of_a_move_is_half_of_the_fall_of_the_variance_times_the_nodes() -> None:
    level, per_unit = np.array([60.0, 20.0, 35.0]), np.array([4.0, 4.0, 8.0])
    use, rows = np.array([2.5, 1.0]), np.array([0, 2])

    gains = gains_of_moves(level, per_unit, use, rows)

    for pod, row in np.ndindex(gains.shape):
        after = level.copy()
        after[rows[pod]] -= use[pod] * per_unit[rows[pod]]
        after[row] += use[pod] * per_unit[row]
        if row != rows[pod]:
            assert gains[pod, row] == pytest.approx(3 * (level.var() - after.var()) / 2)
    assert gains[0, 1] == pytest.approx(10 * (60 - 20 - 10))
