"""Scores of normalized vectors: a gain times the cosine t of isotropic directions, d from 2.

In t = cos(theta) the angle has the density C sin(theta)^(d - 2), C = Gamma(d / 2) / (sqrt(pi) Gamma((d - 1) / 2)), so
that sin(theta)^2 is of the law Beta((d - 1) / 2, 1 / 2). Given the query, the cosines of its keys are independent.
The angle makes the density smooth at both ends, where that of t may be infinite; the integrals are sums over Gauss's
nodes in panels of the angle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.theory._grids import HIGHEST, RANGE, Span, gauss_panels
from sdpa.theory.groups import Nodes

FloatArray = npt.NDArray[np.float64]

_RARE = 1e-24  # the share of the angles that count as impossible, at either end
_PANELS, _ORDER = 20, 16  # of the integral over a score
_SMOOTH = 12  # the least d at which the density of t is smooth at its ends, as far as 1e-11


@dataclass(frozen=True)
class CosineLaw:
    """Scores gain t of independent cosines t.

    Attributes:
        gain: above 0.
        d: width of the vectors, a whole number from 2.
    """

    gain: float
    d: float

    def log_g(self, u: FloatArray) -> FloatArray:
        """ln G at every u: G = P(y < window) + int e^(-e^y), or 1 minus the same of 1 - e^(-e^y)."""
        theta, weights = self._window(u)
        exponential = np.exp(u[:, None] + self.gain * np.cos(theta))
        missing = self.above(theta_of((HIGHEST - u) / self.gain)) + np.vecdot(weights, -np.expm1(-exponential))
        present = self.above(math.pi - theta_of((-RANGE - 1 - u) / self.gain))
        present = present + np.vecdot(weights, np.exp(-exponential))
        few = missing < 0.5
        return np.asarray(np.where(few, np.log1p(-np.minimum(missing, 0.6)), np.log(np.maximum(present, 1e-300))))

    def nodes(self, u: FloatArray) -> Nodes:
        """Nodes where e^(-e^y) varies; c = 1 - t^2 = sin(theta)^2."""
        theta, weights = self._window(u)
        t = np.cos(theta)
        y = u[:, None] + self.gain * t
        return Nodes(y, y / self.gain if self.gain >= 1 else t, weights, np.sin(theta) ** 2)

    def _window(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Angles with y = u + gain t between -RANGE - 1 and HIGHEST, and their probabilities, (nodes of u, nodes)."""
        first = np.clip(theta_of((HIGHEST - u) / self.gain), self.least, math.pi - self.least)
        last = np.clip(theta_of((-RANGE - 1 - u) / self.gain), self.least, math.pi - self.least)
        return self.panels(first[:, None] + (last - first)[:, None] * np.linspace(0, 1, _PANELS + 1))

    def cdf(self, score: FloatArray) -> FloatArray:
        """P(s < score)."""
        return self.above(math.pi - theta_of(score / self.gain))

    def between(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores between falling edges (..., edges), and their probabilities, (..., nodes)."""
        theta, weights = self.panels(np.clip(theta_of(edges / self.gain), self.least, math.pi - self.least))
        return self.gain * np.cos(theta), weights

    @property
    def resolution(self) -> float:
        """The greatest width of a panel that resolves the density; 0 where it may have no bound or be rough."""
        return 3 * self.gain / math.sqrt(self.d) if self.d >= _SMOOTH else 0.0

    @property
    def ends(self) -> FloatArray:
        """The least and the greatest score."""
        return np.array([-self.gain, self.gain])

    @property
    def lowest(self) -> float:
        """The least score that counts."""
        return -self.gain

    def largest(self, counts: Span, breaks: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores that may be the largest of so many, and their probabilities; no panel contains one of the breaks.

        Panels of the angle, at levels n P(t > cos(theta)) = e^w of equal steps in w, and beyond a right angle at equal
        steps of the logarithm of the other tail.
        """
        fewest, most = counts
        levels = np.concatenate([np.arange(-36, -8, 4.0), np.arange(-8, math.log(most / 2), 1.0)])
        upper = self.angle_above(np.exp(levels) / most)
        tail = np.arange(math.log(0.5), -RANGE / max(fewest - 1, 1), -1.0)
        tail = np.append(tail, max(-RANGE / max(fewest - 1, 1), math.log(_RARE)))
        edges = np.concatenate([upper, math.pi - self.angle_above(np.exp(np.minimum(tail, math.log(0.5))))])
        inside = theta_of(breaks[np.abs(breaks) < self.gain] / self.gain)
        theta, weights = self.panels(np.unique(np.clip(np.concatenate([edges, inside]), edges.min(), edges.max())))
        return self.gain * np.cos(theta), weights

    def panels(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gauss's nodes between edges of angles (..., edges), and their probabilities."""
        theta, weights = gauss_panels(edges, _ORDER)
        return theta, weights * self.angle_density(theta)

    def angle_density(self, theta: FloatArray) -> FloatArray:
        """C sin(theta)^(d - 2)."""
        return np.asarray(np.exp(self._log_constant + special.xlogy(self.d - 2, np.maximum(np.sin(theta), 0))))

    def density(self, score: FloatArray) -> FloatArray:
        """C (1 - t^2)^((d - 3) / 2) / gain, the density of a score."""
        square = np.maximum(1 - (score / self.gain) ** 2, 0)
        return np.asarray(np.exp(self._log_constant + special.xlogy((self.d - 3) / 2, square)) / self.gain)

    def above(self, theta: FloatArray) -> FloatArray:
        """P(t > cos(theta)): I(sin(theta)^2; (d - 1) / 2, 1 / 2) / 2 up to a right angle."""
        share = special.betainc((self.d - 1) / 2, 0.5, np.clip(np.sin(theta) ** 2, 0, 1)) / 2
        return np.asarray(np.where(theta <= math.pi / 2, share, 1 - share))

    def angle_above(self, share: FloatArray) -> FloatArray:
        """The angle that this share, up to 1/2, is below."""
        return np.asarray(np.arcsin(np.sqrt(special.betaincinv((self.d - 1) / 2, 0.5, 2 * share))))

    @property
    def _log_constant(self) -> float:
        """ln C."""
        return math.lgamma(self.d / 2) - math.lgamma((self.d - 1) / 2) - 0.5 * math.log(math.pi)

    @cached_property
    def least(self) -> float:
        """The least angle that counts."""
        return float(self.angle_above(np.array(_RARE)))


def theta_of(t: FloatArray) -> FloatArray:
    """The angle of a cosine, 0 above 1 and pi below -1."""
    return np.arccos(np.clip(t, -1, 1))
