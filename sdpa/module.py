"""Attention with its projections: tokens in, tokens out."""

import math
from typing import Literal, Protocol, overload

import numpy.typing as npt

from sdpa._arrays import FloatArray, as_float
from sdpa.attention import scaled_dot_product_attention


class NormalSource(Protocol):
    """What the projections are drawn from: NumPy's Generator, or its legacy RandomState for published seeds."""

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Independent standard normal numbers of that shape."""
        ...


class ScaledDotProductAttention:
    """output = softmax(Q K^T / sqrt(d_k)) V with Q = X W_Q, K = X W_K, V = X W_V.

    The entries of W_Q, W_K (d_model, d_k) and W_V (d_model, d_v), drawn in this order, are normal with mean 0 and
    variance 2 / (d_in + d_out) (Glorot and Bengio 2010, equation 16), which keeps the variance of entries only where
    d_in = d_out: unit-variance tokens give queries of variance 2 d_model / (d_model + d_k).

    Args:
        d_model: width of the tokens.
        d_k: width of queries and keys.
        d_v: width of values.
        rng: where the weights are drawn from; nothing global is touched.

    Raises:
        ValueError: a width below 1.

    >>> import numpy as np
    >>> attention = ScaledDotProductAttention(4, 3, 2, np.random.default_rng(0))
    >>> attention(np.eye(5, 4)).shape
    (5, 2)
    """

    def __init__(self, d_model: int, d_k: int, d_v: int, rng: NormalSource) -> None:
        if min(d_model, d_k, d_v) < 1:
            raise ValueError(f"expected d_model, d_k and d_v from 1, got {d_model}, {d_k} and {d_v}")
        self.d_model, self.d_k, self.d_v = d_model, d_k, d_v
        self.W_Q, self.W_K, self.W_V = (
            rng.standard_normal((d_model, width)) * math.sqrt(2 / (d_model + width)) for width in (d_k, d_k, d_v)
        )

    @overload
    def __call__(self, X: npt.ArrayLike, return_weights: Literal[False] = ...) -> FloatArray: ...
    @overload
    def __call__(self, X: npt.ArrayLike, return_weights: Literal[True]) -> tuple[FloatArray, FloatArray]: ...
    def __call__(self, X: npt.ArrayLike, return_weights: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Every token as the weighted mean of all tokens' values.

        Args:
            X: tokens, (..., n, d_model).
            return_weights: return (output, weights) instead of the output alone.

        Returns:
            Output, (..., n, d_v); with return_weights also the weights, (..., n, n).

        Raises:
            ValueError: X has not d_model columns.
        """
        tokens = as_float("X", X, min_ndim=2)
        if tokens.shape[-1] != self.d_model:
            raise ValueError(f"X: expected {self.d_model} columns (d_model), got shape {tokens.shape}")
        queries, keys, values = tokens @ self.W_Q, tokens @ self.W_K, tokens @ self.W_V
        output, weights = scaled_dot_product_attention(queries, keys, values, return_weights=True)
        return (output, weights) if return_weights else output
