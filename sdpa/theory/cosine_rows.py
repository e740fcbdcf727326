"""Tables shared by rows of normalized vectors, whose scores are those of `CosineLaw`."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import ceil, cos, exp, log, sqrt

import numpy as np

from sdpa.theory.cosine_law import CosineLaw
from sdpa.theory.integrals import HIGHEST, RANGE, ComplexArray, FloatArray, Span, gauss_panels
from sdpa.theory.integrands import Integrands
from sdpa.theory.inversion import log_transform, sum_below, terms_for
from sdpa.theory.largest_weight import Candidates, log_below

_ROWS = 16  # in memory at once
_ORDER = 12  # of the integral over u
_NEGLIGIBLE = 1e-15  # probability of a node
_MANY = 8  # scores, whose integrals have no kink that counts


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
        u, weights = gauss_panels(_row_edges(self.law, self.counts), _ORDER)
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

    def _transformed(self, counts: Span, log_ratio: float) -> tuple[FloatArray, ComplexArray]:
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
