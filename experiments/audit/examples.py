"""Attention functions to audit: one that is right, and others with bugs of public threads.

Each takes arrays q, k and v, (..., n, d_k), and returns the output in the shape of q.
"""

import math

import ml_dtypes
import numpy as np
import numpy.typing as npt
from scipy.special import softmax

Array = npt.NDArray[np.float64]


def plain(q: Array, k: Array, v: Array) -> Array:
    """Attention as in its formula, softmax(q kᵀ / sqrt(d_k)) v."""
    return np.asarray(softmax(q @ k.mT / math.sqrt(q.shape[-1]), axis=-1) @ v)


def unused_scale(q: Array, k: Array, v: Array) -> Array:
    """A scale that is defined and never used (pytorch/torchtitan#2170)."""
    return np.asarray(softmax(q @ k.mT, axis=-1) @ v)


def weights_of_8_bits(q: Array, k: Array, v: Array) -> Array:
    """Exponentials rounded to float8_e4m3fn, their sum not: rows lose mass
    (Dao-AILab/flash-attention#2694).
    """
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(
        exponentials.astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
        @ v
        / exponentials.sum(axis=-1, keepdims=True)
    )


EXAMPLES = (plain, unused_scale, weights_of_8_bits)
