"""Efficiencies: passed and total numbers, with the chosen confidence interval."""

from __future__ import annotations

from collections.abc import Callable
from math import lgamma
from statistics import NormalDist

import numpy as np

from sapwood.errors import ArgumentError, CorruptError, UnsupportedError
from sapwood.objects.axis import TAxis
from sapwood.objects.basic import TNamed
from sapwood.objects.histogram import Array, Histogram
from sapwood.objects.model import behavior, place_of
from sapwood.table.special import beta_cdf, beta_density, beta_quantile, beta_start, log_beta, solve

# Status bits of TEfficiency.
_BAYESIAN, _MODE, _SHORTEST, _BIN_PRIOR, _WEIGHTS = (1 << bit for bit in range(14, 19))
# TEfficiency::EStatOption, in its order.
_OPTIONS = (
    "clopper-pearson", "normal", "wilson", "agresti-coull", "feldman-cousins", "jeffreys", "uniform", "bayesian",
    "mid-p",
)  # fmt: skip
_MOST_BINS = 500_000
"""Maximum number of different bins for which an interval is found step by step."""
_LARGEST = 100_000
"""Maximum number of events in a bin for a Feldman-Cousins interval, which needs a table of factorials."""


def _for_each(solve: Callable[[Array, Array], Array], first: Array, second: Array) -> Array:
    """Solve once for all bins with the same two numbers.

    Raises
    ------
    UnsupportedError
        There are too many different bins.
    """
    pairs, where = np.unique(np.stack([first.ravel(), second.ravel()]), axis=1, return_inverse=True)
    if pairs.shape[1] > _MOST_BINS:
        raise UnsupportedError(f"intervals of {pairs.shape[1]} different bins would take too long")
    return solve(pairs[0], pairs[1])[where.ravel()].reshape(first.shape)


def _beta_quantile(p: float, a: Array, b: Array) -> Array:
    return _for_each(lambda a, b: beta_quantile(p, a, b), a, b)


def _clopper_pearson(total: Array, passed: Array, level: float) -> tuple[Array, Array]:
    tail = (1 - level) / 2
    some, missed = np.maximum(passed, 1e-12), np.maximum(total - passed, 1e-12)
    low = np.where(passed <= 0, 0.0, _beta_quantile(tail, some, total - passed + 1))
    high = np.where(passed >= total, 1.0, _beta_quantile(1 - tail, passed + 1, missed))
    return low, high


def _normal(total: Array, passed: Array, level: float) -> tuple[Array, Array]:
    mean = passed / total
    delta = NormalDist().inv_cdf(1 - (1 - level) / 2) * np.sqrt(mean * (1 - mean) / total)
    return mean - delta, mean + delta


def _wilson(total: Array, passed: Array, level: float) -> tuple[Array, Array]:
    kappa = NormalDist().inv_cdf(1 - (1 - level) / 2)
    mean = passed / total
    mode = (passed + 0.5 * kappa**2) / (total + kappa**2)
    delta = kappa / (total + kappa**2) * np.sqrt(total * mean * (1 - mean) + kappa**2 / 4)
    return mode - delta, mode + delta


def _agresti_coull(total: Array, passed: Array, level: float) -> tuple[Array, Array]:
    kappa = NormalDist().inv_cdf(1 - (1 - level) / 2)
    mode = (passed + 0.5 * kappa**2) / (total + kappa**2)
    delta = kappa * np.sqrt(mode * (1 - mode) / (total + kappa**2))
    return mode - delta, mode + delta


def _mid_p_end(p: float, total: Array, passed: Array) -> Array:
    """Return the rates at which more than the observed number, and half of that number, have the probability `p`."""
    some, missed = np.maximum(passed, 1e-12), np.maximum(total - passed, 1e-12)
    pairs = [(one, other, log_beta(one, other)) for one, other in ((some, missed + 1), (some + 1, missed))]

    def rising(x: Array, places: Array) -> tuple[Array, Array]:
        mine = [tuple(column[places] for column in pair) for pair in pairs]
        values, slopes = ([function(x, *pair) for pair in mine] for function in (beta_cdf, beta_density))
        return (values[0] + values[1]) / 2, (slopes[0] + slopes[1]) / 2

    return solve(p, rising, beta_start(p, some + 0.5, missed + 0.5))


def _mid_p(total: Array, passed: Array, level: float) -> tuple[Array, Array]:
    tail = (1 - level) / 2
    low, high = (_for_each(lambda n, k, p=p: _mid_p_end(p, n, k), total, passed) for p in (tail, 1 - tail))
    low[passed <= 0], high[passed >= total] = 0.0, 1.0
    return low, high


def _feldman_cousins_low(total: Array, passed: Array, level: float) -> Array:
    """Halve for the least true rates at which no fewer than these numbers are accepted.

    A rate accepts the numbers that are likeliest compared with their own best rates, until their probability is
    `level`. The ratio falls on both sides of the expected number, so the numbers before another one are a range, and
    their probability is a difference of two tails.
    """
    # The logarithms of (n - 1)!, of which those of beta functions consist.
    gammas = np.array([0.0, *map(lgamma, range(1, int(total.max(initial=0)) + 2))])  # place 0 is not used

    def log_ratio(number: Array, total: Array, rate: float | Array) -> Array:
        missed = total - number
        with np.errstate(divide="ignore", invalid="ignore"):
            ways = number * np.log(total * rate / number), missed * np.log(total * (1 - rate) / missed)
        return np.where(number > 0, ways[0], 0.0) + np.where(missed > 0, ways[1], 0.0)

    def at_least(number: Array, total: Array, rate: Array) -> Array:
        """Return the probability of this number or more."""
        a = np.maximum(number, 1)
        b = total - a + 1
        places = (one.astype(np.int64) for one in (a, b, total + 1))
        x, y, xy = (gammas[place] for place in places)
        return np.where(number < 1, 1.0, beta_cdf(rate, a, b, x + y - xy))

    low, middle, step = np.zeros(len(total)), np.full(len(total), 0.5), 0.5
    while True:
        rest = np.flatnonzero(passed > total * middle)  # others are accepted, or too few
        n, k, rate = total[rest], passed[rest], middle[rest]
        own = log_ratio(k, n, rate)
        first, last = np.zeros(len(rest)), k.copy()
        while (first < last).any():
            between = np.floor((first + last) / 2)
            before = (between > n * rate) | (log_ratio(between, n, rate) >= own)
            first, last = np.where(before, first, between + 1), np.where(before, between, last)
        accepted = at_least(first, n, rate) - at_least(k, n, rate)
        beyond = rest[accepted >= level]
        low[beyond] = middle[beyond]
        if step <= 1e-9:
            return middle
        step /= 2
        middle = low + step


def _feldman_cousins(total: Array, passed: Array, level: float) -> tuple[Array, Array]:
    if not np.all((passed >= 0) & (passed <= total)) or total.max(initial=0) > _LARGEST:
        raise UnsupportedError(f"Feldman-Cousins intervals need 0 <= passed <= total <= {_LARGEST} in each bin")
    total, passed = np.trunc(total), np.trunc(passed)
    low = _for_each(lambda n, k: _feldman_cousins_low(n, k, level), total, passed)
    # The events that did not pass have the opposite interval.
    return low, 1 - _for_each(lambda n, k: _feldman_cousins_low(n, k, level), total, total - passed)


_INTERVALS = {
    "clopper-pearson": _clopper_pearson, "normal": _normal, "wilson": _wilson, "agresti-coull": _agresti_coull,
    "feldman-cousins": _feldman_cousins, "mid-p": _mid_p,
}  # fmt: skip


@behavior("TEfficiency")
class TEfficiency(TNamed):
    """An efficiency in bins."""

    @property
    def passed(self) -> Histogram:
        """The histogram of passed entries."""
        return self.member("fPassedHistogram")

    @property
    def total(self) -> Histogram:
        """The histogram of all entries."""
        return self.member("fTotalHistogram")

    @property
    def axes(self) -> tuple[TAxis, ...]:
        """The axes."""
        return self.total.axes

    @property
    def statistic(self) -> str:
        """The method of the confidence interval: ``"clopper-pearson"``, ``"normal"``, ``"wilson"``, ``"bayesian"``, ...

        This is the method chosen before writing. ROOT stores the choice. For efficiencies that it has read, unless they
        are Bayesian, it uses Clopper-Pearson until `SetStatisticOption` is called again.
        """
        option = self.member("fStatisticOption")
        return _OPTIONS[option] if 0 <= option < len(_OPTIONS) else f"option {option}"

    @property
    def confidence_level(self) -> float:
        """The probability content of the interval."""
        return self.member("fConfLevel")

    def _has(self, bit: int) -> bool:
        return bool(self.member("@fBits") & bit)

    def _cells(self) -> tuple[Array, Array]:
        """Return the total and the passed numbers of all bins, with flow bins."""
        total, passed = (h.values(True).astype(np.float64) for h in (self.total, self.passed))
        if total.shape != passed.shape:
            raise CorruptError(f"{place_of(self)}: its histograms have {total.shape} and {passed.shape} bins")
        return total, passed

    def _beta(self) -> tuple[Array, Array]:
        """Return the parameters of the posterior beta distribution of each bin."""
        total, passed = self._cells()
        if self._has(_WEIGHTS):
            squares = self.total.variances(True)
            with np.errstate(divide="ignore", invalid="ignore"):
                norm = np.where(squares > 0, total / squares, 0.0)
            total, passed = total * norm, passed * norm
        alpha, beta = self.member("fBeta_alpha"), self.member("fBeta_beta")
        if self._has(_BIN_PRIOR):
            priors = np.array(list(self.member("fBeta_bin_params")), dtype=np.float64)
            alpha, beta = (column.reshape(total.shape[::-1]).T for column in priors.T)
        return passed + alpha, total - passed + beta

    def values(self, flow: bool = False) -> Array:
        """Return the efficiency of each bin, 0 for empty bins; for Bayesian statistics, the mean or mode.

        Parameters
        ----------
        flow
            Include underflow and overflow.
        """
        return self._inner(self._values(), flow)

    def _values(self) -> Array:
        if self._has(_BAYESIAN):
            a, b = self._beta()
            if not self._has(_MODE):
                return a / (a + b)
            with np.errstate(divide="ignore", invalid="ignore"):
                inside = (a - 1) / (a + b - 2)
            border = np.where(a < b, 0.0, np.where(a > b, 1.0, 0.5))
            return np.where((a <= 1) | (b <= 1), border, inside)
        total, passed = self._cells()
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(total != 0, passed / total, 0.0)

    def _inner(self, cells: Array, flow: bool) -> Array:
        return (cells if flow else cells[(slice(1, -1),) * cells.ndim]).copy()

    def interval(self, flow: bool = False) -> tuple[Array, Array]:
        """Return the lower and the upper end of the confidence interval of each bin.

        Parameters
        ----------
        flow
            Include underflow and overflow.

        Raises
        ------
        UnsupportedError
            The interval is not supported (shortest Bayesian), or would take too long.
        """
        level = self.confidence_level
        if self._has(_BAYESIAN):
            if self._has(_SHORTEST):
                raise UnsupportedError(f"the shortest Bayesian interval of {self!r} is not supported")
            a, b = self._beta()
            tail = (1 - level) / 2
            low, high = _beta_quantile(tail, a, b), _beta_quantile(1 - tail, a, b)
            return self._inner(low, flow), self._inner(high, flow)
        total, passed = self._cells()
        empty = total == 0
        total = np.where(empty, 1.0, total)
        if self._has(_WEIGHTS):
            # Only the normal approximation holds for weighted events.
            value = self._values()
            passed2, total2 = self.passed.variances(True), self.total.variances(True)
            variance = (passed2 * (1 - 2 * value) + total2 * value**2) / total**2
            delta = NormalDist().inv_cdf(1 - (1 - level) / 2) * np.sqrt(variance)
            low, high = value - delta, value + delta
        else:
            found = _INTERVALS.get(self.statistic)
            if found is None:
                raise UnsupportedError(f"the interval of {self!r} ({self.statistic}) is not supported")
            low, high = found(total, passed, level)
        low, high = np.where(empty, 0.0, np.maximum(low, 0.0)), np.where(empty, 1.0, np.minimum(high, 1.0))
        return self._inner(low, flow), self._inner(high, flow)

    def errors(self, which: str = "mean", flow: bool = False) -> Array:
        """Return the distance of the interval ends from the efficiency.

        Parameters
        ----------
        which
            ``"low"``, ``"high"``, or their ``"mean"``.
        flow
            Include underflow and overflow.
        """
        if which not in ("low", "high", "mean"):
            raise ArgumentError(f"which must be 'low', 'high' or 'mean', not {which!r}")
        value = self.values(flow)
        low, high = self.interval(flow)
        return {"low": value - low, "high": high - value, "mean": (high - low) / 2}[which]

    def to_numpy(self, flow: bool = False) -> tuple[Array, ...]:
        """Return the efficiencies and the edges of the axes.

        Parameters
        ----------
        flow
            Include underflow and overflow.
        """
        return self.values(flow), *(axis.edges(flow) for axis in self.axes)
