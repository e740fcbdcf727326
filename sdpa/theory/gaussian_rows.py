"""Expected values of many Gaussian rows, interpolated over ln sigma and ln n.

sigma is the standard deviation of the scores of a row, in nats. Values f(sigma, n) are a polynomial
of each octave of sigma, and one of ln n for each piece of lengths (`row_law`); the chance P of a
saturated row, which spans a hundred decades, is interpolated as y = sigma Phi^-1(P / n).

    ln sigma    ... | .. . . . .. | .. . . . .. | ...      12 nodes an octave

Over ln sigma, Chebyshev polynomials
interpolate one octave at a time. Neighbouring d_k and divisors need the same octaves again, so that
their coefficients are stored.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from math import exp, log, log1p, sqrt

import numpy as np
from scipy.special import ndtr, ndtri

from sdpa._arrays import FloatArray, IntArray
from sdpa.metrics import SATURATED
from sdpa.theory.integrals import lagrange
from sdpa.theory.row_law import length_rule, pieces
from sdpa.theory.rows import GaussianRow, Row

Function = Callable[[Row], float]
RowFunction = Callable[..., FloatArray]  # values at sigma and n_keys, and further arguments

GAUSSIAN_ROW_MEANS = ("max_weight", "entropy", "jacobian_square", "saturated_rows")
_NODES = 12  # of an octave; 8 change P of 5,000 keys by 4e-5, 10 by 2e-7, and 16 by 2e-9
_CHEBYSHEV = np.polynomial.chebyshev.chebpts1(_NODES)
LOG_UNSATURATED = log1p(-SATURATED)
_OCTAVE = log(2)
# The least probability that an integral resolves; 1e-10 changes a chance by 5e-10, and 1e-300 none.
_RESOLVED = 1e-100
_LEAST_SIGMA = 1e-9  # up to it the weights of a row are equal within about 1e-9

ROW_MEANS: dict[str, Function] = {
    "max_weight": Row.max_weight,
    "entropy": Row.entropy,
    "jacobian_trace": Row.jacobian_trace,
    "jacobian_square": Row.jacobian_square,
    "along": Row.score_gradient_square,
    "collision": lambda row: row.power_sum(2),
}


def row_values(
    sigma: FloatArray,
    n_keys: float,
    functions: Mapping[str, Function] = ROW_MEANS,
) -> dict[str, FloatArray]:
    """Means by name at each sigma, rising, (rows,) each."""
    values = interpolated(sigma, n_keys, _values_of_row, tuple(functions.values()))
    return dict(zip(functions, values.T, strict=True))


def _values_of_row(
    sigma: float,
    n_keys: float,
    functions: tuple[Function, ...],
) -> FloatArray:
    row = GaussianRow(sigma, n_keys)
    return np.array([function(row) for function in functions])


def interpolated(
    sigma: FloatArray,
    n_keys: float,
    function: RowFunction,
    *arguments: Hashable,
) -> FloatArray:
    """Values of a function of rows at each sigma, rising, (rows, values)."""
    place = np.log(sigma) / _OCTAVE
    octaves = np.floor(place)
    values = []
    for octave in np.unique(octaves):
        coefficients = _octave_coefficients(int(octave), n_keys, function, *arguments)
        within = 2 * (place[octaves == octave] - octave) - 1
        values.append(np.polynomial.chebyshev.chebval(within, coefficients).T)
    return np.concatenate(values)


@cache
def _octave_coefficients(
    octave: int,
    n_keys: float,
    function: RowFunction,
    *arguments: Hashable,
) -> FloatArray:
    """Chebyshev coefficients in ln sigma from 2^octave to 2^(octave + 1), (nodes, values)."""
    sigmas = [2.0 ** (octave + (node + 1) / 2) for node in _CHEBYSHEV]
    values = [function(sigma, n_keys, *arguments) for sigma in sigmas]
    fit = np.polynomial.chebyshev.chebfit(_CHEBYSHEV, np.array(values), _NODES - 1)
    return np.asarray(fit)


def saturated_rows(sigma: FloatArray, n_keys: float) -> FloatArray:
    """P(1 - max w < r) = n Phi(y / sigma) at each sigma, r = 1 - SATURATED, by interpolation of y.

    y is nearly constant. Below the first octave, y is a polynomial in sigma^2 through values in
    that octave and its limit at 0,

        y(0) = -ln((n - 1) (1 - r) / r) sqrt(1 - 1 / n),

    because the nearest scores with such a weight decide there. With two keys, y has this value at
    every sigma. The relative error of P is below 1e-7 down to 1e-40.

    sigma is rising, (rows,).
    """
    log_odds = LOG_UNSATURATED - log1p(-exp(LOG_UNSATURATED)) - log(n_keys - 1)
    limit = log_odds * sqrt(1 - 1 / n_keys)
    if n_keys == 2:
        return np.asarray(2 * ndtr(limit / sigma))
    first = 2.0 ** _first_octave(n_keys)
    low = sigma < first
    y = np.empty(len(sigma))
    if low.any():
        nodes = first * 2 ** ((_CHEBYSHEV + 1) / 2)
        values = np.append(limit, interpolated(nodes, n_keys, _scaled_quantile))
        polynomials = lagrange(sigma[low] ** 2, np.append(0.0, nodes**2))
        y[low] = polynomials @ values
    if not low.all():
        y[~low] = interpolated(sigma[~low], n_keys, _scaled_quantile)[:, 0]
    return np.asarray(n_keys * ndtr(y / sigma))


def _scaled_quantile(sigma: float, n_keys: float) -> FloatArray:
    """y = sigma Phi^-1(P(1 - max w < r) / n) of a row, (1,)."""
    chance = GaussianRow(sigma, n_keys).remainder_below(LOG_UNSATURATED) / n_keys
    return np.array([sigma * ndtri(chance)])


@cache
def _first_octave(n_keys: float) -> int:
    """The lowest octave of sigma, from 1/2, in which the integral resolves the chance of saturation."""
    octave = -1
    while GaussianRow(2.0**octave, n_keys).remainder_below(LOG_UNSATURATED) <= _RESOLVED:
        octave += 1
    return octave


def gaussian_rows(
    sigma: FloatArray, n_keys: IntArray, names: Sequence[str] = GAUSSIAN_ROW_MEANS
) -> FloatArray:
    """E max w, E H in nats, E |J|_F^2 and P(max w > 0.99), for a sigma and length per row.

    Many lengths are interpolated as in `mean_over_lengths`. That adds absolute errors below 1e-5,
    and relative ones below 1e-5 to E max w and E |J|_F^2. sigma, from 0, and n_keys, from 2, are
    (rows,), and the result is (rows, 4), or (rows, names); fewer names take less time.

    >>> gaussian_rows(np.array([1.0, 0.0]), np.array([64, 4])).round(6)
    array([[0.107274, 3.684746, 0.03408 , 0.      ],
           [0.25    , 1.386294, 0.1875  , 0.      ]])
    """
    jacobian_square = (1 - 1 / n_keys) / n_keys
    uniform = 1 / n_keys, np.log(n_keys), jacobian_square, np.zeros(len(n_keys))
    by_name = dict(zip(GAUSSIAN_ROW_MEANS, uniform, strict=True))
    values = np.column_stack([by_name[name] for name in names])
    piece_of = np.where(sigma > _LEAST_SIGMA, pieces(n_keys), 0)
    for piece in np.unique(piece_of[piece_of > 0]).tolist():
        rows = np.flatnonzero(piece_of == piece)
        rows = rows[np.argsort(sigma[rows])]
        values[rows] = _rows_of_piece(sigma[rows], n_keys[rows], names)
    return np.asarray(np.maximum(values, 0.0))


def _rows_of_piece(
    sigma: FloatArray,
    n_keys: IntArray,
    names: Sequence[str],
) -> FloatArray:
    """Values of `gaussian_rows` at rising sigma, interpolated over the lengths of one piece."""
    lengths, place = np.unique(n_keys, return_inverse=True)
    nodes, weights = length_rule(lengths)
    totals = np.zeros((len(sigma), len(names)))
    means = {name: ROW_MEANS[name] for name in names if name in ROW_MEANS}
    for node, node_weights in zip(nodes.tolist(), weights.T, strict=True):
        values = row_values(sigma, node, means)
        if "saturated_rows" in names:
            values["saturated_rows"] = saturated_rows(sigma, node)
        columns = np.column_stack([values[name] for name in names])
        totals += node_weights[place, None] * columns
    return totals
