"""The overlap E sum_j w_j w'_j of two rows over the same keys.

The scores s and s' of a key are normal with the deviations sigma and sigma' and the correlation
rho; keys are independent. With G(a, b) = E exp(-e^(a + s) - e^(b + s')), the Laplace transforms of
both partition sums give

    E sum_j w_j w'_j = n int int d^2G/(da db) G^(n - 1) da db

Letters: a and b are logarithms of the two Laplace variables, on a grid of real numbers; F is E
exp(-e^(a + s)) of one score given z, and H = 1 - F. A share z of both scores is common:

    s = c z + tau x,   c = sigma |rho|^(1/2),   tau = sigma (1 - |rho|)^(1/2).

Given z, G is a product, so that matrix products over z give G and its derivative on the grid:

          z                 z                  b
      a | H |   times   b | H' |^T   =   a | E H H' |,   1 - G = E H + E H' - E H H'.
 All integrands are analytic and vanish at their ends (`sdpa.theory.rows`): halving the steps
changes no overlap by more than 1e-8 of its value.
"""

import itertools
from functools import lru_cache
from math import ceil, log, sqrt

import numpy as np
from scipy.special import ndtri, ndtri_exp, roots_gegenbauer

from sdpa._arrays import FloatArray
from sdpa.scaling import resolve_divisor
from sdpa.theory.integrals import UnknownError, check_sizes, hermite_rule, trapezoid
from sdpa.theory.normal_law import NormalLaw, normal_density

_STEP = 0.28  # of a and b where tau is 0; 0.4 changes an overlap by 2e-9, and 0.2 by 1e-13
_Z_STEP = 0.6  # of the common share; 1 changes an overlap by 2e-11, and 0.3 by 2e-13
# A deviation c below which Hermite's nodes resolve z; from 0.02 to 1 no overlap changes by 3e-13.
_SMALL = 0.2
# Points of z within a step. With more, a table on their lattice is longer than one for each pair.
# With 2, pairs take three times as long; 32 change no overlap.
_FINE = 8
_RANGE = 30.0  # integrands are cut off at e^-30; 22 changes an overlap by 2e-10, and 38 by 1e-13
_MOST_WIDTH = 100.0  # of the common share of scores over the step: beyond, nodes take gigabytes


def weight_overlap(
    sigma: float,
    other: float,
    correlation: float,
    n_keys: float,
) -> float:
    """E sum_j w_j w'_j of two rows of n keys; sigma, other and correlation are of their scores.

    The overlap is 1 / n without correlation, and E sum_j w_j^2 at a correlation of 1. The relative
    error is below 1e-8 for n to 2^20. UnknownError where the correlated part of the scores varies so
    much that the nodes would take more than a gigabyte.

    >>> round(weight_overlap(3.0, 3.0, 0.0, 64) * 64, 8)
    1.0
    >>> round(weight_overlap(3.0, 3.0, 0.5, 64), 8)
    0.0858444
    """
    if not (min(sigma, other) >= 0 and abs(correlation) <= 1 and 2 <= n_keys <= 1e9):
        expected = "deviations from 0, a correlation from -1 to 1 and n_keys from 2 to 1e9"
        got = f"{sigma}, {other}, {correlation} and {n_keys}"
        raise ValueError(f"expected {expected}, got {got}")
    common = sqrt(abs(correlation))
    own = sqrt(1 - abs(correlation))
    step = _STEP * (1 + 0.5 * own * min(sigma, other) / sqrt(2 * log(n_keys) + 2))
    widest = common * max(sigma, other)
    most = _MOST_WIDTH * step
    if widest > most:
        reason = f"a deviation of their correlated part above {most:.3g}"
        raise UnknownError(f"overlaps of rows are unknown for {reason}, got {widest:.3g}")
    if widest < _SMALL:
        z, p = hermite_rule(12)
        dz = 0.0
    else:
        z, dz = trapezoid(-9.5, 9.5, min(_Z_STEP, step / widest))
        p = normal_density(z) * dz
    h, density, da = _transforms(sigma, common, n_keys, step, z, dz)
    other_h, other_density, db = h, density, da
    if other != sigma:
        other_h, other_density, db = _transforms(other, common, n_keys, step, z, dz)
    if correlation < 0:  # z has the opposite sign in the other score, and an even law
        other_h = other_h[:, ::-1]
        other_density = other_density[:, ::-1]
    # 1 - G = E (1 - F F') with 1 - F = H: small where G is near 1.
    missing = (h @ p)[:, None] + other_h @ p - (h * p) @ other_h.T
    log_product = np.log1p(-np.minimum(missing, 1 - 1e-16))
    power = np.exp((n_keys - 1) * log_product)
    joint = (density * p) @ other_density.T
    return float(n_keys * da * db * np.vdot(joint, power))


def _transforms(
    sigma: float,
    common: float,
    n_keys: float,
    step: float,
    z: FloatArray,
    dz: float,
) -> tuple[FloatArray, FloatArray, float]:
    """H = 1 - F and dF/da, F(a + c z) = E exp(-e^(a + c z + tau x)), and the step of a.

    H and dF/da are (nodes of a, z).
    """
    c = sigma * common
    law = NormalLaw(1.0, scale=sigma * sqrt(1 - common**2))
    low = sigma * float(ndtri(1e-14 / n_keys)) - log(n_keys) - _RANGE
    high = 4.2 - sigma * float(ndtri_exp(-_RANGE / (n_keys - 1)))
    points = int(step / (c * dz)) if step < _FINE * c * dz else 0
    if points:  # a + c z lies on one lattice
        da = points * c * dz
        count = ceil((high - low) / da) + 1
        offsets = np.arange(0.0, (count - 1) * points + len(z))
        lattice = low + c * dz * (offsets - (len(z) - 1) / 2)
        place = points * np.arange(count)[:, None] + np.arange(len(z))
    else:
        a, da = trapezoid(low, high, step)
        lattice = (a[:, None] + c * z).ravel()
        place = np.arange(lattice.size).reshape(len(a), len(z))
    y, _, weights, _ = law.nodes(lattice)
    density = np.vecdot(np.exp(y - np.exp(y)), weights)
    return -np.expm1(law.log_g(lattice))[place], density[place], da


@lru_cache(maxsize=256)
def attention_overlap(
    d_k: float,
    n_keys: float,
    divisor: float,
    cosine: float = 0.0,
) -> float:
    """E sum_j w_j w'_j of two queries of d_k standard normal entries and a cosine p.

    The cosine, from 0 to 1, is that of their tokens. With (q + q') / sqrt(2) = u and
    (q - q') / sqrt(2) = v, |u|^2 / (1 + p) and |v|^2 / (1 - p) are independent chi-squared
    variables, with the sum r and the shares (1 + b) / 2 and (1 - b) / 2 of r. Then r, b and the
    cosine t of u and v are independent. Gauss's quadratures of 2, 5 and 3 nodes leave a relative
    error below 5e-3 for d_k from 16 on, and below 1e-3 from 32 on.

    >>> round(attention_overlap(64, 64, 8.0, cosine=0.3) * 64, 4)
    1.225
    """
    check_sizes(d_k, n_keys)
    if not (d_k >= 16 and 0 <= cosine <= 1):
        raise ValueError(f"expected d_k from 16 and a cosine from 0 to 1, got {d_k} and {cosine}")
    unit = sqrt(1 - cosine) / resolve_divisor(divisor, d_k, n_keys)
    total = 0.0
    root = sqrt(d_k + 1)
    halves = []  # of r / 2
    for sign in (-1, 1):
        chance = (root - sign) / (2 * root)
        halves.append((root * (root + sign), chance))
    shares = _cosine_rule(d_k + 1, 5)
    cosines = _cosine_rule(d_k, 3)
    for (half, p_r), (b, p_b), (t, p_t) in itertools.product(halves, shares, cosines):
        if t < -1e-9:  # the same as -t, with both queries exchanged
            continue
        u = (1 + cosine) * half * (1 + b)
        v = (1 - cosine) * half * (1 - b)
        mean = (u + v) / 2
        product = t * sqrt(u * v)
        first = sqrt(mean + product)
        second = sqrt(mean - product)
        rho = max(-1.0, min((u - v) / 2 / (first * second), 1.0))
        chance = p_r * p_b * p_t * (2 if t > 1e-9 else 1)
        total += chance * weight_overlap(unit * first, unit * second, rho, n_keys)
    return total


def _cosine_rule(dimension: float, order: int) -> list[tuple[float, float]]:
    """Gauss's nodes and chances for an entry t of a random direction.

    Its density is (1 - t^2)^((dimension - 3) / 2).
    """
    nodes, weights = roots_gegenbauer(order, dimension / 2 - 1)
    chances = weights / weights.sum()
    return list(zip(nodes.tolist(), chances.tolist(), strict=True))
