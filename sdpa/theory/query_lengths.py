"""The laws of |q| for Gaussian entries, of scores q.k, and of the largest score of a row.

Letters: d_k is the width of q and k, h = d_k / 2 + j half of the degrees of freedom, j a Poisson
number, y = |q|^2 / query_std^2 and x = ln(y / 2), without units; c is the noncentrality.

Given q, scores are normal with the deviation |q|. Integrals over |q| are sums over nodes of ln |q|^2.

With q_a = query_mean + query_std a, y = |q|^2 / query_std^2 is noncentral chi-squared with d_k
degrees of freedom and the noncentrality c = d_k (query_mean / query_std)^2: a mixture over
j ~ Poisson(c / 2) of chi-squared laws with d_k + 2 j degrees of freedom (Johnson, Kotz and
Balakrishnan 1995, chapter 29). In x = ln(y / 2) a chi-squared law of 2 h degrees has the density
e^(h x - e^x) / Gamma(h), over which the trapezoidal rule converges exponentially.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import ceil, exp, floor, inf, log, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # loads scipy.optimize at its first use, which takes long
from scipy.special import (
    betainc,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
    log_ndtr,
    logsumexp,
    ndtr,
    xlogy,
)

from sdpa._arrays import FloatArray
from sdpa.pairs import PairLaw
from sdpa.theory.integrals import Quadrature, UnknownError

# Shares of the shortest and longest queries that integrals omit; a small probability needs more
# (`row_moments.saturated_share`).
# Of two keys and d_k = 1, 1e-7 changes a gradient or a chance by 9e-8, and 1e-12 by 9e-10.
_SHORTEST = 1e-9
LONGEST = 1e-14  # 1e-10 changes a chance by 4e-10, and 1e-18 a gradient by 4e-11
# Scales of scores up to which _SHORTEST is small enough. At a scale of 100 (d_k = 2), 64 changes an
# entropy by 4e-8, and 1 by 6e-10.
_SATURATING = 8.0
# Places of the largest score, in units of the deviation: of 10^9 normal scores the mean is 6, and of
# products of two normal numbers 19. Twice as many places change no digit.
_OF_NORMAL = np.arange(-12, 12, 0.05) + 0.025
_OF_PRODUCTS = np.arange(-60, 60, 0.05) + 0.025
_LARGEST_NONCENTRALITY = 1e18  # beyond, the counts of Poisson's law leave the range of 64 bits


class QueryLengths(NamedTuple):
    """Nodes of the law of |q|."""

    length: FloatArray  # |q| / query_std, rising
    share: FloatArray  # probability of each node; they sum to 1


@cache
def query_lengths(
    d_k: float,
    noncentrality: float = 0.0,
    halvings: int | None = None,
    shortest: float = _SHORTEST,
    longest: float = LONGEST,
) -> QueryLengths:
    """Nodes and probabilities of |q| / query_std.

    Args:
        d_k: a real number from 1.
        noncentrality: c, from 0 to 1e18.
        halvings: of steps 1.2 times as wide; each adds a node between all neighbours.
        shortest, longest: shares, from 1e-290, of the shortest and longest queries that the nodes
            omit.

    >>> lengths = query_lengths(8, noncentrality=2.0)
    >>> round(float(lengths.share @ lengths.length**2), 7)  # d_k + c
    10.0
    """
    if not (d_k >= 1 and 0 <= noncentrality < inf):
        raise ValueError(f"expected d_k of at least 1, got {d_k}")
    if noncentrality > _LARGEST_NONCENTRALITY:
        reason = "queries whose mean is a billion deviations long"
        raise UnknownError(f"softmax rows are unknown for {reason}")
    half = _Halves(d_k / 2, noncentrality / 2)
    low, high = half.quantiles(shortest, longest)
    variance = 2 * (d_k + 2 * noncentrality)
    step = min(0.3, 0.45 * sqrt(variance) / (d_k + noncentrality))
    divisions = 1
    if halvings is not None:
        step *= 1.2
        divisions = 2**halvings
    steps = ceil((high - low) / step) * divisions
    x = np.linspace(low, high, steps + 1)
    density = half.density(x)
    return QueryLengths(np.sqrt(2 * np.exp(x)), density / density.sum())


class _Halves:
    """h = d_k / 2 + j and its probabilities, j ~ Poisson(mean).

    Of many j, every k-th stands for k, by the trapezoidal rule.
    """

    def __init__(self, half: float, mean: float) -> None:
        spread = sqrt(mean)
        # To a share of 1e-290 at both ends.
        first = max(0, floor(mean - 37 * spread))
        last = ceil(mean + 37 * spread + 300)
        every = max(1, int(spread / 6))
        j = np.arange(first, last + 1, every) if mean else np.zeros(1)
        logarithm = xlogy(j, mean) - mean - gammaln(j + 1)
        kept = logarithm > logarithm.max() - 690
        self.half = half + j[kept]
        self.logarithm = logarithm[kept]
        self.logarithm -= logsumexp(self.logarithm)

    def quantiles(self, shortest: float, longest: float) -> tuple[float, float]:
        """The x below and above which these shares lie."""
        if len(self.half) == 1:
            half = float(self.half[0])
            return log(gammaincinv(half, shortest)), log(gammainccinv(half, longest))
        probability = np.exp(self.logarithm)
        lowest = log(gammaincinv(self.half[0], shortest / 10))
        highest = log(gammainccinv(self.half[-1], longest / 10))

        def end(tail: Callable[[FloatArray, float], FloatArray], share: float) -> float:
            def excess(x: float) -> float:
                chance = probability @ tail(self.half, exp(x))
                return log(max(chance, 1e-300) / share)

            return float(scipy.optimize.brentq(excess, lowest, highest, xtol=1e-6))

        return end(gammainc, shortest), end(gammaincc, longest)

    def density(self, x: FloatArray) -> FloatArray:
        """The density at every x up to a factor."""
        if len(self.half) == 1:
            half = self.half[0]
            exponent = half * (x - log(half)) - np.exp(x) + half
            return np.asarray(np.exp(exponent))
        logarithms = x[:, None] * self.half - gammaln(self.half) + self.logarithm
        exponent = logarithms - np.exp(x)[:, None]
        terms = np.exp(exponent - exponent.max())
        return np.asarray(terms.sum(axis=1))


def gaussian_queries(
    d_k: float,
    law: PairLaw,
    halvings: int | None = None,
    longest: float = LONGEST,
    unit: float = 1.0,
) -> QueryLengths:
    """|q| of independent Gaussian queries and keys; UnknownError for any other law.

    `unit` is the deviation of scores over |q| / query_std, for means of entropy and Jacobian: far
    above 1 nearly all rows are saturated, and the shortest queries carry these means, of order
    1 / unit or less. Nodes then omit a smaller share.
    """
    if law.entries.name != "gaussian":
        raise UnknownError("softmax rows are known only for gaussian entries")
    if law.spectrum:
        raise UnknownError("softmax rows are unknown for entries of unequal variance")
    if law.correlation:
        raise UnknownError("rows of this kind are unknown for queries that correlate with keys")
    if law.normalize != "none":
        raise UnknownError("rows of this kind are unknown for normalized vectors")
    shortest = max(_SHORTEST / max(1.0, unit / _SATURATING) ** 2, 1e-290)
    noncentrality = d_k * (law.query_mean / law.query_std) ** 2
    return query_lengths(d_k, noncentrality, halvings, shortest, longest)


def score_survival(score: npt.ArrayLike, d_k: float) -> FloatArray:
    """P(q.k > s) = E Phi(-s / |q|), precise far into the tail.

    For d_k = 1 this is the product-normal law (Craig 1936). Scores have any shape, and d_k is any
    real number from 1.

    >>> float(score_survival(0.0, 8).round(12))
    0.5
    """
    ratio, share = _ratios(score, d_k)
    return np.asarray(ndtr(-ratio) @ share)


def largest_score_survival(score: npt.ArrayLike, d_k: float, n_keys: float) -> FloatArray:
    """P(max_i q.k_i > s) = E[1 - Phi(s / |q|)^n] of n keys that share a query.

    Other arguments as in `score_survival`.

    >>> float(largest_score_survival(0.0, 8, n_keys=3).round(12))  # 1 - 1/2^3
    0.875
    """
    ratio, share = _ratios(score, d_k)
    given_length = -np.expm1(n_keys * log_ndtr(ratio))
    return np.asarray(given_length @ share)


def largest_score_mean(sigma: npt.ArrayLike, n_keys: npt.ArrayLike) -> FloatArray:
    """E max_rj s_rj over independent normal scores of several rows, s_rj ~ N(0, sigma_r^2).

    E max = int_0^inf (1 - F) ds - int_-inf^0 F ds, with F(s) = prod_r Phi(s / sigma_r)^n_r, by the
    midpoint rule, which converges exponentially for it.

    Args:
        sigma: standard deviations of rows, (..., rows), not all 0.
        n_keys: numbers of keys, broadcast to it.

    >>> float(largest_score_mean([1.0], [2]).round(12))  # 1 / sqrt(pi)
    0.564189583548
    """
    sigma = np.asarray(sigma, dtype=float)
    top = sigma.max(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):  # rows without spread, and without keys
        ratio = _OF_NORMAL[:, None] * (top[..., None] / sigma)[..., None, :]
        logarithm = np.asarray(n_keys)[..., None, :] * log_ndtr(ratio)
    return np.asarray(top * _mean_of_law(_OF_NORMAL, np.exp(np.nansum(logarithm, axis=-1))))


def largest_of_all_mean(d_k: float, n_queries: int, n_keys: int) -> float:
    """E max_ij q_i.k_j of standard normal queries and keys, as if each query had keys of its own.

    The law of the largest is (1 - S(s))^n_queries, where S is `largest_score_survival`. Queries that
    share their keys have a lower one, by less than 1% at d_k = 64.
    """
    unit = sqrt(d_k)
    survival = largest_score_survival(unit * _OF_PRODUCTS, d_k, n_keys)
    below = (1 - np.minimum(survival, 1)) ** n_queries
    return unit * float(_mean_of_law(_OF_PRODUCTS, below))


def _mean_of_law(places: FloatArray, below: FloatArray) -> FloatArray:
    """int_0^inf (1 - F) ds - int_-inf^0 F ds of F at equally spaced places, (..., places)."""
    step = places[1] - places[0]
    return np.asarray(step * np.where(places > 0, 1 - below, -below).sum(axis=-1))


def _ratios(score: npt.ArrayLike, d_k: float) -> Quadrature:
    """s / |q| at nodes of |q|, (..., nodes), as far as the tail depends on it, and their shares."""
    lengths = query_lengths(d_k, halvings=3, shortest=1e-17, longest=1e-290)
    ratio = np.asarray(score, dtype=float)[..., None] / lengths.length
    return ratio, lengths.share


def largest_deviation_survival(deviation: npt.ArrayLike, n_keys: npt.ArrayLike) -> FloatArray:
    """P(max_j (s_j - mean) / std > x) <= n/2 P(B < 1 - x^2 / (n-1)), B of the law Beta(n/2 - 1, 1/2).

    The n scores of a row are independent and normal, with any mean and variance; `mean` and `std`
    (with 1/n) are those of the row itself, so that nothing is estimated. Both sides are equal from
    x^2 = n/2 - 1, because two scores cannot be further from the mean. Below, the bound is at most 1.
    With two keys the deviation is always 1, and so is the probability.

    Sources: Thompson (1935, Ann. Math. Statist. 6:214); Grubbs (1950, Ann. Math. Statist. 21:27).

    Args:
        deviation: x, of at least 0, of any shape.
        n_keys: n, from 2, broadcast to it.

    >>> float(largest_deviation_survival(5.0, 64).round(7))
    8e-07
    """
    n = np.asarray(n_keys, dtype=float)
    rest = np.maximum(1 - np.square(deviation) / (n - 1), 0.0)
    tail = betainc(np.maximum(n, 3) / 2 - 1, 0.5, rest) / 2
    bound = np.minimum(n * tail, 1.0)
    return np.where(n > 2, bound, 1.0)
