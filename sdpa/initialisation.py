"""Initial weights of the query and key projections, by the names of their schemes.

A token x has d_model entries of mean 0 and variance 1, as after layer normalization, so that |x|^2
= d_model. With independent weights of mean 0 and variance v, every entry of q = x W_Q has the
variance v d_model exactly, and

    Var[q.k] = d_k (v_Q d_model) (v_K d_model)

for W_Q and W_K independent of each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sdpa._arrays import FloatArray
from sdpa._names import not_among

Inverse = tuple[int, int, int]  # (c, p, q) of the variance 1 / (c d_model^p d_k^q)


@dataclass(frozen=True)
class Scheme:
    """Independent weights of mean 0: their law, and their variances in W_Q and W_K.

    >>> gpt2 = Scheme.parse("gpt2")
    >>> query, key = gpt2.variances(768, 64)
    >>> round(math.sqrt(768 * query), 3)  # of the entries of q
    0.554
    """

    name: str  # the key in `SCHEMES`
    law: Literal["normal", "uniform"]
    query_inverse: Inverse
    key_inverse: Inverse | None = None  # None for that of W_Q

    def variances(self, d_model: int, d_k: int) -> tuple[float, float]:
        """The variances of W_Q and W_K."""
        inverses = self.query_inverse, self.key_inverse or self.query_inverse
        query, key = (1 / (c * d_model**p * d_k**q) for c, p, q in inverses)
        return query, key

    @classmethod
    def parse(cls, text: str) -> Scheme:
        """The scheme of that name; ValueError if `SCHEMES` does not contain it."""
        if text not in SCHEMES:
            raise ValueError(not_among(text, SCHEMES))
        return SCHEMES[text]

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


_MATRIX = 1, 1, 0  # 1 / d_model
SCHEMES = {
    scheme.name: scheme
    for scheme in (
        # 0.02^2 at any width (Radford et al. 2019, GPT-2)
        Scheme("gpt2", "normal", (2500, 0, 0)),
        # 1/24^2, 1 / d_model at the width 576 of SmolLM2-135M (its `initializer_range`)
        Scheme("smollm2", "normal", (576, 0, 0)),
        # 2 / (fan_in + fan_out) of square W_Q and W_K of all heads (Glorot and Bengio 2010, eq. 16)
        Scheme("xavier", "uniform", _MATRIX),
        # 2 / (d_model + 3 d_model): W_Q, W_K and W_V as one matrix, as in PyTorch's MultiheadAttention
        Scheme("xavier_packed", "uniform", (2, 1, 0)),
        # within 1 / sqrt(d_model), as in PyTorch's Linear (He et al. 2015 with a = sqrt(5))
        Scheme("kaiming", "uniform", (3, 1, 0)),
        # q and k have the variance of the tokens (LeCun et al. 1998, section 4.6)
        Scheme("lecun", "normal", _MATRIX),
        # muP differs from `lecun` in its rule d_k^1 (Yang et al. 2022, "Tensor Programs V", table 8).
        # The paper also recommends W_Q = 0 at the start, where all weights of a row are equal.
        Scheme("mup", "normal", _MATRIX),
        # the scale is folded in, and scores are unscaled (T5)
        Scheme("t5", "normal", (1, 1, 1), key_inverse=_MATRIX),
    )
}
