"""Queries and keys of many heads, or their scores, and the values of the rows of one head.

A row counts if its query sees two keys or more.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray, FloatArray
from sdpa.attention import softmax
from sdpa.masks import broadcast_mask, named_mask
from sdpa.metrics import SATURATED, row_variance
from sdpa.scaling import SCALED, Rule, resolve_divisor
from sdpa.softmax_rows import row_diagnostics

BATCH = "batch"  # the axis of independent sequences
# The usual leading axes; fewer are the last ones. `np.stack(outputs.attentions)` has all.
AXES = ("layer", BATCH, "head")
Mask = npt.ArrayLike  # also a name
_TILE = 2**20  # scores at once: 8 MiB
# A score so far below the larger of 0 and the largest of its row comes from a finite additive mask.
APART = 5000
_LARGEST = 1e70  # in size; products of the squares of lengths do not overflow
_NOISE = 1e-13  # relative rounding errors of sums of up to thousands of numbers


class HeadRows(NamedTuple):
    """The rows of a head in a sequence that count.

    `rows` has for each row the values whose means are quantities of a diagnosis, and

        rows                   1
        n_visible              number n of visible keys
        score_variance         of q.k, with 1/n
        unbiased_variance      of q.k, with 1/(n-1)
        independent_variance   |q|^2 (mean of |k|^2) / d_k, that of q.k of vectors of these lengths
                               in independent directions; 1 beside scores
        jacobian_square        |J|_F^2
    """

    rows: dict[str, FloatArray]  # by name, each (rows,)
    sums: dict[str, float]  # those over rows, and over the entries of q and k
    top_key: int = 0  # place of the key with most weight, from the first one that a row sees

    @classmethod
    def of(cls, parts: Sequence[Mapping[str, FloatArray]]) -> Self:
        """From the values of parts of the rows."""
        rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return cls(rows, {name: values.sum() for name, values in rows.items()})


class Head(NamedTuple):
    """The rows of one head in one sequence that count, in double precision."""

    q: FloatArray  # (rows, d_k), or scores (rows, n_keys)
    k: FloatArray | None  # (n_keys, d_k), with zeros for keys that no row sees; None beside scores
    visible: BoolArray  # (rows, n_keys)
    places: npt.NDArray[np.int64]  # of the rows among all queries, (rows,)
    divisor: float

    def tiles(self) -> Iterator[tuple[slice, FloatArray]]:
        """Places of rows, with their scores before the divisor, -inf where a key is hidden."""
        step = max(1, _TILE // self.visible.shape[-1])
        for first in range(0, max(1, len(self.q)), step):
            rows = slice(first, first + step)
            scores = self.q[rows] if self.k is None else self.q[rows] @ self.k.T
            yield rows, np.where(self.visible[rows], scores, -np.inf)

    def measured(self) -> HeadRows:
        """The values of all rows."""
        seen = np.asarray(self.visible.any(axis=0))
        first = int(seen.argmax())  # padding may come before it
        received = np.zeros(len(seen))  # weight of each key
        parts = []
        for rows, scores in self.tiles():
            received += softmax(scores / self.divisor).sum(axis=0)
            parts.append(_values(scores, self._independent_variance(rows), self.divisor))
        found = HeadRows.of(parts)
        found.sums["first_key_weight"] = received[first]
        found.sums["most_attended_share"] = received.max()
        if self.k is not None:
            found.sums.update(_moments("q", self.q) | _moments("k", self.k[seen]))
        return found._replace(top_key=int(received.argmax()) - first)

    def _independent_variance(self, rows: slice) -> FloatArray:
        visible = self.visible[rows]
        if self.k is None:
            return np.ones(len(visible))
        q = self.q[rows]
        squares = visible @ np.vecdot(self.k, self.k) / visible.sum(axis=-1)
        return np.asarray(np.vecdot(q, q) * squares / q.shape[-1])


def _values(scores: FloatArray, independent: FloatArray, divisor: float) -> dict[str, FloatArray]:
    """The values of rows by name, from scores before the divisor."""
    found = row_diagnostics(scores, divisor)
    visible = scores > -np.inf
    n = visible.sum(axis=-1).astype(np.float64)
    measured = row_variance(scores)
    variance = np.where(measured <= _NOISE**2 * independent, 0.0, measured)
    return {
        "rows": np.ones_like(n),
        "n_visible": n,
        "independent_variance": independent,
        "score_variance": variance,
        "unbiased_variance": variance * n / (n - 1),
        "row_variance": variance / divisor / divisor,
        "largest_absolute_score": np.where(visible, np.abs(scores), 0.0).max(axis=-1) / divisor,
        "max_weight": found.max_weight,
        "saturated_rows": (found.max_weight > SATURATED).astype(np.float64),
        "entropy": found.entropy,
        "entropy_share": found.entropy / np.log(n),
        "jacobian_norm": found.jacobian_norm,
        "jacobian_square": found.jacobian_norm**2,
    }


def _moments(name: str, entries: FloatArray) -> dict[str, float]:
    """The sums of the entries of vectors and of their squares, and their number."""
    squares = np.vecdot(entries, entries).sum()
    return {f"{name}_count": entries.size, f"{name}_sum": entries.sum(), f"{name}_squares": squares}


@dataclass(frozen=True)
class Heads:
    """Queries and keys, or scores, of all heads and sequences, of any real numbers."""

    q: npt.NDArray[Any]  # (batch, ..., n_queries, d_k), or scores (batch, ..., n_queries, n_keys)
    k: npt.NDArray[Any] | None  # (batch, ..., n_keys, d_k); None beside scores
    mask: BoolArray  # (batch, ..., n_queries, n_keys)
    axes: tuple[str, ...]  # names of the leading axes but batch; `head` may be shorter in k
    divisor: float  # of q.k; 1 beside scores

    @classmethod
    def of(
        cls,
        q: npt.ArrayLike,
        k: npt.ArrayLike | None,
        mask: Mask | None,
        axes: Sequence[str] | None,
        scaling: Rule = SCALED,
    ) -> Self:
        """From the arguments of `diagnose`, or, without k, of `diagnose_scores`, which name the
        errors.
        """
        queries = numbers_of("scores" if k is None else "q", q)
        keys = None if k is None else numbers_of("k", k)
        names = usual_axes(queries.ndim - 2) if axes is None else tuple(axes)
        if not len(names) == len(set(names)) == queries.ndim - 2:
            raise ValueError(
                f"axes: expected a different name for each of {queries.ndim - 2} leading axes of q, "
                f"got {names or 'none'}"
            )
        if keys is None and are_weights(queries):
            raise ValueError(
                "scores: expected those before the softmax, got rows that are non-negative and sum "
                "to 1, as weights do; np.log(weights) has the same softmax, and `sdpa diagnose "
                "--weights` reads weights"
            )
        n_keys, divisor = queries.shape[-1], 1.0
        if keys is not None:
            _check_shapes(queries.shape, keys.shape, names)
            n_keys = keys.shape[-2]
            divisor = resolve_divisor(scaling, keys.shape[-1], n_keys)
        if n_keys < 2:
            raise ValueError(f"expected 2 keys or more, got {n_keys}")
        shape = (*queries.shape[:-1], n_keys)
        named = named_mask(mask, *shape[-2:]) if isinstance(mask, str) else mask
        shown = broadcast_mask([True] if named is None else named, shape)
        place = names.index(BATCH) if BATCH in names else None

        def batch_first(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return array[None] if place is None else np.moveaxis(array, place, 0)

        return cls(
            batch_first(queries),
            None if keys is None else batch_first(keys),
            batch_first(shown),
            tuple(name for name in names if name != BATCH),
            divisor,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the leading axes but batch."""
        return self.q.shape[1:-2]

    def part(self, tokens: slice) -> Self:
        """The queries and keys at some places of the sequence."""
        k = None if self.k is None else self.k[..., tokens, :]
        q = self.q[..., tokens, tokens if k is None else slice(None)]
        return replace(self, q=q, k=k, mask=self.mask[..., tokens, tokens])

    def of_head(self, head: tuple[int, ...]) -> Iterator[Head]:
        """The sequences of a head, one at a time, with the keys of its group; ValueError for a
        number that is too large, with its place along batch and the axes.
        """
        return (self._head((sequence, *head)) for sequence in range(len(self.q)))

    def _head(self, index: tuple[int, ...]) -> Head:
        q = np.asarray(self.q[index], np.float64)
        visible = self.mask[index]
        if self.k is None:
            visible = visible & ~hidden_scores(q)
        counted = visible.sum(axis=-1, keepdims=True) >= 2
        places = np.flatnonzero(counted)
        of_head = ", ".join(
            f"{name} {i}" for name, i in zip((BATCH, *self.axes), index, strict=True)
        )
        if self.k is None:
            _check_sizes(f"scores ({of_head})", q, visible & counted)
            return Head(q[places], None, visible[places], places, self.divisor)
        _check_sizes(f"q ({of_head})", q, counted)
        lengths = zip(index, self.q.shape, self.k.shape[:-2], strict=False)
        of_group = tuple(i * shared // length for i, length, shared in lengths)
        k = np.asarray(self.k[of_group], np.float64)
        visible = visible[places]
        seen = visible.any(axis=0)[:, None]
        _check_sizes(f"k (of {of_head})", k, seen)
        # padding may be huge or NaN
        return Head(q[places], np.where(seen, k, 0.0), visible, places, self.divisor)


def hidden_scores(scores: FloatArray) -> BoolArray:
    """True for the scores, (..., n_keys), that a mask hides: -inf, or far below the larger of 0 and
    the largest of their row. So a row that sees no key has no score.
    """
    largest = scores.max(axis=-1, keepdims=True)
    least = np.where(largest < np.inf, np.maximum(largest, 0) - APART, -np.inf)
    return np.asarray((scores == -np.inf) | (scores < least))


def are_weights(rows: npt.NDArray[Any]) -> bool:
    """True if every row is non-negative and sums to 1, to the precision of 8 binary digits, or is
    all 0 as padding.
    """
    if not (rows >= 0).all():
        return False
    sums = rows.sum(axis=-1, dtype=np.float64)
    is_one = np.abs(sums - 1) < 0.01
    return bool(is_one.any() and (is_one | (sums == 0)).all())


def _check_sizes(name: str, values: FloatArray, used: BoolArray) -> None:
    """ValueError with the place of the first number in use that is not finite, or whose fourth
    power would overflow.
    """
    wrong = np.argwhere(used & ~(np.abs(values) <= _LARGEST))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            f"{name}: expected finite numbers up to {_LARGEST:g} in size, got {len(wrong)} that are "
            f"not, the first {values[row, column]} in row {row} of the sequence, column {column}"
        )


def numbers_of(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """The values as an array of real numbers in their own type: each head becomes double precision
    when it is used.
    """
    array = np.asarray(values)
    # the type of an optional package
    if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":
        raise ValueError(f"{name}: expected real numbers, got an array of {array.dtype}")
    if array.ndim < 2 or 0 in array.shape:
        raise ValueError(
            f"{name}: expected two axes or more, none of them empty, got {array.shape}"
        )
    return array


def usual_axes(n_leading: int) -> tuple[str, ...]:
    """The names of so many leading axes, at most three.

    >>> usual_axes(2)
    ('batch', 'head')
    """
    return AXES[len(AXES) - n_leading :]


def _check_shapes(q: tuple[int, ...], k: tuple[int, ...], axes: tuple[str, ...]) -> None:
    """ValueError unless the shapes of q and k belong together."""
    shared = zip(axes, q, k, strict=False)
    has_same = all(a % b == 0 if name == "head" else a == b for name, a, b in shared)
    if len(q) != len(k) or q[-1] != k[-1] or not has_same:
        raise ValueError(
            "expected q and k with the same d_k (last axis) and the same leading axes, or as many "
            f"heads in q as in k or a multiple (grouped queries), got q {q} and k {k} with the "
            f"leading axes {axes}"
        )
