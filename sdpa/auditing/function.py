"""The audited function, called with designed inputs, and the function that it should be.

Values that are columns of the identity make the output the weights themselves. They come in blocks of d_k columns, so
that kernels whose values must be as wide as their keys are audited, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray, FloatArray
from sdpa.arithmetic import Arithmetic
from sdpa.attention import masked
from sdpa.row_maps import RowMap
from sdpa.scaling import Scaling, resolve_divisor

Attention = Callable[..., Any]
Rule = Scaling | str | float


class CallError(Exception):
    """The function raised, or returned something else than an output."""


@dataclass(frozen=True)
class Expected:
    """The attention that a function should compute; arguments as in `sdpa.auditing.audit`."""

    scaling: Rule
    mask: str
    softcap: float
    sink: float | None
    alibi: float
    groups: int

    def divisor(self, d_k: int, n_keys: int) -> float:
        """The divisor at these sizes."""
        return resolve_divisor(self.scaling, d_k, n_keys, self.mask)

    def output(self, q: FloatArray, k: FloatArray, v: FloatArray) -> FloatArray:
        """The output in double precision; q has `groups` times the heads of k and v, on the axis before the rows."""
        keys, values = (np.repeat(x, self.groups, axis=-3) for x in (k, v))
        scores: FloatArray = q @ keys.swapaxes(-1, -2) / self.divisor(q.shape[-1], k.shape[-2])
        if self.softcap:
            scores = self.softcap * np.tanh(scores / self.softcap)
        n_queries, n_keys = scores.shape[-2:]
        distance = np.arange(n_keys - n_queries, n_keys)[:, None] - np.arange(n_keys)
        scores = masked(scores - self.alibi * distance, self.mask)
        return np.asarray(RowMap(sink=self.sink).weights(scores) @ values)


@dataclass(frozen=True)
class Audited:
    """A function attention(q, k, v) of arrays (batch, heads, n, d_k), and the format of its arrays."""

    function: Attention
    dtype: np.dtype[Any]
    expected: Expected

    @property
    def arithmetic(self) -> Arithmetic:
        """The format of the arrays."""
        return Arithmetic.parse(self.dtype.name)

    @property
    def eps(self) -> float:
        """The distance from 1 to the next number of the format."""
        return 2.0 ** (1 - self.arithmetic.digits)

    def cast(self, values: npt.ArrayLike) -> npt.NDArray[Any]:
        """Values in the format of the function, with leading axes of batch and heads."""
        array = np.asarray(values)
        return array.reshape((1,) * (4 - array.ndim) + array.shape).astype(self.dtype)

    def call(self, q: npt.NDArray[Any], k: npt.NDArray[Any], v: npt.NDArray[Any]) -> FloatArray:
        """The output for arrays of the format, as doubles.

        Raises:
            CallError: the function raised, or its output has another shape than (batch, heads, n_queries, d_k).
        """
        given: list[npt.NDArray[Any]] = [x.copy() for x in (q, k, v)]
        try:
            with np.errstate(all="ignore"):
                output = np.asarray(self.function(*given))
        except Exception as error:  # whatever the function raises is a result of the audit
            raise CallError(f"the function raised {type(error).__name__}: {error}") from error
        shape = *q.shape[:-1], v.shape[-1]
        if output.shape != shape:
            raise CallError(f"expected an output of shape {shape}, got {output.shape}")
        if not all(np.array_equal(x, y) for x, y in zip(given, (q, k, v), strict=True)):
            raise CallError("the function changed its arguments")
        return output.astype(np.float64)

    def weights(self, q: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
        """The weights of q (n_queries, d_k) over k (n_keys, d_k): outputs for the columns of the identity."""
        queries, keys = self.cast(q), self.cast(k)
        n_keys, width = keys.shape[-2:]
        blocks = []
        for start in range(0, n_keys, width):
            blocks.append(self.call(queries, keys, self.cast(np.eye(n_keys, width, -start)))[0, 0])
        return np.concatenate(blocks, axis=-1)[:, :n_keys]

    def visible(self, n_queries: int, n_keys: int, d_k: int) -> BoolArray:
        """The keys with a weight, for queries of 0, whose scores are 0, and keys of 1."""
        weights = self.weights(np.zeros((n_queries, d_k)), np.ones((n_keys, d_k)))
        if not np.isfinite(weights).all():
            raise CallError(f"expected finite outputs for equal scores, got {weights[~np.isfinite(weights)][0]}")
        return np.asarray(weights != 0)


def normals(name: str, *shape: int) -> FloatArray:
    """Standard normal numbers, the same for the same letter and shape."""
    return np.random.default_rng((ord(name), *shape)).standard_normal(shape)


def along(scores: npt.ArrayLike, divisor: float, d_k: int) -> tuple[FloatArray, FloatArray]:
    """One query and keys with these scaled scores, under this divisor."""
    wanted = np.asarray(scores, float)
    size = math.sqrt(divisor / d_k) * math.sqrt(max(np.abs(wanted).max(), 1e-300))
    direction = np.where(np.arange(d_k) % 3 == 1, -1.0, 1.0)
    return size * direction[None, :], (wanted / np.abs(wanted).max() * size)[:, None] * direction
