"""LowRiskOverCommitment for one resource of one node, with values as fractions of its allocatable amount.

Simpson's rule integrates the distribution function, after a change of variables that removes the poles of the
density. So the oracle shares nothing with the continued fraction.
"""

from math import lgamma, sqrt

import numpy as np

STEPS = 4000


def cumulative(x: float, a: float, b: float) -> float:
    """Return the probability that a beta distributed value is at most x."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > a / (a + b):
        return 1 - cumulative(1 - x, b, a)
    # With t = x * s^k the density at 0 is no pole if k * a >= 1.
    power = max(1.0, 4 / a)
    s = np.linspace(0, 1, STEPS + 1)[1:]
    # (a - 1) log t and the slope of t together
    logs = a * np.log(x) + (a * power - 1) * np.log(s) + (b - 1) * np.log1p(-x * s**power)
    density = np.concatenate(([0.0], power * np.exp(logs + lgamma(a + b) - lgamma(a) - lgamma(b))))
    weights = np.where(np.arange(STEPS + 1) % 2, 4, 2)
    weights[[0, -1]] = 1
    return float((density * weights).sum() / (3 * STEPS))


def limit_risk(requests: float, limits: float) -> float:
    return (limits - 1) / (limits - min(requests, 1)) if limits > 1 else 0.0


def load_risk(requests: float, limits: float, mean: float, sigma: float) -> float:
    requests = min(max(requests, 0), 1)
    sigma = min(sigma, sqrt(mean * (1 - mean) * 0.99))
    fitted = mean > 0 and sigma > 0

    def below(threshold: float) -> float:
        if not fitted:
            return 1.0 if mean == 0 or mean <= threshold else 0.0
        spread = mean * (1 - mean) / sigma**2 - 1
        return cumulative(threshold, mean * spread, (1 - mean) * spread)

    probability = below(requests)
    if limits < 1 and requests <= limits:
        if limits == 0:
            probability = 1.0
        elif fitted and below(limits) > 0:
            probability = min(probability / below(limits), 1.0)
    return 1 - probability
