"""Queries and keys of many heads, and the rows of one head: their scores, weights and Jacobians.

Each row comes with every key, and without the first key that any counted row of the head sees. A row counts if its
query sees two keys or more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray, FloatArray
from sdpa.attention import MaskName, is_causal
from sdpa.diagnostics import row_diagnostics

# The names of leading axes by their number.
AXES: dict[int, tuple[str, ...]] = {0: (), 1: ("head",), 2: ("batch", "head"), 3: ("batch", "layer", "head")}
Mask = MaskName | npt.ArrayLike
_TILE = 2**20  # scores at once: 8 MiB
_LARGEST = 1e70  # in size; products of the squares of lengths do not overflow


class Rows(NamedTuple):
    """Values of rows with at least two visible keys, each an array (rows,). Scores are divided by the divisor.

    Attributes:
        n_visible: number n of visible keys.
        lengths: |q|^2 times the mean of |k|^2 over these keys.
        mean, variance: of the scores, the latter with 1/n.
        largest, smallest: of the scores.
        max_weight, entropy, jacobian_norm, first_weight: of the softmax; the last one is the weight of the first key.
        sees_first: 1 if the row sees the first key, else 0.
    """

    n_visible: FloatArray
    lengths: FloatArray
    mean: FloatArray
    variance: FloatArray
    largest: FloatArray
    smallest: FloatArray
    max_weight: FloatArray
    entropy: FloatArray
    jacobian_norm: FloatArray
    first_weight: FloatArray
    sees_first: FloatArray

    @classmethod
    def of(
        cls,
        scores: FloatArray,
        visible: BoolArray | None,
        query_squares: FloatArray,
        key_squares: FloatArray,
        divisor: float,
    ) -> Self:
        """From scores before the divisor, (rows, n_keys), and the squares of the lengths of queries and keys.

        visible is True where the query sees the key; None if every query sees every key.
        """
        if visible is None:
            n_visible = np.full(len(scores), float(scores.shape[-1]))
            shown, least = scores, scores.min(axis=-1, initial=np.inf)
            total = scores @ np.ones(scores.shape[-1])
            of_keys, sees_first = np.full(len(scores), key_squares.mean()), np.ones(len(scores))
        else:
            n_visible = visible.sum(axis=-1).astype(np.float64)
            shown, least = np.where(visible, scores, -np.inf), np.where(visible, scores, np.inf).min(axis=-1)
            total = np.where(visible, scores, 0.0).sum(axis=-1)
            of_keys, sees_first = visible @ key_squares / n_visible, visible[:, 0].astype(np.float64)
        found = row_diagnostics(shown, divisor, with_variance=True, own_keys=np.array(0))
        return cls(
            n_visible,
            query_squares * of_keys,
            total / n_visible / divisor,
            found.row_variance,
            shown.max(axis=-1, initial=-np.inf) / divisor,
            least / divisor,
            found.max_weight,
            found.entropy,
            found.jacobian_norm,
            found.own_weight,
            sees_first,
        )

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """The rows of several parts in their order; none of no parts."""
        none = cls(*np.empty((len(cls._fields), 0)))
        return cls(*map(np.concatenate, zip(none, *parts, strict=True)))


class HeadRows(NamedTuple):
    """All rows of a head in a sequence: with every key, and without the first one.

    q are the queries of `rows`, and k the keys that one of them sees.
    """

    rows: Rows
    rest: Rows
    q: FloatArray
    k: FloatArray


@dataclass(frozen=True)
class Heads:
    """Queries and keys of all heads and sequences.

    Attributes:
        q: (..., n_queries, d_k), any real numbers.
        k: (..., n_keys, d_k).
        mask: `causal`, booleans (..., n_queries, n_keys), or None.
        axes: names of the leading axes; `batch` has independent sequences, and `head` may be shorter in k.
    """

    q: npt.NDArray[Any]
    k: npt.NDArray[Any]
    mask: Literal["causal"] | BoolArray | None
    axes: tuple[str, ...]

    @classmethod
    def of(cls, q: npt.ArrayLike, k: npt.ArrayLike, mask: Mask | None, axes: Sequence[str] | None) -> Heads:
        """From the arguments of `diagnose`, which names the errors."""
        queries, keys = _numbers("q", q), _numbers("k", k)
        names = _names(queries.ndim - 2, axes)
        _check_shapes(queries.shape, keys.shape, names)
        return cls(queries, keys, _mask(mask, (*queries.shape[:-1], keys.shape[-2])), names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the leading axes of q."""
        return self.q.shape[:-2]

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Every combination of leading indices, the last one fastest."""
        return itertools.product(*map(range, self.shape))

    def rows(self, index: tuple[int, ...], divisor: float) -> HeadRows:
        """The rows at a leading index of q, with the keys of its group.

        Raises:
            ValueError: a number that counts is not finite or too large; the message names its place.
        """
        of_keys = [i * shared // length for i, length, shared in zip(index, self.shape, self.k.shape[:-2], strict=True)]
        mask = self.mask if self.mask is None or isinstance(self.mask, str) else self.mask[index]
        q, k = (np.asarray(array, dtype=np.float64) for array in (self.q[index], self.k[tuple(of_keys)]))
        try:
            return _rows(q, k, mask, divisor)
        except ValueError as error:
            raise ValueError(f"{error}{label(self.axes, index)}") from None


def tiles(
    n_queries: int, n_keys: int, mask: Literal["causal"] | BoolArray | None
) -> Iterator[tuple[slice, int, BoolArray | None]]:
    """Tiles of at most about a million scores: the places of queries, the number of keys that they see, and the mask.

    The keys go from the first one to the last one that a query of the tile may see. The mask is None if all see all.
    """
    step = max(1, _TILE // n_keys)
    for first in range(0, n_queries, step):
        rows = slice(first, min(first + step, n_queries))
        if isinstance(mask, str):
            seen = np.arange(rows.start, rows.stop) + n_keys - n_queries + 1
            width = int(seen[-1])
            yield rows, width, np.arange(width) < seen[:, None]
        else:
            yield rows, n_keys, None if mask is None else mask[rows]


def _rows(q: FloatArray, k: FloatArray, mask: Literal["causal"] | BoolArray | None, divisor: float) -> HeadRows:
    """The rows of one head in one sequence, from its queries and keys in double precision."""
    counted, seen = np.zeros(len(q), np.bool_), np.zeros(len(k), np.bool_)
    for chosen, width, visible in tiles(len(q), len(k), mask):
        counted[chosen] = True if visible is None else visible.sum(axis=-1) >= 2
        seen[:width] |= True if visible is None else visible[counted[chosen]].any(axis=0)
    _check_sizes("q", q, counted)
    _check_sizes("k", k, seen)
    first = int(seen.argmax())  # padding may come before it
    keys = k if seen.all() else np.where(seen[:, None], k, 0.0)  # padding may be huge or NaN
    key_squares = np.vecdot(keys, keys)
    rows, rest = [], []
    for chosen, width, visible in tiles(len(q), len(k), mask):
        if not counted[chosen].any():
            continue
        queries = q[chosen][counted[chosen]]
        visible = None if visible is None else visible[counted[chosen], first:]
        if visible is not None and visible.all():
            visible = None
        scores, squares = queries @ keys[first:width].T, np.vecdot(queries, queries)
        rows.append(Rows.of(scores, visible, squares, key_squares[first:width], divisor))
        others = None if visible is None else visible[:, 1:]
        left = np.full(len(scores), scores.shape[-1] > 2) if others is None else others.sum(axis=-1) >= 2
        if left.any():
            others = None if others is None else others[left]
            rest.append(Rows.of(scores[left, 1:], others, squares[left], key_squares[first + 1 : width], divisor))
    return HeadRows(Rows.joined(rows), Rows.joined(rest), q[counted], k[seen])


def _check_sizes(name: str, values: FloatArray, used: BoolArray) -> None:
    """ValueError with the place of the first number that is not finite, or whose fourth power would overflow."""
    wrong = np.argwhere(used[:, None] & ~(np.abs(values) <= _LARGEST))
    if len(wrong):
        row, column = (int(i) for i in wrong[0])
        raise ValueError(
            f"{name}: expected finite numbers up to {_LARGEST:g} in size, got {len(wrong)} that are not, the first"
            f" {values[row, column]} at ({row}, {column})"
        )


def _numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """The values as an array of real numbers in their own type: each head becomes double precision when it is used."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":  # the type of an optional package
        raise ValueError(f"{name}: expected real numbers, got an array of {array.dtype}")
    if array.ndim < 2 or 0 in array.shape:
        expected = f"(..., {'n_queries' if name == 'q' else 'n_keys'}, d_k) without an empty axis"
        raise ValueError(f"{name}: expected {expected}, got {array.shape}")
    return array


def _names(n_leading: int, axes: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the leading axes, by default those of their number."""
    if axes is None:
        if n_leading not in AXES:
            raise ValueError(f"axes: expected the names of {n_leading} leading axes of q, got none")
        return AXES[n_leading]
    names = tuple(map(str.lower, [axes] if isinstance(axes, str) else axes))
    if len(names) != n_leading or len(set(names)) < len(names) or not all(map(str.isidentifier, names)):
        raise ValueError(f"axes: expected a different name for each of {n_leading} leading axes of q, got {names}")
    return names


def _check_shapes(q: tuple[int, ...], k: tuple[int, ...], axes: tuple[str, ...]) -> None:
    """ValueError unless the shapes of q and k belong together."""
    if q[-1] != k[-1]:
        raise ValueError(f"expected q and k with the same d_k (last axis), got {q[-1]} in q {q} and {k[-1]} in k {k}")
    if k[-2] < 2:
        raise ValueError(f"k: expected 2 keys or more, got {k}")
    if len(q) != len(k):
        raise ValueError(f"expected q and k with the same number of axes, got {q} and {k}")
    for name, length, shared in zip(axes, q, k, strict=False):
        if name == "head" and length % shared:
            expected = "as many heads in q as in k, or a multiple (grouped queries)"
            raise ValueError(f"expected {expected}, got {length} in q {q} and {shared} in k {k}")
        if name != "head" and length != shared:
            raise ValueError(f"expected the same length of the axis {name!r} in q and k, got {q} and {k}")


def _mask(mask: Mask | None, shape: tuple[int, ...]) -> Literal["causal"] | BoolArray | None:
    """The mask in the shape of the scores, without a copy."""
    if mask is None or (isinstance(mask, str) and not is_causal(mask)):
        return None
    if isinstance(mask, str):
        if shape[-2] > shape[-1]:
            raise ValueError(f"mask: expected at most as many queries as keys for 'causal', got {shape[-2:]}")
        return "causal"
    allowed = np.asarray(mask)
    if allowed.dtype != np.bool_:
        raise ValueError(
            f"mask: expected None, 'causal' or booleans (True: may attend), got an array of {allowed.dtype}"
        )
    try:
        return np.broadcast_to(allowed, shape)
    except ValueError:
        raise ValueError(f"mask: expected a shape that broadcasts to {shape}, got {allowed.shape}") from None


def label(axes: Sequence[str], index: Sequence[int]) -> str:
    """The words for a head in errors: ` in batch 0, head 3`.

    >>> label(("batch", "head"), (0, 3)), label((), ())
    (' in batch 0, head 3', '')
    """
    named = ", ".join(f"{name} {place}" for name, place in zip(axes, index, strict=True))
    return f" in {named}" if named else ""
