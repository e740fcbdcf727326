"""Rows of normalized vectors: scores are a gain times the cosine t of isotropic directions of width d, from 2.

In t = cos(theta) the angle has the density C sin(theta)^(d - 2), C = Gamma(d / 2) / (sqrt(pi) Gamma((d - 1) / 2)), so
that sin(theta)^2 is of the law Beta((d - 1) / 2, 1 / 2). Given the query, the cosines of its keys are independent.
The angle makes the density smooth at both ends, where that of t may be infinite; the integrals are sums over Gauss's
nodes in panels of the angle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy import special

from sdpa.theory.integrals import HIGHEST, RANGE, ComplexArray, FloatArray, Span, gauss_panels
from sdpa.theory.integrands import Integrands, Nodes
from sdpa.theory.inversion import log_transform, sum_below, terms_for
from sdpa.theory.largest_weight import Candidates, log_below

_RARE = 1e-24  # the share of the angles that count as impossible, at either end
_PANELS, _ORDER = 20, 16  # of the integral over a score
_SMOOTH = 12  # the least d at which the density of t is smooth at its ends, as far as 1e-11
_ROWS = 16  # in memory at once
_ROW_ORDER = 12  # of the integral over u
_NEGLIGIBLE = 1e-15  # probability of a node


@dataclass(frozen=True)
class CosineLaw:
    """Scores gain t of independent cosines t, of a gain above 0."""

    gain: float
    d: float

    def log_g(self, u: FloatArray) -> FloatArray:
        """ln G at every u: G = P(y < window) + int e^(-e^y), or 1 minus the same of 1 - e^(-e^y)."""
        theta, weights = self._window(u)
        exponential = np.exp(u[:, None] + self.gain * np.cos(theta))
        missing = self._above(_angle_of((HIGHEST - u) / self.gain)) + np.vecdot(
            weights, -np.expm1(-exponential)
        )
        present = self._above(math.pi - _angle_of((-RANGE - 1 - u) / self.gain))
        present = present + np.vecdot(weights, np.exp(-exponential))
        few = missing < 0.5
        return np.asarray(
            np.where(few, np.log1p(-np.minimum(missing, 0.6)), np.log(np.maximum(present, 1e-300)))
        )

    def nodes(self, u: FloatArray) -> Nodes:
        """Nodes where e^(-e^y) varies; c = 1 - t^2 = sin(theta)^2."""
        theta, weights = self._window(u)
        t = np.cos(theta)
        y = u[:, None] + self.gain * t
        return Nodes(y, y / self.gain if self.gain >= 1 else t, weights, np.sin(theta) ** 2)

    def _window(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Angles with y = u + gain t between -RANGE - 1 and HIGHEST, and their probabilities, (nodes of u, nodes)."""
        first = np.clip(_angle_of((HIGHEST - u) / self.gain), self.least, math.pi - self.least)
        last = np.clip(_angle_of((-RANGE - 1 - u) / self.gain), self.least, math.pi - self.least)
        return self._panels(
            first[:, None] + (last - first)[:, None] * np.linspace(0, 1, _PANELS + 1)
        )

    def cdf(self, score: FloatArray) -> FloatArray:
        """P(s < score)."""
        return self._above(math.pi - _angle_of(score / self.gain))

    def density(self, score: FloatArray) -> FloatArray:
        """C (1 - t^2)^((d - 3) / 2) / gain, the density of a score."""
        square = np.maximum(1 - (score / self.gain) ** 2, 0)
        return np.asarray(
            np.exp(self._log_constant + special.xlogy((self.d - 3) / 2, square)) / self.gain
        )

    def between(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores between falling edges (..., edges), and their probabilities, (..., nodes)."""
        theta, weights = self._panels(
            np.clip(_angle_of(edges / self.gain), self.least, math.pi - self.least)
        )
        return self.gain * np.cos(theta), weights

    @property
    def lowest(self) -> float:
        """The least score; minus the greatest."""
        return -self.gain

    @property
    def resolution(self) -> float:
        """The greatest width of a panel that resolves the density; 0 where it may have no bound or be rough."""
        return 3 * self.gain / math.sqrt(self.d) if self.d >= _SMOOTH else 0.0

    def largest(self, counts: Span, breaks: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores that may be the largest of so many, and their probabilities; no panel contains one of the breaks."""
        fewest, most = counts
        # Panels between equal steps of ln(n P(t > cos(theta))), and beyond a right angle of ln of the other tail.
        levels = np.concatenate([np.arange(-36, -8, 4.0), np.arange(-8, math.log(most / 2), 1.0)])
        upper = self._angle_above(np.exp(levels) / most)
        tail = np.arange(math.log(0.5), -RANGE / max(fewest - 1, 1), -1.0)
        tail = np.append(tail, max(-RANGE / max(fewest - 1, 1), math.log(_RARE)))
        edges = np.concatenate(
            [upper, math.pi - self._angle_above(np.exp(np.minimum(tail, math.log(0.5))))]
        )
        inside = _angle_of(breaks[np.abs(breaks) < self.gain] / self.gain)
        theta, weights = self._panels(
            np.unique(np.clip(np.concatenate([edges, inside]), edges.min(), edges.max()))
        )
        return self.gain * np.cos(theta), weights

    def _panels(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gauss's nodes between edges of angles (..., edges), and their probabilities C sin(theta)^(d - 2) dtheta."""
        theta, weights = gauss_panels(edges, _ORDER)
        density = np.exp(
            self._log_constant + special.xlogy(self.d - 2, np.maximum(np.sin(theta), 0))
        )
        return theta, weights * density

    def _above(self, theta: FloatArray) -> FloatArray:
        """P(t > cos(theta)): I(sin(theta)^2; (d - 1) / 2, 1 / 2) / 2 up to a right angle."""
        share = special.betainc((self.d - 1) / 2, 0.5, np.clip(np.sin(theta) ** 2, 0, 1)) / 2
        return np.asarray(np.where(theta <= math.pi / 2, share, 1 - share))

    def _angle_above(self, share: FloatArray) -> FloatArray:
        """The angle that this share, up to 1/2, is below."""
        return np.asarray(np.arcsin(np.sqrt(special.betaincinv((self.d - 1) / 2, 0.5, 2 * share))))

    @property
    def _log_constant(self) -> float:
        """ln C."""
        return math.lgamma(self.d / 2) - math.lgamma((self.d - 1) / 2) - 0.5 * math.log(math.pi)

    @cached_property
    def least(self) -> float:
        """The least angle that counts."""
        return float(self._angle_above(np.array(_RARE)))


def _angle_of(t: FloatArray) -> FloatArray:
    """The angle of a cosine, 0 above 1 and pi below -1."""
    return np.arccos(np.clip(t, -1, 1))


class CosineRows:
    """What rows of cosines share, from the least to the greatest number of scores."""

    def __init__(self, law: CosineLaw, counts: Span) -> None:
        self.law, self.counts, self._ends = law, counts, np.array([-law.gain, law.gain])
        self._transforms: dict[tuple[Span, float], tuple[FloatArray, ComplexArray]] = {}

    @cached_property
    def integrands(self) -> Integrands:
        """Panels of u in which all integrands are smooth."""
        return Integrands([self.law], self.law.gain, *_row_panels(self.law, self.counts))

    @cached_property
    def candidates(self) -> list[Candidates]:
        """Scores that may be the largest."""
        scores, chances = self.law.largest(self.counts, self._ends)
        return [Candidates(0, chances, log_below(self.law, scores)[None])]

    def survival(self, group: int, counts: Sequence[float], log_ratio: float) -> float:
        """n P(S < c X), X = e^s of one score and S the sum of e^s over the others, ln c at most 0."""
        count = float(counts[group])
        if count == 2:
            scores, chances = self.law.largest((count, count), self._breaks(count, log_ratio))
            return count * float(chances @ self.law.cdf(scores + log_ratio))
        # The kink at the least possible sum of the others counts if they are few.
        span = self.counts if self.counts[0] >= 8 else (count, count)
        if (span, log_ratio) not in self._transforms:
            self._transforms[span, log_ratio] = self._transformed(span, log_ratio)
        chances, transforms = self._transforms[span, log_ratio]
        return count * float(chances @ sum_below((count - 1) * transforms))

    def _transformed(self, counts: Span, log_ratio: float) -> tuple[FloatArray, ComplexArray]:
        """Probabilities of scores m that may take nearly all weight, and ln E exp(-p e^(s - m)) of another score s."""
        scores, chances = self.law.largest(counts, self._breaks(counts[0], log_ratio))
        # Each of the others lies below that share of the largest: most scores cannot win by that much.
        kept = chances * self.law.cdf(scores + log_ratio) ** (counts[0] - 1) > _NEGLIGIBLE
        return chances[kept], log_transform(
            self.law, scores[kept], math.exp(log_ratio), terms_for(1.0)
        )

    def _breaks(self, count: float, log_ratio: float) -> FloatArray:
        """The ends of the law, their multiples by the ratio, and the score below which the least sum is too large."""
        least = math.log(count - 1) - self.law.gain - log_ratio
        return np.concatenate([self._ends, self._ends - log_ratio, [least]])


cosine_rows = lru_cache(_ROWS)(CosineRows)


def _row_panels(law: CosineLaw, counts: Span) -> tuple[FloatArray, FloatArray]:
    """Nodes u and weights of the integral of rows of so many scores.

    G and M vary on the scale of 1 where the ends of the law enter, at u = -gain and gain: panels widen with the
    distance from them. G^n may vary faster: panels over which ln(-n ln G) changes by more than 1 are divided.
    """
    top = law.gain * math.cos(law.least)
    widest = max(3.0, 0.4 * law.gain / math.sqrt(law.d))
    distances = [0.0]
    while distances[-1] < top:
        distances.append(distances[-1] + min(max(3.0, 0.4 * distances[-1]), widest))
    rising = -top + np.array(distances[:-1])
    middle = np.concatenate([rising, -rising[::-1]])
    middle = np.unique(middle[np.abs(middle) <= top])
    before = -top - 3.0 * np.arange(math.ceil((RANGE + 8 + math.log(counts[1])) / 3), 0, -1)
    edges = np.concatenate([before, middle, top + np.array([2.5, HIGHEST + 1])])
    for _ in range(6):
        fewest, most = _levels(law, edges, counts)
        divided = (np.diff(fewest) > 1) & (fewest[:-1] < 4) & (most[1:] > -38)
        if not divided.any():
            break
        edges = np.sort(np.concatenate([edges, ((edges[:-1] + edges[1:]) / 2)[divided]]))
    if counts[0] >= 8:
        edges = edges[: int(np.searchsorted(_levels(law, edges, counts)[0], 4.0)) + 2]
    return gauss_panels(edges, _ROW_ORDER)


def _levels(law: CosineLaw, edges: FloatArray, counts: Span) -> FloatArray:
    """ln(-n ln G) for the fewest and the most scores, of which up to four are taken, (2, edges)."""
    others = np.maximum(np.array(counts) - 4, 1.0)
    return np.asarray(np.log(np.maximum(-others[:, None] * law.log_g(edges), 1e-30)))
