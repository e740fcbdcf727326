"""Positions in attention: rotary embeddings of q and k, and biases of scores."""

from __future__ import annotations

from numbers import Real

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray, as_float

ROPE_BASE = 10_000.0


def rotated(
    vectors: npt.ArrayLike, positions: npt.ArrayLike, base: float = ROPE_BASE
) -> FloatArray:
    """RoPE: entries m and m + d_k / 2 of each vector, turned by the angle position base^(-2 m /
    d_k).

    vectors are (..., n, d_k), d_k even, and positions (n,). The length of a vector stays, and the
    score of a query and a key depends on the difference of their positions. Source: Su et al. 2021,
    arXiv:2104.09864, with the pairs of entries as in GPT-NeoX.

    >>> rotated([[1.0, 0.0]], [0.5]).round(4)
    array([[0.8776, 0.4794]])
    """
    x = as_float("vectors", vectors, min_ndim=2)
    d_k = x.shape[-1]
    if d_k % 2:
        raise ValueError(f"expected an even d_k for rotated pairs of entries, got {d_k}")
    half = d_k // 2
    frequencies = base ** (-2 * np.arange(half) / d_k)
    angle = np.asarray(positions, float)[:, None] * frequencies
    cos, sin = np.cos(angle), np.sin(angle)
    first, second = x[..., :half], x[..., half:]
    turned = first * cos - second * sin, first * sin + second * cos
    return np.concatenate(turned, axis=-1)


def alibi_bias(slope: float, n_queries: int, n_keys: int) -> FloatArray:
    """slope (key position - query position), (n_queries, n_keys), for queries at the last of n_keys
    positions.

    Source: ALiBi, Press et al. 2022, arXiv:2108.12409, under a causal mask.

    >>> alibi_bias(0.5, 2, 3)
    array([[-0.5,  0. ,  0.5],
           [-1. , -0.5,  0. ]])
    """
    if not (isinstance(slope, Real) and abs(slope) <= 1e6):
        raise ValueError(f"alibi: expected a slope within ±1e6, or 0 for none, got {slope!r}")
    return np.asarray(slope * (np.arange(n_keys) - np.arange(n_keys - n_queries, n_keys)[:, None]))
