"""Groups of equally distributed scores of a softmax row, independent given the query.

A group of n scores s has, at the nodes u of an integral of the row,

    G(u) = E exp(-e^(u + s)),   M_kqa(u) = E[x^q c^a e^(k (u + s)) exp(-e^(u + s))].

x is the score in units of the row, x = s / unit, up to a shift by a number of each u that all groups share: where the
unit is at least 1, x = (u + s) / unit, which does not grow with it. c is the mean square of what a key has across the
query, in units of `Row`.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.theory._grids import HIGHEST, RANGE, log_g, row_nodes, smoothing

FloatArray = npt.NDArray[np.float64]


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
        lowest = sigma * special.ndtri(1e-17 / n) - np.log(n) - RANGE - 9 * width
        highest = -sigma * special.ndtri_exp(-RANGE / max(n - 3, 1)) + HIGHEST + 9 * width
        return lowest - self.mean, highest - self.mean, width
