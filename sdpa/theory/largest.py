"""The largest weight of a softmax row: its moments.

Given that the largest score is m, max w = 1 / (1 + sum of e^(s - m) over the others), and 1 / (1 + S)^k is
int t^(k-1) e^-t e^(-t S) dt / (k-1)!, t = e^v. Each of the others, below m, gives A(v, m) = E[1(s < m) exp(-e^(v + s -
m))], so that

    E (max w)^k = sum over groups of n int dF(m) int e^(k v - e^v) A^(n-1)(v, m) (powers of the others' A) dv / (k-1)!.

A depends on the law of the scores and not on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdpa.theory._grids import HIGHEST, RANGE, STEP, Span, gauss_panels, trapezoid
from sdpa.theory.groups import Law, NormalLaw

FloatArray = npt.NDArray[np.float64]

_V, _V_STEP = trapezoid(-RANGE, HIGHEST, STEP)
_OUTER = _V_STEP * np.exp(np.outer((1, 2), _V) - np.exp(_V))
# Edges of panels as shares of what is below the largest score, narrower near it.
_GRADED = np.array([0, 0.015, 0.04, 0.1, 0.22, 0.5, 1.0])
MOST_PANELS = 150
_NARROW = 0.15  # as a share of the other deviation
_PANELS = 6
_NEGLIGIBLE = 1e-18


class Candidates(NamedTuple):
    """Scores of a group that may be the largest of the row.

    Attributes:
        group: its place among the laws.
        chances: the probability of each, (scores,).
        log_below: ln A of every law, (laws, scores, nodes of v).
    """

    group: int
    chances: FloatArray
    log_below: FloatArray


def largest_moments(candidates: Sequence[Candidates], counts: Sequence[float]) -> tuple[float, float]:
    """E max w and E (max w)^2 of a row of so many scores of each law."""
    moments = np.zeros(2)
    for group, chances, log_below in candidates:
        if counts[group]:
            others = np.array(counts) - (np.arange(len(counts)) == group)
            moments += counts[group] * (_OUTER @ (chances @ np.exp(np.tensordot(others, log_below, 1))))
    return float(moments[0]), float(moments[1])


def normal_candidates(laws: Sequence[NormalLaw], counts: Sequence[Span]) -> list[Candidates]:
    """Scores on one grid for all groups, which no deviation makes finer than the largest of the others needs.

    Args:
        laws: one, or that of a single score and that of the others.
        counts: of each.
    """
    if len(laws) == 2 and laws[0].deviation < _NARROW * laws[1].deviation:
        return _beside_points(laws[0], laws[1], counts[1])
    lows, highs, steps = np.array([law.largest(of) for law, of in zip(laws, counts, strict=True)]).T
    scores, step = trapezoid(lows.max(), highs.max(), steps.min())
    logs = np.array([log_below(law, scores) for law in laws])
    return [Candidates(group, law.density(scores) * step, logs) for group, law in enumerate(laws)]


def _beside_points(own: NormalLaw, rest: NormalLaw, count: Span) -> list[Candidates]:
    """The same if the law of the single score is narrow: for that score at each of a few points."""
    points, shares = own.points()
    of_points = Candidates(0, shares, np.array([np.zeros((len(points), len(_V))), log_below(rest, points)]))
    low, high, _ = rest.largest(count)
    # The weight of a score depends on its distance from the point on a scale of 1, its law on that of the deviation.
    near = points[:, None] + (RANGE + 5) * _GRADED
    edges = np.sort(np.concatenate([near, np.tile(np.linspace(low, high, _PANELS + 1), (len(points), 1))], axis=1))
    scores, weights = gauss_panels(np.clip(edges, np.maximum(points, low)[:, None], high), 16)
    chances = shares[:, None] * weights * rest.density(scores)
    point, node = np.nonzero(chances > _NEGLIGIBLE)
    if not len(point):
        return [of_points]
    scores = scores[point, node]
    log_own = -np.exp(_V + (points[point] - scores)[:, None])
    return [of_points, Candidates(1, chances[point, node], np.array([log_own, log_below(rest, scores)]))]


def log_below(law: Law, scores: FloatArray) -> FloatArray:
    """ln A at every largest score m and v, (scores, nodes of v): A = P(s < m) - E[1 - exp(-e^(v + s - m))]."""
    length = min(RANGE + 5, max(float(scores.max()) - law.lowest, law.resolution))
    edges = -length * _GRADED
    if law.resolution * MOST_PANELS > length:
        x, weights = common_panels(edges, law.resolution)
        below = (law.density(scores[:, None] + x) * weights) @ _missing(x).T
    else:
        below = mean_below_each(law, scores, edges, _missing)
    return np.asarray(np.log(np.maximum(law.cdf(scores)[:, None] - below, 1e-300)))


def _missing(x: FloatArray) -> FloatArray:
    """1 - exp(-e^(v + x)) at every v and x = s - m, (..., nodes of v, nodes of x)."""
    return np.asarray(-np.expm1(-np.exp(_V[:, None] + x[..., None, :])))


def common_panels(edges: FloatArray, resolution: float) -> tuple[FloatArray, FloatArray]:
    """Nodes of x = s - m between falling edges, the same for all m, and their weights; no panel is wider than given."""
    parts = np.ceil(-np.diff(edges) / resolution).astype(int)
    pieces = [np.linspace(b, a, n + 1)[1:] for a, b, n in zip(edges[:-1], edges[1:], parts, strict=True)]
    return gauss_panels(np.concatenate([edges[-1:], *pieces[::-1]]), 16)


def mean_below_each(law: Law, scores: FloatArray, edges: FloatArray, of: Callable[[FloatArray], Any]) -> Any:
    """E of functions of x = s - m between falling edges of x, at every score m, (scores, functions), for any law.

    Args:
        law: of s.
        scores: m.
        edges: (edges,).
        of: from x (..., nodes) to (..., functions, nodes).
    """
    means = []
    for part in np.array_split(scores, len(scores) // 16 + 1):
        s, chances = law.between(part[:, None] + edges)
        means.append((of(np.minimum(s - part[:, None], edges[0])) @ chances[:, :, None])[..., 0])
    return np.concatenate(means)
