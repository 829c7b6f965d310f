"""LoadAware for one node."""

from collections.abc import Mapping
from math import floor


def estimate(request: int, limit: int, factor: int, default: int) -> int:
    amount = max(request, limit)
    if amount == 0:
        return default
    part = floor(amount * factor / 100 + 0.5)
    return min(part, limit) if limit else part


def score(used: Mapping[str, float], room: Mapping[str, int], weights: Mapping[str, int]) -> int:
    points = {
        name: (room[name] - floor(used[name])) * 100 // room[name] if used[name] <= room[name] else 0
        for name in weights
    }
    return sum(points[name] * weights[name] for name in weights) // sum(weights.values())


def beyond(used: Mapping[str, float], room: Mapping[str, int], thresholds: Mapping[str, int]) -> bool:
    return any(floor(100 * used[name] / room[name] + 0.5) > limit for name, limit in thresholds.items())
