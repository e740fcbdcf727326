"""95% intervals of means, shares and ranks, and the effective number of draws of an estimate.

A mean of few effective draws is not normal. Where rows saturate, those near a tie carry both the
mean and its standard error: unscaled with 64 keys, 43% of rows carry 90% of the mean square of
|J|_F at d_k = 64, and 9% at d_k = 2048. `Limits.effective_draws` finds such means, and intervals of
quantities with limits stay within them.
"""

import math
from dataclasses import dataclass

import numpy as np

from sdpa._arrays import FloatArray

LEVEL = 0.95
_ROUNDING = 1e-9  # a smaller relative error is that of equal shares
# the fewest trials, or separate rows beyond a quantile, for a reliable standard error
MIN_TRIALS = 20
# Rows of the same query, or of the same differences of keys, are large or small together. With
# fewer separate rows than this, draws that happen to be alike pass for many effective draws.
MIN_SEPARATE_ROWS = 50
# A mean of this many effective draws has a relative standard error of a tenth.
MIN_DRAWS = 100
# The skewness of a mean of fourth powers of scores is 3 (large d_k) to 8 (d_k = 1) times its
# relative error, here 2%.
MIN_DRAWS_OF_FOURTH_POWERS = 2500
_LARGEST_EXPONENT = 700.0  # e^700 fits into a double


@dataclass(frozen=True)
class Limits:
    """The values that a quantity cannot pass: numbers, or arrays of them; by default there are
    none.
    """

    low: float | FloatArray = -math.inf
    high: float | FloatArray = math.inf

    def distance(self, value: float | FloatArray) -> FloatArray:
        """min(value - low, high - value): infinite without a limit, negative beyond one. Arrays
        broadcast.

        >>> float(Limits(0, 1).distance(0.75))
        0.25
        """
        above, below = np.subtract(value, self.low), np.subtract(self.high, value)
        return np.asarray(np.minimum(above, below))

    def effective_draws(self, value: float | FloatArray, error: float | FloatArray) -> FloatArray:
        """(d / se)^2, with d the distance from the nearer limit: the effective number of
        independent draws of a mean.

        For a share p near 0 of n draws it is the number of events, n p / (1 - p); for a mean of
        positive numbers x it is near the (sum x)^2 / sum x^2 of Kish (1965). Infinite without a
        limit, or if the error is 0 away from a limit; 0 if the error is 0 on a limit. Arrays
        broadcast.

        >>> float(Limits(0, 1).effective_draws(0.5, 0.05))
        100.0
        """
        distance = self.distance(value)
        error = np.asarray(error, dtype=float)
        infinite = np.full(np.broadcast(distance, error).shape, np.inf)
        ratio = np.divide(distance, error, out=infinite, where=error > 0)
        return np.where((distance <= 0) & (error == 0), 0.0, ratio**2)


def mean_interval(
    value: float | FloatArray, error: float | FloatArray, trials: int | FloatArray, limits: Limits
) -> tuple[FloatArray, FloatArray]:
    """The 95% interval of a mean, or of a smooth function of means, from its standard error over
    trials; arrays broadcast.

    It is x -+ t se, with Student's t of trials - 1 degrees of freedom. For a quantity with limits
    it follows from the interval of ln d, with d its distance from the nearer limit and standard
    error se / d: limit + d e^(-+ t se / d). A value on or beyond a limit, and an error of 0, have
    the interval without limits.

    Args:
        value, error: the mean x and its standard error se.
        trials: number of independent draws, at least 2.
        limits: neither end passes a limit if x lies strictly between the limits.

    >>> low, high = mean_interval(0.9, 0.05, 100, Limits(0, 1))
    >>> float(low.round(3)), float(high.round(3))
    (0.73, 0.963)
    """
    half = _student(trials) * error
    low, high, distance = limits.low, limits.high, limits.distance(value)
    is_limited = np.isfinite(distance) & (distance > 0) & np.not_equal(error, 0)
    near = np.where(is_limited, distance, 1.0)
    factor = np.exp(np.minimum(half / near, _LARGEST_EXPONENT))
    is_low = np.subtract(value, low) <= np.subtract(high, value)
    lower = np.where(is_low, low + near / factor, np.maximum(high - near * factor, low))
    upper = np.where(is_low, np.minimum(low + near * factor, high), high - near / factor)
    return np.where(is_limited, lower, value - half), np.where(is_limited, upper, value + half)


def share_interval(share: float, error: float, trials: int, rows: float) -> tuple[float, float]:
    """The 95% interval of a share of rows, where the rows of a trial may depend on each other.

    It is the interval of Clopper and Pearson (1934) for n* = share (1 - share) / se^2 independent
    draws. n* is at most the number of rows, and reduced by the squared ratio of the normal to
    Student's t quantile (Korn and Graubard 1998, Survey Methodology 24:193). Trials that all have
    the same share do not show their dependence; n* is then the number of trials.

    Args:
        share, error: of all rows, from 0 to 1, and its standard error se between trials.
        trials: number of independent draws, at least 2 if error is above 0.
        rows: rows of a trial.

    >>> low, high = share_interval(0.0, 0.0, trials=100, rows=64)  # no event: 0 to 1 - 0.025^(1/100)
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """
    from scipy import special  # not at the top: workers load this module and need no distributions

    draws = float(trials)
    if error > _ROUNDING * share:
        reduced = (special.ndtri(0.5 + LEVEL / 2) / _student(trials)) ** 2
        independent = share * (1 - share) / error**2
        draws = min(independent, float(trials * rows)) * reduced
    tail = (1 - LEVEL) / 2
    count = share * draws
    low = special.betaincinv(count, draws - count + 1, tail) if count > 0 else 0.0
    high = special.betaincinv(count + 1, draws - count, 1 - tail) if count < draws else 1.0
    return float(low), float(high)


def _student(trials: int | FloatArray) -> FloatArray:
    """The 97.5% quantile of Student's t with trials - 1 degrees of freedom; NaN for fewer than 2
    trials.
    """
    from scipy import special

    return np.asarray(special.stdtrit(np.subtract(trials, 1), 0.5 + LEVEL / 2))
