"""Laplace transforms of e^score for each law in a row, at nodes u of an integral, and metrics of
the row as products of these transforms.

Scores s of one law have at every u

    G(u) = E exp(-e^(u + s)),   M_kqa(u) = E[x^q c^a e^(k (u + s)) exp(-e^(u + s))],

with c the mean square of a key across the query, over the variance of an entry, and x = s / unit.
From a unit of 1 on x = (u + s) / unit, which does not grow with the unit: no metric changes if all
x of a row move together.

A metric is a polynomial in p_kqa = sum_i w_i^k x_i^q c_i^a. The mean of a product of sums is, over
all set partitions of its factors, the sum of means over different indices:

    E p_ab p_cd = E sum_i w_i^(a+c) x_i^(b+d) + E sum_(i != j) w_i^a x_i^b w_j^c x_j^d.

Factors p_1 = 1 give all terms of a polynomial one degree. A one-hot row then has exactly 0: the
coefficients of terms in which all indices coincide cancel as whole numbers.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from math import factorial

import numpy as np

from sdpa._arrays import FloatArray
from sdpa.theory.integrals import Nodes, ScoreLaw

Index = tuple[int, int, int]  # (k, q, a)
Indices = tuple[Index, ...]
Polynomial = Mapping[Indices, int]  # coefficients of products of p_kqa

Taken = tuple[int, ...]  # number of indices in each group
Factor = tuple[int, Index]  # M_kqa of a group
Products = dict[tuple[Factor, ...], float]  # coefficients of products of M

# With S_k = p_k, m = p_11 and J = S_1 diag(w) - w w^T: (J^2)_ii = w_i^2 (S_1^2 - 2 S_1 w_i + S_2).
_S1, _S2, _S3 = ((k, 0, 0) for k in range(1, 4))
_M = (1, 1, 0)
_P21 = (2, 1, 0)
_P22 = (2, 2, 0)
_C2 = (2, 0, 1)
_C3 = (3, 0, 1)
_TRACE: Polynomial = {(_S1, _S1): 1, (_S2,): -1}
_SQUARE: Polynomial = {(_S1, _S1, _S2): 1, (_S1, _S3): -2, (_S2, _S2): 1}
_ALONG: Polynomial = {(_S1, _S1, _P22): 1, (_S1, _M, _P21): -2, (_M, _M, _S2): 1}
METRICS: dict[str, Polynomial] = {
    "tr J": _TRACE,
    "|J|^2": _SQUARE,
    "|Jx|^2": _ALONG,
    "JJ.c": {(_S1, _S1, _C2): 1, (_S1, _C3): -2, (_S2, _C2): 1},
    # Over the keys beside a sink, where p_1 is less than 1, with c and x of `capped_rows`.
    "sum w": {(_S1,): 1},
    "|J|^2 of keys": {(_C2,): 1, (_C3,): -2, (_S2, _C2): 1},
    "|Jx|^2 of keys": {(_P22,): 1, (_M, _P21): -2, (_M, _M, _S2): 1},
}


@cache
def metric_expansion(name: str) -> list[tuple[Indices, int]]:
    """Terms of a metric over different indices, each as its (k, q, a), and their coefficients.

    >>> metric_expansion("|J|^2")
    [(((1, 0, 0), (1, 0, 0), (2, 0, 0)), 1), (((2, 0, 0), (2, 0, 0)), 2)]
    """
    terms: Counter[Indices] = Counter()
    for factors, coefficient in METRICS[name].items():
        for partition in _partitions(factors):
            terms[tuple(sorted(partition))] += coefficient
    return sorted((term, coefficient) for term, coefficient in terms.items() if coefficient)


def _partitions(factors: Indices) -> Iterator[list[Index]]:
    """Set partitions of the factors, each part as the sums of its k, q and a."""
    if not factors:
        yield []
        return
    first = factors[0]
    k, q, a = first
    for partition in _partitions(factors[1:]):
        yield [first, *partition]
        for place, (other_k, other_q, other_a) in enumerate(partition):
            merged = (k + other_k, q + other_q, a + other_a)
            yield [*partition[:place], merged, *partition[place + 1 :]]


class Integrands:
    """G, M and sums of products of M at nodes u, for the laws of a row and its unit of x.

    `weights` are those of the nodes, or the step between all nodes.
    """

    def __init__(
        self,
        laws: Sequence[ScoreLaw],
        unit: float,
        u: FloatArray,
        weights: float | FloatArray,
    ) -> None:
        self.laws = tuple(laws)
        self.unit = unit
        self.u = u
        self.weights = weights
        self.log_g = np.array([law.log_g(u) for law in laws])
        self._moments: list[dict[Index, FloatArray]] = [{} for _ in laws]
        self._metrics: dict[str, dict[Taken, FloatArray]] = {}

    def moment(self, group: int, index: Index) -> FloatArray:
        """M_kqa of the law of a group at every u."""
        known = self._moments[group]
        if index not in known:
            known.update(_moments(self.laws[group].nodes(self.u)))
        return known[index]

    def metric(self, name: str) -> dict[Taken, FloatArray]:
        """Terms of a metric over (k - 1)!, summed by the number of their indices in each group."""
        if name not in self._metrics:
            factors, terms = _terms(name, len(self.laws))
            moments = {factor: self.moment(*factor) for factor in factors}
            self._metrics[name] = {taken: _sum(terms[taken], moments) for taken in terms}
        return self._metrics[name]

    def shifted(self, group: int, centre: float) -> FloatArray:
        """E[(y - centre) e^(y - e^y)] at every u."""
        origin = (0.0 if self.unit >= 1 else self.u) - centre
        mean_y = self.moment(group, (1, 1, 0)) * self.unit
        return mean_y + origin * self.moment(group, (1, 0, 0))


@cache
def _terms(name: str, groups: int) -> tuple[list[Factor], dict[Taken, Products]]:
    """The factors M of a metric, and its products by the number of indices in each group."""
    terms: dict[Taken, Products] = defaultdict(lambda: defaultdict(float))
    for indices, coefficient in metric_expansion(name):
        degree = sum(k for k, _, _ in indices)
        scale = coefficient / factorial(degree - 1)
        for groups_of in itertools.product(range(groups), repeat=len(indices)):
            taken = tuple(groups_of.count(group) for group in range(groups))
            factors = sorted(zip(groups_of, indices, strict=True))
            terms[taken][tuple(factors)] += scale
    used = itertools.chain.from_iterable(itertools.chain(*terms.values()))
    return sorted(set(used)), terms


def _sum(products: Products, moments: dict[Factor, FloatArray]) -> FloatArray:
    scales = np.array(list(products.values()))
    values = []
    for factors in products:
        factor_moments = (moments[factor] for factor in factors)
        values.append(reduce(np.multiply, factor_moments))
    return np.asarray(scales @ np.array(values))


def _moments(nodes: Nodes) -> dict[Index, FloatArray]:
    """M_kq0 for k up to 4 and q up to 2, and M_k01, at every u."""
    y, x, weights, across = nodes
    exponential = np.exp(y)
    is_common = len(weights) > len(y)  # the same nodes y for all u, with different weights
    kernel = np.exp(-exponential) * (1.0 if is_common else weights)
    orders = np.arange(3)
    powers = x ** orders.reshape(-1, *[1] * x.ndim)
    moments = {}
    for k in range(1, 5):
        kernel = kernel * exponential
        if is_common:
            sums = weights @ (kernel[0] * powers).T
        elif x.ndim == 1:
            sums = kernel @ powers.T
        else:
            sums = np.vecdot(kernel, powers).T
        for q in orders.tolist():
            moments[k, q, 0] = sums[:, q].copy()
        if isinstance(across, float):
            moments[k, 0, 1] = across * moments[k, 0, 0]
        else:
            moments[k, 0, 1] = np.vecdot(kernel, across)
    return moments
