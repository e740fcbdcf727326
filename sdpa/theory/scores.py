"""Exact moments of the scores q.k / divisor of a draw, and their variance within a row.

Letters: q and k have d_k entries of the means mq, mk and standard deviations sq, sk; rho is the
correlation of an entry of q with that of its own key, lambda_m the spectrum. Nothing is integrated.

A score sums independent products of an entry of q and one of k, so its cumulants are the sums of
theirs. Moments M and cumulants K of a variable determine each other:

    M_n = sum_r C(n - 1, r - 1) K_r M_(n-r),   r from 1 to n.
"""

from itertools import product
from math import comb, inf, isfinite, nan, sqrt

import numpy as np

from sdpa._arrays import FloatArray
from sdpa.pairs import PairLaw, spectrum_of
from sdpa.scaling import Rule, resolve_divisor
from sdpa.theory.integrals import UnknownError, check_sizes
from sdpa.theory.row_law import RowLengths, lengths_of

# E x^0 ... E x^8 of a standard normal entry
_NORMAL = (1.0, 0.0, 1.0, 0.0, 3.0, 0.0, 15.0, 0.0, 105.0)


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


def score_kurtosis(
    d_k: float,
    law: PairLaw = PairLaw(),
    n_keys: float | None = None,
) -> float:
    """E[(s - E s)^4] / Var[s]^2 - 3 of s = q.k, over all pairs. No divisor changes it.

    For independent centred entries this is (m4^2 - 3) / d_k, m4 = E x^4: 6 / d_k for Gaussian ones.
    Cosines have -6 / (d_k + 2). In general it is kappa_4 / kappa_2^2 from sums of the cumulants of
    products. Arguments and errors as in `score_mean`.

    >>> score_kurtosis(d_k=4)
    1.5
    """
    _, variance, fourth = _pooled(d_k, law, n_keys)
    return fourth / variance**2


def row_variance(
    d_k: float,
    n_keys: float,
    divisor: Rule,
    law: PairLaw = PairLaw(),
    lengths: RowLengths = None,
) -> float:
    """E R = (1 - 1/n) (A + B / n), R = (1/n) sum_j (s_j - mean of s)^2 over the n scores of a row.

    With the symbols of `score_variance`,

        A = (sq^2 sk^2 sum_m lambda_m^2 + d_k mq^2 sk^2) / divisor^2
        B = rho^2 sq^2 sk^2 (d_k^2 + sum_m lambda_m^2) / divisor^2.

    A is the variance given q of a score with another key, for normalized vectors of any score. The
    score with the own key has the mean rho sq sk sum_m lambda_m a_m^2 and 1 - rho^2 of the
    variance; B is its excess.

    Arguments as in `attention_expectations`, n_keys from 1, and errors as in `score_variance`.

    >>> row_variance(d_k=64, n_keys=4, divisor=8.0)
    0.75
    """
    check_sizes(d_k, n_keys, fewest=1)
    divisor = resolve_divisor(divisor, d_k, n_keys)
    n = lengths_of(lengths, n_keys)
    if law.normalize != "none":
        same = score_variance(d_k, 1.0, law) / divisor**2
        own = 0.0
    else:
        squares = d_k
        if law.spectrum:
            eigenvalues = spectrum_of(d_k, law.spectrum)
            squares = float((eigenvalues**2).sum())
        key_factor = (law.key_std / divisor) ** 2
        same = key_factor * (law.query_std**2 * squares + d_k * law.query_mean**2)
        own = key_factor * law.query_std**2 * law.correlation**2 * (d_k**2 + squares)
    by_length = (1 - 1 / n) * (same + own / n)
    return float(by_length.mean())


def _pooled(
    d_k: float,
    law: PairLaw,
    n_keys: float | None,
) -> tuple[float, float, float]:
    """Mean, variance and fourth cumulant (m4 - 3 v^2) of q.k over all pairs of a draw."""
    if not d_k >= 1:
        raise ValueError(f"expected d_k of at least 1, got {d_k}")
    if law.normalize != "none":
        return _cosine_cumulants(d_k, law)
    cumulants = _score_cumulants(d_k, law, 0.0)
    cumulants[1] = d_k * law.query_mean * law.key_mean
    if law.correlation:
        if n_keys is None:
            raise ValueError("n_keys: expected the number of keys beside a correlation")
        own = _moments(_score_cumulants(d_k, law, law.correlation))
        cumulants = _cumulants((own + (n_keys - 1) * _moments(cumulants)) / n_keys)
    mean, variance = cumulants[1:3].tolist()
    return mean, variance, float(cumulants[4]) if len(cumulants) > 4 else inf


def _cosine_cumulants(d_k: float, law: PairLaw) -> tuple[float, float, float]:
    """As `_pooled`, of s = length^2 t, t a cosine: E t^2 = 1 / d and E t^4 = 3 / (d (d + 2))."""
    if law.entries.name != "gaussian" or law.query_mean or law.key_mean or law.spectrum:
        known = "gaussian entries of mean 0 without a spectrum"
        raise UnknownError(f"normalized vectors are known only for {known}")
    square = 1.0 if law.normalize == "l2" else d_k
    variance = square**2 / d_k
    return 0.0, variance, -6 / (d_k + 2) * variance**2


def _score_cumulants(d_k: float, law: PairLaw, rho: float) -> FloatArray:
    """Cumulants of q.k - d_k mq mk, entries a and b of q and k having the correlation rho: to the
    fourth, or the second if fourth moments are infinite.

    With q = mq + sq a, k = mk + sk b and a = rho b + noise e, a product less mq mk is
    alpha a + beta b + gamma a b.
    """
    entry = _NORMAL if rho else (1.0, 0.0, 1.0, *law.entries.moments)
    noise = sqrt(1 - rho**2)

    def joint(i: int, j: int) -> float:
        """E a^i b^j."""
        if not rho:
            return entry[i] * entry[j]
        powers = (comb(i, r) * rho ** (i - r) * noise**r for r in range(i + 1))
        return sum(power * entry[r] * entry[i - r + j] for r, power in enumerate(powers))

    variance = spectrum_of(d_k, law.spectrum) if law.spectrum else np.ones(1)
    alpha = law.key_mean * law.query_std * np.sqrt(variance)
    beta = law.query_mean * law.key_std * np.sqrt(variance)
    gamma = law.query_std * law.key_std * variance
    order = 4 if isfinite(entry[4]) else 2
    moments = np.zeros((order + 1, len(variance)))
    for i, j, k in product(range(order + 1), repeat=3):
        if (n := i + j + k) <= order:
            ways = comb(n, i) * comb(n - i, j) * joint(i + k, j + k)
            moments[n] += ways * alpha**i * beta**j * gamma**k
    return np.asarray(_cumulants(moments).sum(axis=-1) * (1 if law.spectrum else d_k))


def _cumulants(moments: FloatArray) -> FloatArray:
    cumulants = np.zeros_like(moments)
    for n in range(1, len(moments)):
        cumulants[n] = moments[n] - _recursion(cumulants, moments, n)
    return cumulants


def _moments(cumulants: FloatArray) -> FloatArray:
    moments = np.zeros_like(cumulants)
    moments[0] = 1.0
    for n in range(1, len(cumulants)):
        moments[n] = cumulants[n] + _recursion(cumulants, moments, n)
    return moments


def _recursion(cumulants: FloatArray, moments: FloatArray, n: int) -> FloatArray:
    """M_n - K_n, from lower orders."""
    terms = (comb(n - 1, r - 1) * cumulants[r] * moments[n - r] for r in range(1, n))
    return np.asarray(sum(terms, np.zeros_like(moments[0])))
