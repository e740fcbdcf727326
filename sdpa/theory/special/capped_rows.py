"""Rows of independent scores behind a soft cap, beside a sink, or under the sigmoid.

Scaled scores are s = sigma z with independent standard normal z. A cap turns them into softcap
tanh(s / softcap), still independent, with the slope t. A sink of the logit b adds e^b to the
partition sum, and so a factor D to its Laplace transform. With the transforms

    G(u) = E exp(-e^y),   M_kqa(u) = E[x^q c^a e^(ky) exp(-e^y)],   D(u) = exp(-e^(u + b)),
    y = u + capped score,   x = t z,   c = t^2,

expectations over the n keys are int M_kqa M_lrb ... G^(n - indices) D du / (k + l ... - 1)!. The
largest weight is that of z if all other z' lie below:

    E max w = n int E[e^y exp(-e^y) C(u, z)^(n-1)] D du,   C(u, z) = E[exp(-e^y'), z' < z].

With J the Jacobian to the scores before the cap,

    |J|_F^2  = sum_i c_i w_i^2 (1 - 2 w_i + sum_j w_j^2).

The weights of the sigmoid do not depend on each other, so that its integrals are over z alone.
"""

from itertools import accumulate
from math import ceil, factorial, inf, log, nan, prod

import numpy as np
from scipy.special import digamma, expit, ndtr, ndtri, ndtri_exp

from sdpa._arrays import FloatArray
from sdpa.theory.integrals import (
    HIGHEST,
    RANGE,
    Quadrature,
    UnknownError,
    gauss_panels,
    log_of,
)
from sdpa.theory.integrands import Index, metric_expansion
from sdpa.theory.normal_law import normal_density

# Effects below are those on rows of 2 and 64 keys, sigma from 0 to 200, with and without cap and sink.
_ORDER = 8  # nodes of a panel; 6 change a mean by 2e-9 of it, and 12 no more than rounding
_STEP = 0.22  # of u, as FINE_STEP; 0.3 and 0.15 change no more than rounding
_DEVIATIONS = 10.0  # of a normal law that count; 7 change a mean by 3e-9 of it, and 12 by rounding
# A smaller deviation counts as this one: E max w of a row of deviation 0 is 2e-9 too large.
_LEAST_SIGMA = 1e-9
_MOST_NODES = 200_000  # beyond, a row takes seconds
_AT_ONCE = 64  # nodes of u, 14 wide in all; 256 take twice the time
_ZERO = 7.0  # exp(-e^7) is 0, so that larger y need no larger e^y; 5 and 700 change no mean

# From values times weights at Gauss's nodes of a panel to integrals up to each node.
_X, _W = np.polynomial.legendre.leggauss(_ORDER)
_K = np.arange(1, _ORDER + 1)
_POWERS = (_X[:, None] ** _K - (-1.0) ** _K) / _K
_VANDERMONDE = np.vander(_X, increasing=True)
_WITHIN = _POWERS @ np.linalg.inv(_VANDERMONDE) / _W

_FUNCTIONS = ((0, 0), (1, 0), (2, 0), (0, 1))  # (q, a) of 1, x, x^2 and c


def capped(
    z: FloatArray,
    sigma: float,
    softcap: float,
) -> tuple[FloatArray, FloatArray]:
    """softcap tanh(sigma z / softcap), the capped scores, and their slope t in the scores."""
    if not softcap:
        return sigma * z, np.ones_like(z)
    ratio = sigma * z / softcap
    small = np.exp(-2 * np.abs(ratio))
    slope = 4 * small / (1 + small) ** 2
    return softcap * np.tanh(ratio), slope


def _z_nodes(
    sigma: float,
    softcap: float,
    low: float,
    high: float,
) -> Quadrature:
    """Nodes of z and their chances; in a panel, scores from low to high change by at most 1."""
    edges = [np.linspace(-_DEVIATIONS, _DEVIATIONS, 41)]
    if softcap:
        edges.append(softcap / sigma * np.linspace(-20, 20, 61))
        low = max(low, -softcap)
        high = min(high, softcap)
    low = max(low, -_DEVIATIONS * sigma)
    high = min(high, _DEVIATIONS * sigma)
    if low < high:
        inside = np.linspace(low, high, ceil(high - low) + 1)
        if softcap:
            edges.append(softcap / sigma * np.arctanh(0.999999 * inside / softcap))
        else:
            edges.append(inside / sigma)
    clipped = np.clip(np.concatenate(edges), -_DEVIATIONS, _DEVIATIONS)
    z, weights = gauss_panels(np.unique(clipped), _ORDER)
    chances = weights * normal_density(z)
    return z, chances / chances.sum()


def mapped_row(
    sigma: float,
    n_keys: float,
    softcap: float = 0.0,
    sink: float | None = None,
) -> FloatArray:
    """E sum w, E max w, E H of w / sum w, E |J|_F^2 and E |(diag(w) - w w^T) x|^2 of a softmax row.

    n_keys is a real number from 2.

    >>> from sdpa.theory.rows import GaussianRow
    >>> row, expected = mapped_row(2.0, 64), GaussianRow(2.0, 64)
    >>> expected = expected.max_weight(), expected.entropy()
    >>> bool(np.allclose(row[1:3], expected, rtol=0, atol=1e-9))
    True
    """
    u, step, integrands, moments = _integrands(max(sigma, _LEAST_SIGMA), n_keys, softcap)
    log_g, largest, entropies = integrands
    log_d = np.zeros_like(u)
    if sink is not None:
        log_d = -np.exp(np.minimum(u + sink, 700.0))

    def mean(name: str) -> float:
        total = 0.0
        for indices, coefficient in metric_expansion(name):
            tuples = prod(n_keys - i for i in range(len(indices)))
            if tuples > 0:
                values = np.prod([moments[index] for index in indices], axis=0)
                powers = np.exp((n_keys - len(indices)) * log_g + log_d)
                integral = step * float(values @ powers)
                degree = sum(k for k, _, _ in indices)
                total += coefficient * tuples * integral / factorial(degree - 1)
        return total

    max_weight = n_keys * step * float(largest @ np.exp(log_d))
    others = np.exp((n_keys - 1) * log_g)
    entropy = n_keys * step * float(entropies @ others)
    squares = mean("|J|^2 of keys"), mean("|Jx|^2 of keys")
    return np.array([mean("sum w"), max_weight, entropy, *squares])


def _integrands(
    sigma: float,
    n_keys: float,
    softcap: float,
) -> tuple[FloatArray, float, FloatArray, dict[Index, FloatArray]]:
    """Nodes u, their step, the integrands of `_at`, (3, nodes), and M_kqa."""
    lowest = ndtri_exp(-RANGE / max(n_keys - 3, 1))
    highest = -ndtri(1e-17 / n_keys)
    (least, most), _ = capped(np.array([lowest, highest]), sigma, softcap)
    low = -most - log(n_keys) - RANGE - 9
    high = HIGHEST + 9 - least
    count = ceil((high - low) / _STEP)
    u, step = np.linspace(low, high, count, retstep=True)
    z, chances = _z_nodes(sigma, softcap, -inf, inf)
    s, slope = capped(z, sigma, softcap)
    if len(u) + len(z) > _MOST_NODES:
        raise UnknownError(f"rows of scores with a deviation of {sigma:g} are unknown")
    x = slope * z
    functions = np.array([np.ones_like(z), x, x**2, slope**2])
    blocks = []
    for first in range(0, len(u), _AT_ONCE):
        part = u[first : first + _AT_ONCE]
        # Whole panels of the nodes at which exp(-e^y) is neither 1 nor 0 at all these u.
        ends = (-RANGE - 1 - part[-1], HIGHEST - part[0])
        start, end = np.searchsorted(s, ends)
        first_near = start // _ORDER * _ORDER
        end_near = -(-end // _ORDER) * _ORDER
        near = slice(first_near, end_near)
        below = chances[:first_near].sum()
        above = chances[end_near:].sum()
        y = part[:, None] + s[near]
        block = _at(y, functions[:, near], chances[near], below, above, n_keys)
        blocks.append(block)
    values = np.concatenate(blocks, axis=1)
    indices = [(k, q, a) for k in range(1, 5) for q, a in _FUNCTIONS]
    return u, float(step), values[:3], dict(zip(indices, values[3:], strict=True))


def _at(
    y: FloatArray,
    functions: FloatArray,
    chances: FloatArray,
    below: float,
    above: float,
    n_keys: float,
) -> FloatArray:
    """ln G, integrands of the largest weight and the entropy, and M_kqa for k to 4.

    The result is (19, nodes of u). y are (nodes of u, nodes). `below` and `above` are the chances
    of lower y, with exp(-e^y) = 1, and of higher y, with exp(-e^y) = 0.
    """
    e = np.exp(np.minimum(y, _ZERO))
    kernel = chances * np.exp(-e)
    panels = kernel.reshape(len(kernel), -1, _ORDER)
    sums = panels.sum(axis=-1)
    missing = above - np.expm1(-e) @ chances
    g = below + sums.sum(axis=-1)
    before = below + np.cumsum(sums, axis=-1) - sums
    within = panels @ _WITHIN.T
    lower = (before[..., None] + within).reshape(kernel.shape)
    first = kernel * e
    largest = np.vecdot(first, np.maximum(lower, 0.0) ** (n_keys - 1))
    entropies = np.vecdot(first, digamma(1.0) - y)
    powers = accumulate([first, e, e, e], np.multiply)  # faster than e**k
    by_power = [power @ functions.T for power in powers]
    moments = np.concatenate(by_power, axis=1).T
    return np.array([log_of(g, missing), largest, entropies, *moments])


def sigmoid_row(
    sigma: float,
    n_keys: float,
    softcap: float,
    bias: float,
) -> FloatArray:
    """The means of `mapped_row` for weights 1 / (1 + e^(bias - s)); NaN for the entropy.

    >>> round(float(sigmoid_row(1.0, 64, 0.0, log(64))[0]), 5)
    1.54919
    """
    sigma = max(sigma, _LEAST_SIGMA)
    z, chances = _z_nodes(sigma, softcap, bias - RANGE, bias + RANGE)
    s, slope = capped(z, sigma, softcap)
    w = expit(s - bias)
    squares = (slope * w * expit(bias - s)) ** 2
    mass = n_keys * float(chances @ w)
    largest_chances = chances * ndtr(z) ** (n_keys - 1)
    max_weight = n_keys * float(largest_chances @ w)
    jacobian_square = n_keys * float(chances @ squares)
    along = n_keys * float((chances * squares) @ z**2)
    return np.array([mass, max_weight, nan, jacobian_square, along])
