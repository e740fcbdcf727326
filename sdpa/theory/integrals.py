"""Nodes and weights of the integrals of theory, and the checks of their arguments."""

from functools import cache
from math import ceil, log
from numbers import Real
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray

ComplexArray = npt.NDArray[np.complex128]
Quadrature = tuple[FloatArray, FloatArray]  # nodes and their weights
Span = tuple[float, float]  # least and greatest of several counts

# Integrands are cut off at e^-RANGE = 3e-17, below the precision of a double. With 30, the entropy
# of a nearly one-hot row (sigma = 1e5, 64 keys) changes by 2e-8, with 46 by 8e-12.
RANGE = 38.0
# The Fourier tail of e^(k y - e^y), |Gamma(k + i omega)|, is slowest at k = 8: these need the finer
# step.
# A step of 0.4 in place of STEP changes E max w by 3e-10, and 0.28 in place of FINE_STEP an entropy
# by 3e-10; finer ones (0.2 and 0.16) change nothing beyond 2e-11.
STEP = 0.28
FINE_STEP = 0.22
HIGHEST = 4.2  # exp(-e^4.2) is below 1e-28; 3.5 and 5 change a row by 1e-11

_gauss_rule = cache(np.polynomial.legendre.leggauss)


class Nodes(NamedTuple):
    """Quadrature nodes y = u + s, the values x and c there (see `integrands`), and their weights."""

    y: FloatArray  # (nodes of u or 1, nodes)
    x: FloatArray  # (nodes of u or 1, nodes), or (nodes,)
    weights: FloatArray
    across: FloatArray | float


class ScoreLaw(Protocol):
    """The law of independent scores."""

    @property
    def lowest(self) -> float:
        """The least score with a probability that counts."""

    @property
    def resolution(self) -> float:
        """The greatest width of a panel that resolves the density; 0 if none does."""

    def log_g(self, u: FloatArray) -> FloatArray:
        """ln G at every u, G(u) = E exp(-e^(u + s))."""

    def nodes(self, u: FloatArray) -> Nodes:
        """Nodes of expectations over a score."""

    def cdf(self, score: FloatArray) -> FloatArray:
        """P(s < score)."""

    def density(self, score: FloatArray) -> FloatArray:
        """The density of a score."""

    def between(self, edges: FloatArray) -> Quadrature:
        """Scores between falling edges (..., edges), and their probabilities, (..., nodes)."""


class UnknownError(ValueError):
    """No exact value is known for this law; the message gives the reason."""


def check_sizes(d_k: float, n_keys: float, fewest: int = 2) -> None:
    """ValueError unless d_k is a number from 1, and n_keys a whole number from `fewest`."""
    if not (isinstance(d_k, Real) and d_k >= 1):
        raise ValueError(f"d_k: expected a number of at least 1, got {d_k!r}")
    if not (isinstance(n_keys, Real) and n_keys >= fewest and n_keys % 1 == 0):
        raise ValueError(f"n_keys: expected a whole number of at least {fewest}, got {n_keys!r}")


def trapezoid(low: float, high: float, step: float) -> tuple[FloatArray, float]:
    """Equally spaced nodes from low to high, and their spacing, at most `step`."""
    intervals = ceil((high - low) / step)
    nodes, spacing = np.linspace(low, high, intervals + 1, retstep=True)
    return nodes, float(spacing)


def gauss_panels(edges: FloatArray, order: int) -> Quadrature:
    """Gauss-Legendre nodes and weights, `order` of them between neighbouring edges, (..., nodes).

    >>> nodes, weights = gauss_panels(np.array([0.0, 1.0, 3.0]), 2)
    >>> float((weights @ nodes**3).round(9))  # 3^4 / 4
    20.25
    """
    nodes, weights = _gauss_rule(order)
    half = np.diff(edges)[..., None] / 2
    middle = ((edges[..., 1:] + edges[..., :-1]) / 2)[..., None]
    *leading, count = edges.shape
    shape = (*leading, order * (count - 1))
    panel_nodes = middle + half * nodes
    return panel_nodes.reshape(shape), (half * weights).reshape(shape)


@cache
def hermite_rule(order: int) -> Quadrature:
    """Gauss-Hermite nodes of a standard normal law, and their probabilities."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    return nodes, weights / weights.sum()


def lagrange(at: FloatArray, nodes: FloatArray) -> FloatArray:
    """Lagrange polynomials prod_(j != i) (x - x_j) / (x_i - x_j) of nodes x_i, (points, nodes)."""
    itself = np.eye(len(nodes), dtype=bool)
    between = nodes[:, None] - nodes + itself
    ratio = (at[:, None, None] - nodes) / between
    ratio[:, itself] = 1.0
    return np.asarray(ratio.prod(axis=-1))


def log_of(present: FloatArray, missing: FloatArray) -> FloatArray:
    """ln G from G and 1 - G, by the second where G is above 1/2."""
    near_one = np.log1p(-np.minimum(missing, 0.5))
    elsewhere = np.log(np.maximum(present, 1e-300))
    return np.where(missing < 0.5, near_one, elsewhere)


def span(count: float) -> Span:
    """The range of counts that share nodes with this one: 1 to 8, and then by factors of 16.

    >>> span(5), span(64), span(129)
    ((1.0, 8.0), (8.0, 128.0), (128.0, 2048.0))
    """
    if count <= 8:
        return 1.0, 8.0
    power = ceil(log(count / 8) / log(16) - 1e-9)
    return 8.0 * 16.0 ** (power - 1), 8.0 * 16.0**power
