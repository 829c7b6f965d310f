"""DynamicLoad for one node."""

from collections.abc import Mapping, Sequence
from math import floor


def score(use: Mapping[str, float], weights: Mapping[str, float], bound: Sequence[float], now: float) -> int:
    """Score a node by its metrics, as fractions, and by the times at which pods were bound to it."""
    total = sum(weight * (1 - use[metric]) for metric, weight in weights.items() if metric in use)
    points = floor(round(100 * total / sum(weights.values()), 6))
    hot = sum(
        len([at for at in bound if at > now - period]) // count for period, count in ((300, 5), (60, 2))
    )
    return min(max(points - 10 * hot, 0), 100)
