"""Lower limits of the variances of one row's metrics, from their means and a few mean squares.

In a cell of almost saturated rows, few rows carry a mean, and draws that miss them also have a small spread. A limit
from below reveals this. Exact variances (`deviations`) are better where they are known; these limits serve rows of
other laws. With t = tr J and j = |J|_F, the mean squares of max w, t, j^2 and the own weight are exact, and so is
E (1 - w)^2 >= E t^2 / 4 of any weight w near 1, since t <= 1 - w^2 <= 2 (1 - w).

The entropy has mean squares of about the same factor above the square of its mean as t has, and the squares of the
gradients, which are j^2 times factors of their own, about that of j^2. No inequality gives it; `_OF_ENTROPY` leaves the
limits below the exact deviations of independent rows, from d_k = 1 to 2^20 and from 2 to 1000 keys.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_OF_ENTROPY = 0.7
_LEAST = 1e-150


def least_row_variances(means: FloatArray, squares: FloatArray) -> FloatArray:
    """Lower limits of the variances of the metrics of `AttentionDeviations`, in their order; 0 where none is known.

    Args:
        means: of `attention.OF_ROWS`.
        squares: means of the squares of max w, tr J, |J|_F^2 and the own weight.
    """
    max_weight, entropy, trace, square, gradient, saturated, _, of_keys, own = means.tolist()
    of_largest, of_trace, of_square, of_own = squares.tolist()
    # 0, which is a limit too, where a square is too small for a double.
    relative_trace = of_trace / trace**2 - 1 if trace > _LEAST else 0.0
    relative_square = of_square / square**2 - 1 if square > _LEAST else 0.0
    variances = [
        max(of_largest - max_weight**2, of_trace / 4 - (1 - max_weight) ** 2),
        (_OF_ENTROPY * entropy) ** 2 * relative_trace,
        trace**2 * relative_trace,
        square**2 * relative_square,
        gradient**2 * relative_square,
        saturated * (1 - saturated),
        0.0,
        of_keys**2 * relative_square,
        max(of_own - own**2, of_trace / 4 - (1 - own) ** 2),
    ]
    return np.maximum(variances, 0.0)
