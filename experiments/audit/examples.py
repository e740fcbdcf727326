"""Attention functions to audit: one that is right, and others with bugs of public threads.

Each takes arrays q, k and v, (..., n, d_k), and returns the output in the shape of q.
"""

import math

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


EXAMPLES = (plain, unused_scale)
