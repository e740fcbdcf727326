"""Lower limits of the variances of one row's metrics, from their expectations alone.

In a cell of almost saturated rows, few rows carry a mean, and draws that miss them also have a small spread. A limit
from below reveals this. Exact variances (`deviations`) are better where they are known; these limits serve rows of
other laws. With t = tr J and j = |J|_F of a row, where j <= t because J has no negative eigenvalue,

    E t^2 >= E j^2,   E (1 - w)^2 >= E j^2 / 4 of any weight w,   E j^4 >= (E j^2)^3 / (E t)^2,

since t <= 1 - w^2 <= 2 (1 - w), and because moments are log-convex in their order (Lyapunov). So the mean squares of t
and of j^2 exceed the squares of their means at least by the factor E j^2 / (E t)^2. The true factor of j^2, of the
gradients (j^2 times factors of their own) and of the entropy is larger or smaller by a number that no inequality gives:
`_OF_SQUARES` and `_OF_ENTROPY` leave the limits below the exact deviations of independent rows, from d_k = 1 to 2^20
and from 2 to 1000 keys.
"""

import math

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_OF_ENTROPY, _OF_SQUARES = 0.7, 1.2


def least_row_variances(means: FloatArray, n_keys: float) -> FloatArray:
    """Lower limits of the variances of the metrics of `AttentionDeviations`, in their order; 0 where none is known.

    Args:
        means: of `attention.OF_ROWS`, over rows of n_keys keys.
        n_keys: number of keys of each row.
    """
    max_weight, entropy, trace, square, gradient, saturated, collision, of_keys, own = means.tolist()
    relative = square / trace**2 - 1 if trace > 0 else 0.0
    # Without a correlation, all weights of a row are alike.
    of_own = collision / n_keys - 1 / n_keys**2 if math.isnan(own) else square / 4 - (1 - own) ** 2
    limits = [
        square / 4 - (1 - max_weight) ** 2,
        (_OF_ENTROPY * entropy) ** 2 * relative,
        trace**2 * relative,
        (_OF_SQUARES * square) ** 2 * relative,
        (_OF_SQUARES * gradient) ** 2 * relative,
        saturated * (1 - saturated),
        0.0,
        (_OF_SQUARES * of_keys) ** 2 * relative,
        of_own,
    ]
    return np.maximum(limits, 0.0)
