"""Theory for the explorer of the page: exact expectations to interpolate, and rows to test its numbers.

Between the Chebyshev points p_k = (1 - cos(pi k / N)) / 2 of the exponent, the polynomial through them interpolates the
expectations, in barycentric form (Berrut and Trefethen 2004). This module and attention.js use the same form.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa import row_diagnostics, softmax
from sdpa.theory import attention_expectations

Floats = npt.NDArray[np.float64]

WIDTHS = tuple(2**power for power in range(2, 10))
LENGTHS = tuple(2**power for power in range(2, 7))
POSITIONS = 120  # steps of the slider, including thirds, halves and quarters of the way
QUANTITIES = ("max_weight", "entropy", "jacobian_norm")
_DEGREE = 40
_DIGITS, _VECTOR_DIGITS = 9, 11  # fewer digits than in a double, so that machines agree
_VECTOR_WIDTHS, _VECTOR_LENGTHS, _VECTOR_EXPONENTS = (4, 64, 512), (4, 16, 64), (0.0, 1 / 3, 1 / 2, 2 / 3, 1.0)
# Rows that random draws do not cover: two keys, equal scores, a tie of the largest, one far ahead, one far behind.
_ODD_ROWS = ([0.5, -0.25], [3.0] * 5, [7.0, 7.0, 1.0], [600.0, 1.0, 0.0, -2.5], [-600.0, 0.0, 0.1])


def expectations() -> dict[str, Any]:
    """Expected max weight, entropy and root mean square of |J|_F of Gaussian q and keys, by width, length and exponent.

    Returns:
        JSON values: `exponents` (the points), `widths`, `lengths`, for each quantity an array (width, length, point),
        and in `errors` the largest difference between interpolated and exact values, over every position of the
        slider and between the points; `effective_keys` is e^entropy.
    """
    points = _points()
    values = np.array([[[_exact(d_k, n, p) for p in points] for n in LENGTHS] for d_k in WIDTHS])
    values = np.vectorize(lambda value: float(f"{value:.{_DIGITS}g}"))(values)
    tables = {name: values[..., i].tolist() for i, name in enumerate(QUANTITIES)}
    errors = {name: _up(error) for name, error in _errors(points, values).items()}
    return {"exponents": points.tolist(), "widths": WIDTHS, "lengths": LENGTHS, **tables, "errors": errors}


def interpolated(points: Floats, values: Floats, p: float) -> Floats:
    """The polynomial through (points, values) at p: sum c_k v_k / sum c_k, c_k = (-1)^k / (p - p_k), halved at ends.

    Args:
        points: Chebyshev points, (points,).
        values: at these points, (points, ...).
        p: the place of interpolation.

    Returns:
        (...), exact at the points.

    >>> points = _points()
    >>> abs(interpolated(points, np.exp(points), 0.3) - math.exp(0.3)) < 1e-12
    np.True_
    """
    if p in points:
        return np.asarray(values[points.tolist().index(p)])
    signs = np.where(np.arange(len(points)) % 2, -1.0, 1.0)
    signs[[0, -1]] /= 2
    shares = signs / (p - points)
    return np.asarray(np.tensordot(shares, values, axes=1) / shares.sum())


def vectors() -> list[dict[str, Any]]:
    """Rows of scores with the library's results under some divisors; the page computes the same to 1e-9.

    Returns:
        JSON values: for each row `scores`, and in `results` for each divisor its quantities and its weights.
    """
    rng = np.random.default_rng(0)
    rows = []
    for d_k in _VECTOR_WIDTHS:
        for n_keys in _VECTOR_LENGTHS:
            scores = (rng.standard_normal((n_keys, d_k)) @ rng.standard_normal(d_k)).round(6).tolist()
            rows.append(_vector(scores, [d_k**p for p in _VECTOR_EXPONENTS]))
    return rows + [_vector(scores, [1.0]) for scores in _ODD_ROWS]


def _points() -> Floats:
    """The Chebyshev points from 0 to 1, to 15 digits, so that the page and this module use the same numbers."""
    points = (1 - np.cos(np.pi * np.arange(_DEGREE + 1) / _DEGREE)) / 2
    return np.array([float(f"{point:.15g}") for point in points])


def _exact(d_k: int, n_keys: int, p: float) -> list[float]:
    """The expectations of `QUANTITIES` under the divisor d_k^p, in order."""
    exact = attention_expectations(d_k, n_keys, float(d_k**p))
    return [getattr(exact, name) for name in QUANTITIES]


def _errors(points: Floats, values: Floats) -> dict[str, float]:
    """The largest distance from the exact values, by quantity."""
    between = (points[1:] + points[:-1]) / 2
    worst = dict.fromkeys((*QUANTITIES, "effective_keys"), 0.0)
    for p in [*(np.arange(POSITIONS + 1) / POSITIONS).tolist(), *between.tolist()]:
        got = interpolated(points, np.moveaxis(values, 2, 0), p)
        exact = np.array([[_exact(d_k, n, p) for n in LENGTHS] for d_k in WIDTHS])
        apart = np.abs(got - exact).max(axis=(0, 1)).tolist()
        keys = np.abs(np.exp(got[..., 1]) - np.exp(exact[..., 1])).max()
        worst = {name: max(worst[name], error) for name, error in zip(worst, [*apart, float(keys)], strict=True)}
    return worst


def _up(error: float) -> float:
    """An error rounded up to two digits.

    >>> _up(1.2345e-7), _up(9.99e-7)
    (1.3e-07, 1e-06)
    """
    unit = 10.0 ** (math.floor(math.log10(error)) - 1)
    return float(f"{math.ceil(error / unit) * unit:.1e}")


def _vector(scores: list[float], divisors: list[float]) -> dict[str, Any]:
    """A row of scores and its results under each divisor, rounded to the digits of the page."""
    row = np.array(scores)[None, None]
    found = row_diagnostics(row, divisors)
    results = []
    for i, divisor in enumerate(divisors):
        values = {name: _as_embedded(getattr(found, name)[i].item()) for name in QUANTITIES}
        weights = [_as_embedded(weight) for weight in softmax(row[0, 0] / divisor).tolist()]
        results.append({"divisor": divisor, **values, "weights": weights})
    return {"scores": scores, "results": results}


def _as_embedded(value: float) -> float:
    return float(f"{value:.{_VECTOR_DIGITS}g}")
