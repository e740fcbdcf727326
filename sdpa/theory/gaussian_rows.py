"""Expected values of many Gaussian rows, by interpolation over ln sigma, the deviation of their
scores, and ln n.

Over ln sigma, Chebyshev polynomials interpolate one octave at a time; neighbouring d_k and divisors
need the same sigma again, so that the coefficients of every octave are stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.metrics import SATURATED
from sdpa.theory.integrals import FloatArray, lagrange
from sdpa.theory.rows import GaussianRow, Row

IntArray = npt.NDArray[np.integer]
Function = Callable[[GaussianRow], float]
RowFunctions = dict[str, Callable[[Row], float]]

OF_GAUSSIAN_ROWS = ("max_weight", "entropy", "jacobian_square", "saturated_rows")
_NODES = 12  # of an octave
_CHEBYSHEV = np.polynomial.chebyshev.chebpts1(_NODES)
_OF_SATURATED = math.log1p(-SATURATED)
_OCTAVE = math.log(2)
# For a mean over lengths: each up to this one is computed, longer ones between so many nodes in
# pieces of this ratio.
_EXACT_LENGTHS, _LENGTH_NODES, _PIECE = 16, 12, 16
_LEAST_SIGMA = 1e-9  # up to it the weights of a row are equal within about 1e-9


ROW_MEANS: RowFunctions = {
    "max_weight": Row.max_weight,
    "entropy": Row.entropy,
    "jacobian_trace": Row.jacobian_trace,
    "jacobian_square": Row.jacobian_square,
    "along": Row.score_gradient_square,
    "collision": lambda row: row.power_sum(2),
}
# Variances of metrics, and E |J z|^4, E |J z|^2 |J|_F^2, E |J|_F^4 and E tr J^4.
ROW_SPREADS: dict[str, Function] = {
    "max_weight": lambda row: row.max_weight_square() - row.max_weight() ** 2,
    "entropy": GaussianRow.entropy_variance,
    "jacobian_trace": lambda row: row.metric_mean("(tr J)^2") - row.jacobian_trace() ** 2,
    "jacobian_square": lambda row: row.metric_mean("|J|^4") - row.jacobian_square() ** 2,
    "along_fourth": lambda row: row.metric_mean("|Jx|^4"),
    "along_times_square": lambda row: row.metric_mean("|Jx|^2 |J|^2"),
    "jacobian_fourth": lambda row: row.metric_mean("|J|^4"),
    "trace_fourth": lambda row: row.metric_mean("tr J^4"),
}


def row_values(
    sigma: FloatArray, n_keys: float, of: Mapping[str, Function] = ROW_MEANS
) -> dict[str, FloatArray]:
    """Functions of rows of n_keys keys by name, at each sigma, rising, (rows,) each; ROW_MEANS or
    ROW_SPREADS.
    """
    return dict(zip(of, interpolated(sigma, n_keys, tuple(of.values())).T, strict=True))


def saturated_rows(
    sigma: FloatArray, n_keys: float, log_remainder: float = _OF_SATURATED
) -> FloatArray:
    """P(1 - max w < r) = n Phi(y / sigma) of rows at each sigma, by interpolation of y, which is
    nearly constant.

    Below the first octave, y is a polynomial in sigma^2 through values in that octave and its limit
    at 0, where the nearest scores with such a weight decide: y(0) = -ln((n - 1) (1 - r) / r) sqrt(1
    - 1 / n). With two keys, y has this value at every sigma. The relative error of P is below 1e-7
    down to 1e-40.

    sigma, (rows,), rises; ln r is at most ln(1/2), and by default that of a saturated row, r = 1 -
    SATURATED.
    """
    limit = (
        log_remainder - math.log1p(-math.exp(log_remainder)) - math.log(n_keys - 1)
    ) * math.sqrt(1 - 1 / n_keys)
    if n_keys == 2:
        return np.asarray(2 * special.ndtr(limit / sigma))
    quantile, first = (
        (_scaled_quantile(log_remainder),),
        2.0 ** _first_octave(n_keys, log_remainder),
    )
    low = sigma < first
    y = np.empty(len(sigma))
    if low.any():
        nodes = first * 2 ** ((_CHEBYSHEV + 1) / 2)
        through = np.append(limit, interpolated(nodes, n_keys, quantile)[:, 0])
        y[low] = lagrange(sigma[low] ** 2, np.append(0.0, nodes**2)) @ through
    if not low.all():
        y[~low] = interpolated(sigma[~low], n_keys, quantile)[:, 0]
    return np.asarray(n_keys * special.ndtr(y / sigma))


@cache
def _scaled_quantile(log_remainder: float) -> Function:
    """The function from a row to y = sigma Phi^-1(P(1 - max w < r) / n), the same object for the
    same r.
    """
    return lambda row: (
        row.sigma * float(special.ndtri(row.remainder_below(log_remainder) / row.n_keys))
    )


@cache
def _first_octave(n_keys: float, log_remainder: float) -> int:
    """The lowest octave of sigma, from 1/2, in which P(1 - max w < r) is resolved by its
    integral.
    """
    return next(
        i
        for i in itertools.count(-1)
        if GaussianRow(2.0**i, n_keys).remainder_below(log_remainder) > 1e-100
    )


def interpolated(sigma: FloatArray, n_keys: float, functions: tuple[Function, ...]) -> FloatArray:
    """Values of functions of rows at each sigma, rising, (len(sigma), functions)."""
    place = np.log(sigma) / _OCTAVE
    octaves = np.floor(place)
    pieces = []
    for octave in np.unique(octaves):
        coefficients = _octave_coefficients(int(octave), n_keys, functions)
        pieces.append(
            np.polynomial.chebyshev.chebval(
                2 * (place[octaves == octave] - octave) - 1, coefficients
            ).T
        )
    return np.concatenate(pieces)


@cache
def _octave_coefficients(octave: int, n_keys: float, functions: tuple[Function, ...]) -> FloatArray:
    """Chebyshev coefficients in ln sigma over sigma from 2^octave to 2^(octave + 1), (nodes,
    functions).
    """
    rows = [GaussianRow(2.0 ** (octave + (node + 1) / 2), n_keys) for node in _CHEBYSHEV]
    values = [[function(row) for function in functions] for row in rows]
    return np.asarray(np.polynomial.chebyshev.chebfit(_CHEBYSHEV, np.array(values), _NODES - 1))


def mean_over_lengths(
    values: Callable[[float], FloatArray], of_one: FloatArray, n_keys: float, shortest: int | None
) -> FloatArray:
    """(1 / N) sum of values(n) over the N lengths n = shortest ... n_keys; values(n_keys) without a
    shortest one.

    `of_one` are the values of a row of one key. From length 16 a polynomial of degree 11 in ln n
    interpolates over every factor of 16, at whole numbers near Chebyshev's nodes.

    >>> mean_over_lengths(lambda n: np.array([1 / n]), np.ones(1), n_keys=3, shortest=1)  # of 1, 1/2 and 1/3
    array([0.61111111])
    """
    if shortest is None:
        return values(n_keys)
    if not (n_keys == int(n_keys) and 1 <= shortest <= n_keys):
        raise ValueError(
            f"expected whole numbers with shortest from 1 to n_keys, got {shortest} and {n_keys}"
        )
    weights = length_weights(shortest, int(n_keys))
    return np.asarray(
        sum(weight * (of_one if n == 1 else values(n)) for n, weight in weights.items())
    )


@cache
def length_weights(shortest: int, longest: int) -> dict[int, float]:
    """Weights with which values at few lengths have the sum of the mean over all lengths, by
    length.
    """
    last = longest if longest - shortest < _EXACT_LENGTHS else min(longest, _EXACT_LENGTHS - 1)
    weights = dict.fromkeys(range(shortest, last + 1), 1.0)
    start = max(shortest, last + 1)
    while start <= longest:
        piece = int(_pieces(np.array([start]))[0])
        lengths, nodes = (
            np.arange(start, min(longest, piece * _PIECE - 1) + 1),
            _nodes_of_piece(piece),
        )
        for node, weight in zip(
            nodes, lagrange(np.log(lengths), np.log(nodes)).sum(axis=0), strict=True
        ):
            weights[int(node)] = weights.get(int(node), 0.0) + float(weight)
        start = int(lengths[-1]) + 1
    return {n: weight / (longest - shortest + 1) for n, weight in weights.items()}


def _pieces(n_keys: IntArray) -> IntArray:
    """The first length of the piece of each length: 16, 256 and so on; a length below 16 itself."""
    powers = np.floor(
        np.log(np.maximum(n_keys, 1) / _EXACT_LENGTHS) / math.log(_PIECE) + 1e-12
    ).astype(int)
    return np.where(
        n_keys < _EXACT_LENGTHS, n_keys, _EXACT_LENGTHS * _PIECE ** np.maximum(powers, 0)
    )


def _nodes_of_piece(piece: int) -> IntArray:
    """Whole numbers near Chebyshev's nodes of a piece."""
    ends = (np.cos(np.pi * np.arange(_LENGTH_NODES) / (_LENGTH_NODES - 1)) + 1) / 2
    return np.unique(np.round(piece * _PIECE**ends)).astype(int)


def gaussian_rows(sigma: FloatArray, n_keys: IntArray) -> FloatArray:
    """E max w, E H in nats, E |J|_F^2 and P(max w > 0.99) of many rows, each with a sigma and a
    length of its own.

    Lengths are interpolated as in `mean_over_lengths` where they are many. That adds absolute
    errors below 1e-5, and relative ones below 1e-5 to E max w and E |J|_F^2. sigma, from 0, and
    n_keys, from 2, are (rows,), and the result (rows, 4).

    >>> gaussian_rows(np.array([1.0, 0.0]), np.array([64, 4])).round(6)
    array([[0.107274, 3.684746, 0.03408 , 0.      ],
           [0.25    , 1.386294, 0.1875  , 0.      ]])
    """
    found = np.column_stack(
        [1 / n_keys, np.log(n_keys), (1 - 1 / n_keys) / n_keys, np.zeros(len(n_keys))]
    )
    pieces = np.where(sigma > _LEAST_SIGMA, _pieces(n_keys), 0)
    for piece in np.unique(pieces[pieces > 0]).tolist():
        rows = np.flatnonzero(pieces == piece)
        rows = rows[np.argsort(sigma[rows])]
        lengths, place = np.unique(n_keys[rows], return_inverse=True)
        nodes = lengths if len(lengths) <= _LENGTH_NODES else _nodes_of_piece(piece)
        found[rows] = 0.0
        for node, weights in zip(
            nodes.tolist(), lagrange(np.log(lengths), np.log(nodes)).T, strict=True
        ):
            row = row_values(sigma[rows], node) | {
                "saturated_rows": saturated_rows(sigma[rows], node)
            }
            found[rows] += weights[place, None] * np.column_stack(
                [row[name] for name in OF_GAUSSIAN_ROWS]
            )
    return np.asarray(np.maximum(found, 0.0))
