"""TargetLoadPacking for one node, with values in percent of the node."""

from fractions import Fraction
from math import floor

from property.oracles.water_level_balance import target_load_packing


def score(measured: float, arrivals: float, pod: float, target: float) -> int:
    return floor(target_load_packing(Fraction(measured + arrivals + pod), Fraction(target)) + Fraction(1, 2))


def counts_anew(bound_at: float, sampled_at: float) -> bool:
    return bound_at > sampled_at or sampled_at - bound_at < 60
