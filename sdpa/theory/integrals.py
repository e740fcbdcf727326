"""Integrals of theory: their nodes, and what a row integrates over u.

Scores s of one law have at every u

    G(u) = E exp(-e^(u + s)),   M_kqa(u) = E[x^q c^a e^(k (u + s)) exp(-e^(u + s))],

with c the mean square of what a key has across the query, in the units of `Row`, and x = s / unit,
or (u + s) / unit from a unit of 1 on, which does not grow with it: no metric below changes if all x
of a row move together.

A metric is a polynomial in p_kqa = sum_i w_i^k x_i^q c_i^a. The mean of a product of such sums is
the sum, over all set partitions of its factors, of means over different indices:

    E p_ab p_cd = E sum_i w_i^(a+c) x_i^(b+d) + E sum_(i != j) w_i^a x_i^b w_j^c x_j^d.

The polynomials are of one degree in w by factors p_1 = 1: the coefficients of terms in which all
indices coincide cancel as whole numbers, so that a one-hot row has 0 term by term.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from numbers import Real
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

_gauss_rule = cache(np.polynomial.legendre.leggauss)
FloatArray = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]
Span = tuple[float, float]  # the least and the greatest of several counts

# Integrands are cut off at e^-RANGE; 1 / e^-38 is below the precision of a double.
RANGE = 38.0
# The finer step is for e^(k y - e^y) with k up to 8, whose Fourier tail, |Gamma(k + i omega)|, is
# the slowest.
STEP, FINE_STEP = 0.28, 0.22
HIGHEST = 4.2  # exp(-e^4.2) is below 1e-28


class UnknownError(ValueError):
    """No exact value is known for this law; the message is a short reason."""


def check_sizes(d_k: float, n_keys: float, fewest: int = 2) -> None:
    """ValueError unless d_k is a number of at least 1, and n_keys a whole number of at least
    `fewest`.
    """
    if not (isinstance(d_k, Real) and d_k >= 1):
        raise ValueError(f"d_k: expected a number of at least 1, got {d_k!r}")
    if not (isinstance(n_keys, Real) and n_keys >= fewest and n_keys % 1 == 0):
        raise ValueError(f"n_keys: expected a whole number of at least {fewest}, got {n_keys!r}")


def trapezoid(low: float, high: float, step: float) -> tuple[FloatArray, float]:
    """Equally spaced nodes from low to high and their step, at most the given one."""
    nodes, spacing = np.linspace(low, high, math.ceil((high - low) / step) + 1, retstep=True)
    return nodes, float(spacing)


def gauss_panels(edges: FloatArray, order: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights of so many nodes between all neighbouring edges, (...,
    nodes).

    >>> nodes, weights = gauss_panels(np.array([0.0, 1.0, 3.0]), 2)
    >>> float((weights @ nodes**3).round(9))  # 3^4 / 4
    20.25
    """
    nodes, weights = _gauss_rule(order)
    half, middle = (
        np.diff(edges)[..., None] / 2,
        ((edges[..., 1:] + edges[..., :-1]) / 2)[..., None],
    )
    shape = (*edges.shape[:-1], order * (edges.shape[-1] - 1))
    return (middle + half * nodes).reshape(shape), (half * weights).reshape(shape)


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
    """The least and the greatest of the counts that share nodes with this one: up to 8, and then by
    factors of 16.

    >>> span(5), span(64), span(129)
    ((1.0, 8.0), (8.0, 128.0), (128.0, 2048.0))
    """
    if count <= 8:
        return 1.0, 8.0
    power = math.ceil(math.log(count / 8) / math.log(16) - 1e-9)
    return 8.0 * 16.0 ** (power - 1), 8.0 * 16.0**power


Index = tuple[int, int, int]  # (k, q, a)
Polynomial = Mapping[tuple[Index, ...], int]  # the coefficients of products of p_kqa
Taken = tuple[int, ...]  # how many indices are in each group
Factor = tuple[int, Index]  # M of a group


class Nodes(NamedTuple):
    """Nodes of an expectation over a score at every u: y = u + s, x, their weights, and c."""

    y: FloatArray  # (nodes of u or 1, nodes)
    x: FloatArray  # of that shape or (nodes,)
    weights: FloatArray
    across: FloatArray | float


class Law(Protocol):
    """The law of equally distributed scores, of any number."""

    def log_g(self, u: FloatArray) -> FloatArray:
        """ln G at every u, precise where G is near 1 and where it is near 0."""

    def nodes(self, u: FloatArray) -> Nodes:
        """Nodes of the expectations M at every u."""

    def cdf(self, score: FloatArray) -> FloatArray:
        """P(s < score)."""

    def density(self, score: FloatArray) -> FloatArray:
        """The density of a score."""

    def between(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores between falling edges (..., edges), and their probabilities, (..., nodes)."""

    @property
    def lowest(self) -> float:
        """The least score that counts."""

    @property
    def resolution(self) -> float:
        """The greatest width of a panel that resolves the density, 0 if common panels do not."""


def _product(one: Polynomial, other: Polynomial) -> Polynomial:
    product: Counter[tuple[Index, ...]] = Counter()
    for (a, x), (b, y) in itertools.product(one.items(), other.items()):
        product[tuple(sorted(a + b))] += x * y
    return product


# With S_k = p_k, m = p_11 and J = S_1 diag(w) - w w^T: (J^2)_ii = w_i^2 (S_1^2 - 2 S_1 w_i + S_2),
# and tr J^4 from the traces of words in S_1 diag(w) and w w^T.
_S1, _S2, _S3, _S4, _S5 = ((k, 0, 0) for k in range(1, 6))
_M, _P21, _P22, _C2, _C3 = (1, 1, 0), (2, 1, 0), (2, 2, 0), (2, 0, 1), (3, 0, 1)
_TRACE: Polynomial = {(_S1, _S1): 1, (_S2,): -1}
_SQUARE: Polynomial = {(_S1, _S1, _S2): 1, (_S1, _S3): -2, (_S2, _S2): 1}
_ALONG: Polynomial = {(_S1, _S1, _P22): 1, (_S1, _M, _P21): -2, (_M, _M, _S2): 1}
METRICS: dict[str, Polynomial] = {
    "tr J": _TRACE,
    "(tr J)^2": _product(_TRACE, _TRACE),
    "|J|^2": _SQUARE,
    "|J|^4": _product(_SQUARE, _SQUARE),
    "|Jx|^2": _ALONG,
    "JJ.c": {(_S1, _S1, _C2): 1, (_S1, _C3): -2, (_S2, _C2): 1},
    "|Jx|^4": _product(_ALONG, _ALONG),
    "|Jx|^2 |J|^2": _product(_ALONG, _SQUARE),
    "tr J^4": {
        (_S1, _S1, _S1, _S1, _S4): 1,
        (_S1, _S1, _S1, _S5): -4,
        (_S1, _S1, _S2, _S4): 4,
        (_S1, _S1, _S3, _S3): 2,
        (_S1, _S2, _S2, _S3): -4,
        (_S2, _S2, _S2, _S2): 1,
    },
}


@cache
def metric_expansion(name: str) -> list[tuple[tuple[Index, ...], int]]:
    """A metric as terms (k, q, a), (l, r, b), ... over different indices i, j, ..., and their
    coefficients.

    >>> metric_expansion("|J|^2")
    [(((1, 0, 0), (1, 0, 0), (2, 0, 0)), 1), (((2, 0, 0), (2, 0, 0)), 2)]
    """
    terms: Counter[tuple[Index, ...]] = Counter()
    for factors, coefficient in METRICS[name].items():
        for blocks in _partitions(factors):
            terms[tuple(sorted(blocks))] += coefficient
    return sorted((term, coefficient) for term, coefficient in terms.items() if coefficient)


def _partitions(factors: tuple[Index, ...]) -> Iterator[list[Index]]:
    """Set partitions of the factors, each block as the sums of its k, q and a."""
    if not factors:
        yield []
        return
    first, rest = factors[0], factors[1:]
    for blocks in _partitions(rest):
        yield [first, *blocks]
        for place, other in enumerate(blocks):
            merged = (first[0] + other[0], first[1] + other[1], first[2] + other[2])
            yield [*blocks[:place], merged, *blocks[place + 1 :]]


class Integrands:
    """Sums of products of the transforms M of a row's laws, of one unit of x, at nodes u with
    weights or a step.
    """

    def __init__(
        self, laws: Sequence[Law], unit: float, u: FloatArray, weights: float | FloatArray
    ) -> None:
        self.laws, self.unit, self.u, self.weights = tuple(laws), unit, u, weights
        self.log_g = np.array([law.log_g(u) for law in laws])
        self._moments: list[dict[Index, FloatArray]] = [{} for _ in laws]
        self._metrics: dict[str, dict[Taken, FloatArray]] = {}

    def moment(self, place: int, index: Index) -> FloatArray:
        """M_kqa of a law at every u."""
        known = self._moments[place]
        if index not in known:
            degree = 4 if index[0] <= 4 and index[1] <= 2 else 8
            known.update(_moments(self.laws[place].nodes(self.u), degree))
        return known[index]

    def metric(self, name: str) -> dict[Taken, FloatArray]:
        """The terms of a metric over (k - 1)!, summed by how many of their indices are in each
        group.
        """
        if name not in self._metrics:
            factors, sums = _sums_of_products(name, len(self.laws))
            moments = np.array([self.moment(*factor) for factor in factors])
            self._metrics[name] = {
                taken: scales @ reduce(np.multiply, (moments[column] for column in columns))
                for taken, (scales, columns) in sums.items()
            }
        return self._metrics[name]

    def shifted(
        self, place: int, k: int, centre: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """E[(y - centre)^q e^(k y - e^y)] at every u, for q = 0, 1, 2."""
        m_0, m_1, m_2 = (self.moment(place, (k, q, 0)) * self.unit**q for q in range(3))
        origin = (0.0 if self.unit >= 1 else self.u) - centre
        return m_0, m_1 + origin * m_0, m_2 + 2 * origin * m_1 + origin**2 * m_0


@cache
def _sums_of_products(
    name: str, groups: int
) -> tuple[list[Factor], dict[Taken, tuple[FloatArray, list[npt.NDArray[np.intp]]]]]:
    """The factors M of a metric, and its terms by the number of indices in each group: scales,
    places of factors.
    """
    terms: dict[Taken, dict[tuple[Factor, ...], float]] = defaultdict(lambda: defaultdict(float))
    for indices, coefficient in metric_expansion(name):
        scale = coefficient / math.factorial(sum(k for k, _, _ in indices) - 1)
        for groups_of in itertools.product(range(groups), repeat=len(indices)):
            taken = tuple(groups_of.count(group) for group in range(groups))
            terms[taken][tuple(sorted(zip(groups_of, indices, strict=True)))] += scale
    factors = sorted(
        {factor for products in terms.values() for product in products for factor in product}
    )
    place = {factor: i for i, factor in enumerate(factors)}
    sums = {}
    for taken, products in terms.items():
        columns = [
            np.array([place[factor] for factor in column]) for column in zip(*products, strict=True)
        ]
        sums[taken] = np.array(list(products.values())), columns
    return factors, sums


def _moments(nodes: Nodes, degree: int) -> dict[Index, FloatArray]:
    """M_kqa at every u, for k to a degree, q to half of that, and for q = 0 also with c."""
    y, x, weights, across = nodes
    exponential = np.exp(y)
    common = len(weights) > len(y)  # nodes y are the same for all u, but for their weights
    kernel = np.exp(-exponential) * (1.0 if common else weights)
    powers = x ** np.arange(degree // 2 + 1).reshape(-1, *[1] * x.ndim)
    found = {}
    for k in range(1, degree + 1):
        kernel = kernel * exponential
        if common:
            of_k = weights @ (kernel[0] * powers).T
        elif x.ndim == 1:
            of_k = kernel @ powers.T
        else:
            of_k = np.vecdot(kernel, powers).T
        found.update({(k, q, 0): of_k[:, q].copy() for q in range(len(powers))})
        found[k, 0, 1] = (
            across * found[k, 0, 0] if isinstance(across, float) else np.vecdot(kernel, across)
        )
    return found
