"""Moments and cumulants of one score, or of two scores that share a query, a key or both.

A score q.k is a sum over entries of products p = q_a k_a. The products of different entries are independent, so that
the cumulants of the score are sums of theirs:

    p - E p = alpha a + beta b + gamma a b,   alpha = mk sq, beta = mq sk, gamma = sq sk

for q_a = mq + sq a and k_a = mk + sk b. The moments M_ij = E x^i y^j and the cumulants K_ij of two variables determine
each other (Leonov and Shiryaev 1959, here as a recursion):

    M_ij = sum_(r, t) C(i-1, r-1) C(j, t) K_rt M_(i-r, j-t),   r from 1 to i, t from 0 to j.

Arrays of moments and cumulants have the shape (order + 1, order + 1, ...); further axes are of different entries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Moments = Sequence[float] | FloatArray


def entry_moments(moments: Sequence[float]) -> FloatArray:
    """E x^0 ... E x^8 of an entry of mean 0 and variance 1 from E x^3 ... E x^8, infinite where they do not exist."""
    return np.array([1.0, 0.0, 1.0, *moments])


def joint_cumulants(moments: FloatArray) -> FloatArray:
    """K_ij of two variables from their moments M_ij about any point.

    >>> float(joint_cumulants(np.outer([1, 0, 1, 0, 3.0], [1, 0, 0, 0, 0]))[4, 0])  # of a normal variable
    0.0
    """
    cumulants = np.zeros_like(moments)
    for i, j in _orders(moments):
        cumulants[i, j] = moments[i, j] - sum(weight * cumulants[r] * moments[s] for weight, r, s in _splits(i, j))
    return cumulants


def joint_moments(cumulants: FloatArray) -> FloatArray:
    """M_ij of two variables from their cumulants K_ij; about the mean if K_10 and K_01 are 0."""
    moments = np.zeros_like(cumulants)
    moments[0, 0] = 1.0
    for i, j in _orders(cumulants):
        moments[i, j] = cumulants[i, j] + sum(weight * cumulants[r] * moments[s] for weight, r, s in _splits(i, j))
    return moments


def power_covariances(cumulants: FloatArray) -> FloatArray:
    """D_ij = Cov(x^i, y^j) from the cumulants of x and y: small where the joint ones are, without a difference.

    For i from 1, by subtraction of the recursions of M_ij and M_i0 M_0j,

        D_ij = sum_r C(i-1, r-1) (K_r0 D_(i-r, j) + sum_(t >= 1) C(j, t) K_rt M_(i-r, j-t)).
    """
    moments, covariances = joint_moments(cumulants), np.zeros_like(cumulants)
    order = len(cumulants) - 1
    for i in range(1, order + 1):
        for j in range(1, order + 1):
            for r in range(1, i + 1):
                joint = sum(math.comb(j, t) * cumulants[r, t] * moments[i - r, j - t] for t in range(1, j + 1))
                covariances[i, j] += math.comb(i - 1, r - 1) * (cumulants[r, 0] * covariances[i - r, j] + joint)
    return covariances


def same_score(moments: FloatArray) -> FloatArray:
    """M_ij of a variable and itself, (order + 1, order + 1, ...), from its moments to 2 order."""
    order = len(moments) // 2
    return np.array([[moments[i + j] for j in range(order + 1)] for i in range(order + 1)])


def product_moments(
    shared: Moments, own: Moments, alpha: FloatArray, beta: FloatArray, gamma: FloatArray, order: int
) -> FloatArray:
    """M_ij of the products p - E p and p' - E p' that share a: E_a[E[(p - E p)^i | a] E[(p' - E p')^j | a]].

    Args:
        shared, own: moments from the zeroth of a, to 2 order, and of b, to `order`.
        alpha, beta, gamma: coefficients of a, b and a b, (entries,).
        order: of the highest power of each.

    Returns:
        (order + 1, order + 1, entries).
    """
    given = [given_shared(power, own, alpha, beta, gamma) for power in range(order + 1)]
    return np.array([[_mean(_product(left, right), shared) for right in given] for left in given])


def power_moments(
    shared: Moments, own: Moments, alpha: FloatArray, beta: FloatArray, gamma: FloatArray, order: int
) -> FloatArray:
    """E (p - E p)^n for n from 0 to `order`, (order + 1, entries); arguments as in `product_moments`."""
    given = (given_shared(power, own, alpha, beta, gamma) for power in range(order + 1))
    return np.array([_mean(polynomial, shared) for polynomial in given])


def given_shared(power: int, own: Moments, alpha: FloatArray, beta: FloatArray, gamma: FloatArray) -> FloatArray:
    """E[(alpha a + beta b + gamma a b)^n | a] = sum_r C(n, r) E b^r (alpha a)^(n-r) (beta + gamma a)^r.

    Returns:
        Its coefficients of a^0 ... a^n, (n + 1, entries).
    """
    total = np.zeros((power + 1, len(alpha)))
    for r in range(power + 1):
        for t in range(r + 1):
            ways = math.comb(power, r) * math.comb(r, t) * own[r]
            total[power - r + t] += ways * alpha ** (power - r) * beta ** (r - t) * gamma**t
    return total


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Coefficients of the product of two polynomials, each (degree + 1, entries)."""
    product = np.zeros((len(left) + len(right) - 1, left.shape[1]))
    for power, coefficients in enumerate(left):
        product[power : power + len(right)] += coefficients * right
    return product


def _mean(polynomial: FloatArray, moments: Moments) -> FloatArray:
    """E of a polynomial in a variable of these moments, (entries,)."""
    return np.asarray(np.asarray(moments)[: len(polynomial)] @ polynomial)


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
