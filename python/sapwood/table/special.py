"""Special functions of arrays that NumPy lacks."""

from __future__ import annotations

from collections.abc import Callable
from math import lgamma
from statistics import NormalDist
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_TERMS = 3000
_STEPS = 100
_TINY = 1e-300


def log_beta(a: Array, b: Array) -> Array:
    """Return the logarithm of the beta function."""
    return np.vectorize(lambda p, q: lgamma(p) + lgamma(q) - lgamma(p + q), otypes=[float])(a, b)


def _beta_fraction(x: Array, a: Array, b: Array) -> Array:
    """Return the continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method."""
    found = np.zeros(len(x))
    rest = np.arange(len(x))
    c, d = np.ones(len(x)), 1 - (a + b) * x / (a + 1)
    d = 1 / np.where(np.abs(d) < _TINY, _TINY, d)
    value = d.copy()
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1 + term * d, 1 + term / c
            d = 1 / np.where(np.abs(d) < _TINY, _TINY, d)
            c = np.where(np.abs(c) < _TINY, _TINY, c)
            factor = c * d
            value *= factor
        if m % 4 == 0:
            open_ = np.abs(factor - 1) > 1e-15
            found[rest[~open_]] = value[~open_]
            rest = rest[open_]
            x, a, b, c, d, value = (one[open_] for one in (x, a, b, c, d, value))
            if not len(rest):
                break
    found[rest] = value
    return found


def beta_cdf(x: Array, a: Array, b: Array, log_beta_: Array | None = None) -> Array:
    """Return the regularised incomplete beta function I_x(a, b) of arrays of one dimension."""
    logs = log_beta(a, b) if log_beta_ is None else log_beta_
    swap = x > (a + 1) / (a + b + 2)
    a, b, x = np.where(swap, b, a), np.where(swap, a, b), np.where(swap, 1 - x, x)
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        front = np.exp(a * np.log(x) + b * np.log1p(-x) - logs) / a
    found = np.where(x <= 0, 0.0, front * _beta_fraction(x, a, b))
    return np.where(swap, 1 - found, found)


def beta_density(x: Array, a: Array, b: Array, log_beta_: Array) -> Array:
    """Return the derivative of `beta_cdf`."""
    with np.errstate(all="ignore"):
        return np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - log_beta_)


def solve(target: float, rising: Callable[[Array, Array], tuple[Array, Array]], start: Array) -> Array:
    """Find where rising functions between 0 and 1 have a value.

    Parameters
    ----------
    target
        The value.
    rising
        Returns the functions and their derivatives, for arguments and for the places of these in `start`.
    start
        The first arguments, one for each function. From there, it is Newton's method, and halving where that leaves
        the interval in which the solution lies.
    """
    found, low, high = start.copy(), np.zeros(len(start)), np.ones(len(start))
    rest = np.arange(len(start))
    for _ in range(_STEPS):
        x = found[rest]
        value, slope = rising(x, rest)
        below = value < target
        low[rest], high[rest] = np.where(below, x, low[rest]), np.where(below, high[rest], x)
        with np.errstate(all="ignore"):
            step = x - (value - target) / slope
        inside = (step > low[rest]) & (step < high[rest])
        found[rest] = np.where(inside, step, (low[rest] + high[rest]) / 2)
        rest = rest[np.abs(found[rest] - x) > 1e-14 * x]
        if not len(rest):
            break
    return found


def beta_start(p: float, a: Array, b: Array) -> Array:
    """Return an estimate of the quantiles of beta distributions, strictly between 0 and 1."""
    mean = a / (a + b)
    found = mean + NormalDist().inv_cdf(p) * np.sqrt(mean * (1 - mean) / (a + b + 1))
    return np.clip(found, mean / 2, (1 + mean) / 2)


def beta_quantile(p: float, a: Array, b: Array) -> Array:
    """Return where `beta_cdf` is `p`, for arrays of one dimension."""
    logs = log_beta(a, b)

    def rising(x: Array, places: Array) -> tuple[Array, Array]:
        mine = a[places], b[places], logs[places]
        return beta_cdf(x, *mine), beta_density(x, *mine)

    return solve(p, rising, beta_start(p, a, b))
