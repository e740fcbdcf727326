"""Means of whole trials, and estimates that are functions of them with their covariance.

Scores that share a query or a key are not independent; whole draws of (Q, K) are. So the suite
averages everything within a trial first, and errors come from the spread between trials. `Moments`
keeps the mean and the comoments of one vector x per trial, and merges over chunks. `Estimate` is a
function f of the mean with its gradient g, whose standard error follows by the delta method:

    Var f(mean) = g^T Cov(x) g / trials
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from sdpa._arrays import BoolArray, FloatArray


@dataclass(frozen=True)
class Moments:
    """Trials, mean (len(x),) and comoments sum_t (x_t - mean)(x_t - mean)^T (len(x), len(x)) of a
    vector x per trial.

    >>> halves = [Moments.of(np.array([[1.0, 2.0]])), Moments.of(np.array([[3.0, 6.0]]))]
    >>> merged = halves[0].merge(halves[1])
    >>> merged.trials, merged.mean, merged.covariance.round(2)
    (4, array([3.]), array([[4.67]]))
    """

    trials: int
    mean: FloatArray
    comoment: FloatArray

    @classmethod
    def of(cls, samples: FloatArray) -> Self:
        """From samples of shape (len(x), trials)."""
        mean = samples.mean(axis=1)
        centred = samples - mean[:, None]
        # One dot product per pair, so that an entry does not depend on the other quantities in x.
        comoment = np.vecdot(centred[:, None], centred[None, :])
        return cls(samples.shape[1], mean, comoment)

    def merge(self, following: Self) -> Self:
        """The moments of both sets of trials (Chan, Golub and LeVeque 1983, equation 2.1).

        With m and n trials and the means a and b: mean = a + (b - a) n / (m + n), and the comoments
        add up, plus (b - a)(b - a)^T m n / (m + n).
        """
        trials, shift = self.trials + following.trials, following.mean - self.mean
        between = np.outer(shift, shift) * (self.trials * following.trials / trials)
        mean = self.mean + shift * (following.trials / trials)
        return type(self)(trials, mean, self.comoment + following.comoment + between)

    @property
    def covariance(self) -> FloatArray:
        """Unbiased estimate of Cov(x) between trials: comoment / (trials - 1), (len(x), len(x));
        needs 2 trials.
        """
        return self.comoment / (self.trials - 1)


POWERS = 4
# Share of the mean square: rounding loses the fourth moment of a smaller variance, as of scores that
# are equal up to rounding.
_LOST = 1e-6


def power_sums(
    values: FloatArray, counts: BoolArray | None = None, centre: float = 0.0
) -> FloatArray:
    """Sums of x, x^2, x^3 and x^4 over each trial, with x the values less a centre, (4, trials).

    Args:
        values: (trials, ...).
        counts: False where a value does not count, such as a masked score of -inf; broadcast to the
            shape of values.

    >>> power_sums(np.array([[1.0, 2.0], [5.0, -np.inf]]), np.array([[True, True], [True, False]]))
    array([[  3.,   5.],
           [  5.,  25.],
           [  9., 125.],
           [ 17., 625.]])
    """
    if centre:
        values = values - centre
    if counts is not None:
        values = np.where(counts, values, 0.0)
    x = values.reshape(len(values), -1)
    squared = x * x
    second = np.vecdot(x, x)
    third = np.vecdot(squared, x)
    fourth = np.vecdot(squared, squared)
    return np.stack([x.sum(-1), second, third, fourth])


@dataclass(frozen=True)
class Estimate:
    """A smooth function of the mean of x."""

    value: float
    gradient: FloatArray  # in that mean, (len(x),)
    least_error: float = 0.0  # a floor of the error, for means whose first-order error vanishes

    def __truediv__(self, number: float) -> "Estimate":
        """The function over a positive number."""
        return Estimate(self.value / number, self.gradient / number, self.least_error / number)

    def root(self) -> "Estimate":
        """The square root, with the gradient g / (2 root), or 0 where the root is 0; without a least
        error.
        """
        root = math.sqrt(self.value)
        return Estimate(root, self.gradient / (2 * root) if root else 0 * self.gradient)

    def with_error(self, moments: Moments) -> tuple[float, float]:
        """The value and its standard error sqrt(g^T Cov(x) g / trials), at least `least_error`.

        The error uses only entries with a gradient: other quantities in x do not change it.
        """
        (used,) = self.gradient.nonzero()
        gradient = self.gradient[used]
        variance = float(gradient @ moments.covariance[np.ix_(used, used)] @ gradient)
        error = math.sqrt(max(variance, 0.0) / moments.trials)
        return self.value, max(error, self.least_error)


@dataclass(frozen=True)
class ScoreMoments:
    """Mean, variance about the mean and excess kurtosis of a quantity s, from the means m_p of its
    powers s^p.
    """

    mean: Estimate  # m1
    variance: Estimate  # m2 - m1^2, with a correction that makes it unbiased
    kurtosis: Estimate  # (m4 - 4 m1 m3 + 6 m1^2 m2 - 3 m1^4) / (m2 - m1^2)^2 - 3

    @classmethod
    def of(cls, moments: Moments, centre: float = 0.0) -> Self:
        """From moments of x, which begins with the first four powers of the quantity less a centre
        near its mean.

        A centre keeps the digits of a small variance. Gradients are 0 in further entries of x, and
        ignore the correction of the variance, of order 1 / trials.
        """
        m1, m2, m3, m4 = (float(m) for m in moments.mean[:POWERS])
        # m1^2 exceeds the squared true mean by Var(m1) on average; adding that back makes the
        # variance unbiased.
        square_error = float(moments.covariance[0, 0]) / moments.trials
        spread = m2 - m1**2
        fourth = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4
        unit = spread if spread > _LOST * m2 else math.nan
        ratio = fourth / unit**2
        kurtosis_slopes = [
            (-4 * m3 + 12 * m1 * m2 - 12 * m1**3) / unit**2 + 4 * m1 * ratio / unit,
            6 * m1**2 / unit**2 - 2 * ratio / unit,
            -4 * m1 / unit**2,
            1 / unit**2,
        ]

        def gradient(*by_power: float) -> FloatArray:
            slopes = np.zeros(len(moments.mean))
            slopes[: len(by_power)] = by_power
            return slopes

        return cls(
            Estimate(m1 + centre, gradient(1.0)),
            # Var(m1^2) = 2 Var(m1)^2 for a normal m1 of mean 0. Where |s| is constant, m2 has no
            # error, and the first order, 2 |m1| se(m1), may come out far below the distance of m1^2
            # from its expectation.
            Estimate(spread + square_error, gradient(-2 * m1, 1.0), math.sqrt(2) * square_error),
            Estimate(ratio - 3, gradient(*kurtosis_slopes)),
        )
