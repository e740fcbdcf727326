"""Queries and keys of many heads, or their scores, and the values of the rows of one head.

A row counts if its query sees two keys or more.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sdpa._arrays import Array, BoolArray, FloatArray, as_array
from sdpa.attention import softmax
from sdpa.masks import broadcast_mask, named_mask
from sdpa.metrics import SATURATED, row_variance
from sdpa.scaling import Rule, resolve_divisor
from sdpa.softmax_rows import row_diagnostics

BATCH = "batch"  # the axis of independent sequences
# The usual leading axes; fewer are the last ones. `np.stack(outputs.attentions)` has all.
AXES = ("layer", BATCH, "head")
Mask = npt.ArrayLike  # also a name
_TILE = 2**20  # scores at once: 8 MiB
# A score so far below the larger of 0 and the largest of its row comes from a finite additive mask.
MASKING_DISTANCE = 5000
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

    rows: dict[str, Array]  # by name, each (rows,)
    sums: dict[str, float]  # those over rows, and over the entries of q and k
    top_key: int = 0  # place of the key with most weight, from the first one that a row sees

    @classmethod
    def of(cls, tiles: Sequence[Mapping[str, Array]]) -> Self:
        """From the values of the rows in each tile."""
        rows = {name: np.concatenate([tile[name] for tile in tiles]) for name in tiles[0]}
        return cls(rows, {name: values.sum() for name, values in rows.items()})


class Head(NamedTuple):
    """The rows of one head in one sequence that count, in double precision."""

    q: FloatArray  # (rows, d_k), or scores (rows, n_keys)
    k: FloatArray | None  # (n_keys, d_k), with zeros for keys that no row sees; None beside scores
    visible: BoolArray  # (rows, n_keys)
    places: npt.NDArray[np.intp]  # of the rows among all queries, (rows,)
    divisor: float

    @property
    def scores(self) -> FloatArray:
        """Those before the divisor, (rows, n_keys), -inf where a key is hidden."""
        scores = self.q if self.k is None else self.q @ self.k.T
        return np.where(self.visible, scores, -np.inf)

    def tiles(self) -> Iterator[Self]:
        """A few rows at a time; one without rows if there are none."""
        step = max(1, _TILE // self.visible.shape[-1])
        for first in range(0, max(1, len(self.q)), step):
            rows = slice(first, first + step)
            yield self._replace(
                q=self.q[rows],
                visible=self.visible[rows],
                places=self.places[rows],
            )

    def measured(self) -> HeadRows:
        """The values of all rows."""
        seen = np.asarray(self.visible.any(axis=0))
        received = np.zeros(len(seen))  # weight of each key
        tiles = []
        for tile in self.tiles():
            scores = tile.scores
            received += softmax(scores / self.divisor).sum(axis=0)
            tiles.append(tile.values(scores))
        first = int(seen.argmax())  # padding may come before it
        rows = HeadRows.of(tiles)
        rows.sums["first_key_weight"] = received[first]
        rows.sums["most_attended_share"] = received.max()
        if self.k is not None:
            for name, entries in {"q": self.q, "k": self.k[seen]}.items():
                rows.sums[f"{name}_count"] = entries.size
                rows.sums[f"{name}_sum"] = entries.sum()
                rows.sums[f"{name}_squares"] = np.vecdot(entries, entries).sum()
        return rows._replace(top_key=int(received.argmax()) - first)

    def values(self, scores: FloatArray) -> dict[str, Array]:
        """The values of the rows by name, from their scores."""
        n = self.visible.sum(axis=-1)
        independent = np.ones(len(n))
        if self.k is not None:
            key_squares = self.visible @ np.vecdot(self.k, self.k) / n
            independent = np.vecdot(self.q, self.q) * key_squares / self.q.shape[-1]
        measured = row_variance(scores)
        variance = np.where(measured <= _NOISE**2 * independent, 0.0, measured)
        diagnostics = row_diagnostics(scores, self.divisor)
        largest = np.abs(scores).max(axis=-1, where=self.visible, initial=0.0)
        return {
            "rows": np.ones_like(n),
            "n_visible": n,
            "independent_variance": independent,
            "score_variance": variance,
            "unbiased_variance": variance * n / (n - 1),
            "row_variance": variance / self.divisor / self.divisor,
            "largest_absolute_score": largest / self.divisor,
            "max_weight": diagnostics.max_weight,
            "saturated_rows": diagnostics.max_weight > SATURATED,
            "entropy": diagnostics.entropy,
            "entropy_share": diagnostics.entropy / np.log(n),
            "jacobian_norm": diagnostics.jacobian_norm,
            "jacobian_square": diagnostics.jacobian_norm**2,
        }


@dataclass(frozen=True)
class Heads:
    """Queries and keys, or scores, of all heads and sequences, of any real numbers."""

    q: Array  # (..., n_queries, d_k), or scores (..., n_queries, n_keys)
    k: Array | None  # (..., n_keys, d_k), with fewer heads or as many; None for scores
    mask: BoolArray  # (..., n_queries, n_keys), True for a visible key
    axes: tuple[str, ...]  # names of the leading axes
    scaling: Rule = 1.0  # that of q.k
    documents: Sequence[slice] = (slice(None),)  # places of packed ones, each its own sequence

    @classmethod
    def of(
        cls,
        q: npt.ArrayLike,
        k: npt.ArrayLike | None,
        mask: Mask | None,
        axes: Sequence[str] | None,
        scaling: Rule = 1.0,
    ) -> Self:
        """From the arguments of `diagnose`, or, without k, of `diagnose_scores`, which name the
        errors.
        """
        q = numbers_of("scores" if k is None else "q", q)
        names = default_axis_names(q.ndim - 2) if axes is None else tuple(axes)
        if not len(names) == len(set(names)) == q.ndim - 2:
            raise ValueError(
                f"axes: expected {q.ndim - 2} different names, one for each axis of q {q.shape} before "
                f"the last two, got {', '.join(names) or 'none'}"
            )
        shape = q.shape
        if k is not None:
            k = numbers_of("k", k)
            shared = zip(names, q.shape, k.shape, strict=False)
            has_same = all(a % b == 0 if name == "head" else a == b for name, a, b in shared)
            if q.ndim != k.ndim or q.shape[-1] != k.shape[-1] or not has_same:
                raise ValueError(
                    "expected q and k with the same d_k (last axis) and the same axes before n, or as "
                    "many heads in q as in k or a multiple (grouped queries), got q "
                    f"({', '.join([*names, 'n', 'd_k'])}) = {q.shape} and k {k.shape}"
                )
            shape = (*q.shape[:-1], k.shape[-2])
        if mask is None or isinstance(mask, str):
            mask = named_mask(mask or "none", *shape[-2:])
        return cls(q, k, broadcast_mask(mask, shape), names, scaling)

    @classmethod
    def of_scores(
        cls, scores: npt.ArrayLike, mask: Mask | None, axes: Sequence[str] | None
    ) -> Self:
        """From the arguments of `diagnose_scores`; ValueError for weights."""
        heads = cls.of(scores, None, mask, axes)
        if are_weights(heads.q):
            raise ValueError(
                "scores: expected those before the softmax, got rows that are non-negative and sum "
                "to 1, as weights do; np.log(weights) has the same softmax, and `sdpa diagnose "
                "--weights` reads weights"
            )
        return heads

    @property
    def shape(self) -> dict[str, int]:
        """The lengths of the leading axes but batch, by name."""
        lengths = zip(self.axes, self.q.shape, strict=False)
        return {name: length for name, length in lengths if name != BATCH}

    @property
    def longest(self) -> tuple[int, ...]:
        """n_queries and n_keys of the longest document."""
        return max(self.mask[..., place, place].shape[-2:] for place in self.documents)

    @property
    def divisor(self) -> float:
        """That of q.k, by the keys of the longest document; 1 for scores."""
        return resolve_divisor(self.scaling, self.q.shape[-1], self.longest[-1])

    @property
    def within(self) -> BoolArray:
        """True for a query and a key of one document, (n_queries, n_keys)."""
        is_within = np.zeros(self.mask.shape[-2:], bool)
        for place in self.documents:
            is_within[place, place] = True
        return is_within

    def by_head(self) -> Iterator[Iterator[Head]]:
        """The documents and sequences of each head, one at a time, with the keys of its group;
        ValueError for a number that is too large, with its place along batch and the axes.
        """
        sequences = self.q.shape[self.axes.index(BATCH)] if BATCH in self.axes else 1
        for head in np.ndindex(*self.shape.values()):
            places = dict(zip(self.shape, head, strict=True))
            yield (
                self._head({BATCH: sequence} | places, document)
                for document in self.documents
                for sequence in range(sequences)
            )

    def _head(self, places: Mapping[str, int], document: slice) -> Head:
        index = tuple(places[name] for name in self.axes)
        name = ", ".join(f"{name} {place}" for name, place in places.items())
        q = self.q[index][document]
        visible = self.mask[index][document, document]
        if self.k is None:
            q = q[:, document]
            visible = visible & ~hidden_scores(q)
        counted = visible.sum(axis=-1, keepdims=True) >= 2
        rows = np.flatnonzero(counted)
        used = visible & counted
        k = None
        if self.k is None:
            q = _used(f"scores ({name})", q, used)
        else:
            lengths = zip(index, self.q.shape, self.k.shape, strict=False)
            shared_index = tuple(i * shared // length for i, length, shared in lengths)
            q = _used(f"q ({name})", q, counted)
            k = _used(f"k (of {name})", self.k[shared_index][document], used.any(axis=0)[:, None])
        return Head(q[rows], k, visible[rows], rows, self.divisor)


def hidden_scores(scores: FloatArray) -> BoolArray:
    """True for the scores, (..., n_keys), that a mask hides: -inf, or far below the larger of 0 and
    the largest of their row. So a row that sees no key has no score.
    """
    largest = scores.max(axis=-1, keepdims=True)
    least = np.where(largest < np.inf, np.maximum(largest, 0) - MASKING_DISTANCE, -np.inf)
    return scores < least


def are_weights(rows: Array) -> bool:
    """True if every row is non-negative and sums to 1, to the precision of 8 binary digits, or is
    all 0 as padding.
    """
    if not (rows >= 0).all():
        return False
    sums = rows.sum(axis=-1, dtype=np.float64)
    others = sums[sums != 0]
    return bool(others.size and (np.abs(others - 1) < 0.01).all())


@contextmanager
def prefixed_errors(*names: object) -> Iterator[None]:
    """A ValueError within as one that begins with these names."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{' and '.join(map(str, names))}: {error}") from None


def _used(name: str, values: Array, used: BoolArray) -> FloatArray:
    """The numbers in use in double precision, and 0 in place of others, which may be padding of any size; ValueError
    with the place of the first one in use that is not finite, or whose fourth power would overflow.
    """
    exact: FloatArray = np.asarray(values, np.float64)
    wrong = np.argwhere(used & ~(np.abs(exact) <= _LARGEST))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            f"{name}: expected finite numbers up to {_LARGEST:g} in size, got {len(wrong)} that are "
            f"not, the first {values[row, column]} in row {row} of the sequence, column {column}"
        )
    return np.where(used, exact, 0.0)


def numbers_of(name: str, values: npt.ArrayLike) -> Array:
    """The values as an array of real numbers in their own type: each head becomes double precision
    when it is used.
    """
    array = as_array(values)
    # the type of an optional package
    if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":
        raise ValueError(f"{name}: expected real numbers, got an array of {array.dtype}")
    if array.ndim < 2 or 0 in array.shape:
        raise ValueError(
            f"{name}: expected two axes or more, none of them empty, got {array.shape}"
        )
    return array


def default_axis_names(n_leading: int) -> tuple[str, ...]:
    """The names of so many leading axes, at most three.

    >>> default_axis_names(2)
    ('batch', 'head')
    """
    return AXES[len(AXES) - n_leading :]
