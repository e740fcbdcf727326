"""What a row integrates over u beside powers of G. It depends on the laws of the scores and not on their numbers."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from functools import cache, reduce

import numpy as np
import numpy.typing as npt

from sdpa.theory.expansion import Index, metric_expansion
from sdpa.theory.groups import Law, Nodes

FloatArray = npt.NDArray[np.float64]
Taken = tuple[int, ...]  # how many indices are in each group
Factor = tuple[int, Index]  # M of a group
Places = npt.NDArray[np.intp]


class Integrands:
    """Sums of products of the transforms M of a row's laws, at the nodes u.

    Args:
        laws: of the scores of each group, which share a unit.
        unit: of x, above 0.
        u: nodes of the integral over ln t.
        weights: of the nodes, or the step between all.
    """

    def __init__(self, laws: Sequence[Law], unit: float, u: FloatArray, weights: float | FloatArray) -> None:
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
        """The terms of a metric of `expansion` over (k - 1)!, summed by how many of their indices are in each group."""
        if name not in self._metrics:
            factors, sums = _sums_of_products(name, len(self.laws))
            moments = np.array([self.moment(*factor) for factor in factors])
            self._metrics[name] = {
                taken: scales @ reduce(np.multiply, (moments[column] for column in columns))
                for taken, (scales, columns) in sums.items()
            }
        return self._metrics[name]

    def shifted(self, place: int, k: int, centre: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """E[(y - centre)^q e^(k y - e^y)] at every u, for q = 0, 1, 2."""
        m_0, m_1, m_2 = (self.moment(place, (k, q, 0)) * self.unit**q for q in range(3))
        origin = (0.0 if self.unit >= 1 else self.u) - centre
        return m_0, m_1 + origin * m_0, m_2 + 2 * origin * m_1 + origin**2 * m_0


@cache
def _sums_of_products(name: str, groups: int) -> tuple[list[Factor], dict[Taken, tuple[FloatArray, list[Places]]]]:
    """A metric of rows of so many groups, as sums of products of M.

    Returns:
        The factors; and for each number of indices in each group the scales of the products, (products,), and the
        places of their first, second, ... factors in that list, (products,) each.
    """
    terms: dict[Taken, dict[tuple[Factor, ...], float]] = defaultdict(lambda: defaultdict(float))
    for indices, coefficient in metric_expansion(name):
        scale = coefficient / math.factorial(sum(k for k, _, _ in indices) - 1)
        for groups_of in itertools.product(range(groups), repeat=len(indices)):
            taken = tuple(groups_of.count(group) for group in range(groups))
            product = tuple(sorted(zip(groups_of, indices, strict=True)))
            terms[taken][product] += scale
    factors = sorted({factor for products in terms.values() for product in products for factor in product})
    place = {factor: i for i, factor in enumerate(factors)}
    sums = {}
    for taken, products in terms.items():
        columns = [np.array([place[factor] for factor in column]) for column in zip(*products, strict=True)]
        sums[taken] = np.array(list(products.values())), columns
    return factors, sums


def _moments(nodes: Nodes, degree: int) -> dict[Index, FloatArray]:
    """M_kqa of a law at every u, for k to a degree, q to half of that, and for q = 0 also with c."""
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
        found[k, 0, 1] = across * found[k, 0, 0] if isinstance(across, float) else np.vecdot(kernel, across)
    return found
