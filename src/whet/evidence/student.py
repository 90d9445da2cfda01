"""Quantiles of Student's t distribution, so that an interval over five blocks is as wide as it has to be."""

from __future__ import annotations

import math
from functools import lru_cache

TERMS = 400
PRECISION = 1e-13


@lru_cache(maxsize=4096)
def t_quantile(probability: float, degrees: int) -> float:
    """The t that is not exceeded with `probability`, which lies between 0.5 and 1."""
    if not 0.5 <= probability < 1 or degrees < 1:
        raise ValueError(f"no t quantile of {probability} with {degrees} degrees of freedom")
    low, high = 0.0, 1.0
    while 1 - upper_tail(high, degrees) < probability:
        low, high = high, 2 * high
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if upper_tail(middle, degrees) > 1 - probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def upper_tail(t: float, degrees: int) -> float:
    """The probability of more than `t`, for `t` of at least 0."""
    return _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised; the continued fraction converges fast only below the mean, so the other side is mirrored."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x),
    )
    if x > (a + 1) / (a + b + 2):
        return 1 - front * _fraction(b, a, 1 - x) / b
    return front * _fraction(a, b, x) / a


def _fraction(a: float, b: float, x: float) -> float:
    """Lentz's method on the continued fraction of the incomplete beta function."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1 + term * d, 1 + term / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            step = c * d
            value *= step
        if abs(step - 1) < 1e-15:
            break
    return value
