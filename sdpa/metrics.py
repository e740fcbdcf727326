"""Concentration of softmax rows: largest weight, entropy, effective numbers of keys, and the spread
of their scores.

The functions of weights take (..., n_keys), with rows that sum to 1, and return a number without
unit for each row, (...). They raise ValueError for a row that is no softmax row; the message names
it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray, as_float, row_label
from sdpa.gradients import other_weights, softmax_rows

# A row with a weight above it counts as saturated: |J|_F is then below 4% of its largest value,
# that of two equal keys.
SATURATED = 0.99


def max_weight(weights: npt.ArrayLike) -> FloatArray:
    """max_i w_i of each row, from 1/n_keys (uniform) to 1 (one-hot).

    >>> float(max_weight([0.5, 0.25, 0.25]))
    0.5
    """
    return np.asarray(softmax_rows(weights).max(axis=-1))[()]


def entropy(weights: npt.ArrayLike) -> FloatArray:
    """H = -sum_i w_i ln w_i of each row in nats, with 0 ln 0 = 0, from 0 (one-hot) to ln n_keys
    (uniform).

    The term of the largest weight comes from the sum of the others, which is not 0 where that
    weight rounds to 1. Source: Shannon (1948), section 6.

    >>> float(entropy([0.5, 0.5, 0.0]).round(4))  # ln 2
    0.6931
    """
    others = other_weights(softmax_rows(weights))
    r = others.sum(axis=-1)
    logarithms = np.log(others, out=np.zeros_like(others), where=others > 0)
    of_largest = (r - 1) * np.log1p(-r)
    return np.asarray(of_largest - (others * logarithms).sum(axis=-1))[()]


def effective_keys(weights: npt.ArrayLike) -> FloatArray:
    """e^H of each row: the number of equal weights of the same entropy, from 1 (one-hot) to n_keys
    (uniform).

    >>> float(effective_keys([0.5, 0.5, 0.0]).round(4))
    2.0
    """
    return np.asarray(np.exp(entropy(weights)))[()]


def collision(weights: npt.ArrayLike) -> FloatArray:
    """sum_i w_i^2 of each row, from 1/n_keys (uniform) to 1 (one-hot).

    It is the probability that two keys drawn by weight are the same, and the variance of an output
    w v whose values v are independent, of mean 0 and variance 1.

    >>> float(collision([0.5, 0.25, 0.25]))
    0.375
    """
    w = softmax_rows(weights)
    return np.asarray(np.vecdot(w, w))[()]


def participation(weights: npt.ArrayLike) -> FloatArray:
    """1 / sum_i w_i^2 of each row: the number of equal weights of the same sum of squares; at most
    `effective_keys`.

    >>> float(participation([0.5, 0.5, 0.0]))
    2.0
    """
    return np.asarray(1 / collision(weights))[()]


def row_variance(scores: npt.ArrayLike) -> FloatArray:
    """(1/n) sum_j (s_j - mean)^2 over the n visible keys of each row, (...); scores (..., n_keys),
    -inf where masked.

    ValueError if a row contains a NaN, a +inf or only -inf; the message names the row.

    >>> float(row_variance([3.0, 1.0, -np.inf]))
    1.0
    """
    s = as_float("scores", scores)
    is_visible = np.isfinite(s)
    if is_visible.all():
        sums = s @ np.ones(s.shape[-1], s.dtype)
        deviations = s - (sums / s.shape[-1])[..., None]
        return np.asarray(np.vecdot(deviations, deviations) / s.shape[-1])[()]
    n_visible = is_visible.sum(axis=-1)
    has_wrong = (np.isnan(s) | np.isposinf(s)).any(axis=-1)
    wrong = np.argwhere((n_visible == 0) | has_wrong)
    if len(wrong):
        raise ValueError(
            "scores: expected every row to have a finite number, and otherwise only finite "
            "numbers or -inf; "
            f"{row_label(tuple(wrong[0]))} has not"
        )
    mean = np.where(is_visible, s, 0).sum(axis=-1) / n_visible
    deviations = np.where(is_visible, s - mean[..., None], 0)
    return np.asarray(np.vecdot(deviations, deviations) / n_visible)[()]
