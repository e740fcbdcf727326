"""Queries and keys of many heads, or their scores, and the rows of one head: their scores, weights
and Jacobians.

Each row comes with every key, and without the first key that any counted row of the head sees. A
row counts if its query sees two keys or more.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray, FloatArray
from sdpa.diagnostics import row_diagnostics
from sdpa.masks import Reach, broadcast_mask, reach_of
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
ALL, REST = "", "_without_first"  # parts of rows: with every key, and without the first one
# A score so far below 0 and below the largest of its row comes from a finite additive mask.
APART = 5000
_LARGEST = 1e70  # in size; products of the squares of lengths do not overflow


class Rows(NamedTuple):
    """Values of rows with at least two visible keys, each an array (rows,). Scores are divided by
    the divisor.
    """

    n_visible: FloatArray  # number n of visible keys
    lengths: FloatArray  # |q|^2 times the mean of |k|^2 over these keys
    mean: FloatArray  # of the scores
    variance: FloatArray  # of the scores, with 1/n
    largest: FloatArray  # score
    smallest: FloatArray  # score
    max_weight: FloatArray
    entropy: FloatArray
    jacobian_norm: FloatArray
    visible_mass: FloatArray  # sum of the weights
    first_weight: FloatArray  # of the first key
    sees_first: FloatArray  # 1 if the row sees the first key, else 0

    @classmethod
    def of(
        cls,
        scores: FloatArray,
        visible: BoolArray,
        query_squares: FloatArray,
        key_squares: FloatArray,
        divisor: float,
        row_map: RowMap,
    ) -> Self:
        """From scores before the divisor, (rows, n_keys), and the squares of the lengths of queries
        and keys.
        """
        n_visible = visible.sum(axis=-1).astype(np.float64)
        mean_square = visible @ key_squares / n_visible
        total = np.where(visible, scores, 0.0).sum(axis=-1)
        smallest = np.where(visible, scores, np.inf).min(axis=-1)
        shown = np.where(visible, scores, -np.inf)
        found = row_diagnostics(shown, divisor, with_variance=True, own_keys=np.array(0))
        of_softmax = (
            found.max_weight,
            found.entropy,
            found.jacobian_norm,
            np.ones_like(n_visible),
            found.own_weight,
        )
        if not row_map.is_plain:
            mapped = row_map.rows(shown / divisor)
            w = mapped.weights
            of_softmax = (
                w.max(axis=-1),
                mapped.entropy,
                mapped.jacobian_norm,
                mapped.visible_mass,
                w[:, 0],
            )
        return cls(
            n_visible,
            query_squares * mean_square,
            total / n_visible / divisor,
            found.row_variance,
            shown.max(axis=-1) / divisor,
            smallest / divisor,
            *of_softmax,
            visible[:, 0].astype(np.float64),
        )

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """The rows of several parts in their order; none of no parts."""
        none = cls(*np.empty((len(cls._fields), 0)))
        return cls(*map(np.concatenate, zip(none, *parts, strict=True)))


Moments = tuple[float, float, float]  # count, mean and variance of numbers


class MostAttended(NamedTuple):
    """The key that gets the most weight from all rows of a head in a sequence."""

    place: int  # among the keys from the first one that a row sees
    weight: float  # sum over rows
    rows: float  # number of those in which it is the first of the largest weights


class HeadRows(NamedTuple):
    """All rows of a head in a sequence, and the moments of the entries of their queries and of the
    keys they see.
    """

    rows: Rows
    rest: Rows  # without the first key
    most_attended: MostAttended
    q: Moments
    k: Moments

    def part(self, name: str) -> Rows:
        """The rows of a part."""
        return self.rest if name == REST else self.rows

    def scores(self, part: str) -> Moments:
        """The moments of the scaled scores of a part."""
        rows = self.part(part)
        count = rows.n_visible.sum()
        mean = float(rows.n_visible @ rows.mean) / (count or 1.0)
        squares = rows.variance + (rows.mean - mean) ** 2
        return count, mean, float(rows.n_visible @ squares) / (count or 1.0)


class Head(NamedTuple):
    """One head in one sequence, in double precision."""

    q: FloatArray  # (n_queries, d_k), or scores (n_queries, n_keys)
    k: FloatArray | None  # (n_keys, d_k), with zeros for keys that do not count; None beside scores
    mask: Reach | BoolArray | None
    counted: BoolArray  # queries that see two keys or more
    seen: BoolArray  # keys that one of these sees

    def tiles(self) -> Iterator["Tile"]:
        """The queries that count, with the keys up to the last that one of a tile sees."""
        key_squares = np.ones(len(self.seen)) if self.k is None else np.vecdot(self.k, self.k)
        for chosen, visible in tiles(len(self.q), len(self.seen), self.mask):
            counted = self.counted[chosen]
            q, n = self.q[chosen][counted], visible.shape[-1]
            scores = q if self.k is None else q @ self.k[:n].T
            squares = np.ones(len(q)) if self.k is None else np.vecdot(q, q)
            yield Tile(scores, visible[counted], squares, key_squares[:n])

    def entries(self) -> tuple[FloatArray, FloatArray]:
        """The queries and keys that count; none beside scores."""
        if self.k is None:
            return self.q[:0], self.q[:0]
        return self.q[self.counted], self.k[self.seen]


class Tile(NamedTuple):
    """Scores of some queries before the divisor, and what their rows need."""

    scores: FloatArray  # (rows, n_keys)
    visible: BoolArray  # of the same shape
    query_squares: FloatArray  # |q|^2, (rows,)
    key_squares: FloatArray  # |k|^2, (n_keys,)

    def rows_from(self, key: int, divisor: float, row_map: RowMap) -> list[Rows]:
        """The rows over the keys from this one on; none unless a query sees two of them."""
        left = self.visible[:, key:].sum(axis=-1) >= 2
        if not left.any():
            return []
        scores, visible = self.scores[left, key:], self.visible[left, key:]
        squares = self.query_squares[left], self.key_squares[key:]
        return [Rows.of(scores, visible, *squares, divisor, row_map)]


@dataclass(frozen=True)
class Heads:
    """Queries and keys, or scores, of all heads and sequences, of any real numbers."""

    q: npt.NDArray[Any]  # (..., n_queries, d_k), or scores (..., n_queries, n_keys)
    k: npt.NDArray[Any] | None  # (..., n_keys, d_k); None beside scores
    # (..., n_queries, n_keys), or the keys that a query sees by position
    mask: Reach | BoolArray | None
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
        return int(self.q.shape[-1] if self.k is None else self.k.shape[-2])

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the leading axes of q."""
        return self.q.shape[:-2]

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Every combination of leading indices, the last one fastest."""
        return itertools.product(*map(range, self.shape))

    def rows(self, index: tuple[int, ...], divisor: float, row_map: RowMap = PLAIN) -> HeadRows:
        """The rows at a leading index of q; errors as in `head`."""
        row_map = self._map_of_head(index, row_map)
        head = self.head(index)
        first = int(head.seen.argmax())  # padding may come before it
        whole: list[Rows] = []
        rest: list[Rows] = []
        received = np.zeros(self.n_keys)  # weight of each key
        led = np.zeros(self.n_keys)  # rows whose first largest weight it has
        for tile in head.tiles():
            whole += tile.rows_from(first, divisor, row_map)
            rest += tile.rows_from(first + 1, divisor, row_map)
            if len(tile.scores):
                scaled = np.where(tile.visible, tile.scores / divisor, -np.inf)
                weights = row_map.weights(scaled)
                n = weights.shape[-1]
                received[:n] += weights.sum(axis=0)
                led[:n] += np.bincount(weights.argmax(axis=-1), minlength=n)
        key = int(received.argmax())
        most_attended = MostAttended(key - first, float(received[key]), float(led[key]))
        of_entries = map(_moments, head.entries())
        return HeadRows(Rows.joined(whole), Rows.joined(rest), most_attended, *of_entries)

    def _map_of_head(self, index: tuple[int, ...], row_map: RowMap) -> RowMap:
        """The row map of the head at a leading index; ValueError unless each has a sink, or all
        have the same.
        """
        if not isinstance(row_map.sink, tuple):
            return row_map
        places = zip(index, self.shape, strict=True)
        by_axis = dict(zip(self.axes, places, strict=True))
        head, heads = by_axis.get("head", (0, 1))
        if len(row_map.sink) == 1:
            return row_map.of_head(0)
        if heads != len(row_map.sink):
            raise ValueError(
                f"sink: expected one number, or one for each of {heads} heads of q, got "
                f"{len(row_map.sink)} numbers"
            )
        return row_map.of_head(head)

    def scores(self, index: tuple[int, ...], divisor: float) -> Iterator[FloatArray]:
        """Tiles of scaled scores at a leading index of q, (rows, n_keys); errors as in `head`.

        Hidden keys have the score -inf, and so has every key of a query that does not count.
        """
        q, k, mask, counted, _ = self.head(index)
        q = np.where(counted[:, None], q, 0.0)
        for chosen, visible in tiles(len(q), self.n_keys, mask):
            n = visible.shape[-1]
            scores = q[chosen] if k is None else q[chosen] @ k[:n].T
            scaled = np.full((len(visible), self.n_keys), -np.inf)
            np.divide(scores, divisor, out=scaled[:, :n], where=visible & counted[chosen, None])
            yield scaled

    def head(self, index: tuple[int, ...]) -> Head:
        """The head at a leading index of q, with the keys of its group; ValueError for a number
        that is too large.
        """
        q = np.asarray(self.q[index], dtype=np.float64)
        k = None
        mask = self.mask[index] if isinstance(self.mask, np.ndarray) else self.mask
        if self.k is None:
            shown = ~hidden_scores(q)
            kept = np.zeros(q.shape, np.bool_)
            for chosen, part in tiles(q.shape[0], q.shape[1], mask):
                n = part.shape[-1]
                kept[chosen, :n] = part & shown[chosen, :n]
            q = np.where(kept, q, 0.0)
            mask = kept
        else:
            lengths = zip(index, self.shape, self.k.shape[:-2], strict=True)
            place = tuple(i * shared // length for i, length, shared in lengths)
            k = np.asarray(self.k[place], dtype=np.float64)
        counted = np.zeros(len(q), np.bool_)
        seen = np.zeros(self.n_keys, np.bool_)
        for chosen, visible in tiles(len(q), self.n_keys, mask):
            counted[chosen] = visible.sum(axis=-1) >= 2
            seen[: visible.shape[-1]] |= visible[counted[chosen]].any(axis=0)
        try:
            _check_sizes("scores" if k is None else "q", q, counted)
            if k is not None:
                _check_sizes("k", k, seen)
                k = np.where(seen[:, None], k, 0.0)  # padding may be huge or NaN
        except ValueError as error:
            raise ValueError(f"{error}{label(self.axes, index)}") from None
        return Head(q, k, mask, counted, seen)


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


def tiles(
    n_queries: int, n_keys: int, mask: Reach | BoolArray | None
) -> Iterator[tuple[slice, BoolArray]]:
    """Tiles of at most about a million scores: the places of queries, and the keys that they see,
    up to the last.
    """
    step = max(1, _TILE // n_keys)
    for first in range(0, n_queries, step):
        rows = slice(first, min(first + step, n_queries))
        if isinstance(mask, Reach):
            own = np.arange(rows.start, rows.stop) + n_keys - n_queries
            end = min(n_keys, own[-1] + mask.ahead + 1)
            yield rows, mask.sees(own[:, None], np.arange(end))
        elif mask is None:
            yield rows, np.ones((rows.stop - first, n_keys), np.bool_)
        else:
            yield rows, mask[rows]


def _moments(entries: FloatArray) -> Moments:
    if not entries.size:
        return 0.0, 0.0, 0.0
    return entries.size, entries.mean(), entries.var()


def _check_sizes(name: str, values: FloatArray, used: BoolArray) -> None:
    """ValueError with the place of the first number that is not finite, or whose fourth power would
    overflow.
    """
    wrong = np.argwhere(used[:, None] & ~(np.abs(values) <= _LARGEST))
    if len(wrong):
        row, column = (int(i) for i in wrong[0])
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
    if axes is None:
        if n_leading not in AXES:
            raise ValueError(f"axes: expected the names of {n_leading} leading axes of q, got none")
        return AXES[n_leading]
    given = [axes] if isinstance(axes, str) else axes
    names = tuple(map(str.lower, given))
    if (
        len(names) != n_leading
        or len(set(names)) < len(names)
        or not all(map(str.isidentifier, names))
    ):
        raise ValueError(
            f"axes: expected a different name for each of {n_leading} leading axes of q, got "
            f"{names}"
        )
    return names


def _check_shapes(q: tuple[int, ...], k: tuple[int, ...], axes: tuple[str, ...]) -> None:
    """ValueError unless the shapes of q and k belong together."""
    if q[-1] != k[-1]:
        raise ValueError(
            f"expected q and k with the same d_k (last axis), got {q[-1]} in q {q} and {k[-1]} in "
            f"k {k}"
        )
    if k[-2] < 2:
        raise ValueError(f"k: expected 2 keys or more, got {k}")
    if len(q) != len(k):
        raise ValueError(f"expected q and k with the same number of axes, got {q} and {k}")
    for name, length, shared in zip(axes, q, k, strict=False):
        if name == "head" and length % shared:
            expected = "as many heads in q as in k, or a multiple (grouped queries)"
            raise ValueError(f"expected {expected}, got {length} in q {q} and {shared} in k {k}")
        if name != "head" and length != shared:
            raise ValueError(
                f"expected the same length of the axis {name!r} in q and k, got {q} and {k}"
            )


def _mask(mask: Mask | None, shape: tuple[int, ...]) -> Reach | BoolArray | None:
    """The mask in the shape of the scores, without a copy."""
    if mask is None:
        return None
    if not isinstance(mask, str):
        return broadcast_mask(mask, shape)
    reach = reach_of(mask)
    if mask == "none":
        return None
    if shape[-2] > shape[-1]:
        raise ValueError(
            f"mask: expected at most as many queries as keys for {mask!r}, got {shape[-2:]}"
        )
    return reach


def label(axes: Sequence[str], index: Sequence[Any]) -> str:
    """The words for a head in errors: ` in batch 0, head 3`, none for the only one."""
    named = ", ".join(f"{name} {place}" for name, place in zip(axes, index, strict=True))
    return f" in {named}" if named else ""
