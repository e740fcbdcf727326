"""What a row integrates over u beside powers of G. It depends on the laws of the scores and not on their numbers."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sdpa.theory.expansion import Index, metric_expansion
from sdpa.theory.groups import Law, Nodes

FloatArray = npt.NDArray[np.float64]
Taken = tuple[int, ...]  # how many indices are in each group


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
            sums: dict[Taken, FloatArray] = {}
            for indices, coefficient in metric_expansion(name):
                scale = coefficient / math.factorial(sum(k for k, _, _ in indices) - 1)
                for places in itertools.product(range(len(self.laws)), repeat=len(indices)):
                    taken = tuple(places.count(place) for place in range(len(self.laws)))
                    product = math.prod(map(self.moment, places, indices))
                    sums[taken] = sums.get(taken, np.zeros(len(self.u))) + scale * product
            self._metrics[name] = sums
        return self._metrics[name]

    def shifted(self, place: int, k: int, centre: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """E[(y - centre)^q e^(k y - e^y)] at every u, for q = 0, 1, 2."""
        m_0, m_1, m_2 = (self.moment(place, (k, q, 0)) * self.unit**q for q in range(3))
        origin = (0.0 if self.unit >= 1 else self.u) - centre
        return m_0, m_1 + origin * m_0, m_2 + 2 * origin * m_1 + origin**2 * m_0


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
