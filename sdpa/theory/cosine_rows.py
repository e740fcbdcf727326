"""What rows of cosines share, whatever their lengths: nodes, transforms, and the candidates for the largest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from sdpa.theory._grids import HIGHEST, RANGE, Span, gauss_panels, span
from sdpa.theory.cosines import CosineLaw
from sdpa.theory.integrands import Integrands
from sdpa.theory.inversion import ComplexArray, log_transform, sum_below, terms_for
from sdpa.theory.largest import Candidates, log_below
from sdpa.theory.rows import Row

FloatArray = npt.NDArray[np.float64]

_ROWS = 16  # in memory at once
_ORDER = 12  # of the integral over u
_NEGLIGIBLE = 1e-15  # probability of a node


class CosineRows:
    """Rows of scores of one law of cosines.

    Args:
        law: of the scores.
        counts: of the scores, the least and the greatest.
    """

    def __init__(self, law: CosineLaw, counts: Span) -> None:
        self.law, self.counts = law, counts
        self._transforms: dict[tuple[Span, float], tuple[FloatArray, ComplexArray]] = {}

    @cached_property
    def integrands(self) -> Integrands:
        """Panels of u in which all integrands are smooth."""
        return Integrands([self.law], self.law.gain, *row_panels(self.law, self.counts))

    @cached_property
    def candidates(self) -> list[Candidates]:
        """Scores that may be the largest."""
        scores, chances = self.law.largest(self.counts, self.law.ends)
        return [Candidates(0, chances, log_below(self.law, scores)[None])]

    def survival(self, group: int, counts: Sequence[float], log_ratio: float) -> float:
        """As `RowLaws.survival`."""
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
        return chances[kept], log_transform(self.law, scores[kept], math.exp(log_ratio), terms_for(1.0))

    def _breaks(self, count: float, log_ratio: float) -> FloatArray:
        """The ends of the law, their multiples by the ratio, and the score below which the least sum is too large."""
        least = math.log(count - 1) - self.law.gain - log_ratio
        return np.concatenate([self.law.ends, self.law.ends - log_ratio, [least]])


def cosine_row(gain: float, d_k: int, n_keys: int) -> Row:
    """A softmax row over n_keys independent scores gain t, t the cosine of isotropic directions of width d_k from 2."""
    return Row(_cosine_rows(CosineLaw(gain, d_k), span(n_keys)), (n_keys,))


@lru_cache(_ROWS)
def _cosine_rows(law: CosineLaw, counts: Span) -> CosineRows:
    return CosineRows(law, counts)


def row_panels(law: CosineLaw, counts: Span) -> tuple[FloatArray, FloatArray]:
    """Nodes u and weights of the integral of rows of so many scores.

    G and M vary on the scale of 1 where the ends of the law enter, at u = -gain and gain, and ever more slowly away
    from them: the panels widen in proportion to the distance. G^n may vary faster, as the largest score does, so that
    panels over which ln(-n ln G) changes by more than 1 are divided.
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
    edges = _divided(law, counts, np.concatenate([before, middle, top + np.array([2.5, HIGHEST + 1])]))
    if counts[0] >= 8:
        edges = edges[: int(np.searchsorted(_levels(law, edges, counts)[0], 4.0)) + 2]
    return gauss_panels(edges, _ORDER)


def _divided(law: CosineLaw, counts: Span, edges: FloatArray) -> FloatArray:
    """Panels over which ln(-n ln G) changes by at most 1 where that matters, for any of the counts."""
    for _ in range(6):
        fewest, most = _levels(law, edges, counts)
        divided = (np.diff(fewest) > 1) & (fewest[:-1] < 4) & (most[1:] > -38)
        if not divided.any():
            break
        middle = (edges[:-1] + edges[1:]) / 2
        edges = np.sort(np.concatenate([edges, middle[divided]]))
    return edges


def _levels(law: CosineLaw, edges: FloatArray, counts: Span) -> FloatArray:
    """Ln(-n ln G) for the fewest and the most scores, of which up to four are taken, (2, edges)."""
    others = np.maximum(np.array(counts) - 4, 1.0)
    return np.asarray(np.log(np.maximum(-others[:, None] * law.log_g(edges), 1e-30)))
