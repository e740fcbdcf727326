"""Tables shared by rows of normal scores of one or two laws."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import ceil

import numpy as np

from sdpa.theory.integrals import (
    FINE_STEP,
    RANGE,
    FloatArray,
    Quadrature,
    Span,
    gauss_panels,
    trapezoid,
)
from sdpa.theory.integrands import Integrands
from sdpa.theory.largest_weight import (
    GRADED,
    Candidates,
    V,
    log_below,
    others,
)
from sdpa.theory.normal_law import NormalLaw
from sdpa.theory.normal_survival import FEW_SIGMA, narrow_survival, survival_kernel

_ROWS = 64  # in memory at once
_NARROW = 0.15  # as a share of the other deviation
_PANELS = 6
_LEAST_CHANCE = 1e-18


class NormalRows:
    """Tables shared by rows of the same laws, for counts of scores within given ranges."""

    def __init__(self, laws: Sequence[NormalLaw], counts: Sequence[Span]) -> None:
        self.laws = laws
        self.counts = counts
        self._kernels: dict[tuple[int, float], Quadrature] = {}

    @cached_property
    def integrands(self) -> Integrands:
        """Integrands at nodes u from the least that matters to any group to where a G vanishes."""
        ends = np.array([law.ends(of) for law, of in zip(self.laws, self.counts, strict=True)])
        is_needed = ends[:, 0] < ends[:, 1].min()
        u, weights = _row_nodes(*ends[is_needed].T)
        return Integrands(self.laws, self.laws[0].unit, u, weights)

    @cached_property
    def candidates(self) -> list[Candidates]:
        """Scores that may be the largest, on a grid for all groups."""
        own, *rest = self.laws
        if rest and own.deviation < _NARROW * rest[0].deviation:
            return _candidates_beside_points(own, rest[0], self.counts[1])
        ranges = [law.largest(of) for law, of in zip(self.laws, self.counts, strict=True)]
        lows, highs, steps = np.array(ranges).T
        scores, step = trapezoid(lows.max(), highs.max(), steps.min())
        logs = np.array([log_below(law, scores) for law in self.laws])
        return [
            Candidates(group, law.density(scores) * step, logs)
            for group, law in enumerate(self.laws)
        ]

    def survival(
        self,
        group: int,
        counts: Sequence[float],
        log_ratio: float,
    ) -> float:
        """n P(S < c X) for X of a group, ln c at most 0.

        For scores of a deviation from 0.4 by `survival_kernel`. Below, by inversion of a Laplace
        transform to 1e-10, unless the bound shows that no row has such a weight.
        """
        law = self.laws[group]
        beside = others(counts, group)
        if law.deviation < FEW_SIGMA:
            rest = [each for each in zip(self.laws, beside.tolist(), strict=True) if each[1]]
            return narrow_survival(law, counts[group], rest, log_ratio)
        key = group, log_ratio
        if key not in self._kernels:
            most = self.counts[group][1]
            self._kernels[key] = survival_kernel(self.integrands, law, most, log_ratio)
        weights, log_g = self._kernels[key]
        return counts[group] * float(weights @ np.exp(beside @ log_g))


def _row_nodes(
    low: FloatArray,
    high: FloatArray,
    width: FloatArray,
) -> tuple[FloatArray, float | FloatArray]:
    """Nodes u from the least low end to the least high end, and their weights or their step."""
    last = high.min()
    step = FINE_STEP * width
    if step.max() < 4 * step.min():
        return trapezoid(low.min(), last, step.min())
    # Groups of very different widths have panels of their own.
    pieces = []
    for start, end, each in zip(low, high, step, strict=True):
        stop = min(end, last)
        panels = ceil((stop - start) / (10 * each))
        pieces.append(np.linspace(start, stop, panels + 1))
    return gauss_panels(np.unique(np.concatenate(pieces)), 16)


def _candidates_beside_points(own: NormalLaw, rest: NormalLaw, count: Span) -> list[Candidates]:
    """Candidates if the law of the single score is so narrow that a few points stand for it."""
    points, shares = own.points()
    logs_of_points = [np.zeros((len(points), len(V))), log_below(rest, points)]
    of_points = Candidates(0, shares, np.array(logs_of_points))
    low, high, _ = rest.largest(count)
    # The weight of a score varies with its distance from the point on a scale of 1, its law with
    # the deviation.
    near = points[:, None] + (RANGE + 5) * GRADED
    wide = np.tile(np.linspace(low, high, _PANELS + 1), (len(points), 1))
    edges = np.sort(np.concatenate([near, wide], axis=1))
    lowest = np.maximum(points, low)[:, None]
    scores, weights = gauss_panels(np.clip(edges, lowest, high), 16)
    chances = shares[:, None] * weights * rest.density(scores)
    point, node = np.nonzero(chances > _LEAST_CHANCE)
    if not len(point):
        return [of_points]
    scores = scores[point, node]
    log_own = -np.exp(V + (points[point] - scores)[:, None])
    logs = np.array([log_own, log_below(rest, scores)])
    return [of_points, Candidates(1, chances[point, node], logs)]


normal_rows = lru_cache(_ROWS)(NormalRows)
