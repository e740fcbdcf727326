"""What all of theory shares: nodes and weights of integrals, where integrals are cut off, and `UnknownError`."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]
Span = tuple[float, float]  # the least and the greatest of several counts

# Integrands are cut off at e^-RANGE; 1 / e^-38 is below the precision of a double.
RANGE = 38.0
# The finer step is for e^(k y - e^y) with k up to 8, whose Fourier tail, |Gamma(k + i omega)|, is the slowest.
STEP, FINE_STEP = 0.28, 0.22
HIGHEST = 4.2  # exp(-e^4.2) is below 1e-28


class UnknownError(ValueError):
    """No exact value is known for this law; the message is a short reason."""


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
    return np.polynomial.legendre.leggauss(order)


@cache
def hermite_rule(order: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Hermite nodes of a standard normal law, and their probabilities."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    return nodes, weights / weights.sum()


def lagrange(at: FloatArray, nodes: FloatArray) -> FloatArray:
    """Lagrange's polynomial of every node at every point, (points, nodes)."""
    ratio = (at[:, None, None] - nodes) / (nodes[:, None] - nodes + np.eye(len(nodes)))
    ratio[:, np.arange(len(nodes)), np.arange(len(nodes))] = 1.0
    return np.asarray(ratio.prod(axis=-1))


def span(count: float) -> Span:
    """The least and the greatest of the counts that share nodes with this one: up to 8, and then by factors of 16.

    >>> span(5), span(64), span(129)
    ((1.0, 8.0), (8.0, 128.0), (128.0, 2048.0))
    """
    if count <= 8:
        return 1.0, 8.0
    power = math.ceil(math.log(count / 8) / math.log(16) - 1e-9)
    return 8.0 * 16.0 ** (power - 1), 8.0 * 16.0**power
