"""The largest weight of a row of any scores: its moments, and the law of a sum behind its survival
function.

Given that the largest score is m, max w = 1 / (1 + S), S the sum of e^(s - m) over the others, and
1 / (1 + S)^k is int t^(k-1) e^-t e^(-t S) dt / (k-1)!, t = e^v. Each of the others, below m, gives
A(v, m) = E[1(s < m) exp(-e^(v + s - m))], so that

    E (max w)^k = sum over groups of n int dF(m) int e^(k v - e^v) A^(n-1)(v, m) (powers of the
    others' A) dv / (k-1)!.

If no second weight can exceed a threshold, max w does if S < c = (1 - threshold) / threshold for
one score m of the row, below which the others need not lie: P = sum over groups of n int dF(m) P(S
< c).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from sdpa.theory.integrals import (
    HIGHEST,
    RANGE,
    STEP,
    ComplexArray,
    FloatArray,
    Law,
    gauss_panels,
    trapezoid,
)

V, _V_STEP = trapezoid(-RANGE, HIGHEST, STEP)
OF_LARGEST = _V_STEP * np.exp(np.outer((1, 2), V) - np.exp(V))
# Edges of panels as shares of what is below the largest score, narrower near it.
GRADED = np.array([0, 0.015, 0.04, 0.1, 0.22, 0.5, 1.0])
_MOST_PANELS = 150
_ABSCISSA = 25.0  # the inversion is good to e^-25
_TERMS, _MAX_TERMS, _AVERAGED = 40, 1280, 14
_BINOMIAL = (
    special.comb(_AVERAGED, np.arange(_AVERAGED + 1)) / 2.0**_AVERAGED
)  # weights of the last partial sums
_NARROWEST = 0.0625  # the width for which the terms suffice
# Edges below the highest e^x that counts. The phase turns by 2 pi k e^x: fine panels where e^x is
# largest.
_STEPS = np.concatenate([np.arange(0, 3, 0.2), np.arange(3, 8, 0.7), np.arange(8, 2 * RANGE, 3.0)])


class Candidates(NamedTuple):
    """Scores of a group that may be the largest of the row, with the probability of each."""

    group: int  # its place among the laws
    chances: FloatArray  # (scores,)
    log_below: FloatArray  # ln A of every law, (laws, scores, nodes of v)


def largest_moments(
    candidates: Sequence[Candidates], counts: Sequence[float]
) -> tuple[float, float]:
    """E max w and E (max w)^2 of a row of so many scores of each law."""
    moments = np.zeros(2)
    for group, chances, log_below in candidates:
        if counts[group]:
            others = np.array(counts) - (np.arange(len(counts)) == group)
            moments += counts[group] * (
                OF_LARGEST @ (chances @ np.exp(np.tensordot(others, log_below, 1)))
            )
    return float(moments[0]), float(moments[1])


def log_below(law: Law, scores: FloatArray) -> FloatArray:
    """ln A at every largest score m and v, (scores, nodes of v): A = P(s < m) - E[1 - exp(-e^(v + s
    - m))].
    """
    length = min(RANGE + 5, max(float(scores.max()) - law.lowest, law.resolution))
    edges = -length * GRADED
    if law.resolution * _MOST_PANELS > length:
        x, weights = _common_panels(edges, law.resolution)
        below = (law.density(scores[:, None] + x) * weights) @ _missing(x).T
    else:
        below = _mean_below_each(law, scores, edges, _missing)
    return np.asarray(np.log(np.maximum(law.cdf(scores)[:, None] - below, 1e-300)))


def _missing(x: FloatArray) -> FloatArray:
    """1 - exp(-e^(v + x)) at every v and x = s - m, (..., nodes of v, nodes of x)."""
    return np.asarray(-np.expm1(-np.exp(V[:, None] + x[..., None, :])))


def _common_panels(edges: FloatArray, resolution: float) -> tuple[FloatArray, FloatArray]:
    """Nodes of x = s - m between falling edges, the same for all m, and their weights; no panel is
    wider.
    """
    parts = np.ceil(-np.diff(edges) / resolution).astype(int)
    pieces = [
        np.linspace(b, a, n + 1)[1:] for a, b, n in zip(edges[:-1], edges[1:], parts, strict=True)
    ]
    return gauss_panels(np.concatenate([edges[-1:], *pieces[::-1]]), 16)


def _mean_below_each(
    law: Law, scores: FloatArray, edges: FloatArray, of: Callable[[FloatArray], Any]
) -> Any:
    """E of functions of x = s - m, (..., functions, nodes), between falling edges of x, at every m,
    for any law.
    """
    means = []
    for part in np.array_split(scores, len(scores) // 16 + 1):
        s, chances = law.between(part[:, None] + edges)
        means.append((of(np.minimum(s - part[:, None], edges[0])) @ chances[:, :, None])[..., 0])
    return np.concatenate(means)


def sum_below(logarithm: ComplexArray) -> FloatArray:
    """P(S < c) from ln E e^(-p_k S), (..., terms), p_k = (a + 2 pi i k) / (2 c).

    Bromwich's integral of L(p) / p, L(p) = E e^(-p S), whose alternating tail is averaged (Abate
    and Whitt 1992):

        P = 2 e^(a/2) sum_k (-1)^k Re L(p_k) / (a + 2 pi i k),   half of the term of k = 0.
    """
    k = np.arange(logarithm.shape[-1])
    terms = (
        2
        * math.exp(_ABSCISSA / 2)
        * (-1.0) ** k
        * (np.exp(logarithm) / (_ABSCISSA + 2j * math.pi * k)).real
    )
    terms[..., 0] /= 2
    return np.asarray(np.clip(np.cumsum(terms, axis=-1)[..., -_AVERAGED - 1 :] @ _BINOMIAL, 0, 1))


def terms_for(width: float) -> int:
    """The number of terms that suffice for a sum S with that standard deviation over its mean."""
    doublings = math.ceil(math.log2(max(_NARROWEST / max(width, 1e-9), 1)))
    return int(min(_TERMS * 2**doublings, _MAX_TERMS)) + _AVERAGED + 1


def log_transform(law: Law, scores: FloatArray, c: float, terms: int) -> ComplexArray:
    """Ln E exp(-p_k e^(s - m)) of one score s at every m, (scores, terms), up to a multiple of 2 pi
    i.
    """
    edges = math.log(2 * c * RANGE / _ABSCISSA) - _STEPS
    lowest = law.cdf(scores + edges[-1])[:, None]
    if law.resolution * _MOST_PANELS > _STEPS[-1]:
        # Few different panels, so that most laws share what is computed for them.
        x, turned = _turned_panels(c, terms, min(2.0 ** math.floor(math.log2(law.resolution)), 4.0))
        value = lowest + law.density(scores[:, None] + x) @ turned
    else:
        value = lowest + _mean_below_each(law, scores, edges, lambda x: _turned(x, c, terms))
    return np.asarray(np.log(np.maximum(np.abs(value), 1e-300)) + 1j * np.angle(value))


@lru_cache(8)
def _turned_panels(c: float, terms: int, resolution: float) -> tuple[FloatArray, ComplexArray]:
    """Nodes of x, and exp(-p e^x) with their weights, (nodes, terms)."""
    x, weights = _common_panels(math.log(2 * c * RANGE / _ABSCISSA) - _STEPS, resolution)
    return x, weights[:, None] * _turned(x, c, terms).T


def _turned(x: FloatArray, c: float, terms: int) -> ComplexArray:
    """exp(-p e^x) for the first p and every x, (..., terms, nodes)."""
    p = (_ABSCISSA + 2j * math.pi * np.arange(terms)) / (2 * c)
    return np.asarray(np.exp(-p[:, None] * np.exp(x)[..., None, :]))
