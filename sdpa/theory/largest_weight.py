"""The largest weight of a row of any scores: its mean, and the chance that it exceeds a threshold.

If the largest score is m, max w = 1 / (1 + S), with S the sum of e^(s - m) over the other scores,
and 1 / (1 + S) = int e^-t e^(-t S) dt, t = e^v. Each other score is below m and gives

    A(v, m) = E[1(s < m) exp(-e^(v + s - m))].

So, with n scores in each group,

    E max w = sum over groups of n int dF(m) int e^(v - e^v) A^(n-1)(v, m) B dv,

where B is the product of the powers of A of the other groups.

Max w exceeds a threshold from 1/2, which no second weight can exceed, if S < c for one score m of
the row, c = (1 - threshold) / threshold, so that

    P = sum over groups of n int dF(m) P(S < c)

from the Laplace transform of S. Here the other scores need not lie below m.

Letters: s are scores and m that of one key, in nats; v = ln t of a Laplace variable t; x = s - m. In
Bromwich's integral the Laplace variable p is complex, and the nodes p_k lie on a line right of the
only pole (`sum_below`):

         Im p
          |      x  p_2
          |      x  p_1 = (a + 2 pi i) / (2 c)
        --o------x----> Re p
        pole     p_0 = a / (2 c)
        at 0
"""

import itertools
from collections.abc import Callable, Sequence
from math import ceil, exp, log, log2, pi
from typing import Any, NamedTuple

import numpy as np
from scipy.special import comb

from sdpa._arrays import FloatArray
from sdpa.theory.integrals import (
    HIGHEST,
    RANGE,
    STEP,
    ComplexArray,
    ScoreLaw,
    gauss_panels,
    trapezoid,
)

NODES, _NODE_STEP = trapezoid(-RANGE, HIGHEST, STEP)
NODE_WEIGHTS = _NODE_STEP * np.exp(NODES - np.exp(NODES))
# Edges of panels below the largest score as shares of the whole width, narrower near that score,
# where weights vary on a scale of 1 in a width of up to 43. Half as many change E max w by 3e-15.
GRADED = np.array([0, 0.015, 0.04, 0.1, 0.22, 0.5, 1.0])
# Laws as narrow as this share of the width have nodes of their own. With 20, the inversion of rows of
# sigma = 0.39 is wrong by 3e-3; with 1,000, P changes by 3e-15.
_MOST_PANELS = 150

# The inversion is good to e^-a = 1e-11; 18 leaves 2e-8. The factor e^(a/2) multiplies rounding, which
# leaves 3e-9 with 32.
_ABSCISSA = 25.0
# Twenty terms change P by 5e-8. Eighty need finer panels (`_FINE_STEPS`): with these, P of 4 cosines
# changes by 7e-6.
_TERMS = 40
_MAX_TERMS = 1280  # of the narrowest S; 320 give a chance of 9e-6 in place of 1e-11
_AVERAGED = 14  # partial sums; 8 change P by 2e-7, and 20 by 1e-8
_BINOMIAL = comb(_AVERAGED, np.arange(_AVERAGED + 1)) / 2.0**_AVERAGED  # for the last partial sums
# The deviation of S over its mean for which _TERMS terms suffice: 0.125, with twice as many for
# narrower S, changes P by 1e-13, and 0.03, with half as many, by 1e-8.
_NARROWEST = 0.0625
# Edges below the highest e^x that counts. The phase turns by 2 pi k e^x: fine panels where e^x is
# largest. Panels twice as wide change P by 4e-5 (fine), 4e-13 (middle) and 1e-12 (coarse), fine ones
# half as wide by 8e-12.
_FINE_STEPS = np.arange(0, 3, 0.2)
_MIDDLE_STEPS = np.arange(3, 8, 0.7)
_COARSE_STEPS = np.arange(8, 2 * RANGE, 3.0)
_STEPS = np.concatenate([_FINE_STEPS, _MIDDLE_STEPS, _COARSE_STEPS])


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
            mean += counts[group] * float(NODE_WEIGHTS @ (chances @ np.exp(log_product)))
    return mean


def others(counts: Sequence[float], group: int) -> FloatArray:
    """The counts of the scores beside one score of a group."""
    is_own = np.arange(len(counts)) == group
    return np.asarray(np.array(counts) - is_own)


def log_below(law: ScoreLaw, scores: FloatArray) -> FloatArray:
    """ln A, (scores m, nodes of v), A = P(s < m) - E[1(s < m) (1 - exp(-e^(v + s - m)))]."""
    reach = float(scores.max()) - law.lowest
    length = min(RANGE + 5, max(reach, law.resolution))
    missing = means_below(law, scores, -length * GRADED, _missing)
    present = law.cdf(scores)[:, None] - missing
    return np.asarray(np.log(np.maximum(present, 1e-300)))


def _missing(x: FloatArray) -> FloatArray:
    """1 - exp(-e^(v + x)) at every v and x = s - m, (..., nodes of v, nodes of x)."""
    exponential = np.exp(NODES[:, None] + x[..., None, :])
    return -np.expm1(-exponential)


def means_below(
    law: ScoreLaw,
    scores: FloatArray,
    edges: FloatArray,
    functions: Callable[[FloatArray], Any],
) -> Any:
    """E of functions of x = s - m between falling edges of x, (scores m, functions).

    The functions are (..., functions, nodes) at nodes x. They vary little between edges, but the law
    may be narrower than the distance of two edges. A wide law, which fewer than `_MOST_PANELS`
    panels resolve, has the same nodes x for all m, finer than the edges, and its density there:

        edges    |        |    |  | m          m       functions (computed once) times density:
        x        |..|..|..|..|.|..| 0          |       one product of matrices, (m, x) (x, functions)
        law   .-------------------------.

    A narrow law, or one with an infinite density, has nodes of its own between the edges, below each
    m; functions are computed for each m, 16 at a time for memory:

        edges    |        |    |  | m
        s            :.::.              `between`: scores with their probabilities
        law          .-'-.
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
        part_means = functions(x) @ chances[:, :, None]
        means.append(part_means[..., 0])
    return np.concatenate(means)


def sum_below(logarithm: ComplexArray) -> FloatArray:
    """P(S < c) from ln E e^(-p_k S), (..., terms), p_k = (a + 2 pi i k) / (2 c).

    Bromwich's integral along a line right of 0, with L(p) = E e^(-p S), by the trapezoidal rule in
    steps of pi / c, where e^(c p) = e^(a/2) (-1)^k (Abate and Whitt 1992):

        P = 1/(2 pi i) int L(p) e^(c p) / p dp
          = 2 e^(a/2) sum_k (-1)^k Re L(p_k) / (a + 2 pi i k) + error,   half of the term of k = 0.

    The error is at most e^-a. The alternating sum converges slowly: the last partial sums are
    averaged with binomial weights (Euler's transformation).
    """
    k = np.arange(logarithm.shape[-1])
    abscissas = _ABSCISSA + 2j * pi * k
    values = (np.exp(logarithm) / abscissas).real
    terms = 2 * exp(_ABSCISSA / 2) * (-1.0) ** k * values
    terms[..., 0] /= 2
    partial_sums = np.cumsum(terms, axis=-1)
    probability = partial_sums[..., -_AVERAGED - 1 :] @ _BINOMIAL
    return np.asarray(np.clip(probability, 0, 1))


def terms_for(width: float) -> int:
    """The number of terms that suffice if S has this standard deviation over its mean."""
    ratio = _NARROWEST / max(width, 1e-9)
    doublings = ceil(log2(max(ratio, 1)))
    terms = min(_TERMS * 2**doublings, _MAX_TERMS)
    return int(terms) + _AVERAGED + 1


def log_transform(
    law: ScoreLaw,
    scores: FloatArray,
    c: float,
    terms: int,
) -> ComplexArray:
    """ln E exp(-p_k e^(s - m)) of one score s at every m, (scores, terms), modulo 2 pi i."""
    edges = log(2 * c * RANGE / _ABSCISSA) - _STEPS
    lowest = law.cdf(scores + edges[-1])[:, None]
    value = lowest + means_below(law, scores, edges, lambda x: _turned(x, c, terms))
    size = np.maximum(np.abs(value), 1e-300)
    return np.asarray(np.log(size) + 1j * np.angle(value))


def _turned(x: FloatArray, c: float, terms: int) -> ComplexArray:
    """exp(-p e^x) for the first p and every x, (..., terms, nodes)."""
    frequencies = 2j * pi * np.arange(terms)
    p = (_ABSCISSA + frequencies) / (2 * c)
    exponential = np.exp(x)[..., None, :]
    return np.asarray(np.exp(-p[:, None] * exponential))
