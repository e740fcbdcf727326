"""The mean of the largest weight of a row of any scores.

If the largest score is m, max w = 1 / (1 + S), with S the sum of e^(s - m) over the other scores,
and 1 / (1 + S) = int e^-t e^(-t S) dt, t = e^v. Each other score is below m and gives

    A(v, m) = E[1(s < m) exp(-e^(v + s - m))].

So, with n scores in each group,

    E max w = sum over groups of n int dF(m) int e^(v - e^v) A^(n-1)(v, m) B dv,

where B is the product of the powers of A of the other groups.
"""

import itertools
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from sdpa.theory.integrals import HIGHEST, RANGE, STEP, FloatArray, gauss_panels, trapezoid
from sdpa.theory.integrands import Law

V, _V_STEP = trapezoid(-RANGE, HIGHEST, STEP)
OF_LARGEST = _V_STEP * np.exp(V - np.exp(V))
# Edges of panels below the largest score as shares of the whole width, narrower near that score.
GRADED = np.array([0, 0.015, 0.04, 0.1, 0.22, 0.5, 1.0])
_MOST_PANELS = 150


class Candidates(NamedTuple):
    """Scores of a group that may be the largest of the row, and the probability of each."""

    group: int
    chances: FloatArray  # (scores,)
    log_below: FloatArray  # ln A of every law, (laws, scores, nodes of v)


def largest_mean(candidates: Sequence[Candidates], counts: Sequence[float]) -> float:
    """E max w of a row with the given number of scores in each group."""
    mean = 0.0
    for group, chances, log_below in candidates:
        if counts[group]:
            log_product = np.tensordot(others(counts, group), log_below, 1)
            mean += counts[group] * float(OF_LARGEST @ (chances @ np.exp(log_product)))
    return mean


def others(counts: Sequence[float], group: int) -> FloatArray:
    """The counts of the scores beside one score of a group."""
    is_own = np.arange(len(counts)) == group
    return np.asarray(np.array(counts) - is_own)


def log_below(law: Law, scores: FloatArray) -> FloatArray:
    """ln A, (scores m, nodes of v), A = P(s < m) - E[1(s < m) (1 - exp(-e^(v + s - m)))]."""
    reach = float(scores.max()) - law.lowest
    length = min(RANGE + 5, max(reach, law.resolution))
    missing = means_below(law, scores, -length * GRADED, _missing)
    present = law.cdf(scores)[:, None] - missing
    return np.asarray(np.log(np.maximum(present, 1e-300)))


def _missing(x: FloatArray) -> FloatArray:
    """1 - exp(-e^(v + x)) at every v and x = s - m, (..., nodes of v, nodes of x)."""
    exponential = np.exp(V[:, None] + x[..., None, :])
    return np.asarray(-np.expm1(-exponential))


def means_below(
    law: Law,
    scores: FloatArray,
    edges: FloatArray,
    functions: Callable[[FloatArray], Any],
) -> Any:
    """E of functions of x = s - m between falling edges of x, (scores m, functions).

    The functions are (..., functions, nodes) at nodes x. They vary little between edges. Few panels
    that resolve the law are the same for all m; a narrower law has panels of its own.
    """
    rising = edges[::-1]
    if law.resolution * _MOST_PANELS > rising[-1] - rising[0]:
        pieces = [rising[:1]]
        for low, high in itertools.pairwise(rising):
            panels = ceil((high - low) / law.resolution)
            pieces.append(np.linspace(low, high, panels + 1)[1:])
        x, weights = gauss_panels(np.concatenate(pieces), 16)
        weighted = functions(x) * weights
        return law.density(scores[:, None] + x) @ weighted.T
    means = []
    for part in np.array_split(scores, len(scores) // 16 + 1):
        s, chances = law.between(part[:, None] + edges)
        x = np.minimum(s - part[:, None], edges[0])
        of_part = functions(x) @ chances[:, :, None]
        means.append(of_part[..., 0])
    return np.concatenate(means)
