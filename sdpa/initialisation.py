"""Initial weights of the query and key projections: named schemes, and tokens to project.

A token x has d_model entries of mean 0 and variance 1, as after layer normalization, so that |x|^2
= d_model. With independent weights of mean 0 and variance v, every entry of q = x W_Q has the
variance v d_model exactly, and

    Var[q.k] = d_k (v_Q d_model) (v_K d_model)

for W_Q and W_K independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sdpa._arrays import FloatArray
from sdpa._names import not_among

Law = Literal["normal", "uniform"]
Variances = Callable[[int, int], tuple[float, float]]


@dataclass(frozen=True)
class Scheme:
    """Independent weights of mean 0: their law, and their variances in W_Q and W_K.

    >>> gpt2 = Scheme.parse("gpt2")
    >>> query, key = gpt2.variances(768, 64)
    >>> round(math.sqrt(768 * query), 3)  # of the entries of q
    0.554
    """

    name: str  # the key in `SCHEMES`
    law: Law
    variances: Variances = field(repr=False)  # of W_Q and W_K, from d_model and d_k

    @classmethod
    def parse(cls, text: str) -> Scheme:
        """The scheme of that name; ValueError if `SCHEMES` does not contain it."""
        if text not in SCHEMES:
            raise ValueError(not_among(text, SCHEMES))
        return SCHEMES[text]

    def weights(
        self, rng: np.random.Generator, draws: int, d_model: int, d_k: int
    ) -> tuple[FloatArray, FloatArray]:
        """W_Q and W_K of one head for that many draws, each (draws, d_model, d_k)."""
        shape = (draws, d_model, d_k)
        query, key = self.variances(d_model, d_k)
        return self.matrix(rng, query, shape), self.matrix(rng, key, shape)

    def matrix(
        self, rng: np.random.Generator, variance: float, shape: tuple[int, ...]
    ) -> FloatArray:
        """Independent weights of the scheme's law with a variance."""
        deviation = math.sqrt(variance)
        if self.law == "uniform":
            limit = math.sqrt(3) * deviation
            return rng.uniform(-limit, limit, shape)
        return rng.standard_normal(shape) * deviation

    def __str__(self) -> str:
        return self.name


_BY_NAME: dict[str, tuple[Law, Variances]] = {
    # 0.02^2 at any width (Radford et al. 2019, GPT-2)
    "gpt2": ("normal", lambda *_: (0.02**2, 0.02**2)),
    # 1 / d_model at the width 576 of SmolLM2-135M (its `initializer_range`)
    "smollm2": ("normal", lambda *_: (24**-2, 24**-2)),
    # 2 / (fan_in + fan_out) of square W_Q and W_K of all heads (Glorot and Bengio 2010, eq. 16)
    "xavier": ("uniform", lambda d_model, _: (1 / d_model, 1 / d_model)),
    # 2 / (d_model + 3 d_model): W_Q, W_K and W_V as one matrix, as in PyTorch's MultiheadAttention
    "xavier_packed": ("uniform", lambda d_model, _: (1 / (2 * d_model), 1 / (2 * d_model))),
    # within 1 / sqrt(d_model), as in PyTorch's Linear (He et al. 2015 with a = sqrt(5))
    "kaiming": ("uniform", lambda d_model, _: (1 / (3 * d_model), 1 / (3 * d_model))),
    # q and k have the variance of the tokens (LeCun et al. 1998, section 4.6)
    "lecun": ("normal", lambda d_model, _: (1 / d_model, 1 / d_model)),
    # muP differs from `lecun` in its rule d_k^1 (Yang et al. 2022, "Tensor Programs V", table 8). The
    # paper also recommends W_Q = 0 at the start, where all weights of a row are equal.
    "mup": ("normal", lambda d_model, _: (1 / d_model, 1 / d_model)),
    # the scale is folded in, and scores are unscaled (T5)
    "t5": ("normal", lambda d_model, d_k: (1 / (d_model * d_k), 1 / d_model)),
}
SCHEMES = {name: Scheme(name, *of_name) for name, of_name in _BY_NAME.items()}


def layer_normed_tokens(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Tokens (..., d_model): standard normal entries, shifted and scaled to mean 0 and variance 1;
    d_model from 2.
    """
    if shape[-1] < 2:
        raise ValueError(f"expected d_model of at least 2, got {shape[-1]}")
    tokens = rng.standard_normal(shape)
    tokens -= tokens.mean(axis=-1, keepdims=True)
    tokens /= np.sqrt(np.vecdot(tokens, tokens) / shape[-1])[..., None]
    return tokens
