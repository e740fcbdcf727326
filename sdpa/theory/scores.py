"""Exact moments of the scores q.k / divisor of a draw, and the spread of their estimates, for any law of q and k.

A score is a sum over entries of independent products p = q_a k_a, and its cumulants are sums of theirs:

    p - E p = alpha a + beta b + gamma a b,   alpha = mk sq, beta = mq sk, gamma = sq sk

for q_a = mq + sq a and k_a = mk + sk b. The moments M_ij = E x^i y^j and the cumulants K_ij of two variables determine
each other (Leonov and Shiryaev 1959, here as a recursion):

    M_ij = sum_(r, t) C(i-1, r-1) C(j, t) K_rt M_(i-r, j-t),   r from 1 to i, t from 0 to j.

Arrays of moments and cumulants have the shape (order + 1, order + 1, ...); further axes are of different entries.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from sdpa.pairs import PairLaw, spectrum_of
from sdpa.scaling import refuse_multiplier
from sdpa.theory.integrals import FloatArray, UnknownError, check_sizes


def score_mean(
    d_k: float, divisor: float, law: PairLaw = PairLaw(), n_keys: float | None = None
) -> float:
    """E[q.k / divisor] = d_k (mq mk + rho sq sk / n_keys) / divisor, over all pairs of a query and a key.

    Entries of q and k have the means mq, mk and standard deviations sq, sk. One of n_keys pairs is a query with its
    own key, whose entries have the correlation rho; all others are independent.

    Args:
        d_k: width of q and k, from 1.
        divisor: above 0, and not 1/sqrt(d_k), which multiplies scores elsewhere.
        law: of queries and keys.
        n_keys: keys of a draw, under a mask the mean number that a query sees; required if the law has a correlation,
            and unused otherwise.

    Raises:
        UnknownError: the law is normalized and not of Gaussian entries of mean 0 without a spectrum.

    >>> score_mean(d_k=64, divisor=8.0)
    0.0
    >>> score_mean(d_k=64, divisor=8.0, law=PairLaw(correlation=0.5), n_keys=4)
    1.0
    """
    refuse_multiplier("divisor", divisor, d_k)
    return _pooled(d_k, law, n_keys)[0] / divisor


def score_variance(
    d_k: float, divisor: float, law: PairLaw = PairLaw(), n_keys: float | None = None
) -> float:
    """Var[q.k / divisor] = (d_k (mk^2 sq^2 + mq^2 sk^2) + sq^2 sk^2 sum_m lambda_m^2) / divisor^2, pooled over pairs.

    lambda is the spectrum, of mean 1; without one the sum is d_k. For centred entries of variance 1 this is
    d_k / divisor^2, a sum of d_k uncorrelated products (Vaswani et al. 2017, footnote 4). A correlation pools with it
    d_k (mk^2 sq^2 + (1 + rho^2) sq^2 sk^2) / divisor^2 of a query with its own key (n_keys = 1), and adds the variance
    of the two means. Cosines have the variance 1 / d_k. Arguments and errors as in `score_mean`.

    >>> score_variance(d_k=64, divisor=8.0)
    1.0
    """
    refuse_multiplier("divisor", divisor, d_k)
    return _pooled(d_k, law, n_keys)[1] / divisor**2


def score_kurtosis(d_k: float, law: PairLaw = PairLaw(), n_keys: float | None = None) -> float:
    """E[(s - E s)^4] / Var[s]^2 - 3 of s = q.k, pooled over pairs. No divisor changes it.

    For independent centred entries (m4^2 - 3) / d_k, m4 = E x^4: 6 / d_k for Gaussian ones; -6 / (d_k + 2) for cosines.
    In general kappa_4 / kappa_2^2 from sums of the cumulants of products. Arguments and errors as in `score_mean`.

    >>> score_kurtosis(d_k=4)
    1.5
    """
    _, variance, fourth = _pooled(d_k, law, n_keys)
    return fourth / variance**2


class ScoreDeviations(NamedTuple):
    """Exact standard deviations of what a draw of scores adds to the estimates of mean, variance and kurtosis."""

    score_mean: float
    score_variance: float
    score_kurtosis: float


@cache
def score_power_deviations(
    d_k: float, n_keys: int, n_queries: int, divisor: float, law: PairLaw = PairLaw()
) -> ScoreDeviations:
    """Standard deviations of the means over a draw of the influences of one score on mean, variance and kurtosis.

    With c = q.k - E q.k, v = E c^2 and beta = E c^4 / v^2 the influences are c, c^2 and
    c^4 / v^2 - 2 beta c^2 / v - 4 (E c^3 / v^2) c (delta method). Scores of the same query, like those of the same key,
    are independent given it, so that the mean of f over all pairs of m queries and n keys has the variance

        (Var f(s) + (n - 1) Cov(f(s), f(s')) + (m - 1) Cov(f(s), f(s''))) / (m n),

    s' of the same query and s'' of the same key. Those of estimates from T draws are these / sqrt(T), for variance and
    kurtosis to leading order. A deviation that needs a moment which does not exist is infinite. A correlation has lower
    limits: as if the rows of a draw were independent, and 0 for the kurtosis, with a mean of the keys, and with a
    spectrum. Arguments and errors as in `score_mean`.

    >>> round(score_power_deviations(1, 1, 1, divisor=1.0).score_variance ** 2, 9)  # E s^4 - 1 = 3^2 - 1
    8.0
    >>> round(score_power_deviations(1, 10**9, 1, divisor=1.0).score_variance ** 2, 6)  # Var q^2
    2.0
    """
    check_sizes(d_k, n_keys, fewest=1)
    refuse_multiplier("divisor", divisor, d_k)
    if law.correlation:
        return _least_deviations(d_k, n_keys, n_queries, divisor, law)

    def deviation(*function: float) -> float:
        """Of the mean over a draw of a polynomial in c, from its coefficients by power."""
        if not _has_moments(law, 2 * (len(function) - 1)):
            return math.inf
        same, of_query, of_key = (
            np.array(function) @ of @ function for of in _covariances(d_k, law, len(function) - 1)
        )
        # Rounding errors reach sums that are 0.
        variance = float(same + (n_keys - 1) * of_query + (n_queries - 1) * of_key)
        return math.sqrt(max(variance, 0.0) / (n_queries * n_keys))

    kurtosis = math.inf
    if _has_moments(law, 4):
        second, third, fourth = _central_moments(d_k, law)[2:5].tolist()
        skew, beta = third / second**2, fourth / second**2
        kurtosis = deviation(0, -4 * skew, -2 * beta / second, 0, 1 / second**2)
    return ScoreDeviations(deviation(0, 1) / divisor, deviation(0, 0, 1) / divisor**2, kurtosis)


def _least_deviations(
    d_k: float, n_keys: int, n_queries: int, divisor: float, law: PairLaw
) -> ScoreDeviations:
    """Lower limits beside a correlation: E[c^2 | q] over a row of n keys is a |q|^2 + b |q|^4 up to a constant."""
    if law.spectrum or law.key_mean:
        return ScoreDeviations(0.0, 0.0, 0.0)
    unit, square = law.query_std * law.key_std / divisor, law.correlation**2
    of_mean = d_k * (n_keys + square) / n_keys**2
    a, b, fourth = (
        1 - square / n_keys - 2 * square * d_k / n_keys**2,
        square / n_keys,
        d_k * (d_k + 2),
    )
    of_square = 2 * d_k * a**2 + 8 * fourth * a * b + 8 * fourth * (d_k + 3) * b**2
    return ScoreDeviations(
        unit * math.sqrt(of_mean / n_queries),
        unit**2 * math.sqrt(max(of_square, 0.0) / n_queries),
        0.0,
    )


@cache
def _covariances(d_k: float, law: PairLaw, order: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Cov(c^i, c'^j) of a score with itself, with one of the same query, and with one of the same key."""
    powers = np.add.outer(range(order + 1), range(order + 1))
    if law.normalize != "none":
        # Given either vector, cosines have one and the same law.
        moments = _cosine_moments(d_k, law)[powers]
        return (
            moments - np.outer(moments[0], moments[0]),
            np.zeros_like(moments),
            np.zeros_like(moments),
        )
    same, of_query, of_key = (
        _power_covariances(_summed(_joint_cumulants(moments), d_k, law))
        for moments in (
            _product_moments(d_k, law, 2 * order)[:, 0][powers],
            _product_moments(d_k, law, order, order),
            _product_moments(d_k, law, order, order, share_key=True),
        )
    )
    return same, of_query, of_key


def _check_width(d_k: float) -> None:
    if not d_k >= 1:
        raise ValueError(f"expected d_k of at least 1, got {d_k}")


def _has_moments(law: PairLaw, order: int) -> bool:
    return bool(np.isfinite(_entry_moments(law)[: order + 1]).all())


def _central_moments(d_k: float, law: PairLaw) -> FloatArray:
    """E (s - E s)^n for n = 0 ... 4, of s = q.k with a key that is independent of the query."""
    if law.normalize != "none":
        return _cosine_moments(d_k, law)
    return np.asarray(
        _joint_moments(_summed(_joint_cumulants(_product_moments(d_k, law, 4)), d_k, law))[:, 0]
    )


def _pooled(d_k: float, law: PairLaw, n_keys: float | None) -> tuple[float, float, float]:
    """Mean, variance and fourth cumulant (m4 - 3 v^2) of q.k over all pairs of a draw."""
    _check_width(d_k)
    if law.normalize != "none":
        moments = _cosine_moments(d_k, law)
        return 0.0, float(moments[2]), float(moments[4] - 3 * moments[2] ** 2)
    order = 4 if _has_moments(law, 4) else 2
    others = _summed(_joint_cumulants(_product_moments(d_k, law, order)), d_k, law)
    others[1, 0] = d_k * law.query_mean * law.key_mean
    if not law.correlation:
        return (
            float(others[1, 0]),
            float(others[2, 0]),
            float(others[4, 0]) if order == 4 else math.inf,
        )
    if n_keys is None:
        raise ValueError("n_keys: expected the number of keys beside a correlation")
    own = _summed(_own_cumulants(d_k, law), d_k, law)
    raw = (_joint_moments(own) + (n_keys - 1) * _joint_moments(others)) / n_keys
    pooled = _joint_cumulants(raw)[:, 0]
    return float(pooled[1]), float(pooled[2]), float(pooled[4])


def _entry_moments(law: PairLaw) -> FloatArray:
    """E x^0 ... E x^8 of a standard entry, infinite where they do not exist."""
    return np.array([1.0, 0.0, 1.0, *law.entries.moments])


def _product_moments(
    d_k: float, law: PairLaw, i: int, j: int = 0, *, share_key: bool = False
) -> FloatArray:
    """M_ij = E_a[g_i(a) g_j(a)] of p - E p and p' - E p' that share a, or b, (i + 1, j + 1, entries).

    g_n = E[(p - E p)^n | a] = sum_r C(n, r) E b^r (alpha a)^(n-r) (beta + gamma a)^r.
    """
    entry, (alpha, beta, gamma) = _entry_moments(law), _coefficients(d_k, law)
    if share_key:
        alpha, beta = beta, alpha
    given = []  # the coefficients of a^0 ... a^n in g_n, (n + 1, entries)
    for n in range(max(i, j) + 1):
        given.append(np.zeros((n + 1, len(alpha))))
        for r in range(n + 1):
            for t in range(r + 1):
                ways = math.comb(n, r) * math.comb(r, t) * entry[r]
                given[n][n - r + t] += ways * alpha ** (n - r) * beta ** (r - t) * gamma**t
    return np.array(
        [
            [
                np.einsum(
                    "pe,pq,qe->e",
                    left,
                    entry[np.add.outer(range(len(left)), range(len(right)))],
                    right,
                )
                for right in given[: j + 1]
            ]
            for left in given[: i + 1]
        ]
    )


def _own_cumulants(d_k: float, law: PairLaw) -> FloatArray:
    """Cumulants to the fourth of p = a (alpha + gamma b), a = rho b + noise e, of a query and its own key.

    E p^n = sum_r C(n, r) rho^(n-r) noise^r E e^r E[b^(n-r) (alpha + gamma b)^n].
    """
    normal = _entry_moments(law)
    alpha, _, gamma = _coefficients(d_k, law)
    rho, noise = law.correlation, math.sqrt(1 - law.correlation**2)
    moments = np.zeros((5, 1, len(alpha)))
    for n in range(5):
        for r, t in itertools.product(range(n + 1), repeat=2):
            weight = (
                math.comb(n, r)
                * rho ** (n - r)
                * noise**r
                * normal[r]
                * math.comb(n, t)
                * normal[n - r + t]
            )
            moments[n, 0] += weight * alpha ** (n - t) * gamma**t
    return _joint_cumulants(moments)


def _coefficients(d_k: float, law: PairLaw) -> FloatArray:
    """alpha of a, beta of b and gamma of a b in p - E p, (3, different entries)."""
    variance = spectrum_of(int(d_k), law.spectrum) if law.spectrum else np.ones(1)
    root, both = np.sqrt(variance), law.query_std * law.key_std
    return np.array(
        [law.key_mean * law.query_std * root, law.query_mean * law.key_std * root, both * variance]
    )


def _summed(of_entries: FloatArray, d_k: float, law: PairLaw) -> FloatArray:
    """Cumulants of the score from those of the products of different entries."""
    return np.asarray(of_entries.sum(axis=-1) * (1 if law.spectrum else d_k))


def _cosine_moments(d_k: float, law: PairLaw) -> FloatArray:
    """E s^n for n = 0 ... 8 of s = length^2 t, t a cosine: E t^(n+2) = E t^n (n + 1) / (d + n)."""
    if law.entries.name != "gaussian" or law.query_mean or law.key_mean or law.spectrum:
        raise UnknownError(
            "normalized vectors are known only for gaussian entries of mean 0 without a spectrum"
        )
    square = 1.0 if law.normalize == "l2" else d_k
    moments = np.zeros(9)
    moments[0] = 1.0
    for n in range(0, 7, 2):
        moments[n + 2] = moments[n] * (n + 1) / (d_k + n) * square**2
    return moments


def _joint_cumulants(moments: FloatArray) -> FloatArray:
    """K_ij of two variables from their moments M_ij about any point."""
    cumulants = np.zeros_like(moments)
    for i, j in _orders(moments):
        cumulants[i, j] = moments[i, j] - sum(
            weight * cumulants[r] * moments[s] for weight, r, s in _splits(i, j)
        )
    return cumulants


def _joint_moments(cumulants: FloatArray) -> FloatArray:
    """M_ij of two variables from their cumulants K_ij; about the mean if K_10 and K_01 are 0."""
    moments = np.zeros_like(cumulants)
    moments[0, 0] = 1.0
    for i, j in _orders(cumulants):
        moments[i, j] = cumulants[i, j] + sum(
            weight * cumulants[r] * moments[s] for weight, r, s in _splits(i, j)
        )
    return moments


def _power_covariances(cumulants: FloatArray) -> FloatArray:
    """D_ij = Cov(x^i, y^j) = sum_r C(i-1, r-1) (K_r0 D_(i-r, j) + sum_(t >= 1) C(j, t) K_rt M_(i-r, j-t)).

    The recursion of M_ij less that of M_i0 M_0j: small where the joint cumulants are, without a difference.
    """
    moments, covariances = _joint_moments(cumulants), np.zeros_like(cumulants)
    order = len(cumulants) - 1
    for i in range(1, order + 1):
        for j in range(1, order + 1):
            for r in range(1, i + 1):
                joint = sum(
                    math.comb(j, t) * cumulants[r, t] * moments[i - r, j - t]
                    for t in range(1, j + 1)
                )
                covariances[i, j] += math.comb(i - 1, r - 1) * (
                    cumulants[r, 0] * covariances[i - r, j] + joint
                )
    return covariances


def _orders(array: FloatArray) -> Iterator[tuple[int, int]]:
    """(i, j) in the order of the recursion, without (0, 0)."""
    return ((i, j) for i in range(len(array)) for j in range(array.shape[1]) if i or j)


def _splits(i: int, j: int) -> Iterator[tuple[int, tuple[int, int], tuple[int, int]]]:
    """Terms of the recursion of M_ij but K_ij itself: their weights, the indices of K and those of M."""
    if i == 0:
        yield from ((math.comb(j - 1, t - 1), (0, t), (0, j - t)) for t in range(1, j))
        return
    for r in range(1, i + 1):
        for t in range(j + 1):
            if (r, t) != (i, j):
                yield math.comb(i - 1, r - 1) * math.comb(j, t), (r, t), (i - r, j - t)
