"""Normal scores s: the Laplace transform G(u) = E exp(-e^(u + s)) of e^s at e^u, and nodes for
expectations over a score.

Letters: s = offset + sigma z in nats, z standard normal, u = ln t of a Laplace variable t, y = u + s.
One of two trapezoidal rules resolves both factors of E f(y) exp(-e^y) = int f(y) exp(-e^y) phi(z) dz:

    sigma >= 1    exp(-e^y) is the narrower one: nodes y, the same for every u, and their z
    sigma <  1    phi(z) is the narrower one: nodes z, the same for every u, and their y
"""

from dataclasses import dataclass
from math import log, pi, sqrt

import numpy as np
from scipy.special import ndtr, ndtri, ndtri_exp

from sdpa._arrays import FloatArray
from sdpa.theory.integrals import (
    FINE_STEP,
    HIGHEST,
    RANGE,
    STEP,
    Nodes,
    Quadrature,
    Span,
    gauss_panels,
    hermite_rule,
    trapezoid,
)

DEVIATIONS = 9.5  # a normal law has 1e-21 beyond them; with 8, chances change by 1e-14
# A smaller deviation counts as this one: E max w of a row of deviation 0 is 1.5e-9 too large.
MIN_SIGMA = 1e-9
# Seven panels of 16 nodes: four change a chance of 1e-11 by 8e-5 of it, and fourteen by 4e-6.
_BREAKS = np.linspace(-DEVIATIONS, DEVIATIONS, 8)
_POINTS = 16  # 8 change E max w by 6e-11, and 32 by 4e-15
_ONE_STEP = 0.7  # of the law of a group of one score; half of it changes E max w by 6e-16


@dataclass(frozen=True)
class NormalLaw:
    """Scores unit (offset + scale z) with a standard normal z.

    Attributes:
        unit: of the scores x of the row.
        offset, scale: mean and standard deviation of the scores in this unit.
        across: mean square of a key across the query, over the variance of an entry.
    """

    unit: float
    offset: float = 0.0
    scale: float = 1.0
    across: float = 1.0

    @property
    def mean(self) -> float:
        """Mean of the scores."""
        return self.unit * self.offset

    @property
    def deviation(self) -> float:
        """Standard deviation of the scores."""
        return self.unit * self.scale

    @property
    def _sigma(self) -> float:
        return max(self.deviation, MIN_SIGMA)

    def log_g(self, u: FloatArray) -> FloatArray:
        """ln G at every u."""
        return log_g(u + self.mean, self.deviation)

    def nodes(self, u: FloatArray) -> Nodes:
        """Nodes of y for scores with a deviation of at least 1, else nodes of z."""
        y, z, weights = _score_nodes(u + self.mean, self.deviation)
        x = self.offset + self.scale * z
        if self.unit >= 1:
            x = (y[0] if len(y) == 1 else y) / self.unit
        return Nodes(y, x, weights, self.across)

    def ends(self, counts: Span) -> tuple[float, float, float]:
        """Least and greatest u that matter, and a step that resolves the integrand."""
        fewest, most = counts
        sigma = self.deviation
        # No integrand over u varies faster than e^(-e^u) does on 1.
        width = 1 + 0.5 * sigma / sqrt(2 * log(most) + 2)
        lowest = sigma * ndtri(1e-17 / most) - log(most) - RANGE - 9 * width
        highest = -sigma * ndtri_exp(-RANGE / max(fewest - 3, 1)) + HIGHEST + 9 * width
        return lowest - self.mean, highest - self.mean, width

    def largest(self, counts: Span) -> tuple[float, float, float]:
        """Least and greatest score that may be the largest, and a step that resolves its law."""
        fewest, most = counts
        lowest = float(ndtri_exp(-RANGE / max(fewest - 1, 1e-9)))
        low = max(lowest, -DEVIATIONS)
        high = -float(ndtri(1e-17 / most))
        step = FINE_STEP / sqrt(1 + log(most) / 1.5) if most > 1 else _ONE_STEP
        return self.mean + self._sigma * low, self.mean + self._sigma * high, self._sigma * step

    @property
    def lowest(self) -> float:
        """The least score with a probability that counts."""
        return self.mean - DEVIATIONS * self._sigma

    @property
    def resolution(self) -> float:
        """The greatest width of a panel that resolves the density."""
        return 5 * self._sigma

    def density(self, score: FloatArray) -> FloatArray:
        """The density of a score."""
        return normal_density((score - self.mean) / self._sigma) / self._sigma

    def cdf(self, score: FloatArray) -> FloatArray:
        """P(s < score)."""
        return np.asarray(ndtr((score - self.mean) / self._sigma))

    def between(self, edges: FloatArray) -> Quadrature:
        """Scores between the first and last of falling edges, and their probabilities.

        The panels are those of the law, because the given ones do not resolve the density.
        """
        low = edges.min(axis=-1, keepdims=True)
        high = edges.max(axis=-1, keepdims=True)
        breaks = self.mean + self._sigma * _BREAKS
        s, weights = gauss_panels(np.clip(breaks, low, high), 16)
        return s, weights * self.density(s)

    def points(self) -> Quadrature:
        """Scores that stand for a narrow law, and their probabilities."""
        nodes, weights = hermite_rule(_POINTS if self.deviation else 1)
        return self.mean + self.deviation * nodes, weights


def normal_density(z: FloatArray) -> FloatArray:
    """phi(z) = e^(-z^2 / 2) / sqrt(2 pi), of any shape."""
    return np.exp(-0.5 * z * z) / sqrt(2 * pi)


def log_g(u: FloatArray, sigma: float) -> FloatArray:
    """ln G(u) = ln E exp(-e^(u + sigma z)), precise where G is near 1 and where G is near 0."""
    low = u > -0.4  # there G is below about 1/2
    if sigma >= 1:  # G is the mean of P(u + sigma z < y) over the density e^(y - e^y) of y
        y, step = trapezoid(-RANGE - 1, HIGHEST, STEP)
        density = step * np.exp(y - np.exp(y))
        missing = ndtr((u[~low, None] - y) / sigma) @ density
        present = ndtr((y - u[low, None]) / sigma) @ density
    else:
        y, _, weights = _score_nodes(u, sigma)
        exponential = np.exp(y)
        missing = -np.expm1(-exponential[~low]) @ weights[0]
        present = np.exp(-exponential[low]) @ weights[0]
    result = np.empty(len(u))
    result[~low] = np.log1p(-missing)
    result[low] = np.log(np.maximum(present, 1e-300))
    return result


def _score_nodes(u: FloatArray, sigma: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """y = u + sigma z, (1 or nodes of u, nodes), z, (nodes,), and the weights over z."""
    if sigma >= 1:  # the same nodes y for every u, and y / sigma in place of z
        y, step = trapezoid(-RANGE - 1, HIGHEST, FINE_STEP)
        weights = normal_density((y - u[:, None]) / sigma) * (step / sigma)
        return y[None], y / sigma, weights
    sigma = max(sigma, MIN_SIGMA)
    # The mode of e^(8 sigma z) phi(z) is at 8 sigma; no order is above 8.
    z, step = trapezoid(-10.0, 10.0 + 8 * sigma, min(0.35, FINE_STEP / sigma))
    return u[:, None] + sigma * z, z, normal_density(z)[None] * step
