"""Laws of scores and rows, draws, and how far chance goes."""

import math
from collections.abc import Iterable
from functools import cache
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import integrate, optimize, special

from experiments.claims.measured import Floats
from sdpa import PairLaw, ScaledDotProductAttention, theory

expectations = cache(theory.attention_expectations)  # integrals of seconds


def score_deviation(d_k: int) -> float:
    """The standard deviation of an unscaled score."""
    return sqrt(theory.score_variance(d_k, 1.0))


def share_beyond(bound: float, d_k: int) -> float:
    """P(|q.k| > bound) of standard normal q and k."""
    return 2 * float(theory.score_survival(bound, d_k))


def variance_of_unit_vectors(d: int) -> float:
    """The variance of the product of two independent unit vectors."""
    return theory.score_variance(d, 1.0, PairLaw(normalize="l2"))


def moment_of_product(power: int) -> float:
    """E z^power of the product z of two standard normal entries; its density is K_0(|z|) / pi."""
    if power % 2:
        return 0.0

    def weighted(z: float) -> float:
        return float(z**power * special.k0(z) / math.pi)

    half, _ = integrate.quad(weighted, 0, np.inf)
    return 2 * float(half)


def median_ratio(d_k: int, divisor: float) -> float:
    """The median of e^(larger - smaller) of two scores over a divisor.

    The difference q.(k - k') is a score times sqrt(2).
    """

    def excess(bound: float) -> float:
        return share_beyond(bound, d_k) - 1 / 2

    beyond = optimize.brentq(excess, 0, 2 * sqrt(d_k))
    return math.exp(sqrt(2) * beyond / divisor)


def deviation_p_value(d: int, measured: float, queries: int, *, shared: bool) -> float:
    """P(the standard deviation of scores of eight keys is as far from sqrt(d)).

    All queries share their keys, or each has its own. The variance of a mean of squares of scores
    that share queries and keys follows from E|q|^4 = d^2 + 2 d.
    """
    keys = 8
    queries_of_a_key = queries if shared else 1
    shares = (queries_of_a_key - 1) + (keys - 1)
    variance = (2 * d * d + 6 * d + 2 * d * shares) / (queries * keys)
    distance = abs(measured**2 - d)
    return 2 * float(special.ndtr(-distance / sqrt(variance)))


def least_likely(p_values: Iterable[float]) -> float:
    """The probability that one of several p-values is this small: the smallest times their number.

    Source: Bonferroni.

    >>> least_likely([0.02, 0.5, 0.9])
    0.06
    """
    found = list(p_values)
    return min(1.0, len(found) * min(found))


def normals(*shape: int, seed: int = 0) -> Any:
    """Standard normal numbers of that shape, of NumPy's default generator with that seed."""
    return np.random.default_rng(seed).standard_normal(shape)


def qkv(n: int, d_k: int, d_v: int) -> tuple[Floats, Floats, Floats]:
    """Standard normal queries, keys and values of n tokens."""
    return normals(n, d_k), normals(n, d_k, seed=1), normals(n, d_v, seed=2)


def layer(d_model: int, d_k: int, d_v: int) -> ScaledDotProductAttention:
    """A module of attention, of one seed."""
    return ScaledDotProductAttention(d_model, d_k, d_v, seed=99)


def central_difference(function: Any, at: Floats, move: Floats) -> Floats:
    """The derivative of a function of an array along a direction."""
    step = 1e-6 * move
    return np.asarray(function(at + step) - function(at - step)) / 2e-6


def sums_of_products(q: Floats, k: Floats) -> list[list[float]]:
    """All scores, each from its d_k products one by one."""
    return [[sum(one * other) for other in k] for one in q]


def same(one: npt.ArrayLike, other: npt.ArrayLike, tolerance: float) -> bool:
    """True if two arrays agree to an absolute tolerance."""
    return np.allclose(one, other, rtol=0, atol=tolerance)
