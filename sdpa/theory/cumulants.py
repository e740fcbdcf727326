"""Moments and cumulants of two variables, and covariances of their powers.

The moments M_ij = E x^i y^j and the cumulants K_ij determine each other (Leonov and Shiryaev 1959,
here as a recursion):

    M_ij = sum_(r, t) C(i-1, r-1) C(j, t) K_rt M_(i-r, j-t),   r from 1 to i, t from 0 to j.

Arrays have the shape (order of x + 1, order of y + 1, ...); further axes are of different entries.
"""

import itertools
from math import comb
from typing import Any

import numpy as np

from sdpa.theory.integrals import FloatArray


def joint_cumulants(moments: FloatArray) -> FloatArray:
    """K_ij of two variables from their moments M_ij about any point."""
    cumulants = np.zeros_like(moments)
    for i, j in itertools.product(range(len(moments)), range(moments.shape[1])):
        if i or j:
            cumulants[i, j] = moments[i, j] - _lower_terms(cumulants, moments, i, j)
    return cumulants


def joint_moments(cumulants: FloatArray) -> FloatArray:
    """M_ij of two variables from their cumulants K_ij; about the mean if K_10 and K_01 are 0."""
    moments = np.zeros_like(cumulants)
    moments[0, 0] = 1.0
    for i, j in itertools.product(range(len(moments)), range(moments.shape[1])):
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
    if i == 0:
        return sum(comb(j - 1, t - 1) * cumulants[0, t] * moments[0, j - t] for t in range(1, j))
    return sum(
        comb(i - 1, r - 1) * comb(j, t) * cumulants[r, t] * moments[i - r, j - t]
        for r in range(1, i + 1)
        for t in range(j + 1)
        if (r, t) != (i, j)
    )


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
            joint = sum(
                comb(j, t) * cumulants[r, t] * moments[i - r, j - t] for t in range(1, j + 1)
            )
            term = cumulants[r, 0] * covariances[i - r, j] + joint
            covariances[i, j] += comb(i - 1, r - 1) * term
    return covariances
