"""The largest weight of a softmax row of several groups, or of scores that are not normal: its mean and its tail."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.theory._grids import HIGHEST, RANGE, STEP, gauss_panels, trapezoid

FloatArray = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]

# Edges of panels as shares of what is below the largest score, narrower near it.
_GRADED = np.array([0, 0.015, 0.04, 0.1, 0.18, 0.28, 0.4, 0.55, 0.7, 0.85, 1.0])
_BLOCK = 2**21  # numbers in memory at once
_ABSCISSA = 25.0  # the inversion is good to e^-25
_TERMS, _MAX_TERMS, _AVERAGED = 40, 1000, 14
_NEGLIGIBLE = 1e-15  # probability of a node


class ScoreGroup(Protocol):
    """A number of scores of one law."""

    @property
    def count(self) -> float:
        """The number of scores."""
        ...

    def cdf(self, score: FloatArray) -> FloatArray:
        """P(s < score)."""
        ...

    @property
    def resolution(self) -> float:
        """The greatest width of a panel that resolves the density, 0 if that is too narrow for common panels."""
        ...

    @property
    def width_of_sum(self) -> float:
        """The standard deviation of the sum of e^s over its mean, at most 1."""
        ...

    def density(self, score: FloatArray) -> FloatArray:
        """The density of a score."""
        ...

    def between(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores between falling edges, and their probabilities."""
        ...

    def largest(self, breaks: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores that may be the largest of the row, and their probabilities; no panel contains one of the breaks."""
        ...

    def breaks(self) -> FloatArray:
        """Scores between which the density is smooth, from the least to the greatest."""
        ...


def max_weight(groups: Sequence[ScoreGroup]) -> float:
    """E max w = sum over groups of n int dF(m) int e^(v - e^v) A^(n-1)(v, m) (powers of A of other groups) dv.

    Given that the largest score is m, 1 / (1 + sum of e^(s - m) over the others) is int e^-t e^(-t sum) dt, t = e^v,
    and each of the others gives A(v, m) = E[1(s < m) exp(-e^(v + s - m))].
    """
    v, step = trapezoid(-RANGE, HIGHEST, STEP)
    outer = step * np.exp(v - np.exp(v))
    total = 0.0
    for place, group in enumerate(groups):
        if group.count:
            scores, chances = group.largest(_breaks(groups))
            for part in _parts(len(scores), len(v) * 160):
                log_others = np.zeros((len(scores[part]), len(v)))
                for i, other in enumerate(groups):
                    log_others += (other.count - (i == place)) * np.log(_below(other, scores[part], v))
                total += group.count * float(chances[part] @ (np.exp(log_others) @ outer))
    return total


def _below(group: ScoreGroup, scores: FloatArray, v: FloatArray) -> FloatArray:
    """A(v, m) at every largest score m and v, (scores, v): P(s < m) - E[1 - exp(-e^(v + s - m))]."""

    def missing(x: FloatArray) -> FloatArray:
        return np.asarray(-np.expm1(-np.exp(v)[:, None] * np.exp(x)[..., None, :]))

    below = _mean_below(group, scores, -(RANGE + 5) * _GRADED, missing)
    return np.asarray(np.maximum(group.cdf(scores)[:, None] - below, 1e-300))


def _mean_below(group: ScoreGroup, scores: FloatArray, edges: FloatArray, of: Callable[[FloatArray], Any]) -> Any:
    """E of functions of x = s - m between falling edges of x, at every score m, (scores, functions).

    Args:
        group: the law of s. If it has a resolution, all m share the nodes of x.
        scores: m.
        edges: (edges,).
        of: from x (..., nodes) to (..., functions, nodes).
    """
    if group.resolution:
        parts = np.ceil(-np.diff(edges) / group.resolution).astype(int)
        pieces = [np.linspace(b, a, n + 1)[1:] for a, b, n in zip(edges[:-1], edges[1:], parts, strict=True)]
        x, weights = gauss_panels(np.concatenate([edges[-1:], *pieces[::-1]]), 16)
        return (group.density(scores[:, None] + x) * weights) @ of(x).T
    s, chances = group.between(scores[:, None] + edges)
    return (of(s - scores[:, None]) @ chances[:, :, None])[..., 0]


def max_weight_survival(groups: Sequence[ScoreGroup], threshold: float) -> float:
    """P(max w > threshold) = sum over groups of n int dF(m) P(sum of e^(s - m) over the others < c).

    c = (1 - threshold) / threshold, for a threshold from 1/2, which no second weight can exceed, to below 1. The
    probability of the sum is an inverse Laplace transform (`_sum_below`); of a single other score it is its
    distribution function.
    """
    if not 0.5 <= threshold < 1:
        raise ValueError(f"expected a threshold from 1/2 to below 1, got {threshold}")
    c = (1 - threshold) / threshold
    total = 0.0
    for place, group in enumerate(groups):
        if group.count:
            others = [(other, other.count - (i == place)) for i, other in enumerate(groups)]
            others = [(other, count) for other, count in others if count]
            # Below this score not even the least sum of the others is small enough.
            least = special.logsumexp([math.log(count) + other.breaks()[0] for other, count in others]) - math.log(c)
            breaks = np.append(_breaks(groups) - math.log(c), least)
            scores, chances = group.largest(np.append(_breaks(groups), breaks))
            # Each of the others lies below that share of the largest: most scores cannot win by that much.
            bound = chances * math.prod(other.cdf(scores + math.log(c)) ** count for other, count in others)
            scores, chances = scores[bound > _NEGLIGIBLE], chances[bound > _NEGLIGIBLE]
            if not len(scores):
                continue
            if sum(count for _, count in others) == 1:
                below = others[0][0].cdf(scores + math.log(c))
            else:
                below = np.concatenate(
                    [_sum_below(others, scores[part], c) for part in _parts(len(scores), 600 * (_TERMS + _AVERAGED))]
                )
            total += group.count * float(chances @ below)
    return min(max(total, 0.0), 1.0)


def _sum_below(others: list[tuple[ScoreGroup, float]], scores: FloatArray, c: float) -> FloatArray:
    """P(S < c) of S = sum of e^(s - m) over the others, at every score m.

    Bromwich's integral of L(p) / p, L(p) = E e^(-p S), as a sum over p_k = (a + 2 pi i k) / (2 c), whose alternating
    tail is averaged as Euler did (Abate and Whitt 1992):

        P = 2 e^(a/2) sum_k (-1)^k Re L(p_k) / (a + 2 pi i k),   half of the term of k = 0.

    A narrow law of S needs terms in inverse proportion to its width.
    """
    width = min(group.width_of_sum for group, _ in others)
    exact = int(min(max(_TERMS, 2.5 / max(width, 1e-9)), _MAX_TERMS))
    k = np.arange(exact + _AVERAGED + 1)
    nodes = np.asarray(_ABSCISSA + 2j * math.pi * k, dtype=np.complex128)
    logarithm = np.zeros((len(scores), len(k)), dtype=np.complex128)
    for group, count in others:
        logarithm += count * _log(_transform(group, scores, nodes / (2 * c)))
    terms = 2 * math.exp(_ABSCISSA / 2) * (-1.0) ** k * (np.exp(logarithm) / nodes).real
    terms[:, 0] /= 2
    return np.asarray(np.clip(np.cumsum(terms, axis=1)[:, exact:] @ _euler_weights(), 0, 1))


def _transform(group: ScoreGroup, scores: FloatArray, p: ComplexArray) -> ComplexArray:
    """E exp(-p e^(s - m)) at every score m and every p, (scores, len(p))."""
    highest = math.log(RANGE / p[0].real)
    # The phase turns by 2 pi k e^x: fine panels where e^x is largest.
    steps = np.concatenate([np.arange(0, 3, 0.2), np.arange(3, 8, 0.7), np.arange(8, 2 * RANGE, 3.0)])
    lowest = group.cdf(scores + highest - steps[-1])

    def turned(x: FloatArray) -> ComplexArray:
        return np.asarray(np.exp(-p[:, None] * np.exp(x)[..., None, :]))

    return np.asarray(lowest[:, None] + _mean_below(group, scores, highest - steps, turned))


def _breaks(groups: Sequence[ScoreGroup]) -> FloatArray:
    """Scores between which the densities of all groups are smooth."""
    return np.concatenate([group.breaks() for group in groups])


def _log(value: ComplexArray) -> ComplexArray:
    """ln of a complex number, finite at 0."""
    return np.asarray(np.log(np.maximum(np.abs(value), 1e-300)) + 1j * np.angle(value))


@cache
def _euler_weights() -> FloatArray:
    """Binomial weights of the last partial sums."""
    return np.asarray(special.comb(_AVERAGED, np.arange(_AVERAGED + 1)) / 2.0**_AVERAGED)


def _parts(count: int, numbers: int) -> list[slice]:
    """Slices of so many rows that their numbers fit into a block."""
    rows = max(1, _BLOCK // numbers)
    return [slice(first, first + rows) for first in range(0, count, rows)]
