"""The laws of |q| and of q.k for Gaussian entries; integrals over |q| are sums over nodes of ln |q|^2.

With q_a = query_mean + query_std a, y = |q|^2 / query_std^2 is noncentral chi-squared with d_k degrees of freedom and
the noncentrality c = d_k (query_mean / query_std)^2: a mixture over j ~ Poisson(c / 2) of chi-squared laws with
d_k + 2 j degrees of freedom (Johnson, Kotz and Balakrishnan 1995, chapter 29). In x = ln(y / 2) a chi-squared law of
2 h degrees has the density e^(h x - e^x) / Gamma(h), over which the trapezoidal rule converges exponentially.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from sdpa.pairs import PairLaw
from sdpa.theory.integrals import FloatArray, UnknownError

_RANGE, _STEP = 42.0, 0.2  # e^-42 is below the precision of a double
# Shares of the shortest and longest queries that integrals omit; a small probability needs more (`mean_share`).
_SHORTEST, _LONGEST = 1e-9, 1e-14
_SATURATING = 8.0  # scales of scores up to which _SHORTEST is small enough
_LARGEST_NONCENTRALITY = 1e18  # beyond, the counts of Poisson's law leave the range of 64 bits


class QueryLengths(NamedTuple):
    """Nodes of the law of |q|; d E f / d ln L = E[slope f] for a factor L of all |q|."""

    length: FloatArray  # |q| / query_std, rising
    share: FloatArray  # probability of each node; they sum to 1
    slope: FloatArray  # -2 d ln p / dx, p the density of x = ln |q|^2
    variance: float  # of |q|^2 / query_std^2, 2 (d_k + 2 c)


@cache
def query_lengths(
    d_k: float,
    noncentrality: float = 0.0,
    halvings: int | None = None,
    shortest: float = _SHORTEST,
    longest: float = _LONGEST,
) -> QueryLengths:
    """Nodes and probabilities of |q| / query_std, for a real d_k from 1 and a noncentrality c to 1e18.

    `halvings` are those of steps 1.2 times as wide; each adds a node between all neighbours. The nodes omit the shares
    `shortest` and `longest`, from 1e-290, of the shortest and of the longest queries.

    >>> lengths = query_lengths(8, noncentrality=2.0)
    >>> round(float(lengths.share @ lengths.length**2), 7)  # d_k + c
    10.0
    """
    if not (d_k >= 1 and 0 <= noncentrality < math.inf):
        raise ValueError(f"expected d_k of at least 1, got {d_k}")
    if noncentrality > _LARGEST_NONCENTRALITY:
        raise UnknownError(
            "softmax rows are unknown for queries whose mean is a billion deviations long"
        )
    half = _Halves(d_k / 2, noncentrality / 2)
    low, high = half.quantiles(shortest, longest)
    variance = 2 * (d_k + 2 * noncentrality)
    step = min(0.3, 0.45 * math.sqrt(variance) / (d_k + noncentrality))
    steps = (
        math.ceil((high - low) / step)
        if halvings is None
        else math.ceil((high - low) / (1.2 * step)) * 2**halvings
    )
    x = np.linspace(low, high, steps + 1)
    density, mean_half = half.density(x)
    return QueryLengths(
        np.sqrt(2 * np.exp(x)), density / density.sum(), 2 * (np.exp(x) - mean_half), variance
    )


class _Halves:
    """h = d_k / 2 + j and its probabilities, j ~ Poisson(mean); of many j every k-th, by the trapezoidal rule."""

    def __init__(self, half: float, mean: float) -> None:
        spread = math.sqrt(mean)
        # To a share of 1e-290 at both ends.
        first, last = max(0, math.floor(mean - 37 * spread)), math.ceil(mean + 37 * spread + 300)
        j = np.arange(first, last + 1, max(1, int(spread / 6))) if mean else np.zeros(1)
        logarithm = special.xlogy(j, mean) - mean - special.gammaln(j + 1)
        kept = logarithm > logarithm.max() - 690
        self.half, self.logarithm = half + j[kept], logarithm[kept]
        self.logarithm -= special.logsumexp(self.logarithm)

    def quantiles(self, shortest: float, longest: float) -> tuple[float, float]:
        """The x below and above which these shares lie."""
        if len(self.half) == 1:
            half = float(self.half[0])
            return math.log(special.gammaincinv(half, shortest)), math.log(
                special.gammainccinv(half, longest)
            )
        probability = np.exp(self.logarithm)
        lowest = math.log(special.gammaincinv(self.half[0], shortest / 10))
        highest = math.log(special.gammainccinv(self.half[-1], longest / 10))

        def end(tail: Callable[[FloatArray, float], FloatArray], share: float) -> float:
            def excess(x: float) -> float:
                return math.log(max(probability @ tail(self.half, math.exp(x)), 1e-300) / share)

            return float(optimize.brentq(excess, lowest, highest, xtol=1e-6))

        return end(special.gammainc, shortest), end(special.gammaincc, longest)

    def density(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The density at every x up to a factor, and the mean of h given x."""
        if len(self.half) == 1:
            half = self.half[0]
            return np.exp(half * (x - math.log(half)) - np.exp(x) + half), np.full(len(x), half)
        exponent = (
            x[:, None] * self.half
            - special.gammaln(self.half)
            + self.logarithm
            - np.exp(x)[:, None]
        )
        terms = np.exp(exponent - exponent.max())
        density = terms.sum(axis=1)
        return density, terms @ self.half / density


def gaussian_queries(
    d_k: float,
    law: PairLaw,
    *,
    halvings: int | None = None,
    longest: float = _LONGEST,
    scale: float = 1.0,
) -> QueryLengths:
    """|q| of independent Gaussian queries and keys, as in `query_lengths`; UnknownError for any other law.

    With a `scale`, of scores to |q| / query_std, far above 1, nearly all rows are saturated. The shortest queries then
    carry the mean entropy and Jacobian, of order 1 / scale or less, so that nodes omit a smaller share of them.
    """
    if law.entries.name != "gaussian":
        raise UnknownError("softmax rows are known only for gaussian entries")
    if law.spectrum:
        raise UnknownError("softmax rows are unknown for entries of unequal variance")
    if law.correlation:
        raise UnknownError(
            "deviations of rows are unknown for queries that correlate with their keys"
        )
    if law.normalize != "none":
        raise UnknownError("deviations of rows are unknown for normalized vectors")
    shortest = max(_SHORTEST / max(1.0, scale / _SATURATING) ** 2, 1e-290)
    noncentrality = d_k * (law.query_mean / law.query_std) ** 2
    return query_lengths(d_k, noncentrality, halvings, shortest, longest)


def mean_share(
    d_k: float, divisor: float, law: PairLaw, share: Callable[[FloatArray], FloatArray]
) -> float:
    """E of a probability that rises with the deviation of the scores of a row, with seven digits down to 1e-40.

    Where it is small, the longest queries decide: finer nodes then omit less than 1e-10 of the mean.
    """
    scale = law.query_std * law.key_std / divisor
    lengths = gaussian_queries(d_k, law)
    mean = float(lengths.share @ share(scale * lengths.length))
    if mean > 1e10 * _LONGEST:
        return mean
    longest = 10.0 ** (10 * math.floor(math.log10(max(mean, 1e-270)) / 10) - 10)
    lengths = gaussian_queries(d_k, law, halvings=5, longest=longest)
    return float(lengths.share @ share(scale * lengths.length))


def score_log_density(score: npt.ArrayLike, d_k: float) -> FloatArray:
    """ln p(s), p = |s|^((d-1)/2) K_((d-1)/2)(|s|) / (sqrt(pi) 2^((d-1)/2) Gamma(d/2)), of s = q.k.

    For standard normal entries: a variance-gamma density, the inverse of the characteristic function (1 + t^2)^(-d/2);
    for d = 1 the product-normal law K_0(|s|) / pi (Craig 1936), infinite at 0. Scores have any shape, d_k is any real
    number from 1.

    >>> float(np.exp(score_log_density(0.0, 2)).round(12))  # the law of Laplace
    0.5
    """
    size = np.abs(np.asarray(score, dtype=float))
    order, constant = (
        (d_k - 1) / 2,
        0.5 * math.log(math.pi) + (d_k - 1) / 2 * math.log(2) + math.lgamma(d_k / 2),
    )
    safe = np.where(size > 0, size, 1.0)
    away = order * np.log(safe) + _log_bessel_k(order, safe) - constant
    # |s|^nu K_nu(|s|) -> 2^(nu - 1) Gamma(nu) at 0.
    at_zero = (order - 1) * math.log(2) + math.lgamma(order) - constant if order > 0 else math.inf
    return np.where(size > 0, away, at_zero)


def _log_bessel_k(order: float, x: FloatArray) -> FloatArray:
    """ln K_nu(x) = ln(1/2 int exp(-x cosh t + nu t) dt) for nu from 0 and x above 0.

    With t = asinh(nu / x) + y and R = sqrt(x^2 + nu^2) the exponent is its largest value minus
    (R - nu) (cosh y - 1) + nu (e^y - 1 - y) for either sign of y, in which nothing cancels.
    """
    radius = np.hypot(x, order)
    excess = x * (x / (radius + order))  # R - nu
    right = np.arccosh(1 + _RANGE / radius) + 1
    left = np.minimum(np.arccosh(1 + _RANGE / excess), 1 + _RANGE / max(order, 1e-300)) + 1
    step = np.minimum(_STEP, 0.35 / np.sqrt(radius))
    nodes = math.ceil(float(((left + right) / step).max())) + 1
    y, width = np.linspace(-left, right, nodes, retstep=True, axis=-1)
    drop = excess[..., None] * (np.cosh(y) - 1) + order * (np.expm1(y) - y)
    peak = order * np.arcsinh(order / x) - radius
    return np.asarray(peak + np.log(0.5 * width * np.exp(-drop).sum(axis=-1)))


def score_survival(score: npt.ArrayLike, d_k: float) -> FloatArray:
    """P(q.k > s) = E Phi(-s / |q|), precise far into the tail; arguments as in `score_log_density`.

    >>> float(score_survival(0.0, 8).round(12))
    0.5
    """
    lengths = _all_lengths(d_k)
    return np.asarray(
        special.ndtr(-np.asarray(score, dtype=float)[..., None] / lengths.length) @ lengths.share
    )


def largest_score_survival(score: npt.ArrayLike, d_k: float, n_keys: float) -> FloatArray:
    """P(max_i q.k_i > s) = E[1 - Phi(s / |q|)^n] of n keys that share a query; else as `score_survival`.

    >>> float(largest_score_survival(0.0, 8, n_keys=3).round(12))  # 1 - 1/2^3
    0.875
    """
    lengths = _all_lengths(d_k)
    below = n_keys * special.log_ndtr(np.asarray(score, dtype=float)[..., None] / lengths.length)
    return np.asarray(-np.expm1(below) @ lengths.share)


def _all_lengths(d_k: float) -> QueryLengths:
    """|q| as far as the tail of a score depends on it."""
    return query_lengths(d_k, halvings=3, shortest=1e-17, longest=1e-290)
