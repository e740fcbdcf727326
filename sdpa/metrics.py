"""Concentration of a softmax row: its largest weight, its entropy, and its effective number of keys."""

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray
from sdpa.gradients import other_weights, softmax_rows

# A row with a weight above it counts as saturated: |J|_F is then below 4% of its largest value, that of two equal keys.
SATURATED = 0.99


def max_weight(weights: npt.ArrayLike) -> FloatArray:
    """max_i w_i, per row.

    Args:
        weights: (..., n_keys); rows sum to 1.

    Returns:
        (...), from 1/n_keys (uniform) to 1 (one-hot).

    Raises:
        ValueError: a row that is no softmax row.

    >>> float(max_weight([0.5, 0.25, 0.25]))
    0.5
    """
    return np.asarray(softmax_rows(weights).max(axis=-1))[()]


def entropy(weights: npt.ArrayLike) -> FloatArray:
    """H = -sum_i w_i ln w_i, per row, in nats, with 0 ln 0 = 0.

    The term of the largest weight a is computed from r = 1 - a, summed from the other weights: in a saturated row
    a is 1 to the precision of a double, but r is not 0.

    Args:
        weights: (..., n_keys); rows sum to 1.

    Returns:
        (...), from 0 (one-hot) to ln n_keys (uniform).

    Raises:
        ValueError: a row that is no softmax row.

    Source: Shannon (1948), section 6.

    >>> float(entropy([0.5, 0.5, 0.0]).round(4))  # ln 2
    0.6931
    """
    others = other_weights(softmax_rows(weights))
    r = others.sum(axis=-1)
    logarithms = np.log(others, out=np.zeros_like(others), where=others > 0)
    return np.asarray((r - 1) * np.log1p(-r) - (others * logarithms).sum(axis=-1))[()]


def effective_keys(weights: npt.ArrayLike) -> FloatArray:
    """e^H, per row: the number of equal weights that have the same entropy.

    Args:
        weights: (..., n_keys); rows sum to 1.

    Returns:
        (...), from 1 (one-hot) to n_keys (uniform).

    Raises:
        ValueError: a row that is no softmax row.

    >>> float(effective_keys([0.5, 0.5, 0.0]).round(4))
    2.0
    """
    return np.asarray(np.exp(entropy(weights)))[()]
