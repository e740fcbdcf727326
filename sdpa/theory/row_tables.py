"""Values of Gaussian rows at many sigma: Chebyshev interpolation in ln sigma, one octave at a time.

Each value is a smooth function of ln sigma. Neighbouring d_k and divisors need the same sigma again, so that the
coefficients of every octave are stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.metrics import SATURATED
from sdpa.theory.rows import GaussianRow

FloatArray = npt.NDArray[np.float64]
ValuesOf = Callable[[GaussianRow], list[float]]

_NODES = 12
_OCTAVE = math.log(2)


def row_values(sigma: FloatArray, n_keys: float) -> FloatArray:
    """Max weight, entropy, tr J, |J|_F^2, |J z|^2 and sum w^2 expected of rows at each sigma, (len(sigma), 6)."""
    return _interpolated(sigma, n_keys, _row_means)


def row_spreads(sigma: FloatArray, n_keys: float) -> FloatArray:
    """Variances of max weight, entropy, tr J and |J|_F^2, and means in the variance of |dL/dq|^2; 8 columns."""
    return _interpolated(sigma, n_keys, _row_variances)


def saturated_rows(sigma: FloatArray, n_keys: float) -> FloatArray:
    """P(max w > SATURATED) = n Phi(y / sigma) of rows at each sigma, by interpolation of y.

    It falls like e^(-c / sigma^2) towards small sigma, where y is nearly constant: within 1e-8 of the truth relatively,
    or within 1e-10, since lower octaves of sigma, in which it stays below that, count as 0.
    """
    result = np.zeros(len(sigma))
    some = sigma >= 2.0 ** _first_saturated_octave(n_keys)
    if some.any():
        y = _interpolated(sigma[some], n_keys, _saturation)[:, 0]
        result[some] = n_keys * special.ndtr(y / sigma[some])
    return result


@cache
def _first_saturated_octave(n_keys: float) -> int:
    """The lowest octave of sigma in which P(max w > SATURATED) reaches 1e-10."""
    return next(
        i for i in itertools.count(-2) if GaussianRow(2.0 ** (i + 1), n_keys).max_weight_survival(SATURATED) > 1e-10
    )


def _row_means(row: GaussianRow) -> list[float]:
    return [
        row.max_weight(),
        row.entropy(),
        row.jacobian_trace(),
        row.jacobian_square(),
        row.score_gradient_square(),
        row.power_sum(2),
    ]


def _row_variances(row: GaussianRow) -> list[float]:
    moments = [
        (row.max_weight(), row.max_weight_square()),
        (row.jacobian_trace(), row.metric_mean("(tr J)^2")),
        (row.jacobian_square(), row.metric_mean("|J|^4")),
    ]
    variances = [second - mean**2 for mean, second in moments]
    variances.insert(1, row.entropy_variance())
    return variances + [row.metric_mean(name) for name in ("|Jx|^4", "|Jx|^2 |J|^2", "|J|^4", "tr J^4")]


def _saturation(row: GaussianRow) -> list[float]:
    return [row.sigma * float(special.ndtri(row.max_weight_survival(SATURATED) / row.n_keys))]


def _interpolated(sigma: FloatArray, n_keys: float, values_of: ValuesOf) -> FloatArray:
    """Values of a function of rows at each sigma, (len(sigma), values)."""
    place = np.log(sigma) / _OCTAVE
    octaves = np.floor(place)
    pieces = []
    for octave in np.unique(octaves):  # in rising order, as sigma is
        coefficients = _octave_coefficients(int(octave), n_keys, values_of)
        pieces.append(np.polynomial.chebyshev.chebval(2 * (place[octaves == octave] - octave) - 1, coefficients).T)
    return np.concatenate(pieces)


@cache
def _octave_coefficients(octave: int, n_keys: float, values_of: ValuesOf) -> FloatArray:
    """Chebyshev coefficients in ln sigma over sigma from 2^octave to 2^(octave + 1), (nodes, values)."""
    nodes = np.polynomial.chebyshev.chebpts1(_NODES)
    values = [values_of(GaussianRow(2.0 ** (octave + (node + 1) / 2), n_keys)) for node in nodes]
    return np.asarray(np.polynomial.chebyshev.chebfit(nodes, np.array(values), _NODES - 1))
