"""Groups of equally distributed scores of a softmax row, independent given the query.

A group of n scores s has, at the nodes u of an integral of the row,

    G(u) = E exp(-e^(u + s)),   M_kqa(u) = E[x^q c^a e^(k (u + s)) exp(-e^(u + s))].

x is the score in units of the row, x = s / unit, up to a shift by a number of each u that all groups share: where the
unit is at least 1, x = (u + s) / unit, which does not grow with it. c is the mean square of what a key has across the
query, in units of `Row`.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.theory._grids import (
    HIGHEST,
    MIN_SIGMA,
    RANGE,
    gauss_panels,
    log_g,
    normal_density,
    row_nodes,
    smoothing,
)

FloatArray = npt.NDArray[np.float64]


_DEVIATIONS = 9.5  # beyond them a normal law has 1e-21
_NARROW = 0.1  # a deviation that common panels would resolve only with thousands of nodes


class Nodes(NamedTuple):
    """Nodes of an expectation over a score at every u: y = u + s, x, their weights, and c.

    y and the weights have the shape (nodes of u or 1, nodes), x that of y or (nodes,); c is a number or of that shape.
    """

    y: FloatArray
    x: FloatArray
    weights: FloatArray
    across: FloatArray | float


class Group(Protocol):
    """A number of scores of one law."""

    @property
    def count(self) -> float:
        """The number of scores."""
        ...

    def log_g(self, u: FloatArray) -> FloatArray:
        """ln G at every u, precise where G is near 1 and where it is near 0."""
        ...

    def nodes(self, u: FloatArray) -> Nodes:
        """Nodes of the expectations M at every u."""
        ...


@dataclass(frozen=True)
class NormalGroup:
    """Scores unit (offset + scale z) with standard normal z.

    Attributes:
        count: number of scores.
        unit: of the scores of the row.
        offset, scale: mean and standard deviation of a score in that unit.
        across: c of its keys.
    """

    count: float
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

    def ends(self) -> tuple[float, float, float]:
        """The least and the greatest u that count, and a width on which no integrand varies."""
        n, sigma, width = self.count, self.deviation, smoothing(self.deviation, self.count)
        lowest = sigma * special.ndtri(1e-17 / n) - math.log(n) - RANGE - 9 * width
        highest = -sigma * special.ndtri_exp(-RANGE / max(n - 3, 1)) + HIGHEST + 9 * width
        return lowest - self.mean, highest - self.mean, width

    @property
    def resolution(self) -> float:
        """The greatest width of a panel that resolves the density, 0 if that is too narrow for common panels."""
        return 3 * self.deviation if self.deviation > _NARROW else 0.0

    @property
    def width_of_sum(self) -> float:
        """The standard deviation of the sum of e^s over its mean, sqrt((e^(sigma^2) - 1) / n), at most 1."""
        return math.sqrt(min(math.expm1(min(self.deviation, 10.0) ** 2) / self.count, 1.0))

    def density(self, score: FloatArray) -> FloatArray:
        """The density of a score."""
        sigma = max(self.deviation, MIN_SIGMA)
        return normal_density((score - self.mean) / sigma) / sigma

    def cdf(self, score: FloatArray) -> FloatArray:
        """P(s < score)."""
        return np.asarray(special.ndtr((score - self.mean) / max(self.deviation, MIN_SIGMA)))

    def breaks(self) -> FloatArray:
        """Scores between which the density is smooth, from the least to the greatest that count."""
        return self.mean + max(self.deviation, MIN_SIGMA) * np.linspace(-_DEVIATIONS, _DEVIATIONS, 8)

    def between(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores between the first and last of falling edges (..., edges), and their probabilities, (..., nodes).

        For a group so narrow that no panel between the edges resolves it.
        """
        low, high = edges.min(axis=-1, keepdims=True), edges.max(axis=-1, keepdims=True)
        if self.deviation == 0:
            inside = (low <= self.mean) & (self.mean < high)
            return np.full(inside.shape, self.mean), inside.astype(float)
        s, weights = gauss_panels(np.clip(self.breaks(), low, high), 16)
        return s, weights * self.density(s)

    def largest(self, breaks: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores that may be the largest of the row, and their probabilities; no panel contains one of the breaks."""
        sigma, n = self.deviation, self.count
        if sigma == 0:
            return np.array([self.mean]), np.ones(1)
        low = self.mean + sigma * max(float(special.ndtri_exp(-RANGE / max(n - 1, 1e-9))), -_DEVIATIONS)
        high = self.mean - sigma * float(special.ndtri(1e-17 / n))
        panels = math.ceil((high - low) / sigma * math.sqrt(1 + math.log(n) / 1.5) / 1.2)
        edges = np.unique(np.clip(np.concatenate([np.linspace(low, high, panels + 1), breaks]), low, high))
        scores, weights = gauss_panels(edges, 8)
        return scores, weights * self.density(scores)
