"""The rows of one head in one sequence: their scores, weights and Jacobians, with and without the first key."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray, FloatArray
from sdpa.diagnosis.heads import Head, Tile
from sdpa.diagnostics import row_diagnostics

_LARGEST = 1e70  # in size; products of the squares of lengths do not overflow


@dataclass(frozen=True)
class Rows:
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
    def of(cls, scores: Scores, divisor: float) -> Self:
        """From scores before the divisor."""
        values, visible = scores.values, scores.visible
        if visible is None:
            n_visible = np.full(len(values), float(values.shape[-1]))
            shown, least = values, values.min(axis=-1, initial=np.inf)
            total = values @ np.ones(values.shape[-1])
            of_keys, sees_first = np.full(len(values), scores.key_squares.mean()), np.ones(len(values))
        else:
            n_visible = visible.sum(axis=-1).astype(np.float64)
            shown, least = np.where(visible, values, -np.inf), np.where(visible, values, np.inf).min(axis=-1)
            total = np.where(visible, values, 0.0).sum(axis=-1)
            of_keys, sees_first = visible @ scores.key_squares / n_visible, visible[:, 0].astype(np.float64)
        found = row_diagnostics(shown, divisor, with_variance=True, own_keys=np.array(0))
        return cls(
            n_visible,
            scores.query_squares * of_keys,
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
        """The rows of several parts in their order."""
        return cls(*(np.concatenate(values) for values in zip(*(vars(part).values() for part in parts), strict=True)))


@dataclass(frozen=True)
class Scores:
    """Scores before the divisor, of rows that see two keys or more.

    Attributes:
        values: (rows, n_keys).
        visible: True where the query sees the key, of the same shape; None if every query sees every key.
        query_squares, key_squares: |q|^2 and |k|^2, (rows,) and (n_keys,).
    """

    values: FloatArray
    visible: BoolArray | None
    query_squares: FloatArray
    key_squares: FloatArray

    def without_first(self) -> Scores | None:
        """The scores without those of the first key, in rows that still see two keys; None if there are none."""
        visible = None if self.visible is None else self.visible[:, 1:]
        left = np.full(len(self.values), self.values.shape[-1] > 2) if visible is None else visible.sum(axis=-1) >= 2
        if not left.any():
            return None
        visible = None if visible is None else visible[left]
        return Scores(self.values[left, 1:], visible, self.query_squares[left], self.key_squares[1:])


@dataclass(frozen=True)
class HeadRows:
    """All rows of a head in a sequence.

    Attributes:
        rows: with every visible key.
        rest: without the first key that any of them sees; only the rows that still see two keys.
        q, k: the queries of `rows`, and the keys that one of them sees.
    """

    rows: Rows
    rest: Rows
    q: FloatArray
    k: FloatArray


def head_rows(head: Head, divisor: float) -> HeadRows:
    """The rows of a head that see two keys or more; ValueError for a number that is not finite or too large."""
    counted, seen = _counted(head)
    first = int(seen.argmax())  # padding may come before it
    q, k = head.q[counted], head.k[seen]
    _check_sizes("q", q, np.flatnonzero(counted))
    _check_sizes("k", k, np.flatnonzero(seen))
    keys = head.k if seen.all() else np.where(seen[:, None], head.k, 0.0)  # padding may be huge or NaN
    key_squares = np.vecdot(keys, keys)
    rows, rest = [_no_rows()], [_no_rows()]
    for tile in head.tiles():
        chosen = counted[tile.rows]
        if not chosen.any():
            continue
        queries = head.q[tile.rows][chosen]
        visible = None if tile.visible is None else tile.visible[chosen, first:]
        if visible is not None and visible.all():
            visible = None
        values = queries @ keys[first : tile.width].T
        scores = Scores(values, visible, np.vecdot(queries, queries), key_squares[first : tile.width])
        rows.append(Rows.of(scores, divisor))
        others = scores.without_first()
        if others is not None:
            rest.append(Rows.of(others, divisor))
    return HeadRows(Rows.joined(rows), Rows.joined(rest), q, k)


def _no_rows() -> Rows:
    return Rows(*np.empty((len(fields(Rows)), 0)))


def _counted(head: Head) -> tuple[BoolArray, BoolArray]:
    """The queries that see two keys or more, and the keys that one of these sees."""
    counted, seen = np.zeros(len(head.q), np.bool_), np.zeros(len(head.k), np.bool_)
    for tile in head.tiles():
        counted[tile.rows] = True if tile.visible is None else tile.visible.sum(axis=-1) >= 2
        seen[: tile.width] |= _seen(tile, counted[tile.rows])
    return counted, seen


def _seen(tile: Tile, counted: BoolArray) -> BoolArray | bool:
    return True if tile.visible is None else np.asarray(tile.visible[counted].any(axis=0))


def _check_sizes(name: str, used: FloatArray, places: npt.NDArray[np.intp]) -> None:
    """ValueError with the place of the first number that is not finite, or whose fourth power would overflow."""
    wrong = np.argwhere(~(np.abs(used) <= _LARGEST))
    if len(wrong):
        row, column = (int(i) for i in wrong[0])
        raise ValueError(
            f"{name}: expected finite numbers up to {_LARGEST:g} in size, got {len(wrong)} that are not, the first"
            f" {used[row, column]} at ({places[row]}, {column})"
        )
