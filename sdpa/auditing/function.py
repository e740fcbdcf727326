"""The audited function, called with designed inputs, and the function that it should be.

Values that are columns of the identity make the output the weights themselves. They come in blocks
of d_k columns, so that kernels whose values must be as wide as their keys are audited, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray, FloatArray
from sdpa.arithmetic import Arithmetic
from sdpa.attention import attention_weights, most_visible
from sdpa.scaling import Rule, resolve_divisor

Attention = Callable[..., Any]
Array = npt.NDArray[Any]
ROWS = 8  # queries among the longest rows
_LARGEST_SINK = 50.0  # beside which other weights keep their digits


class CallError(Exception):
    """The function raised, changed its arguments, or returned something else than an output."""

    found, expected = "no usable output", "a usable output"


class OneKeyError(CallError):
    """No query gives two keys a weight, so that nothing shows the slope of log weights."""

    found, expected = "weights of one key alone", "weights of several keys"


@dataclass(frozen=True)
class LostMass:
    """The mass that rows of standard normal scores lose.

    Attributes:
        n_keys, spread: the number of keys, and the standard deviation of the scaled scores.
        lost: 1 minus the sum of the weights over the exact sum, mean over eight rows.
        tiny_share: exact share of the weights that the format of the arrays rounds to 0; NaN if
            unknown.
    """

    n_keys: int
    spread: float
    lost: float
    tiny_share: float


@dataclass(frozen=True)
class Audited:
    """A function of arrays (batch, heads, n, d_k), their format, the sizes to try, and what it
    should compute.
    """

    function: Attention
    backward: Any  # a function, or None
    arithmetic: Arithmetic
    d_k: int
    n_keys: tuple[int, ...]
    scaling: Rule
    mask: str
    softcap: float
    sink: float | None
    alibi: float
    groups: int
    lost: list[LostMass] = field(default_factory=list)  # the item of that name adds to it

    def __post_init__(self) -> None:
        few, sizes = self.n_keys[:1], (self.d_k, 4 * self.groups, *self.n_keys)
        is_whole = all(isinstance(size, (int, np.integer)) for size in sizes) and min(sizes) >= 4
        if not (
            is_whole and few and max(few) <= 512 and [*self.n_keys] == sorted(set(self.n_keys))
        ):
            expected = (
                "expected whole d_k from 4, groups from 1, and rising n_keys from 4, the "
                "first up to 512"
            )
            raise ValueError(f"{expected}, got {self.d_k}, {self.groups} and {self.n_keys}")
        most = most_visible(self.mask) if isinstance(self.mask, str) else 0
        if most is not None and not (1 < most < self.n_keys[-1] or most == math.inf):
            raise ValueError(
                f"mask: expected a name, of a window from 2 to below {self.n_keys[-1]}, got "
                f"{self.mask!r}"
            )
        if not abs(self.sink or 0.0) <= _LARGEST_SINK:
            raise ValueError(
                f"sink: expected None, or a logit within ±{_LARGEST_SINK:g}, got {self.sink}"
            )
        # The first call refuses functions that do not take such arrays.
        self.exact(*(normals("q", 1, heads, 4, self.d_k) for heads in (self.groups, 1, 1)))
        if not self.near(*few, *few).all():
            expected = f"expected a slope that leaves {few[0]} keys a weight in {self.arithmetic}"
            raise ValueError(f"alibi: {expected}, got {self.alibi}")

    def divisor(self, d_k: int, n_keys: int) -> float:
        """The expected divisor at these sizes."""
        return resolve_divisor(self.scaling, d_k, n_keys, self.mask)

    def exact(self, q: FloatArray, k: FloatArray, v: FloatArray) -> FloatArray:
        """The expected output in double precision; q has `groups` times the heads of k and v."""
        keys, values = (np.repeat(x, self.groups, axis=1) for x in (k, v))
        chosen: dict[str, Any] = {"softcap": self.softcap, "sink": self.sink, "alibi": self.alibi}
        return np.asarray(
            attention_weights(q, keys, scaling=self.scaling, mask=self.mask, **chosen) @ values
        )

    @property
    def eps(self) -> float:
        """The distance from 1 to the next number of the format."""
        return 2.0 ** (1 - self.arithmetic.digits)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Numbers of queries and keys: square, with fewer queries, with one, and long, of two
        remainders by blocks.
        """
        few, long, square = (
            self.n_keys[0],
            self.n_keys[-1],
            [(n, n) for n in self.n_keys if n <= 1024],
        )
        return [
            *square,
            (max(1, few // 3), few),
            (1, few),
            *((min(ROWS, few), n) for n in (max(few, long - 3), long)),
        ]

    def cast(self, values: npt.ArrayLike) -> Array:
        """Values in the format of the function, with leading axes of batch and heads."""
        array = np.asarray(values)
        return array.reshape((1,) * (4 - array.ndim) + array.shape).astype(self.arithmetic.name)

    def random(
        self, spread: float, n_queries: int, n_keys: int, d_k: int = 0, batch: int = 1
    ) -> list[Array]:
        """q, k and v of normal numbers, as many batch entries as heads of keys; scores have a
        spread in each row.
        """
        d = d_k or self.d_k
        q = normals("q", batch, batch * self.groups, n_queries, d)
        q *= spread * self.divisor(d, n_keys) / np.linalg.norm(q, axis=-1, keepdims=True)
        return [
            self.cast(x) for x in (q, *(normals(name, batch, batch, n_keys, d) for name in "kv"))
        ]

    def call(
        self, function: Attention, given: Sequence[Array], *shapes: tuple[int, ...]
    ) -> list[FloatArray]:
        """The arrays of these shapes that a function returns, as doubles; CallError if it does
        anything else.
        """
        copies = [x.copy() for x in given]
        try:
            with np.errstate(all="ignore"):
                found = _doubles(function(*copies), len(shapes))
        except Exception as error:  # whatever the function raises is a result of the audit
            raise CallError(
                f"calling it, or reading its output, raised {type(error).__name__}: {error}"
            ) from error
        if [x.shape for x in found] != [*shapes]:
            got = " and ".join(str(x.shape) for x in found)
            raise CallError(
                f"expected an output of shape {' and '.join(map(str, shapes))}, got {got}"
            )
        if not all(np.array_equal(x, y) for x, y in zip(copies, given, strict=True)):
            raise CallError("the function changed its arguments")
        return found

    def outputs(
        self, q: npt.ArrayLike, k: npt.ArrayLike, v: npt.ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """The output, and the expected one, of the same rounded arrays."""
        given = [self.cast(x) for x in (q, k, v)]
        (found,) = self.call(self.function, given, (*given[0].shape[:-1], given[2].shape[-1]))
        return found, self.exact(*(x.astype(float) for x in given))

    def weights(self, q: npt.ArrayLike, k: npt.ArrayLike, *, is_wide: bool = False) -> FloatArray:
        """The weights of q (n_queries, d_k) over k (n_keys, d_k): outputs for the columns of the
        identity.

        With `is_wide`, two batch entries and four heads of keys have the same q and k.
        """
        queries, keys = self.cast(q), self.cast(k)
        if is_wide:
            queries = np.tile(queries, (2, 4 * self.groups, 1, 1))
            keys = np.tile(keys, (2, 4, 1, 1))
        n_keys, width = keys.shape[-2:]
        columns = (
            np.broadcast_to(
                self.cast(np.eye(n_keys, width, -start)), (*keys.shape[:2], n_keys, width)
            )
            for start in range(0, n_keys, width)
        )
        blocks = [
            self.call(self.function, (queries, keys, v), (*queries.shape[:-1], width))[0]
            for v in columns
        ]
        return np.concatenate(blocks, axis=-1)[0, 0, :, :n_keys]

    def equal(self, n_queries: int, n_keys: int) -> FloatArray:
        """The weights for queries of 0, whose scores are 0, and keys of 1."""
        weights = self.weights(np.zeros((n_queries, self.d_k)), np.ones((n_keys, self.d_k)))
        if not np.isfinite(weights).all():
            raise CallError(
                f"expected finite outputs for equal scores, got {weights[~np.isfinite(weights)][0]}"
            )
        return weights

    def near(self, n_queries: int, n_keys: int) -> BoolArray:
        """True where the expected bias leaves a key of an equal score a weight above the smallest
        number.
        """
        position = np.arange(n_keys)
        distance = np.abs(position[-n_queries:, None] - position)
        return np.asarray(
            abs(self.alibi) * distance < -0.8 * math.log(self.arithmetic.smallest_normal)
        )

    def odd_logits(
        self, q: npt.ArrayLike, k: npt.ArrayLike, *, is_wide: bool = False
    ) -> FloatArray:
        """Half the change of the log weights from -q to q, without bias and sink; not finite where
        a weight is 0.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            sides = (
                np.log(self.weights(sign * np.asarray(q), k, is_wide=is_wide)) for sign in (1, -1)
            )
            return np.asarray(np.subtract(*sides)) / 2


def _doubles(result: Any, count: int) -> list[FloatArray]:
    """One array, or a sequence of several, as doubles."""
    if count == 1 and isinstance(result, (tuple, list)):
        wrapped = "lambda q, k, v: attention(q, k, v)[0]"
        raise TypeError(
            f"expected the output alone, got {len(result)} values; wrap the function, as {wrapped}"
        )
    return [np.asarray(x).astype(float) for x in (result if count > 1 else [result])]


def normals(name: str, *shape: int) -> FloatArray:
    """Standard normal numbers, the same for the same letter and shape."""
    return np.random.default_rng((ord(name), *shape[-2:])).standard_normal(shape)


def along(scores: npt.ArrayLike, divisor: float, d_k: int) -> tuple[FloatArray, FloatArray]:
    """One query and keys with these scaled scores, not all 0, under this divisor."""
    wanted = np.asarray(scores, float)
    size = math.sqrt(divisor / d_k * np.abs(wanted).max())
    return np.full((1, d_k), size), np.outer(wanted * divisor / d_k / size, np.ones(d_k))
