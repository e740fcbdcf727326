"""Queries and keys of many heads, or their scores, and the values of the rows of one head.

A row counts if its query sees two keys or more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray, FloatArray
from sdpa.diagnostics import row_diagnostics
from sdpa.masks import broadcast_mask, named_mask
from sdpa.metrics import SATURATED
from sdpa.row_maps import PLAIN, RowMap

# The names of leading axes by their number.
AXES: dict[int, tuple[str, ...]] = {
    0: (),
    1: ("head",),
    2: ("batch", "head"),
    3: ("layer", "batch", "head"),  # as in np.stack(outputs.attentions)
}
Mask = npt.ArrayLike  # also a name
_TILE = 2**20  # scores at once: 8 MiB
# A score so far below 0 and below the largest of its row comes from a finite additive mask.
APART = 5000
_LARGEST = 1e70  # in size; products of the squares of lengths do not overflow
_NOISE = 1e-13  # relative rounding errors of sums of up to thousands of numbers


class HeadRows(NamedTuple):
    """The rows of a head in a sequence that count, under a divisor.

    `rows` has for each row the values whose means are quantities of a diagnosis, and

        rows                   1
        n_visible              number n of visible keys
        unbiased_variance      of the scaled scores, with 1/(n-1)
        independent_variance   |q|^2 (mean of |k|^2) / (d_k c^2), that of scores under the divisor c
                               of vectors of these lengths in independent directions; 1 beside
                               scores
        jacobian_square        |J|_F^2
    """

    rows: dict[str, FloatArray]  # by name, each (rows,)
    sums: dict[str, float]  # those over rows, and over the entries of q and k
    top_key: int  # place of the key with most weight, from the first one that a row sees


class Head(NamedTuple):
    """The rows of one head in one sequence that count, in double precision."""

    q: FloatArray  # (rows, d_k), or scores (rows, n_keys)
    k: FloatArray | None  # (n_keys, d_k), with zeros for keys that no row sees; None beside scores
    visible: BoolArray  # (rows, n_keys)

    def tiles(self) -> Iterator[tuple[slice, FloatArray]]:
        """Places of rows, with their scores before the divisor, -inf where a key is hidden."""
        step = max(1, _TILE // self.visible.shape[-1])
        for first in range(0, max(1, len(self.q)), step):
            rows = slice(first, first + step)
            scores = self.q[rows] if self.k is None else self.q[rows] @ self.k.T
            yield rows, np.where(self.visible[rows], scores, -np.inf)

    def rows(self, divisor: float, row_map: RowMap = PLAIN) -> HeadRows:
        """The values of all rows."""
        seen = np.asarray(self.visible.any(axis=0))
        first = int(seen.argmax())  # padding may come before it
        received = np.zeros(len(seen))  # weight of each key
        parts = []
        for rows, scores in self.tiles():
            weights = row_map.weights(scores / divisor)
            received += weights.sum(axis=0)
            parts.append(
                _values(
                    scores, weights, self._independent_variance(rows, divisor), divisor, row_map
                )
            )
        whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        sums = {name: float(values.sum()) for name, values in whole.items()}
        sums["first_key_weight"] = float(received[first])
        sums["most_attended_share"] = float(received.max())
        if self.k is not None:
            sums |= _moments("q", self.q) | _moments("k", self.k[seen])
        return HeadRows(whole, sums, int(received.argmax()) - first)

    def _independent_variance(self, rows: slice, divisor: float) -> FloatArray:
        visible = self.visible[rows]
        if self.k is None:
            return np.ones(len(visible))
        q = self.q[rows]
        squares = visible @ np.vecdot(self.k, self.k) / visible.sum(axis=-1)
        return np.asarray(np.vecdot(q, q) * squares / q.shape[-1] / divisor**2)


def _values(
    scores: FloatArray,
    weights: FloatArray,
    independent: FloatArray,
    divisor: float,
    row_map: RowMap,
) -> dict[str, FloatArray]:
    """The values of rows by name, from scores before the divisor and their weights."""
    plain = row_diagnostics(scores, divisor, with_variance=True)
    mapped = plain if row_map.is_plain else row_map.rows(scores / divisor)
    visible = scores > -np.inf
    n = visible.sum(axis=-1).astype(np.float64)
    is_noise = plain.row_variance <= _NOISE**2 * independent
    variance = np.where(is_noise, 0.0, plain.row_variance)
    max_weight = weights.max(axis=-1)
    return {
        "rows": np.ones_like(n),
        "n_visible": n,
        "independent_variance": independent,
        "row_variance": variance,
        "unbiased_variance": variance * n / (n - 1),
        "largest_score": scores.max(axis=-1) / divisor,
        "largest_absolute_score": np.where(visible, np.abs(scores), 0.0).max(axis=-1) / divisor,
        "max_weight": max_weight,
        "saturated_rows": (max_weight > SATURATED).astype(np.float64),
        "entropy": mapped.entropy,
        "entropy_share": mapped.entropy / np.log(n),
        "jacobian_norm": mapped.jacobian_norm,
        "jacobian_square": mapped.jacobian_norm**2,
        "visible_mass": weights.sum(axis=-1),
    }


def _moments(name: str, entries: FloatArray) -> dict[str, float]:
    """The sums of the entries of vectors and of their squares, and their number."""
    square = float(np.vecdot(entries, entries).sum())
    found = {"count": float(entries.size), "sum": float(entries.sum()), "squares": square}
    return {f"{name}_{part}": value for part, value in found.items()}


@dataclass(frozen=True)
class Heads:
    """Queries and keys, or scores, of all heads and sequences, of any real numbers."""

    q: npt.NDArray[Any]  # (..., n_queries, d_k), or scores (..., n_queries, n_keys)
    k: npt.NDArray[Any] | None  # (..., n_keys, d_k); None beside scores
    mask: BoolArray  # (..., n_queries, n_keys)
    # names of the leading axes; `batch` has independent sequences, `head` may be shorter in k
    axes: tuple[str, ...]

    @classmethod
    def of(
        cls, q: npt.ArrayLike, k: npt.ArrayLike, mask: Mask | None, axes: Sequence[str] | None
    ) -> Self:
        """From the arguments of `diagnose`, which names the errors."""
        queries = _numbers("q", q)
        keys = _numbers("k", k)
        names = _names(queries.ndim - 2, axes)
        _check_shapes(queries.shape, keys.shape, names)
        shape = (*queries.shape[:-1], keys.shape[-2])
        return cls(queries, keys, _mask(mask, shape), names)

    @classmethod
    def of_scores(
        cls, scores: npt.ArrayLike, mask: Mask | None, axes: Sequence[str] | None
    ) -> Self:
        """From the arguments of `diagnose_scores`."""
        array = _numbers("scores", scores)
        if array.shape[-1] < 2:
            raise ValueError(f"scores: expected 2 keys or more, got {array.shape}")
        heads = array.reshape(-1, *array.shape[-2:])
        first = next(filter(np.any, heads), heads[0])
        if are_weights(first):
            raise ValueError(
                "scores: expected those before the softmax, got rows that are non-negative and sum "
                "to 1, as weights do; np.log(weights) has the same softmax, "
                "and `sdpa diagnose --weights` reads weights"
            )
        return cls(array, None, _mask(mask, array.shape), _names(array.ndim - 2, axes))

    @property
    def n_keys(self) -> int:
        """The number of keys."""
        return int(self.mask.shape[-1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the leading axes of q."""
        return self.q.shape[:-2]

    def map_of(self, index: tuple[int, ...], row_map: RowMap) -> RowMap:
        """The row map of the head at a leading index; ValueError unless each has a sink, or all
        have the same.
        """
        if not isinstance(row_map.sink, tuple):
            return row_map
        places = zip(index, self.shape, strict=True)
        head, heads = dict(zip(self.axes, places, strict=True)).get("head", (0, 1))
        if len(row_map.sink) != heads:
            raise ValueError(
                f"sink: expected one number, or one for each of {heads} heads of q, got "
                f"{len(row_map.sink)} numbers"
            )
        return row_map.of_head(head)

    def head(self, index: tuple[int, ...]) -> Head:
        """The head at a leading index of q, with the keys of its group; ValueError for a number
        that is too large.
        """
        place = label(self.axes, index)
        q = np.asarray(self.q[index], np.float64)
        visible = self.mask[index]
        if self.k is None:
            visible = visible & ~hidden_scores(q)
        counted = visible.sum(axis=-1) >= 2
        if self.k is None:
            _check_sizes(f"scores{place}", q, visible & counted[:, None])
            return Head(q[counted], None, visible[counted])
        lengths = zip(index, self.shape, self.k.shape[:-2], strict=True)
        of_group = tuple(i * shared // length for i, length, shared in lengths)
        k = np.asarray(self.k[of_group], np.float64)
        visible = visible[counted]
        seen = visible.any(axis=0)[:, None]
        _check_sizes(f"q{place}", q, counted[:, None])
        _check_sizes(f"k{place}", k, seen)
        return Head(q[counted], np.where(seen, k, 0.0), visible)  # padding may be huge or NaN


def hidden_scores(scores: FloatArray) -> BoolArray:
    """True for the scores, (..., n_keys), that a mask hides: -inf, or far below 0 or the largest of
    their row. So a row that sees no key has no score.
    """
    largest = scores.max(axis=-1, keepdims=True)
    least = np.where(largest < np.inf, np.maximum(largest, 0) - APART, -np.inf)
    return np.asarray((scores == -np.inf) | (scores < least))


def are_weights(rows: npt.NDArray[Any]) -> bool:
    """True if every row is non-negative and sums to 1, to the precision of 8 binary digits, or is
    all 0 as padding.
    """
    rows = rows.astype(np.float64)
    sums = rows.sum(axis=-1)
    sums = sums[sums > 0]
    sum_to_one = sums.size and (np.abs(sums - 1) < 0.01).all()
    return bool(sum_to_one and (rows >= 0).all())


def _check_sizes(name: str, values: FloatArray, used: BoolArray) -> None:
    """ValueError with the place of the first number in use that is not finite, or whose fourth
    power would overflow.
    """
    wrong = np.argwhere(used & ~(np.abs(values) <= _LARGEST))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise ValueError(
            f"{name}: expected finite numbers up to {_LARGEST:g} in size, got {len(wrong)} that "
            f"are not, the first {values[row, column]} at ({row}, {column})"
        )


def _numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """The values as an array of real numbers in their own type: each head becomes double precision
    when it is used.
    """
    array = np.asarray(values)
    # the type of an optional package
    if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":
        raise ValueError(f"{name}: expected real numbers, got an array of {array.dtype}")
    if array.ndim < 2 or 0 in array.shape:
        last = {"q": "n_queries, d_k", "k": "n_keys, d_k"}.get(name, "n_queries, n_keys")
        raise ValueError(f"{name}: expected (..., {last}) without an empty axis, got {array.shape}")
    return array


def _names(n_leading: int, axes: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the leading axes, by default those of their number."""
    if axes is None and n_leading in AXES:
        return AXES[n_leading]
    names = tuple(axes or ())
    if not len(names) == len(set(names)) == n_leading:
        raise ValueError(
            f"axes: expected a different name for each of {n_leading} leading axes of q, got "
            f"{names or 'none'}"
        )
    return names


def _check_shapes(q: tuple[int, ...], k: tuple[int, ...], axes: tuple[str, ...]) -> None:
    """ValueError unless the shapes of q and k belong together."""
    if len(q) != len(k) or q[-1] != k[-1]:
        raise ValueError(
            f"expected q and k with the same number of axes and the same d_k (last axis), got {q} "
            f"and {k}"
        )
    if k[-2] < 2:
        raise ValueError(f"k: expected 2 keys or more, got {k}")
    for name, length, shared in zip(axes, q, k, strict=False):
        if length % shared if name == "head" else length != shared:
            raise ValueError(
                f"expected the same length of the axis {name!r} in q and k, or as many heads in q as "
                f"in k or a multiple (grouped queries), got {q} and {k}"
            )


def _mask(mask: Mask | None, shape: tuple[int, ...]) -> BoolArray:
    """The mask in the shape of the scores, without a copy."""
    if mask is None:
        return np.broadcast_to(np.True_, shape)
    if isinstance(mask, str):
        mask = named_mask(mask, *shape[-2:])
    return broadcast_mask(mask, shape)


def label(axes: Sequence[str], index: Sequence[int]) -> str:
    """The words for a head in errors: ` in batch 0, head 3`, none for the only one."""
    named = ", ".join(f"{name} {place}" for name, place in zip(axes, index, strict=True))
    return f" in {named}" if named else ""
