"""Nodes on which the integrals of a Gaussian row are sums, and G(u) = E exp(-e^(u + sigma z)) on them."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import special

FloatArray = npt.NDArray[np.float64]
Span = tuple[float, float]  # the least and the greatest of several counts

# Integrands are cut off at e^-RANGE; 1 / e^-38 is below the precision of a double.
RANGE = 38.0
# The finer step is for e^(k y - e^y) with k up to 8, whose Fourier tail, |Gamma(k + i omega)|, is the slowest.
STEP, FINE_STEP = 0.28, 0.22
HIGHEST = 4.2  # exp(-e^4.2) is below 1e-28
MIN_SIGMA = 1e-9  # below it a row is uniform to the precision of a double


def trapezoid(low: float, high: float, step: float) -> tuple[FloatArray, float]:
    """Equally spaced nodes from low to high and their step, at most the given one."""
    nodes, spacing = np.linspace(low, high, math.ceil((high - low) / step) + 1, retstep=True)
    return nodes, float(spacing)


def gauss_panels(edges: FloatArray, order: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights of so many nodes between all neighbouring edges, (..., nodes).

    >>> nodes, weights = gauss_panels(np.array([0.0, 1.0, 3.0]), 2)
    >>> float((weights @ nodes**3).round(9))  # 3^4 / 4
    20.25
    """
    nodes, weights = _gauss_rule(order)
    half, middle = np.diff(edges)[..., None] / 2, ((edges[..., 1:] + edges[..., :-1]) / 2)[..., None]
    shape = (*edges.shape[:-1], order * (edges.shape[-1] - 1))
    return (middle + half * nodes).reshape(shape), (half * weights).reshape(shape)


@cache
def _gauss_rule(order: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return nodes, weights


def span(count: float) -> Span:
    """The least and the greatest of the counts that share nodes with this one: up to 8, and then by factors of 16.

    >>> span(5), span(64), span(129)
    ((1.0, 8.0), (8.0, 128.0), (128.0, 2048.0))
    """
    if count <= 8:
        return 1.0, 8.0
    power = math.ceil(math.log(count / 8) / math.log(16) - 1e-9)
    return 8.0 * 16.0 ** (power - 1), 8.0 * 16.0**power


def normal_density(z: FloatArray) -> FloatArray:
    """phi(z) = e^(-z^2 / 2) / sqrt(2 pi), of any shape."""
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))


def smoothing(sigma: float, n_keys: float) -> float:
    """A width on which no integrand over u varies faster than e^(-e^u) does on 1."""
    return 1 + 0.5 * sigma / math.sqrt(2 * math.log(n_keys) + 2)


def row_nodes(u: FloatArray, sigma: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """y = u + sigma z at the nodes of an expectation over z, x = z up to a shift by a number, and weights.

    For sigma of 1 and more the nodes are those of y, the same for every u, and x = y / sigma; below they are of z.

    Args:
        u: (nodes of u,).

    Returns:
        y, (1 or nodes of u, nodes); x, (nodes,); weights, (nodes of u, nodes) or (1, nodes).
    """
    if sigma >= 1:
        y, step = trapezoid(-RANGE - 1, HIGHEST, FINE_STEP)
        return y[None], y / sigma, normal_density((y - u[:, None]) / sigma) * (step / sigma)
    sigma = max(sigma, MIN_SIGMA)
    # The mode of e^(8 sigma z) phi(z) is at 8 sigma; no order is above 8.
    z, step = trapezoid(-10.0, 10.0 + 8 * sigma, min(0.35, FINE_STEP / sigma))
    return u[:, None] + sigma * z, z, normal_density(z)[None] * step


def log_g(u: FloatArray, sigma: float) -> FloatArray:
    """ln G(u) = ln E exp(-e^(u + sigma z)), precise where G is near 1 and where it is near 0; (nodes of u,).

    For sigma from 1, G is the mean of P(u + sigma z < y) over the density e^(y - e^y) of y.
    """
    # G is near 1/2 where u is near -0.4.
    low = u > -0.4
    if sigma >= 1:
        y, step = trapezoid(-RANGE - 1, HIGHEST, STEP)
        density = step * np.exp(y - np.exp(y))
        missing = special.ndtr((u[~low, None] - y) / sigma) @ density
        present = special.ndtr((y - u[low, None]) / sigma) @ density
    else:
        y, _, weights = row_nodes(u, sigma)
        exponential = np.exp(y)
        missing = -np.expm1(-exponential[~low]) @ weights[0]
        present = np.exp(-exponential[low]) @ weights[0]
    result = np.empty(len(u))
    result[~low] = np.log1p(-missing)
    result[low] = np.log(np.maximum(present, 1e-300))
    return result
