"""Exact moments of the scores q.k / divisor of a draw, and the spread of their estimates, for any law of q and k."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from sdpa.pairs import PairLaw, spectrum_of
from sdpa.theory import cumulants
from sdpa.theory.unknown import UnknownError

FloatArray = npt.NDArray[np.float64]


def score_mean(d_k: float, divisor: float, law: PairLaw = PairLaw(), n_keys: float | None = None) -> float:
    """E[q.k / divisor] = d_k (mq mk + rho sq sk / n_keys) / divisor, over all pairs of a query and a key.

    Entries of q and k have the means mq, mk and standard deviations sq, sk. One of n_keys pairs is a query with its
    own key, whose entries have the correlation rho; all others are independent.

    Args:
        d_k: width of q and k, from 1.
        divisor: above 0.
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
    return _pooled(d_k, law, n_keys)[0] / divisor


def score_variance(d_k: float, divisor: float, law: PairLaw = PairLaw(), n_keys: float | None = None) -> float:
    """Var[q.k / divisor] = (d_k (mk^2 sq^2 + mq^2 sk^2) + sq^2 sk^2 sum_m lambda_m^2) / divisor^2, pooled over pairs.

    lambda is the spectrum, of mean 1; without one the sum is d_k. For centred entries of variance 1 this is
    d_k / divisor^2, a sum of d_k uncorrelated products (Vaswani et al. 2017, footnote 4). A correlation adds that of
    a query with its own key, as in `correlated_score_moments`, and the variance of the two means. Cosines have the
    variance 1 / d_k, products of vectors of length sqrt(d_k) have d_k. In the units of the scaled scores, squared.

    Args:
        d_k, divisor, law, n_keys: as in `score_mean`.

    Raises:
        UnknownError: as in `score_mean`.

    >>> score_variance(d_k=64, divisor=8.0)
    1.0
    """
    return _pooled(d_k, law, n_keys)[1] / divisor**2


def score_kurtosis(d_k: float, law: PairLaw = PairLaw(), n_keys: float | None = None) -> float:
    """E[(s - E s)^4] / Var[s]^2 - 3 of s = q.k, pooled over pairs. No divisor changes it.

    For independent centred entries (m4^2 - 3) / d_k, with m4 = E x^4 of a unit-variance entry: a product of two entries
    has the excess kurtosis m4^2 - 3, and a sum of d_k independent equal terms has 1/d_k of it. For Gaussian entries
    6 / d_k. In general the ratio kappa_4 / kappa_2^2 of sums of the cumulants of products; with a correlation, of the
    mixture of a query's own key and the others; -6 / (d_k + 2) for cosines.

    Args:
        d_k, law, n_keys: as in `score_mean`.

    Raises:
        UnknownError: as in `score_mean`.

    >>> score_kurtosis(d_k=4)
    1.5
    """
    _, variance, fourth = _pooled(d_k, law, n_keys)
    return fourth / variance**2


def score_moments(d_k: float, law: PairLaw = PairLaw(), order: int = 8) -> tuple[float, ...]:
    """E (s - E s)^n for n = 2 ... order, of s = q.k with a key that is independent of the query.

    Args:
        d_k: width of q and k, from 1.
        law: of queries and keys.
        order: from 2 to 8.

    Returns:
        order - 1 numbers, infinite if the law has no moments of that order.

    Raises:
        UnknownError: as in `score_mean`.

    >>> score_moments(d_k=2)[::2]  # the law of Laplace: E s^n = n!
    (2.0, 24.0, 720.0, 40320.0)
    """
    _check_width(d_k)
    if not np.isfinite(cumulants.entry_moments(law.entries.moments)[: order + 1]).all():
        return (*score_moments(d_k, law, order - 1), math.inf) if order > 2 else (math.inf,)
    if law.normalize != "none":
        moments = _cosine_moments(d_k, law)
    else:
        of_score = _summed(cumulants.joint_cumulants(_of_entries(d_k, law, order)[:, None]), d_k, law)
        moments = cumulants.joint_moments(of_score)[:, 0]
    return tuple(moments[2 : order + 1].tolist())


def correlated_score_moments(
    d_k: float,
    q_mean: float = 0.0,
    k_mean: float = 0.0,
    q_std: float = 1.0,
    k_std: float = 1.0,
    correlation: float = 0.0,
) -> tuple[float, float]:
    """E[q.k] = d (mq mk + rho sq sk), Var[q.k] = d (mq^2 sk^2 + mk^2 sq^2 + 2 rho mq mk sq sk + (1 + rho^2) sq^2 sk^2).

    For jointly Gaussian pairs (q_i, k_i), independent between i, of means mq, mk, standard deviations sq, sk and
    correlation rho: from q_i = mq + sq a and k_i = mk + sk b with E a^2 b^2 = 1 + 2 rho^2.

    Returns:
        Mean and variance of the score, before any divisor.

    >>> correlated_score_moments(d_k=10, correlation=0.5)
    (5.0, 12.5)
    """
    both = q_std * k_std
    mean = q_mean * k_mean + correlation * both
    variance = (
        (q_mean * k_std) ** 2
        + (k_mean * q_std) ** 2
        + 2 * correlation * q_mean * k_mean * both
        + both**2 * (1 + correlation**2)
    )
    return d_k * mean, d_k * variance


@dataclass(frozen=True)
class ScoreDeviations:
    """Exact standard deviations of what a draw of scores adds to the estimates of mean, variance and kurtosis."""

    score_mean: float
    score_variance: float
    score_kurtosis: float


@cache
def score_power_deviations(
    d_k: float, n_keys: int, n_queries: int, divisor: float, law: PairLaw = PairLaw()
) -> ScoreDeviations:
    """Standard deviations of the means over a draw of the influences of one score on mean, variance and kurtosis.

    With c = q.k - E q.k, v = E c^2 and beta = E c^4 / v^2 they are c, c^2 and c^4 / v^2 - 2 beta c^2 / v - 4 (E c^3 /
    v^2) c (delta method; a mean that is estimated, too, adds the last term). Scores of the same query, like those of
    the same key, are independent given it; scores that share neither are independent. The mean of a function f over
    all pairs of m queries and n keys thus has the variance

        (Var f(s) + (n - 1) Cov(f(s), f(s')) + (m - 1) Cov(f(s), f(s''))) / (m n),

    s' of the same query and s'' of the same key. All covariances follow from joint cumulants of two scores. Those of
    estimates from T draws are these / sqrt(T), for variance and kurtosis to leading order.

    Args:
        d_k: width of q and k, from 1.
        n_keys, n_queries: of a draw.
        divisor: above 0.
        law: of queries and keys. A deviation that needs a moment which the entries do not have is infinite. With a
            correlation, lower limits: as if the rows of a draw were independent, and 0 for the kurtosis, with a mean of
            the keys, and with a spectrum.

    Raises:
        UnknownError: as in `score_mean`.

    >>> round(score_power_deviations(1, 1, 1, divisor=1.0).score_variance ** 2, 9)  # E s^4 - 1 = 3^2 - 1
    8.0
    >>> round(score_power_deviations(1, 10**9, 1, divisor=1.0).score_variance ** 2, 6)  # Var q^2
    2.0
    """
    if law.correlation:
        return _least_deviations(d_k, n_keys, n_queries, divisor, law)
    second, third, fourth = score_moments(d_k, law, 4)
    kurtosis = np.inf
    if math.isfinite(fourth):
        skew, beta = third / second**2, fourth / second**2
        kurtosis = _deviation([0, -4 * skew, -2 * beta / second, 0, 1 / second**2], d_k, n_keys, n_queries, law)
    return ScoreDeviations(
        _deviation([0, 1], d_k, n_keys, n_queries, law) / divisor,
        _deviation([0, 0, 1], d_k, n_keys, n_queries, law) / divisor**2,
        kurtosis,
    )


def _least_deviations(d_k: float, n_keys: int, n_queries: int, divisor: float, law: PairLaw) -> ScoreDeviations:
    """Lower limits beside a correlation rho, from E of the influence of a row on mean and variance given its query.

    In units of query_std key_std, a row's mean has the variance d_k (n + rho^2) / n^2. The mean of c^2 over the row is
    a |q|^2 + b |q|^4 up to a constant given q, with a = 1 - rho^2 / n - 2 rho^2 d_k / n^2 and b = rho^2 / n.
    """
    if law.spectrum or law.key_mean:
        return ScoreDeviations(0.0, 0.0, 0.0)
    unit, square = law.query_std * law.key_std / divisor, law.correlation**2
    of_mean = d_k * (n_keys + square) / n_keys**2
    a, b, fourth = 1 - square / n_keys - 2 * square * d_k / n_keys**2, square / n_keys, d_k * (d_k + 2)
    of_square = 2 * d_k * a**2 + 8 * fourth * a * b + 8 * fourth * (d_k + 3) * b**2
    return ScoreDeviations(
        unit * math.sqrt(of_mean / n_queries), unit**2 * math.sqrt(max(of_square, 0.0) / n_queries), 0.0
    )


def _deviation(function: list[float], d_k: float, n_keys: int, n_queries: int, law: PairLaw) -> float:
    """Standard deviation of the mean over a draw of a polynomial in c, from its coefficients by power."""
    order = len(function) - 1
    if not np.isfinite(cumulants.entry_moments(law.entries.moments)[: 2 * order + 1]).all():
        return math.inf
    same, of_query, of_key = (np.array(function) @ each @ function for each in _covariances(d_k, law, order))
    # Rounding errors reach sums that are 0.
    variance = float(same + (n_keys - 1) * of_query + (n_queries - 1) * of_key)
    return math.sqrt(max(variance, 0.0) / (n_queries * n_keys))


@cache
def _covariances(d_k: float, law: PairLaw, order: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Cov(c^i, c'^j) of a score with itself, with one of the same query, and with one of the same key, to an order."""
    _check_width(d_k)
    if law.normalize != "none":
        # Given either vector, cosines have one and the same law.
        moments = cumulants.same_score(_cosine_moments(d_k, law)[: 2 * order + 1])
        return moments - np.outer(moments[0], moments[0]), np.zeros_like(moments), np.zeros_like(moments)
    entry, (alpha, beta, gamma) = cumulants.entry_moments(law.entries.moments), _coefficients(d_k, law)
    joint = (
        cumulants.same_score(_of_entries(d_k, law, 2 * order)),
        cumulants.product_moments(entry, entry, alpha, beta, gamma, order),
        cumulants.product_moments(entry, entry, beta, alpha, gamma, order),
    )
    same, of_query, of_key = (
        cumulants.power_covariances(_summed(cumulants.joint_cumulants(moments), d_k, law)) for moments in joint
    )
    return same, of_query, of_key


def _check_width(d_k: float) -> None:
    if not d_k >= 1:
        raise ValueError(f"expected d_k of at least 1, got {d_k}")


def _pooled(d_k: float, law: PairLaw, n_keys: float | None) -> tuple[float, float, float]:
    """Mean, variance and fourth cumulant (m4 - 3 v^2) of q.k over all pairs of a draw."""
    _check_width(d_k)
    if law.normalize != "none":
        moments = _cosine_moments(d_k, law)
        return 0.0, float(moments[2]), float(moments[4] - 3 * moments[2] ** 2)
    order = 4 if math.isfinite(law.entries.moments[1]) else 2
    others = _summed(cumulants.joint_cumulants(_of_entries(d_k, law, order)[:, None]), d_k, law)
    others[1, 0] = d_k * law.query_mean * law.key_mean
    if not law.correlation:
        return float(others[1, 0]), float(others[2, 0]), float(others[4, 0]) if order == 4 else math.inf
    if n_keys is None:
        raise ValueError("n_keys: expected the number of keys beside a correlation")
    own = _summed(_own_cumulants(d_k, law), d_k, law)
    raw = (cumulants.joint_moments(own) + (n_keys - 1) * cumulants.joint_moments(others)) / n_keys
    pooled = cumulants.joint_cumulants(raw)[:, 0]
    return float(pooled[1]), float(pooled[2]), float(pooled[4])


def _of_entries(d_k: float, law: PairLaw, order: int) -> FloatArray:
    """E (p - E p)^n of the product p of an entry of q and one of an independent k, n from 0 to order."""
    entry = cumulants.entry_moments(law.entries.moments)
    return cumulants.power_moments(entry, entry, *_coefficients(d_k, law), order)


def _own_cumulants(d_k: float, law: PairLaw) -> FloatArray:
    """Cumulants to the fourth of p = a (alpha + gamma b), of an entry of q and that of its own key, (5, 1, entries).

    With a = rho b + noise e: E p^n = sum_r C(n, r) rho^(n-r) noise^r E e^r E[b^(n-r) (alpha + gamma b)^n].
    """
    normal = cumulants.entry_moments(law.entries.moments)
    alpha, _, gamma = _coefficients(d_k, law)
    rho, noise = law.correlation, math.sqrt(1 - law.correlation**2)
    moments = np.zeros((5, 1, len(alpha)))
    for n in range(5):
        for r, t in itertools.product(range(n + 1), repeat=2):
            weight = math.comb(n, r) * rho ** (n - r) * noise**r * normal[r] * math.comb(n, t) * normal[n - r + t]
            moments[n, 0] += weight * alpha ** (n - t) * gamma**t
    return cumulants.joint_cumulants(moments)


def _coefficients(d_k: float, law: PairLaw) -> tuple[FloatArray, FloatArray, FloatArray]:
    """alpha, beta and gamma of `cumulants` for every different entry."""
    variance = spectrum_of(int(d_k), law.spectrum) if law.spectrum else np.ones(1)
    root: FloatArray = np.sqrt(variance)
    both = law.query_std * law.key_std
    return law.key_mean * law.query_std * root, law.query_mean * law.key_std * root, np.asarray(both * variance)


def _summed(of_entries: FloatArray, d_k: float, law: PairLaw) -> FloatArray:
    """Cumulants of the score from those of the products of different entries."""
    return np.asarray(of_entries.sum(axis=-1) * (1 if law.spectrum else d_k))


def _cosine_moments(d_k: float, law: PairLaw) -> FloatArray:
    """E s^n for n = 0 ... 8 of s = length^2 t, t a cosine: E t^2 = 1 / d, E t^(n+2) = E t^n (n + 1) / (d + n).

    t is the cosine of an isotropic vector with any other; t^2 is of the law Beta(1/2, (d - 1) / 2).
    """
    if law.entries.name != "gaussian" or law.query_mean or law.key_mean or law.spectrum:
        raise UnknownError("normalized vectors are known only for gaussian entries of mean 0 without a spectrum")
    square = 1.0 if law.normalize == "l2" else d_k
    moments = np.zeros(9)
    moments[0] = 1.0
    for n in range(0, 7, 2):
        moments[n + 2] = moments[n] * (n + 1) / (d_k + n) * square**2
    return moments
