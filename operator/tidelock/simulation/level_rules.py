"""Rules that score nodes by their levels in other ways than the plugin, for comparison with it.

They get the same levels, windows and guard as the plugin. Only the score differs.
"""

from collections.abc import Callable, Iterable

import numpy as np

from tidelock.cluster.usage.levels import LevelArray
from tidelock.framework.api import MAX_NODE_SCORE
from tidelock.framework.measured_use import Level
from tidelock.simulation.world import Floats, Indices

Figure = tuple[LevelArray, LevelArray, Level]
"""One window of one resource: use of each node with the pod and without it (N), and the weight.

Uses are in percent. The array of use with the pod serves for all figures, one after the other.
"""

LevelRule = Callable[[Iterable[Figure], int], LevelArray]
"""Returns the scores of N nodes by several figures. Takes the figures and N."""


def least_used_scores(figures: Iterable[Figure], count: int) -> LevelArray:
    """Score the unused percent of each node with the pod."""
    total = np.zeros(count)
    for with_pod, _, weight in figures:
        total += weight * (MAX_NODE_SCORE - with_pod)
    return total


def least_variance_scores(figures: Iterable[Figure], count: int) -> LevelArray:
    """Score by the variance between the nodes that each choice would leave.

    With u a node's use, m the mean, and d what the pod adds to the node, the variance of N nodes grows by
    2 * d * (u - m) + d^2 * (1 - 1 / N), over N. The score is the opposite of half of that in units of the
    mean of d, so between equal nodes a percent of use is one point, as for `least_used_scores`.
    """
    total = np.zeros(count)
    for with_pod, use, weight in figures:
        added = with_pod - use
        usual = added.mean()
        if usual > 0:
            growth = added * (use - use.mean()) + added**2 * (1 - 1 / count) / 2
            total -= weight * growth / usual
    return total


def gains_of_moves(level: Floats, per_unit: Floats, use: Floats, rows: Indices) -> Floats:
    """Return by how much each move of a pod levels N nodes, in squared points (pods x N).

    It is half of the fall of the sum of the squared differences from the mean m. With u and v the pod's
    percent of its node with the level a and of another node with the level b, and d = v - u, that is
    u * (a - m - u / 2) - v * (b - m + v / 2) + d^2 / (2 * N). For nodes of one size it is u * (a - b - u).

    Args:
        level: use of each node in percent (N).
        per_unit: percent of each node for one unit (N).
        use: use of each pod in units.
        rows: the node of each pod.

    """
    over = level - level.mean()
    here, there = (use * per_unit[rows])[:, np.newaxis], np.outer(use, per_unit)
    leaving, coming = here * (over[rows, np.newaxis] - here / 2), there * (over + there / 2)
    gains: Floats = leaving - coming + (there - here) ** 2 / (2 * len(level))
    return gains
