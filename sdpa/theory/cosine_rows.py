"""Rows of normalized vectors, whose scores are a gain times the cosine t of isotropic directions.

The width d is at least 2. In t = cos(theta) the angle has the density

    C sin(theta)^(d - 2),   C = Gamma(d / 2) / (sqrt(pi) Gamma((d - 1) / 2)),

so that sin(theta)^2 has the law Beta((d - 1) / 2, 1 / 2). Given the query, the cosines of its keys
are independent. Letters: scores are gain t in nats, u = ln of a Laplace variable, y = u + gain t.

    y       RANGE below 0      0        HIGHEST        exp(-e^y) is 1, then varies, then is 0:
    theta   pi ... last  |  panels  |  first ... 0      `_window` has nodes where it varies

The density of the angle is smooth at both ends, where that of t may be infinite;
integrals are sums over Gauss's nodes in panels of the angle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, cos, exp, lgamma, log, pi, sqrt

import numpy as np
from scipy.special import betainc, betaincinv, xlogy

from sdpa._arrays import FloatArray
from sdpa.theory.integrals import (
    HIGHEST,
    RANGE,
    ComplexArray,
    Nodes,
    Quadrature,
    Span,
    gauss_panels,
    log_of,
)
from sdpa.theory.integrands import Integrands
from sdpa.theory.largest_weight import Candidates, log_below, log_transform, sum_below, terms_for

_LOWEST = -RANGE - 1  # exp(-e^y) is 1 below it
# Effects below are those on rows of (gain, d, n) = (8, 8, 8), (20, 2, 4) and (40, 13, 2).
# The share of the angles that count as impossible, at either end; 1e-12 changes an entropy by 2e-11.
_RARE = 1e-24
_PANELS = 20  # of the integral over a score; 10 change an entropy by 4e-6, and 40 by 3e-11
_ORDER = 16  # nodes of such a panel
# From this d on the density of t is smooth at its ends, as far as 1e-11; 6 changes P by 2e-8.
_SMOOTH = 12
_ROWS = 16  # in memory at once
_U_ORDER = 12  # of the integral over u; 8 change an entropy by 2e-10, and 18 a Jacobian by 4e-13
_NEGLIGIBLE = 1e-15  # probability of a node; 1e-10 changes P by 2e-7, and 1e-22 by 2e-12
# Scores, whose integrals have no kink that counts, and whose nodes are those of a whole `span`. Spans
# begin at 1 and at 8, so that all numbers from 2 to 8 do the same.
_MANY = 8


@dataclass(frozen=True)
class CosineLaw:
    """Scores gain t of independent cosines t, of a gain above 0."""

    gain: float
    d: float

    def log_g(self, u: FloatArray) -> FloatArray:
        """ln G at every u, G = P(y below the window) + its integral of e^(-e^y).

        Where G is near 1, 1 - G from the chance above and the integral of 1 - e^(-e^y).
        """
        theta, weights = self._window(u)
        exponential = np.exp(u[:, None] + self.gain * np.cos(theta))
        above = self._above(self._angle_at(HIGHEST, u))
        below = self._above(pi - self._angle_at(_LOWEST, u))
        missing = above + np.vecdot(weights, -np.expm1(-exponential))
        present = below + np.vecdot(weights, np.exp(-exponential))
        return log_of(present, missing)

    def nodes(self, u: FloatArray) -> Nodes:
        """Nodes where e^(-e^y) varies; c = 1 - t^2 = sin(theta)^2."""
        theta, weights = self._window(u)
        t = np.cos(theta)
        y = u[:, None] + self.gain * t
        x = y / self.gain if self.gain >= 1 else t
        return Nodes(y, x, weights, np.sin(theta) ** 2)

    def _angle_at(self, y: float, u: FloatArray) -> FloatArray:
        """The angle with u + gain cos(theta) = y."""
        return _angle_of((y - u) / self.gain)

    def _window(self, u: FloatArray) -> Quadrature:
        """Angles where e^(-e^y) is neither 1 nor 0, and their chances, (nodes of u, nodes)."""
        first = self._possible(self._angle_at(HIGHEST, u))
        last = self._possible(self._angle_at(_LOWEST, u))
        shares = np.linspace(0, 1, _PANELS + 1)
        return self._panels(first[:, None] + (last - first)[:, None] * shares)

    def cdf(self, score: FloatArray) -> FloatArray:
        """P(s < score)."""
        return self._above(pi - _angle_of(score / self.gain))

    def density(self, score: FloatArray) -> FloatArray:
        """C (1 - t^2)^((d - 3) / 2) / gain, the density of a score."""
        square = np.maximum(1 - (score / self.gain) ** 2, 0)
        logarithm = self._log_constant + xlogy((self.d - 3) / 2, square)
        return np.asarray(np.exp(logarithm) / self.gain)

    def between(self, edges: FloatArray) -> Quadrature:
        """Scores between falling edges (..., edges), and their probabilities, (..., nodes)."""
        angles = self._possible(_angle_of(edges / self.gain))
        theta, weights = self._panels(angles)
        return self.gain * np.cos(theta), weights

    @property
    def lowest(self) -> float:
        """The least score; minus the greatest."""
        return -self.gain

    @property
    def resolution(self) -> float:
        """The greatest width of a panel that resolves the density; 0 if none does."""
        return 3 * self.gain / sqrt(self.d) if self.d >= _SMOOTH else 0.0

    def largest(self, counts: Span, breaks: FloatArray) -> Quadrature:
        """Scores that may be the largest, and their probabilities; no panel contains a break.

        Panels lie between equal steps of ln(n P(t > cos(theta))), and beyond a right angle of ln of
        the other tail.
        """
        fewest, most = counts
        rare = np.arange(-36, -8, 4.0)
        usual = np.arange(-8, log(most / 2), 1.0)
        levels = np.concatenate([rare, usual])
        upper = self._angle_above(np.exp(levels) / most)
        half = log(0.5)
        last = -RANGE / max(fewest - 1, 1)
        tail = np.append(np.arange(half, last, -1.0), max(last, log(_RARE)))
        shares = np.exp(np.minimum(tail, half))
        lower = pi - self._angle_above(shares)
        edges = np.concatenate([upper, lower])
        cosines = breaks[np.abs(breaks) < self.gain] / self.gain
        inside = np.clip(_angle_of(cosines), edges.min(), edges.max())
        edges = np.unique(np.concatenate([edges, inside]))
        theta, weights = self._panels(edges)
        return self.gain * np.cos(theta), weights

    def _panels(self, edges: FloatArray) -> Quadrature:
        """Gauss's nodes between edges of angles; probabilities C sin(theta)^(d - 2) dtheta."""
        theta, weights = gauss_panels(edges, _ORDER)
        sine = np.maximum(np.sin(theta), 0)
        density = np.exp(self._log_constant + xlogy(self.d - 2, sine))
        return theta, weights * density

    def _above(self, theta: FloatArray) -> FloatArray:
        """P(t > cos(theta)): I(sin(theta)^2; (d - 1) / 2, 1 / 2) / 2 up to a right angle."""
        square = np.clip(np.sin(theta) ** 2, 0, 1)
        share = betainc((self.d - 1) / 2, 0.5, square) / 2
        return np.asarray(np.where(theta <= pi / 2, share, 1 - share))

    def _angle_above(self, share: FloatArray) -> FloatArray:
        """The angle theta with P(t > cos(theta)) = share, up to 1/2."""
        square = betaincinv((self.d - 1) / 2, 0.5, 2 * share)
        return np.asarray(np.arcsin(np.sqrt(square)))

    def _possible(self, theta: FloatArray) -> FloatArray:
        """Angles moved into the range that counts."""
        return np.clip(theta, self.least, pi - self.least)

    @property
    def _log_constant(self) -> float:
        """ln C."""
        return lgamma(self.d / 2) - lgamma((self.d - 1) / 2) - 0.5 * log(pi)

    @cached_property
    def least(self) -> float:
        """The least angle that counts."""
        return float(self._angle_above(np.array(_RARE)))


def _angle_of(t: FloatArray) -> FloatArray:
    """The angle of a cosine, 0 above 1 and pi below -1."""
    return np.arccos(np.clip(t, -1, 1))


class CosineRows:
    """Tables shared by rows of the same law, for counts of scores within a range."""

    def __init__(self, law: CosineLaw, counts: Span) -> None:
        self.law = law
        self.counts = counts
        self._ends = np.array([-law.gain, law.gain])
        self._transforms: dict[tuple[Span, float], tuple[FloatArray, ComplexArray]] = {}

    @cached_property
    def integrands(self) -> Integrands:
        """Integrands on panels of u in which all are smooth."""
        u, weights = gauss_panels(_row_edges(self.law, self.counts), _U_ORDER)
        return Integrands([self.law], self.law.gain, u, weights)

    @cached_property
    def candidates(self) -> list[Candidates]:
        """Scores that may be the largest."""
        scores, chances = self.law.largest(self.counts, self._ends)
        return [Candidates(0, chances, log_below(self.law, scores)[None])]

    def survival(
        self,
        group: int,
        counts: Sequence[float],
        log_ratio: float,
    ) -> float:
        """n P(S < c X), X = e^s of one score, S the sum of e^s over all others, ln c <= 0."""
        count = float(counts[group])
        if count == 2:
            breaks = self._breaks(count, log_ratio)
            scores, chances = self.law.largest((count, count), breaks)
            return count * float(chances @ self.law.cdf(scores + log_ratio))
        # The kink at the least possible sum of the others counts if they are few.
        span = self.counts if self.counts[0] >= _MANY else (count, count)
        key = span, log_ratio
        if key not in self._transforms:
            self._transforms[key] = self._transformed(span, log_ratio)
        chances, transforms = self._transforms[key]
        return count * float(chances @ sum_below((count - 1) * transforms))

    def _transformed(
        self,
        counts: Span,
        log_ratio: float,
    ) -> tuple[FloatArray, ComplexArray]:
        """Chances of scores m that may have nearly all weight, and ln E exp(-p e^(s - m))."""
        fewest = counts[0]
        scores, chances = self.law.largest(counts, self._breaks(fewest, log_ratio))
        # Every other score lies below m + ln c, which is impossible for most m.
        below = self.law.cdf(scores + log_ratio) ** (fewest - 1)
        kept = chances * below > _NEGLIGIBLE
        transforms = log_transform(self.law, scores[kept], exp(log_ratio), terms_for(1.0))
        return chances[kept], transforms

    def _breaks(self, count: float, log_ratio: float) -> FloatArray:
        """The ends of the law, the ends over c, and the score with the least possible sum."""
        least = log(count - 1) - self.law.gain - log_ratio
        return np.concatenate([self._ends, self._ends - log_ratio, [least]])


cosine_rows = lru_cache(_ROWS)(CosineRows)


def _row_edges(law: CosineLaw, counts: Span) -> FloatArray:
    """Edges of panels of u, for rows with these counts of scores.

    G and M vary on the scale of 1 where the ends of the law enter, at u = -gain and gain: panels
    widen with the distance from there. G^n may vary faster: panels over which ln(-n ln G) changes
    by more than 1 are divided.
    """
    edges = _edges_by_distance(law, counts[1])
    for _ in range(6):
        fewest, most = _levels(law, edges, counts)
        is_steep = np.diff(fewest) > 1
        divided = is_steep & (fewest[:-1] < 4) & (most[1:] > -38)
        if not divided.any():
            break
        middle = (edges[:-1] + edges[1:]) / 2
        edges = np.sort(np.concatenate([edges, middle[divided]]))
    if counts[0] < _MANY:
        return edges
    fewest, _ = _levels(law, edges, counts)
    return edges[: int(np.searchsorted(fewest, 4.0)) + 2]


def _edges_by_distance(law: CosineLaw, most: float) -> FloatArray:
    top = law.gain * cos(law.least)
    widest = max(3.0, 0.4 * law.gain / sqrt(law.d))
    distances = [0.0]
    while distances[-1] < top:
        width = max(3.0, 0.4 * distances[-1])
        distances.append(distances[-1] + min(width, widest))
    rising = -top + np.array(distances[:-1])
    middle = np.concatenate([rising, -rising[::-1]])
    middle = np.unique(middle[np.abs(middle) <= top])
    steps_before = ceil((RANGE + 8 + log(most)) / 3)
    before = -top - 3.0 * np.arange(steps_before, 0, -1)
    return np.concatenate([before, middle, top + np.array([2.5, HIGHEST + 1])])


def _levels(law: CosineLaw, edges: FloatArray, counts: Span) -> FloatArray:
    """ln(-n ln G) for the fewest and the most scores, less up to four, (2, edges)."""
    others = np.maximum(np.array(counts) - 4, 1.0)
    values = -others[:, None] * law.log_g(edges)
    return np.asarray(np.log(np.maximum(values, 1e-30)))
