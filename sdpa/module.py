"""Attention with its projections, of one head and of several: tokens in, tokens out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy.typing as npt

from sdpa._arrays import FloatArray, as_float
from sdpa.attention import attention_weights
from sdpa.inputs import NormalSource, normal_source
from sdpa.masks import allowed_keys
from sdpa.scaling import Rule


class _Module(ABC):
    """Attention with its projections, for tokens of width d_model."""

    d_model: int

    def __call__(self, X: npt.ArrayLike, *, mask: npt.ArrayLike | None = None) -> FloatArray:
        """The output for every token, (..., n, d_v), or (..., n, d_model) of several heads; arguments
        and errors as in `attend`.
        """
        return self.attend(X, mask=mask)[0]

    def attend(
        self, X: npt.ArrayLike, *, mask: npt.ArrayLike | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """The output for every token and the weights, (..., n, n), or (..., n_heads, n, n).

        Args:
            X: tokens, (..., n, d_model).
            mask: as in `attention_weights`, for (..., n, n), the same for every head.

        Raises:
            ValueError: X does not have d_model columns, or `attention_weights` refuses
                the mask.
        """
        tokens = as_float("X", X, min_ndim=2)
        if tokens.shape[-1] != self.d_model:
            raise ValueError(
                f"X: expected {self.d_model} columns (d_model), got shape {tokens.shape}"
            )
        return self._attend(tokens, mask)

    @abstractmethod
    def _attend(
        self, tokens: FloatArray, mask: npt.ArrayLike | None
    ) -> tuple[FloatArray, FloatArray]: ...


class ScaledDotProductAttention(_Module):
    """output = softmax(Q K^T / sqrt(d_k)) V with Q = X W_Q, K = X W_K, V = X W_V.

    The entries of W_Q, W_K (d_model, d_k) and W_V (d_model, d_v), drawn in this order, are normal
    with mean 0 and variance 2 / (d_in + d_out) (Glorot and Bengio 2010, equation 16): unit-variance
    tokens give queries of variance 2 d_model / (d_model + d_k).

    Args:
        d_model, d_k, d_v: width of the tokens, of queries and keys, and of values.
        seed: of the generator that draws the weights; 0 by default, so that two modules of one
            shape are equal.
        rng: the generator itself instead of a seed, a NumPy Generator or RandomState.
        scaling: a rule, its name (`unscaled`, `d_k^1/2`, ...), or the divisor itself as a number.

    Raises:
        ValueError, TypeError: an argument is out of its range or of another type, or both seed and
            rng are given.

    >>> import numpy as np
    >>> attention = ScaledDotProductAttention(4, 3, 2)
    >>> attention(np.eye(5, 4)).shape
    (5, 2)
    """

    def __init__(
        self,
        d_model: int,
        d_k: int,
        d_v: int,
        *,
        seed: int | None = None,
        rng: NormalSource | None = None,
        scaling: Rule = "d_k^1/2",
    ) -> None:
        if min(d_model, d_k, d_v) < 1:
            raise ValueError(
                f"expected d_model, d_k and d_v of at least 1, got {d_model}, {d_k} and {d_v}"
            )
        self.d_model, self.d_k, self.d_v, self.scaling = d_model, d_k, d_v, scaling
        source = normal_source(seed, rng)
        self.W_Q = _glorot(source, d_model, d_k)
        self.W_K = _glorot(source, d_model, d_k)
        self.W_V = _glorot(source, d_model, d_v)

    def _attend(
        self, tokens: FloatArray, mask: npt.ArrayLike | None
    ) -> tuple[FloatArray, FloatArray]:
        queries, keys, values = tokens @ self.W_Q, tokens @ self.W_K, tokens @ self.W_V
        weights = attention_weights(queries, keys, scaling=self.scaling, mask=mask)
        return weights @ values, weights


class MultiHeadAttention(_Module):
    """output = [head_1, ..., head_h] W_O with head_i = softmax(Q_i K_i^T / sqrt(d_k)) V_i.

    Head i takes the columns from (i - 1) d_k to i d_k of Q = X W_Q, K = X W_K and V = X W_V, (...,
    n, d_model), with d_k = d_v = d_model / n_heads. The entries of W_Q, W_K, W_V and W_O, (d_model,
    d_model) and drawn in this order, are normal with mean 0 and variance 1 / d_model, which keeps
    the variance of entries.

    Arguments and errors as in `ScaledDotProductAttention`; ValueError, too, if n_heads does not
    divide d_model.

    Source: Vaswani et al. (2017), section 3.2.2.

    >>> import numpy as np
    >>> output, weights = MultiHeadAttention(6, 2).attend(np.eye(5, 6))
    >>> output.shape, weights.shape
    ((5, 6), (2, 5, 5))
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        seed: int | None = None,
        rng: NormalSource | None = None,
        scaling: Rule = "d_k^1/2",
    ) -> None:
        if min(d_model, n_heads) < 1 or d_model % n_heads:
            raise ValueError(
                f"expected n_heads of at least 1 that divides d_model, got {n_heads} and {d_model}"
            )
        self.d_model, self.n_heads, self.scaling = d_model, n_heads, scaling
        self.d_k = self.d_v = d_model // n_heads
        source = normal_source(seed, rng)
        self.W_Q, self.W_K, self.W_V, self.W_O = (
            _glorot(source, d_model, d_model) for _ in range(4)
        )

    def _attend(
        self, tokens: FloatArray, mask: npt.ArrayLike | None
    ) -> tuple[FloatArray, FloatArray]:
        projected = (tokens @ matrix for matrix in (self.W_Q, self.W_K, self.W_V))
        split_shape = (*tokens.shape[:-1], self.n_heads, self.d_k)
        queries, keys, values = (
            matrix.reshape(split_shape).swapaxes(-3, -2) for matrix in projected
        )
        # its leading axes are those of X: the axis of the heads comes after them
        if mask is not None:
            shape = (*tokens.shape[:-1], tokens.shape[-2])
            mask = allowed_keys(mask, shape)[..., None, :, :]
        weights = attention_weights(queries, keys, scaling=self.scaling, mask=mask)
        heads = weights @ values
        return heads.swapaxes(-3, -2).reshape(tokens.shape) @ self.W_O, weights


def _glorot(source: NormalSource, d_in: int, d_out: int) -> FloatArray:
    return source.standard_normal((d_in, d_out)) * math.sqrt(2 / (d_in + d_out))
