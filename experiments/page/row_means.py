"""Exact expectations of softmax rows in a form that a page can embed: polynomials in ln(1 + sigma), one per n_keys.

Given |q|, the scaled scores are independent N(0, sigma^2) with sigma = |q| / divisor. So curves over sigma, for each
n_keys, are enough for every d_k and every divisor: attention.js interpolates them and averages over |q|.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa.theory import GaussianRow

Floats = npt.NDArray[np.float64]

CURVES = ("max_weight", "entropy", "jacobian_square", "score_gradient_square")
RELATIVE_ERROR = 1e-5  # of the interpolated expectations up to 65,536 keys; tested against `attention_expectations`
_LONGEST = 8.0  # |q| above sqrt(d_k) + 8 has a probability below 1e-14
_SHARPER = 2.0  # sigma reaches this multiple of the largest of unscaled rows, for divisors below 1
_DIGITS = 9  # decimals of logarithms: fewer than in a double, so that machines agree


def row_means(widths: list[int], lengths: list[int]) -> dict[str, Any]:
    """ln E max w, ln E H, ln E |J|_F^2 and ln E |J z|^2 of Gaussian rows at Chebyshev points of s = ln(1 + sigma).

    The points are s_i = (1 - cos(pi i / N)) / 2 times the largest s, i = 0..N. Longer rows turn from spread to
    saturated within a narrower range of s, so that they have more of them.

    Args:
        widths: every d_k that a reader can choose; the largest determines the range of sigma.
        lengths: every n_keys, from 2.

    Returns:
        JSON values: `sigma`, the largest; `of`, by n_keys as text: for each of `CURVES` the values at all points.
    """
    largest = _SHARPER * (math.sqrt(max(widths)) + _LONGEST)
    return {"sigma": largest, "of": {str(n_keys): _curves(n_keys, math.log1p(largest)) for n_keys in lengths}}


def _curves(n_keys: int, largest: float) -> dict[str, list[float]]:
    """The values of each curve at the points from 0 to the largest s."""
    degree = math.ceil(largest * (5 + 0.6 * math.log2(n_keys)))
    points = largest * (1 - np.cos(np.pi * np.arange(degree + 1) / degree)) / 2
    rows = [GaussianRow(math.expm1(s), n_keys) for s in points]
    values = np.array([[getattr(row, name)() for name in CURVES] for row in rows])
    return dict(zip(CURVES, np.log(values).round(_DIGITS).T.tolist(), strict=True))
