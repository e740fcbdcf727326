"""The law of a sum of e^s, from its Laplace transform.

Max w exceeds a threshold from 1/2, which no second weight can exceed, if S < c for one score m of
the row,

    S = sum of e^(s - m) over the other scores,   c = (1 - threshold) / threshold,

so that P = sum over groups of n int dF(m) P(S < c). The other scores need not lie below m.
"""

from math import ceil, exp, log, log2, pi

import numpy as np
from scipy.special import comb

from sdpa.theory.integrals import RANGE, ComplexArray, FloatArray
from sdpa.theory.integrands import Law
from sdpa.theory.largest_weight import means_below

_ABSCISSA = 25.0  # the inversion is good to e^-25
_TERMS = 40
_MAX_TERMS = 1280
_AVERAGED = 14
_BINOMIAL = comb(_AVERAGED, np.arange(_AVERAGED + 1)) / 2.0**_AVERAGED  # for the last partial sums
_NARROWEST = 0.0625  # the width for which _TERMS terms suffice
# Edges below the highest e^x that counts. The phase turns by 2 pi k e^x: fine panels where e^x is
# largest.
_FINE_STEPS = np.arange(0, 3, 0.2)
_MIDDLE_STEPS = np.arange(3, 8, 0.7)
_COARSE_STEPS = np.arange(8, 2 * RANGE, 3.0)
_STEPS = np.concatenate([_FINE_STEPS, _MIDDLE_STEPS, _COARSE_STEPS])


def sum_below(logarithm: ComplexArray) -> FloatArray:
    """P(S < c) from ln E e^(-p_k S), (..., terms), p_k = (a + 2 pi i k) / (2 c).

    Bromwich's integral of L(p) / p, L(p) = E e^(-p S), whose alternating tail is averaged (Abate
    and Whitt 1992):

        P = 2 e^(a/2) sum_k (-1)^k Re L(p_k) / (a + 2 pi i k),   half of the term of k = 0.
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
    law: Law,
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
