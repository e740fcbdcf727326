"""P(max w > threshold) of a softmax row of any scores, by the inversion of a Laplace transform.

As in `normal_survival` it is the sum over the groups of n int dF(m) P(S < c), S the sum of e^(s - m) over the others.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.theory._grids import RANGE
from sdpa.theory.groups import Law
from sdpa.theory.largest import MOST_PANELS, common_panels, mean_below_each

FloatArray = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]

_ABSCISSA = 25.0  # the inversion is good to e^-25
_TERMS, _MAX_TERMS, _AVERAGED = 40, 1280, 14
_NARROWEST = 0.0625  # the width for which the terms suffice
# Edges below the highest e^x that counts. The phase turns by 2 pi k e^x: fine panels where e^x is largest.
_STEPS = np.concatenate([np.arange(0, 3, 0.2), np.arange(3, 8, 0.7), np.arange(8, 2 * RANGE, 3.0)])


def sum_below(logarithm: ComplexArray) -> FloatArray:
    """P(S < c) of a sum S from ln E e^(-p_k S), (..., terms).

    Bromwich's integral of L(p) / p, L(p) = E e^(-p S), as a sum over p_k = (a + 2 pi i k) / (2 c), whose alternating
    tail is averaged as Euler did (Abate and Whitt 1992):

        P = 2 e^(a/2) sum_k (-1)^k Re L(p_k) / (a + 2 pi i k),   half of the term of k = 0.
    """
    k = np.arange(logarithm.shape[-1])
    terms = 2 * math.exp(_ABSCISSA / 2) * (-1.0) ** k * (np.exp(logarithm) / (_ABSCISSA + 2j * math.pi * k)).real
    terms[..., 0] /= 2
    return np.asarray(np.clip(np.cumsum(terms, axis=-1)[..., -_AVERAGED - 1 :] @ _euler_weights(), 0, 1))


def terms_for(width: float) -> int:
    """The number of terms that suffice for a sum S with that standard deviation over its mean."""
    doublings = math.ceil(math.log2(max(_NARROWEST / max(width, 1e-9), 1)))
    return int(min(_TERMS * 2**doublings, _MAX_TERMS)) + _AVERAGED + 1


def log_transform(law: Law, scores: FloatArray, c: float, terms: int) -> ComplexArray:
    """Ln E exp(-p_k e^(s - m)) of one score s at every m, (scores, terms), up to a multiple of 2 pi i.

    Args:
        law: of s.
        scores: m.
        c: above 0.
        terms: the number of k.
    """
    value = _transform(law, scores, c, terms)
    return np.asarray(np.log(np.maximum(np.abs(value), 1e-300)) + 1j * np.angle(value))


def _transform(law: Law, scores: FloatArray, c: float, terms: int) -> ComplexArray:
    edges = math.log(2 * c * RANGE / _ABSCISSA) - _STEPS
    lowest = law.cdf(scores + edges[-1])[:, None]
    if law.resolution * MOST_PANELS > _STEPS[-1]:
        # Few different panels, so that most laws share what is computed for them.
        x, turned = _turned_panels(c, terms, min(2.0 ** math.floor(math.log2(law.resolution)), 4.0))
        return np.asarray(lowest + law.density(scores[:, None] + x) @ turned)
    return np.asarray(lowest + mean_below_each(law, scores, edges, lambda x: _turned(x, c, terms)))


@lru_cache(8)
def _turned_panels(c: float, terms: int, resolution: float) -> tuple[FloatArray, ComplexArray]:
    """Nodes of x, and exp(-p e^x) with their weights, (nodes, terms)."""
    x, weights = common_panels(math.log(2 * c * RANGE / _ABSCISSA) - _STEPS, resolution)
    return x, weights[:, None] * _turned(x, c, terms).T


def _turned(x: FloatArray, c: float, terms: int) -> ComplexArray:
    """exp(-p e^x) for the first p and every x, (..., terms, nodes)."""
    p = (_ABSCISSA + 2j * math.pi * np.arange(terms)) / (2 * c)
    return np.asarray(np.exp(-p[:, None] * np.exp(x)[..., None, :]))


@cache
def _euler_weights() -> FloatArray:
    """Binomial weights of the last partial sums."""
    return np.asarray(special.comb(_AVERAGED, np.arange(_AVERAGED + 1)) / 2.0**_AVERAGED)
