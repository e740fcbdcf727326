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
from sdpa.theory.lengths import lagrange
from sdpa.theory.rows import GaussianRow

FloatArray = npt.NDArray[np.float64]
ValuesOf = Callable[[GaussianRow], list[float]]

_NODES = 12
_OF_SATURATED = math.log1p(-SATURATED)
_OCTAVE = math.log(2)


def row_values(sigma: FloatArray, n_keys: float) -> FloatArray:
    """Max weight, entropy, tr J, |J|_F^2, |J z|^2 and sum w^2 expected of rows at each sigma, (len(sigma), 6)."""
    return _interpolated(sigma, n_keys, _row_means)


def row_spreads(sigma: FloatArray, n_keys: float) -> FloatArray:
    """Variances of max weight, entropy, tr J and |J|_F^2, and means in the variance of |dL/dq|^2; 8 columns."""
    return _interpolated(sigma, n_keys, _row_variances)


def saturated_rows(sigma: FloatArray, n_keys: float, log_remainder: float = _OF_SATURATED) -> FloatArray:
    """P(1 - max w < r) = n Phi(y / sigma) of rows at each sigma, by interpolation of y, which is nearly constant.

    Below the first octave, y is a polynomial in sigma^2 through values in that octave and its limit at 0: there the
    nearest scores with such a weight decide, one above n - 1 equal ones, so that

        y(0) = -ln((n - 1) (1 - r) / r) sqrt(1 - 1 / n).

    With two keys, y has this value at every sigma. The relative error of P is below 1e-7 down to 1e-40.

    Args:
        sigma: rising, (rows,).
        n_keys: from 2.
        log_remainder: ln r, at most ln(1/2); by default that of a saturated row, r = 1 - SATURATED.
    """
    limit = (log_remainder - math.log1p(-math.exp(log_remainder)) - math.log(n_keys - 1)) * math.sqrt(1 - 1 / n_keys)
    if n_keys == 2:
        return np.asarray(2 * special.ndtr(limit / sigma))
    values_of, first = _scaled_quantile(log_remainder), 2.0 ** _first_octave(n_keys, log_remainder)
    low = sigma < first
    y = np.empty(len(sigma))
    if low.any():
        nodes = first * 2 ** ((np.polynomial.chebyshev.chebpts1(_NODES) + 1) / 2)
        through = np.append(limit, _interpolated(nodes, n_keys, values_of)[:, 0])
        y[low] = lagrange(sigma[low] ** 2, np.append(0.0, nodes**2)) @ through
    if not low.all():
        y[~low] = _interpolated(sigma[~low], n_keys, values_of)[:, 0]
    return np.asarray(n_keys * special.ndtr(y / sigma))


@cache
def _scaled_quantile(log_remainder: float) -> ValuesOf:
    """The function from a row to y = sigma Phi^-1(P(1 - max w < r) / n), the same object for the same r."""
    return lambda row: [row.sigma * float(special.ndtri(row.remainder_below(log_remainder) / row.n_keys))]


@cache
def _first_octave(n_keys: float, log_remainder: float) -> int:
    """The lowest octave of sigma, from 1/2, in which P(1 - max w < r) is resolved by its integral."""
    return next(i for i in itertools.count(-1) if GaussianRow(2.0**i, n_keys).remainder_below(log_remainder) > 1e-100)


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
