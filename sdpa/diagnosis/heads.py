"""The arguments of `diagnose`: queries and keys of many heads, the names of their leading axes, and the mask."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray
from sdpa.attention import MaskName, is_causal

# The names of leading axes by their number.
AXES: dict[int, tuple[str, ...]] = {0: (), 1: ("head",), 2: ("batch", "head"), 3: ("batch", "layer", "head")}
Mask = MaskName | npt.ArrayLike
_TILE = 2**20  # scores at once: 8 MiB


@dataclass(frozen=True)
class Tile:
    """Some queries of a head, with the keys that at least one of them may see.

    Attributes:
        rows: places of the queries.
        width: number of keys from the first one on.
        visible: (rows, width), True where the query may attend to the key; None if it may everywhere.
    """

    rows: slice
    width: int
    visible: BoolArray | None


@dataclass(frozen=True)
class Head:
    """The queries and keys of one head in one sequence, in double precision.

    Attributes:
        q: (n_queries, d_k).
        k: (n_keys, d_k).
        mask: `causal`, booleans (n_queries, n_keys), or None.
    """

    q: npt.NDArray[np.float64]
    k: npt.NDArray[np.float64]
    mask: Literal["causal"] | BoolArray | None

    def tiles(self) -> Iterator[Tile]:
        """All queries, in tiles of at most about a million scores."""
        n_queries, n_keys = len(self.q), len(self.k)
        step = max(1, _TILE // n_keys)
        for first in range(0, n_queries, step):
            rows = slice(first, min(first + step, n_queries))
            if self.mask is None:
                yield Tile(rows, n_keys, None)
            elif isinstance(self.mask, str):
                seen = np.arange(rows.start, rows.stop) + n_keys - n_queries + 1
                width = int(seen[-1])
                yield Tile(rows, width, np.arange(width) < seen[:, None])
            else:
                yield Tile(rows, n_keys, self.mask[rows])


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

    def head(self, index: tuple[int, ...]) -> Head:
        """The head at a leading index of q, with the keys of its group."""
        of_keys = [
            place * shared // length for place, length, shared in zip(index, self.shape, self.k.shape[:-2], strict=True)
        ]
        mask = self.mask if self.mask is None or isinstance(self.mask, str) else self.mask[index]
        q, k = (np.asarray(array, dtype=np.float64) for array in (self.q[index], self.k[tuple(of_keys)]))
        return Head(q, k, mask)


def _numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """The values as an array of real numbers in their own type: each head becomes double precision when it is used."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":  # the type of an optional package
        raise ValueError(f"{name}: expected real numbers, got an array of {array.dtype}")
    if array.ndim < 2 or 0 in array.shape:
        raise ValueError(
            f"{name}: expected (..., {'n_queries' if name == 'q' else 'n_keys'}, d_k) without an empty axis,"
            f" got {array.shape}"
        )
    return array


def _names(n_leading: int, axes: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the leading axes, by default those of their number."""
    if axes is None:
        if n_leading not in AXES:
            raise ValueError(f"axes: expected the names of {n_leading} leading axes of q, got none")
        return AXES[n_leading]
    given = [axes] if isinstance(axes, str) else list(axes)
    if not all(isinstance(name, str) for name in given):
        raise TypeError(f"axes: expected names, got {given}")
    names = tuple(map(str.lower, given))
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
            raise ValueError(
                f"expected as many heads in q as in k, or a multiple (grouped queries), got {length} in q {q} and"
                f" {shared} in k {k}"
            )
        if name != "head" and length != shared:
            raise ValueError(f"expected the same length of the axis {name!r} in q and k, got {q} and {k}")


def _mask(mask: Mask | None, shape: tuple[int, ...]) -> Literal["causal"] | BoolArray | None:
    """The mask in the shape of the scores, without a copy."""
    if mask is None:
        return None
    if isinstance(mask, str):
        if not is_causal(mask):
            return None
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
