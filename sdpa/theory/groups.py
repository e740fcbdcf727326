"""Groups of equally distributed scores of a softmax row, independent given the query.

A group of n scores s has, at the nodes u of an integral of the row,

    G(u) = E exp(-e^(u + s)),   M_kqa(u) = E[x^q c^a e^(k (u + s)) exp(-e^(u + s))].

x is the score in units of the row, x = s / unit, up to a shift by a number of each u that all groups share: where the
unit is at least 1, x = (u + s) / unit, which does not grow with it. c is the mean square of what a key has across the
query, in units of `Row`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.theory._grids import (
    FINE_STEP,
    HIGHEST,
    MIN_SIGMA,
    RANGE,
    Span,
    gauss_panels,
    log_g,
    normal_density,
    row_nodes,
    smoothing,
)

FloatArray = npt.NDArray[np.float64]


_DEVIATIONS = 9.5  # beyond them a normal law has 1e-21
_BREAKS = np.linspace(-_DEVIATIONS, _DEVIATIONS, 8)
_POINTS = 16
_ONE_STEP = 0.7


class Nodes(NamedTuple):
    """Nodes of an expectation over a score at every u: y = u + s, x, their weights, and c.

    y and the weights have the shape (nodes of u or 1, nodes), x that of y or (nodes,); c is a number or of that shape.
    """

    y: FloatArray
    x: FloatArray
    weights: FloatArray
    across: FloatArray | float


class Law(Protocol):
    """The law of equally distributed scores, of any number."""

    def log_g(self, u: FloatArray) -> FloatArray:
        """ln G at every u, precise where G is near 1 and where it is near 0."""
        ...

    def nodes(self, u: FloatArray) -> Nodes:
        """Nodes of the expectations M at every u."""
        ...

    def cdf(self, score: FloatArray) -> FloatArray:
        """P(s < score)."""
        ...

    @property
    def lowest(self) -> float:
        """The least score that counts."""
        ...

    @property
    def resolution(self) -> float:
        """The greatest width of a panel that resolves the density, 0 if common panels do not."""
        ...

    def density(self, score: FloatArray) -> FloatArray:
        """The density of a score."""
        ...

    def between(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores between falling edges (..., edges), and their probabilities, (..., nodes)."""
        ...


@dataclass(frozen=True)
class NormalLaw:
    """Scores unit (offset + scale z) with standard normal z.

    Attributes:
        unit: of the scores of the row.
        offset, scale: mean and standard deviation of a score in that unit.
        across: c of its keys.
    """

    unit: float
    offset: float = 0.0
    scale: float = 1.0
    across: float = 1.0

    def log_g(self, u: FloatArray) -> FloatArray:
        """ln G at every u."""
        return log_g(u + self.mean, self.deviation)

    def nodes(self, u: FloatArray) -> Nodes:
        """Nodes of y where the deviation of the scores is at least 1, of z below."""
        y, x, weights = row_nodes(u + self.mean, self.deviation)
        if self.unit >= 1:
            x = y[0] / self.unit if len(y) == 1 else y / self.unit
        elif self.deviation < 1:
            x = self.offset + self.scale * x
        return Nodes(y, x, weights, self.across)

    @property
    def mean(self) -> float:
        """Mean of the scores."""
        return self.unit * self.offset

    @property
    def deviation(self) -> float:
        """Standard deviation of the scores."""
        return self.unit * self.scale

    def ends(self, counts: Span) -> tuple[float, float, float]:
        """The least and the greatest u that matter to so many scores, and a width on which no integrand varies."""
        (fewest, most), sigma = counts, self.deviation
        width = smoothing(sigma, most)
        lowest = sigma * special.ndtri(1e-17 / most) - math.log(most) - RANGE - 9 * width
        highest = -sigma * special.ndtri_exp(-RANGE / max(fewest - 3, 1)) + HIGHEST + 9 * width
        return lowest - self.mean, highest - self.mean, width

    def largest(self, counts: Span) -> tuple[float, float, float]:
        """The least and the greatest score that may be the largest of so many, and a step that resolves its law."""
        fewest, most = counts
        low = max(float(special.ndtri_exp(-RANGE / max(fewest - 1, 1e-9))), -_DEVIATIONS)
        high = -float(special.ndtri(1e-17 / most))
        step = FINE_STEP / math.sqrt(1 + math.log(most) / 1.5) if most > 1 else _ONE_STEP
        sigma = max(self.deviation, MIN_SIGMA)
        return self.mean + sigma * low, self.mean + sigma * high, sigma * step

    @property
    def lowest(self) -> float:
        """The least score that counts."""
        return self.mean - _DEVIATIONS * max(self.deviation, MIN_SIGMA)

    @property
    def resolution(self) -> float:
        """The greatest width of a panel that resolves the density."""
        return 5 * max(self.deviation, MIN_SIGMA)

    def density(self, score: FloatArray) -> FloatArray:
        """The density of a score."""
        sigma = max(self.deviation, MIN_SIGMA)
        return normal_density((score - self.mean) / sigma) / sigma

    def cdf(self, score: FloatArray) -> FloatArray:
        """P(s < score)."""
        return np.asarray(special.ndtr((score - self.mean) / max(self.deviation, MIN_SIGMA)))

    def between(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores between the first and last of falling edges (..., edges), and their probabilities, (..., nodes).

        For a law so narrow that no panel between the edges resolves it.
        """
        low, high = edges.min(axis=-1, keepdims=True), edges.max(axis=-1, keepdims=True)
        sigma = max(self.deviation, MIN_SIGMA)
        s, weights = gauss_panels(np.clip(self.mean + sigma * _BREAKS, low, high), 16)
        return s, weights * self.density(s)

    def points(self) -> tuple[FloatArray, FloatArray]:
        """Scores in the place of a narrow law, and their probabilities."""
        nodes, weights = _hermite_rule(_POINTS if self.deviation else 1)
        return self.mean + self.deviation * nodes, weights


@cache
def _hermite_rule(order: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Hermite nodes of a standard normal law, and their probabilities."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    return nodes, weights / weights.sum()
