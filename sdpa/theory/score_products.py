"""Cumulants of products of an entry of q and one of k, and of the scores that sum them.

A score q.k is a sum over entries of independent products p = q_a k_a, and its cumulants are sums of
theirs:

    p - E p = alpha a + beta b + gamma a b,   alpha = mk sq, beta = mq sk, gamma = sq sk

for q_a = mq + sq a and k_a = mk + sk b. Moments M_ij = E x^i y^j and cumulants K_ij of two variables
determine each other (Leonov and Shiryaev 1959, here as a recursion):

    M_ij = sum_(r, t) C(i-1, r-1) C(j, t) K_rt M_(i-r, j-t),   r from 1 to i, t from 0 to j.

Arrays have the shape (order of x + 1, order of y + 1, ...), with a further axis of different entries.
"""

import itertools
from math import comb, sqrt
from typing import Any

import numpy as np

from sdpa.pairs import PairLaw, spectrum_of
from sdpa.theory.integrals import FloatArray, UnknownError


def entry_moments(law: PairLaw) -> FloatArray:
    """E x^0 ... E x^8 of a standard entry, infinite where they do not exist."""
    return np.array([1.0, 0.0, 1.0, *law.entries.moments])


def product_moments(
    d_k: float,
    law: PairLaw,
    i: int,
    j: int = 0,
    *,
    share_key: bool = False,
) -> FloatArray:
    """M_ij = E_a[g_i(a) g_j(a)] of p - E p and p' - E p' that share a, or b.

    g_n = E[(p - E p)^n | a] is sum_r C(n, r) E b^r (alpha a)^(n-r) (beta + gamma a)^r. The result
    is (i + 1, j + 1, entries).
    """
    entry = entry_moments(law)
    alpha, beta, gamma = _coefficients(d_k, law)
    if share_key:
        alpha, beta = beta, alpha
    given = []  # coefficients of a^0 ... a^n in g_n, (n + 1, entries)
    for n in range(max(i, j) + 1):
        coefficients = np.zeros((n + 1, len(alpha)))
        for r in range(n + 1):
            for t in range(r + 1):
                ways = comb(n, r) * comb(r, t) * entry[r]
                powers = ways * alpha ** (n - r) * beta ** (r - t) * gamma**t
                coefficients[n - r + t] += powers
        given.append(coefficients)
    moments = np.empty((i + 1, j + 1, len(alpha)))
    for m, n in np.ndindex(i + 1, j + 1):
        orders = np.add.outer(range(m + 1), range(n + 1))
        moments[m, n] = np.einsum("pe,pq,qe->e", given[m], entry[orders], given[n])
    return moments


def own_cumulants(d_k: float, law: PairLaw) -> FloatArray:
    """Cumulants to the fourth of the product p of an entry of q and one of its own key.

    With p = a (alpha + gamma b) and a = rho b + noise e,

        E p^n = sum_r C(n, r) rho^(n-r) noise^r E e^r E[b^(n-r) (alpha + gamma b)^n].
    """
    normal = entry_moments(law)
    alpha, _, gamma = _coefficients(d_k, law)
    rho = law.correlation
    noise = sqrt(1 - rho**2)
    moments = np.zeros((5, 1, len(alpha)))
    for n in range(5):
        for r, t in np.ndindex(n + 1, n + 1):
            of_a = comb(n, r) * rho ** (n - r) * noise**r * normal[r]
            weight = of_a * comb(n, t) * normal[n - r + t]
            moments[n, 0] += weight * alpha ** (n - t) * gamma**t
    return joint_cumulants(moments)


def _coefficients(d_k: float, law: PairLaw) -> FloatArray:
    """alpha of a, beta of b and gamma of a b in p - E p, (3, different entries)."""
    variance = spectrum_of(int(d_k), law.spectrum) if law.spectrum else np.ones(1)
    root = np.sqrt(variance)
    alpha = law.key_mean * law.query_std * root
    beta = law.query_mean * law.key_std * root
    return np.array([alpha, beta, law.query_std * law.key_std * variance])


def summed(of_entries: FloatArray, d_k: float, law: PairLaw) -> FloatArray:
    """Cumulants of the score from those of the products of different entries."""
    return np.asarray(of_entries.sum(axis=-1) * (1 if law.spectrum else d_k))


def cosine_moments(d_k: float, law: PairLaw) -> FloatArray:
    """E s^n for n = 0 ... 8 of s = length^2 t, t a cosine: E t^(n+2) = E t^n (n + 1) / (d + n)."""
    if law.entries.name != "gaussian" or law.query_mean or law.key_mean or law.spectrum:
        known = "gaussian entries of mean 0 without a spectrum"
        raise UnknownError(f"normalized vectors are known only for {known}")
    square = 1.0 if law.normalize == "l2" else d_k
    moments = np.zeros(9)
    moments[0] = 1.0
    for n in range(0, 7, 2):
        moments[n + 2] = moments[n] * (n + 1) / (d_k + n) * square**2
    return moments


def joint_cumulants(moments: FloatArray) -> FloatArray:
    """K_ij of two variables from their moments M_ij about any point."""
    cumulants = np.zeros_like(moments)
    for i, j in np.ndindex(moments.shape[:2]):
        if i or j:
            cumulants[i, j] = moments[i, j] - _lower_terms(cumulants, moments, i, j)
    return cumulants


def joint_moments(cumulants: FloatArray) -> FloatArray:
    """M_ij of two variables from their cumulants K_ij; about the mean if K_10 and K_01 are 0."""
    moments = np.zeros_like(cumulants)
    moments[0, 0] = 1.0
    for i, j in np.ndindex(moments.shape[:2]):
        if i or j:
            moments[i, j] = cumulants[i, j] + _lower_terms(cumulants, moments, i, j)
    return moments


def _lower_terms(
    cumulants: FloatArray,
    moments: FloatArray,
    i: int,
    j: int,
) -> Any:
    """M_ij - K_ij from moments and cumulants of lower orders."""
    if i == 0:  # the recursion is symmetric
        return _lower_terms(cumulants.swapaxes(0, 1), moments.swapaxes(0, 1), j, i)
    total = 0
    for r, t in itertools.product(range(1, i + 1), range(j + 1)):
        if (r, t) != (i, j):
            ways = comb(i - 1, r - 1) * comb(j, t)
            total += ways * cumulants[r, t] * moments[i - r, j - t]
    return total


def power_covariances(cumulants: FloatArray) -> FloatArray:
    """D_ij = Cov(x^i, y^j) of two variables from their cumulants, by the recursion

        D_ij = sum_r C(i-1, r-1) (K_r0 D_(i-r, j) + sum_(t >= 1) C(j, t) K_rt M_(i-r, j-t)).

    This is the recursion of M_ij less that of M_i0 M_0j: no difference of large numbers makes a
    small one.
    """
    moments = joint_moments(cumulants)
    covariances = np.zeros_like(cumulants)
    orders = range(1, len(cumulants))
    for i, j in itertools.product(orders, orders):
        for r in range(1, i + 1):
            joint = 0
            for t in range(1, j + 1):
                joint += comb(j, t) * cumulants[r, t] * moments[i - r, j - t]
            term = cumulants[r, 0] * covariances[i - r, j] + joint
            covariances[i, j] += comb(i - 1, r - 1) * term
    return covariances
