"""Cumulants of products of an entry of q and one of k, and of the scores that sum them.

A score q.k is a sum over entries of independent products p = q_a k_a, and its cumulants are sums of
theirs:

    p - E p = alpha a + beta b + gamma a b,   alpha = mk sq, beta = mq sk, gamma = sq sk

for q_a = mq + sq a and k_a = mk + sk b. Arrays have the shape (order + 1, order + 1, different
entries).
"""

import itertools
from math import comb, sqrt

import numpy as np

from sdpa.pairs import PairLaw, spectrum_of
from sdpa.theory.cumulants import joint_cumulants
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
    for m, n in itertools.product(range(i + 1), range(j + 1)):
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
        for r, t in itertools.product(range(n + 1), repeat=2):
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
