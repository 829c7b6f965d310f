"""TargetLoadPacking for one node, with values in percent of the node."""

from math import floor

from property.oracles.water_level_balance import points


def score(measured: float, arrivals: float, pod: float, target: float) -> int:
    return floor(points(measured + arrivals + pod, target) + 0.5)


def counts_anew(bound_at: float, sampled_at: float) -> bool:
    return bound_at > sampled_at or sampled_at - bound_at < 60
