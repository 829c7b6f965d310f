"""LoadVariationRiskBalancing for one resource of one node, with values as fractions of the node."""

from math import inf


def part(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def score(mean: float, sigma: float, request: float, margin: float, sensitivity: float) -> float:
    mu = part(part(mean) + request)
    root = inf if sensitivity == 0 else 1 / sensitivity
    risky = part(sigma) ** root
    return 100 * (1 - (mu + part(risky * margin)) / 2)
