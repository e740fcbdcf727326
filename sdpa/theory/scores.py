"""Exact moments of the scores q.k / divisor of a draw, and the spread of their estimates."""

from functools import cache
from math import inf, nan, sqrt
from typing import NamedTuple

import numpy as np

from sdpa.pairs import PairLaw
from sdpa.scaling import Rule, resolve_divisor
from sdpa.theory.integrals import FloatArray, check_sizes
from sdpa.theory.score_products import (
    cosine_moments,
    entry_moments,
    joint_cumulants,
    joint_moments,
    own_cumulants,
    power_covariances,
    product_moments,
    summed,
)


def score_mean(
    d_k: float,
    divisor: Rule,
    law: PairLaw = PairLaw(),
    n_keys: float | None = None,
) -> float:
    """E[q.k / divisor] = d_k (mq mk + rho sq sk / n_keys) / divisor, over all pairs.

    Entries of q and k have the means mq, mk and standard deviations sq, sk. One of n_keys pairs is
    a query with its own key, whose entries have the correlation rho; all other pairs are
    independent.

    Args:
        d_k: width of q and k, from 1.
        divisor: above 0, or a rule.
        law: of queries and keys.
        n_keys: keys of a draw, under a mask the mean number that a query sees; required if the law
            has a correlation, and unused otherwise.

    Raises:
        UnknownError: the law is normalized and not of Gaussian entries of mean 0 without a
            spectrum.

    >>> score_mean(d_k=64, divisor=8.0)
    0.0
    >>> score_mean(d_k=64, divisor=8.0, law=PairLaw(correlation=0.5), n_keys=4)
    1.0
    """
    return _pooled(d_k, law, n_keys)[0] / resolve_divisor(divisor, d_k, n_keys or nan)


def score_variance(
    d_k: float,
    divisor: Rule,
    law: PairLaw = PairLaw(),
    n_keys: float | None = None,
) -> float:
    """Var[q.k / divisor], over all pairs of a query and a key, which is without correlation

        (d_k (mk^2 sq^2 + mq^2 sk^2) + sq^2 sk^2 sum_m lambda_m^2) / divisor^2.

    lambda is the spectrum, of mean 1; without one the sum is d_k. For centred entries of variance 1
    this is d_k / divisor^2, a sum of d_k uncorrelated products (Vaswani et al. 2017, footnote 4).
    Under a correlation, the score of a query and its own key has the variance

        d_k (mk^2 sq^2 + (1 + rho^2) sq^2 sk^2) / divisor^2,

    and the pooled variance includes that of the two means. Cosines have the variance 1 / d_k.
    Arguments and errors as in `score_mean`.

    >>> score_variance(d_k=64, divisor=8.0)
    1.0
    """
    return _pooled(d_k, law, n_keys)[1] / resolve_divisor(divisor, d_k, n_keys or nan) ** 2


def score_kurtosis(d_k: float, law: PairLaw = PairLaw(), n_keys: float | None = None) -> float:
    """E[(s - E s)^4] / Var[s]^2 - 3 of s = q.k, over all pairs. No divisor changes it.

    For independent centred entries this is (m4^2 - 3) / d_k, m4 = E x^4: 6 / d_k for Gaussian ones.
    Cosines have -6 / (d_k + 2). In general it is kappa_4 / kappa_2^2 from sums of the cumulants of
    products. Arguments and errors as in `score_mean`.

    >>> score_kurtosis(d_k=4)
    1.5
    """
    _, variance, fourth = _pooled(d_k, law, n_keys)
    return fourth / variance**2


class ScoreDeviations(NamedTuple):
    """Exact standard deviations of what a draw adds to the estimates of three moments."""

    score_mean: float
    score_variance: float
    score_kurtosis: float


@cache
def score_power_deviations(
    d_k: float,
    n_keys: int,
    n_queries: int,
    divisor: Rule,
    law: PairLaw = PairLaw(),
) -> ScoreDeviations:
    """Standard deviations of means over a draw of the influences of a score on three moments.

    The moments are mean, variance and kurtosis. With c = q.k - E q.k, v = E c^2 and
    beta = E c^4 / v^2 the influences are c, c^2 and c^4 / v^2 - 2 beta c^2 / v - 4 (E c^3 / v^2) c
    (delta method). Scores of the same query are independent given that query, and scores of the
    same key given that key. So the mean of f over all pairs of m queries and n keys has the
    variance

        (Var f(s) + (n - 1) Cov(f(s), f(s')) + (m - 1) Cov(f(s), f(s''))) / (m n),

    s' of the same query and s'' of the same key. Estimates from T draws have these deviations over
    sqrt(T), for variance and kurtosis to leading order. A deviation that needs a moment which does
    not exist is infinite. Under a correlation, the results are lower limits: as if the rows of a
    draw were independent, and 0 for the kurtosis, with a mean of the keys, and with a spectrum.
    Arguments and errors as in `score_mean`.

    >>> round(score_power_deviations(1, 1, 1, divisor=1.0).score_variance ** 2, 9)  # 3^2 - 1
    8.0
    >>> round(score_power_deviations(1, 10**9, 1, divisor=1.0).score_variance ** 2, 6)  # Var q^2
    2.0
    """
    check_sizes(d_k, n_keys, fewest=1)
    divisor = resolve_divisor(divisor, d_k, n_keys)
    if law.correlation:
        return _least_deviations(d_k, n_keys, n_queries, divisor, law)

    def deviation(*coefficients: float) -> float:
        """The deviation of the mean over a draw of a polynomial in c, by its coefficients."""
        order = len(coefficients) - 1
        if not _has_moments(law, 2 * order):
            return inf
        same, of_query, of_key = (
            np.array(coefficients) @ covariance @ coefficients
            for covariance in _covariances(d_k, law, order)
        )
        # Rounding errors reach sums that are 0.
        variance = float(same + (n_keys - 1) * of_query + (n_queries - 1) * of_key)
        return sqrt(max(variance, 0.0) / (n_queries * n_keys))

    kurtosis = inf
    if _has_moments(law, 4):
        second, third, fourth = _central_moments(d_k, law)[2:5].tolist()
        skew = third / second**2
        beta = fourth / second**2
        kurtosis = deviation(0, -4 * skew, -2 * beta / second, 0, 1 / second**2)
    return ScoreDeviations(
        deviation(0, 1) / divisor,
        deviation(0, 0, 1) / divisor**2,
        kurtosis,
    )


def _least_deviations(
    d_k: float,
    n_keys: int,
    n_queries: int,
    divisor: float,
    law: PairLaw,
) -> ScoreDeviations:
    """Lower limits under a correlation.

    Up to a constant, E[c^2 | q] over a row of n keys is a |q|^2 + b |q|^4.
    """
    if law.spectrum or law.key_mean:
        return ScoreDeviations(0.0, 0.0, 0.0)
    unit = law.query_std * law.key_std / divisor
    square = law.correlation**2
    of_mean = d_k * (n_keys + square) / n_keys**2
    a = 1 - square / n_keys - 2 * square * d_k / n_keys**2
    b = square / n_keys
    fourth = d_k * (d_k + 2)
    of_square = 2 * d_k * a**2 + 8 * fourth * a * b + 8 * fourth * (d_k + 3) * b**2
    mean = unit * sqrt(of_mean / n_queries)
    variance = unit**2 * sqrt(max(of_square, 0.0) / n_queries)
    return ScoreDeviations(mean, variance, 0.0)


@cache
def _covariances(
    d_k: float,
    law: PairLaw,
    order: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Cov(c^i, c'^j) of a score with itself, one of the same query, and one of the same key."""
    powers = np.add.outer(range(order + 1), range(order + 1))
    if law.normalize != "none":
        # Cosines have the same law given either vector.
        moments = cosine_moments(d_k, law)[powers]
        none = np.zeros_like(moments)
        return moments - np.outer(moments[0], moments[0]), none, none

    def covariances(moments: FloatArray) -> FloatArray:
        return power_covariances(summed(joint_cumulants(moments), d_k, law))

    return (
        covariances(product_moments(d_k, law, 2 * order)[:, 0][powers]),
        covariances(product_moments(d_k, law, order, order)),
        covariances(product_moments(d_k, law, order, order, share_key=True)),
    )


def _has_moments(law: PairLaw, order: int) -> bool:
    return bool(np.isfinite(entry_moments(law)[: order + 1]).all())


def _independent_cumulants(d_k: float, law: PairLaw, order: int) -> FloatArray:
    """Cumulants of q.k - E q.k to this order, of a key that is independent of the query."""
    return summed(joint_cumulants(product_moments(d_k, law, order)), d_k, law)


def _central_moments(d_k: float, law: PairLaw) -> FloatArray:
    """E (s - E s)^n for n = 0 ... 4, of s = q.k with a key that is independent of the query."""
    if law.normalize != "none":
        return cosine_moments(d_k, law)
    return np.asarray(joint_moments(_independent_cumulants(d_k, law, 4))[:, 0])


def _pooled(d_k: float, law: PairLaw, n_keys: float | None) -> tuple[float, float, float]:
    """Mean, variance and fourth cumulant (m4 - 3 v^2) of q.k over all pairs of a draw."""
    if not d_k >= 1:
        raise ValueError(f"expected d_k of at least 1, got {d_k}")
    if law.normalize != "none":
        moments = cosine_moments(d_k, law)
        return 0.0, float(moments[2]), float(moments[4] - 3 * moments[2] ** 2)
    order = 4 if _has_moments(law, 4) else 2
    others = _independent_cumulants(d_k, law, order)
    others[1, 0] = d_k * law.query_mean * law.key_mean
    if law.correlation:
        others = _with_own_key(others, d_k, law, n_keys)
    mean, variance = others[1:3, 0].tolist()
    return mean, variance, float(others[4, 0]) if order == 4 else inf


def _with_own_key(
    others: FloatArray,
    d_k: float,
    law: PairLaw,
    n_keys: float | None,
) -> FloatArray:
    """Cumulants over all pairs, one in n_keys of a query with its own key."""
    if n_keys is None:
        raise ValueError("n_keys: expected the number of keys beside a correlation")
    own = summed(own_cumulants(d_k, law), d_k, law)
    raw = (joint_moments(own) + (n_keys - 1) * joint_moments(others)) / n_keys
    return joint_cumulants(raw)
