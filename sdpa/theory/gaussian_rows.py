"""Expected values of many Gaussian rows at once, each with a deviation and a length of its own.

A softmax row over n independent N(0, sigma^2) scores has the values of `row_tables`, smooth functions of ln sigma and
ln n. From sigma = 1/8 those tables give them; below, a polynomial in sigma, because they stay smooth down to equal
weights at sigma = 0. Every length up to 8 is computed; over (8, 128], (128, 2048] and so on, the lengths that share
their integrals in `rows`, a polynomial of degree 6 in ln n interpolates at whole numbers near Chebyshev's nodes.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from sdpa.theory._grids import span
from sdpa.theory.lengths import lagrange
from sdpa.theory.row_tables import row_values, saturated_rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.integer]

OF_GAUSSIAN_ROWS = ("max_weight", "entropy", "jacobian_square", "saturated_rows")
_POWERS = [0, 2]  # nearly powers of n, of which the logarithm is interpolated
_EXACT = 8  # each length up to this one is computed
_NODES = (1 - np.cos(np.pi * np.arange(7) / 6)) / 2
_SMALLEST_OCTAVE = -3
_SMALL_NODES = 2.0**_SMALLEST_OCTAVE * (1 - np.cos(np.pi * np.arange(1, 8) / 7)) / 2  # and 0


def gaussian_rows(sigma: FloatArray, n_keys: IntArray) -> FloatArray:
    """E max w, E H in nats, E |J|_F^2 and P(max w > 0.99) of each row.

    Interpolation adds absolute errors below 1e-5, and relative ones below 1e-5 to E max w and E |J|_F^2.

    Args:
        sigma: standard deviation of the scores of each row, from 0, (rows,).
        n_keys: length of each row, from 2, (rows,).

    Returns:
        (rows, 4), in the order of OF_GAUSSIAN_ROWS.

    >>> gaussian_rows(np.array([1.0, 0.0]), np.array([64, 4])).round(6)
    array([[0.107274, 3.684746, 0.03408 , 0.      ],
           [0.25    , 1.386294, 0.1875  , 0.      ]])
    """
    found = np.empty((len(sigma), len(OF_GAUSSIAN_ROWS)))
    lengths, place = np.unique(n_keys, return_inverse=True)
    spans = np.array([span(n)[1] for n in lengths.tolist()])[place]
    with np.errstate(divide="ignore"):
        octaves = np.maximum(np.floor(np.log2(sigma)), _SMALLEST_OCTAVE - 1)
    for longest in np.unique(spans):
        nodes = _length_nodes(n_keys[spans == longest])
        for octave in np.unique(octaves[spans == longest]):  # lengths side by side share their integrals
            rows = np.flatnonzero((spans == longest) & (octaves == octave))
            rows = rows[np.argsort(sigma[rows])]
            of_nodes = np.stack([_of_length(sigma[rows], node) for node in nodes], axis=1)
            of_nodes[..., _POWERS] = np.log(of_nodes[..., _POWERS])
            weights = lagrange(np.log(n_keys[rows]), np.log(nodes))
            found[rows] = (weights[:, None, :] @ of_nodes)[:, 0]
    found[:, _POWERS] = np.exp(found[:, _POWERS])
    return np.maximum(found, 0.0)


def _length_nodes(n_keys: IntArray) -> list[int]:
    """The lengths at which to compute, for lengths that share their integrals: all of them, if they are few."""
    lengths = np.unique(n_keys)
    shortest, longest = span(int(lengths[0]))
    if longest > _EXACT and len(lengths) > len(_NODES):
        lengths = np.unique(np.round((shortest + 1) * (longest / (shortest + 1)) ** _NODES).astype(int))
    return [int(n) for n in lengths]


def _of_length(sigma: FloatArray, n_keys: int) -> FloatArray:
    """The values of rows of one length at rising sigma of one octave, or of all small ones, (len(sigma), 4)."""
    if sigma[0] >= 2.0**_SMALLEST_OCTAVE:
        return _table(sigma, n_keys)
    return np.asarray(np.polynomial.polynomial.polyval(sigma, _small_coefficients(n_keys)).T)


@cache
def _small_coefficients(n_keys: int) -> FloatArray:
    """Coefficients of the polynomials in sigma through the values at small deviations, (degree + 1, 4)."""
    uniform = [1 / n_keys, math.log(n_keys), (1 - 1 / n_keys) / n_keys, 0.0]
    powers = np.vander(_SMALL_NODES, len(_SMALL_NODES) + 1, increasing=True)
    coefficients = np.linalg.solve(powers[:, 1:], _table(_SMALL_NODES, n_keys) - uniform)
    return np.concatenate([[uniform], coefficients])


def _table(sigma: FloatArray, n_keys: int) -> FloatArray:
    """The values at rising sigma above 0."""
    max_weight, entropy, _, square, _, _ = row_values(sigma, n_keys).T
    return np.column_stack([max_weight, entropy, square, saturated_rows(sigma, n_keys)])
