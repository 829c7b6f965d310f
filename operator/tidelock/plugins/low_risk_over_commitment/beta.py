"""The beta distribution over many nodes at once: how likely a use is to stay below a threshold."""

from math import lgamma

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

# A continued fraction takes about the root of a + b terms. Narrower distributions count as a point.
_NARROWEST = 1e5
_TERMS = 600
_EXACT = 1e-12
_TINY = 1e-300

_log_gamma = np.frompyfunc(lgamma, 1, 1)


def probability_below(threshold: Reals, mean: Reals, deviation: Reals) -> Reals:
    """Return the probability that a value between 0 and 1 is at most a threshold, as arrays of K.

    The value is beta distributed with this mean and standard deviation, which is less than the largest
    possible one, sqrt(mean * (1 - mean)).
    """
    variance = deviation**2
    narrow = variance * _NARROWEST <= mean * (1 - mean)
    below = (mean <= threshold).astype(np.float64)
    wide = np.flatnonzero(~narrow)
    if len(wide):
        spread = mean[wide] * (1 - mean[wide]) / variance[wide] - 1
        below[wide] = regularized(threshold[wide], mean[wide] * spread, (1 - mean[wide]) * spread)
    return below


def regularized(x: Reals, a: Reals, b: Reals) -> Reals:
    """Return the regularized incomplete beta function I_x(a, b) by its continued fraction.

    Source: W. H. Press et al., Numerical Recipes, section 6.4. It uses Lentz' method, and
    I_x(a, b) = 1 - I_1-x(b, a) if the fraction would be slow.
    """
    flipped = x > (a + 1) / (a + b + 2)
    x, a, b = np.where(flipped, 1 - x, x), np.where(flipped, b, a), np.where(flipped, a, b)
    inside = (x > 0) & (x < 1)
    safe = np.where(inside, x, 0.5)
    logs = np.asarray(_log_gamma(a + b) - _log_gamma(a) - _log_gamma(b), np.float64)
    front = np.exp(logs + a * np.log(safe) + b * np.log1p(-safe)) / a
    value = np.where(inside, front * _fraction(safe, a, b), np.where(x <= 0, 0.0, 1.0))
    return np.clip(np.where(flipped, 1 - value, value), 0.0, 1.0)


def _fraction(x: Reals, a: Reals, b: Reals) -> Reals:
    c = np.ones_like(x)
    d = 1 / _nonzero(1 - (a + b) * x / (a + 1))
    total = d.copy()
    for term in range(1, _TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        factor = np.ones_like(x)
        for numerator in (even, odd):
            d = 1 / _nonzero(1 + numerator * d)
            c = _nonzero(1 + numerator / c)
            factor *= c * d
        total *= factor
        if np.abs(factor - 1).max() < _EXACT:
            break
    return total


def _nonzero(values: Reals) -> Reals:
    return np.where(np.abs(values) < _TINY, _TINY, values)
