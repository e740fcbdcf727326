"""The joint law of the queries and keys of a draw: means, spreads, a covariance spectrum,
correlation, normalization.

`sdpa.inputs` has the laws of single entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from sdpa._arrays import FloatArray
from sdpa.inputs import LAWS, InputLaw

Normalize = Literal["none", "l2", "rms"]

_RANGES: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    *((name, "a finite number", math.isfinite) for name in ("query_mean", "key_mean")),
    *(
        (name, "a finite number above 0", lambda x: 0 < x < math.inf)
        for name in ("query_std", "key_std")
    ),
    ("correlation", "a number from -1 to 1", lambda x: -1 <= x <= 1),
    ("spectrum", "a finite number of at least 0", lambda x: 0 <= x < math.inf),
    ("normalize", f"one of {', '.join(get_args(Normalize))}", lambda x: x in get_args(Normalize)),
)


@dataclass(frozen=True)
class PairLaw:
    """q_i = query_mean + query_std L a_i,   k_j = key_mean + key_std L b_j, with L = diag(sqrt(lambda)).

    The entries of a_i and b_j have mean 0 and variance 1 and are independent, but for the own key
    of a query: query i of n_queries sits at position n_keys - n_queries + i, and b of the key at
    this position has the correlation rho with a_i, entry by entry. That is the law of b = rho a +
    sqrt(1 - rho^2) noise for Gaussian entries. With normalize, every query and key is then divided
    by its length (`l2`), or by its root mean square entry (`rms`), as in QK-norm (Henry et al.
    2020, "Query-Key Normalization for Transformers").

    Attributes:
        entries: law of the entries of a and b.
        query_mean, key_mean: mean of every entry of q and k.
        query_std, key_std: standard deviation of the entries of q and k, above 0; with a spectrum,
            its r.m.s.
        correlation: rho, from -1 to 1; other values than 0 need Gaussian entries, query_mean = 0
            and no normalization.
        spectrum: alpha, from 0: the variance of entry m of d_k is proportional to m^-alpha; see
            `spectrum_of`.
        normalize: `none`, `l2` (length 1) or `rms` (length sqrt(d_k)), for vectors that are not 0.

    Raises:
        ValueError: an attribute is out of its range, or two of them exclude each other.

    >>> law = PairLaw(query_std=2.0, correlation=0.5)
    >>> keys = law.keys(np.random.default_rng(0), (3, 8, 4))
    >>> law.queries(np.random.default_rng(1), (3, 5, 4), own_keys=keys[:, 3:]).shape
    (3, 5, 4)
    """

    entries: InputLaw = field(default=LAWS["gaussian"])
    query_mean: float = 0.0
    key_mean: float = 0.0
    query_std: float = 1.0
    key_std: float = 1.0
    correlation: float = 0.0
    spectrum: float = 0.0
    normalize: Normalize = "none"

    def __post_init__(self) -> None:
        if not isinstance(self.entries, InputLaw):
            expected = "expected an InputLaw, such as InputLaw.parse('uniform')"
            raise TypeError(f"entries: {expected}, got {self.entries!r}")
        for name, expected, holds in _RANGES:
            if not holds(value := getattr(self, name)):
                raise ValueError(f"{name}: expected {expected}, got {value!r}")
        for expected, got, holds_too in (  # else the correlation would be undefined, or another one
            ("gaussian entries", self.entries, self.entries.name == "gaussian"),
            ("query_mean 0", self.query_mean, not self.query_mean),
            ("normalize none", self.normalize, self.normalize == "none"),
        ):
            if self.correlation and not holds_too:
                raise ValueError(f"correlation: expected {expected} beside it, got {got}")
        if self._may_be_zero and self.normalize != "none":
            raise ValueError(
                "normalize: expected none beside entries that may all be 0, of the law "
                f"{self.entries}, got {self.normalize}"
            )

    @property
    def _may_be_zero(self) -> bool:
        """True if a vector is 0 with a probability above 0."""
        means = (self.query_mean, self.query_std), (self.key_mean, self.key_std)
        cancels = any(abs(mean) == std for mean, std in means)
        return self.entries.name == "sparse" or (self.entries.name == "rademacher" and cancels)

    def keys(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Keys of the given shape (..., n_keys, d_k)."""
        return self._finished(self.entries.sample(rng, shape), self.key_std, self.key_mean)

    def queries(
        self, rng: np.random.Generator, shape: tuple[int, ...], own_keys: FloatArray | None = None
    ) -> FloatArray:
        """Queries of the given shape (..., n_queries, d_k); a correlation needs their own keys."""
        drawn = self.entries.sample(rng, shape)
        if self.correlation:
            if own_keys is None or own_keys.shape != tuple(shape):
                got = None if own_keys is None else own_keys.shape
                raise ValueError(
                    f"own_keys: expected the key of each query, of shape {tuple(shape)}, got {got}"
                )
            drawn *= math.sqrt(1 - self.correlation**2)
            # b of the own keys; a and b have the same law, so that a = rho b + sqrt(1 - rho^2)
            # noise.
            standard = (own_keys - self.key_mean) / self.key_std
            if self.spectrum:
                standard /= np.sqrt(spectrum_of(shape[-1], self.spectrum))
            drawn += self.correlation * standard
        return self._finished(drawn, self.query_std, self.query_mean)

    def _finished(self, drawn: FloatArray, std: float, mean: float) -> FloatArray:
        """Standard entries with their spectrum, spread and mean, normalized; overwrites them."""
        if self.spectrum:
            drawn *= np.sqrt(spectrum_of(drawn.shape[-1], self.spectrum))
        if std != 1:
            drawn *= std
        if mean:
            drawn += mean
        if self.normalize != "none":
            if drawn.shape[-1] == 1:
                return np.sign(drawn)  # a quotient may round to a neighbour of 1
            length = 1.0 if self.normalize == "l2" else math.sqrt(drawn.shape[-1])
            drawn *= length / np.sqrt(np.vecdot(drawn, drawn))[..., None]
        return drawn


def spectrum_of(d_k: float, alpha: float) -> FloatArray:
    """lambda_m = d_k m^-alpha / sum_l l^-alpha for m = 1 ... d_k: a power law of mean 1, (d_k,).

    ValueError unless d_k is a whole number.

    >>> spectrum_of(2, 1.0)
    array([1.33333333, 0.66666667])
    """
    if d_k % 1:
        raise ValueError(f"d_k: expected a whole number beside a spectrum, got {d_k}")
    powers = np.arange(1.0, d_k + 1) ** -alpha
    return np.asarray(powers * (d_k / powers.sum()))
