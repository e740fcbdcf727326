"""The rows whose metrics theory computes: their law, divisor and lengths; and means over rows of
many lengths, as under a causal mask, interpolated from few lengths.

With f(n) the mean of a metric over rows of n keys, and N rows of the lengths n_i, the mean

    (1 / N) sum_i f(n_i) = sum_m W_m f(m)

takes f at few lengths m, the nodes of a polynomial in ln n for each piece:

    length    1 2 3 ... 15 | 16  .  .   .    .      .       .  256 | 256 ... 4096 | ...
    f at      every one    | 12 nodes, dense at both ends          | 12 nodes
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import log

import numpy as np

from sdpa._arrays import BoolArray, FloatArray, IntArray
from sdpa.masks import reach_of
from sdpa.pairs import PairLaw
from sdpa.theory.integrals import lagrange

# The lengths of the rows of a draw: pairs of a length and the number of its rows, a number m for
# m, m + 1 ... n_keys once each, as under a causal mask, or None for n_keys alone.
RowLengths = int | tuple[tuple[int, int], ...] | None

# Each length below 16 is computed, and longer ones between 12 nodes in pieces of the ratio 16. Under
# a causal mask, with 40 or 300 keys, 8 nodes change a mean by 1e-7, and 16 by 1e-12; lengths computed
# below 4 in place of 16 change one by 1e-8, and pieces of the ratio 64 by 2e-9.
_EXACT_LENGTHS = 16
_PIECE = 16
_LENGTH_NODES = 12


@dataclass(frozen=True)
class RowLaw:
    """Rows of n_keys scores q.k / divisor."""

    d_k: float
    n_keys: float
    divisor: float
    law: PairLaw = PairLaw()

    @property
    def to_query(self) -> float:
        """key_std / divisor, a factor of gradients to a query."""
        return self.law.key_std / self.divisor

    @property
    def to_key(self) -> float:
        """query_std / divisor, a factor of gradients to a key."""
        return self.law.query_std / self.divisor

    @property
    def unit(self) -> float:
        """The deviation of scores over |q| / query_std."""
        return self.law.query_std * self.law.key_std / self.divisor


def mean_over_lengths(
    values: Callable[[float], FloatArray],
    one_key: FloatArray,
    n_keys: float,
    lengths: RowLengths,
) -> FloatArray:
    """(1 / N) sum of values(n) over the lengths n of N rows.

    `one_key` are the values of a row of one key. From length 16 on, a polynomial of degree 11 in
    ln n interpolates over every factor of 16, at whole numbers near Chebyshev's nodes.

    >>> mean_over_lengths(lambda n: np.array([1 / n]), np.ones(1), n_keys=3, lengths=1)
    array([0.61111111])
    """
    if lengths is None:
        return values(n_keys)
    total = np.zeros_like(one_key)
    for n, weight in _weights(lengths, n_keys).items():
        length_values = one_key if n == 1 else values(n)
        total = total + weight * length_values
    return total


def rows_under(mask: str, n_queries: int, n_keys: int) -> RowLengths:
    """The rows of the last n_queries of n_keys positions under a named mask.

    >>> rows_under("local-1", 5, 5)  # 2, 3, 3, 3 and 2 keys
    ((2, 2), (3, 3))
    """
    if mask == "none":
        return None
    if not 1 <= n_queries <= n_keys:
        raise ValueError(
            f"expected n_queries from 1 to n_keys under {mask}, got {n_queries} and {n_keys}"
        )
    if mask == "causal":
        return n_keys - n_queries + 1
    counts = np.bincount(reach_of(mask).lengths(n_queries, n_keys))
    (lengths,) = counts.nonzero()
    return tuple(zip(lengths.tolist(), counts[lengths].tolist(), strict=True))


def lengths_of(lengths: RowLengths, n_keys: float) -> IntArray:
    """The length of each row, in rising order; of n_keys alone where all rows have it.

    >>> lengths_of(((2, 1), (3, 3)), n_keys=5)
    array([2, 3, 3, 3])
    """
    return np.repeat(*_counted(lengths, n_keys))


def length_rule(lengths: IntArray) -> tuple[IntArray, FloatArray]:
    """Few lengths, and the matrix with which values there interpolate those at different lengths of
    one piece, (lengths, few lengths).
    """
    few = lengths
    if len(lengths) > _LENGTH_NODES:
        few = _nodes_of_piece(int(pieces(lengths[:1])[0]))
    return few, lagrange(np.log(lengths), np.log(few))


def _counted(rows: RowLengths, n_keys: float) -> tuple[IntArray, IntArray]:
    """The different lengths in rising order, and the number of rows of each.

    Raises:
        ValueError: a length is no whole number from 1 to n_keys.
    """
    if isinstance(rows, tuple):
        lengths, counts = np.transpose(rows)
    else:
        lengths = np.arange(n_keys if rows is None else rows, n_keys + 1)
        counts = np.ones(len(lengths), int)
    is_whole = (lengths % 1 == 0).all()
    if not (is_whole and len(lengths) and lengths[0] >= 1 and lengths[-1] <= n_keys):
        raise ValueError(f"expected rows of 1 to {n_keys:g} keys, got {rows}")
    return lengths.astype(int), counts


@cache
def _weights(rows: RowLengths, n_keys: float) -> dict[int, float]:
    """Weights with which values at few lengths sum to the mean over all rows, by length."""
    lengths, counts = _counted(rows, n_keys)
    shares = counts / counts.sum()
    weights: dict[int, float] = {}
    for here in _pieces_of(lengths):
        few, matrix = length_rule(lengths[here])
        for n, weight in zip(few.tolist(), (shares[here] @ matrix).tolist(), strict=True):
            # Neighbouring pieces share an end.
            weights[n] = weights.get(n, 0.0) + weight
    return weights


def _pieces_of(lengths: IntArray) -> list[BoolArray]:
    """A mask of the lengths of each piece."""
    piece_of = pieces(lengths)
    return [piece_of == piece for piece in np.unique(piece_of)]


def pieces(n_keys: IntArray) -> IntArray:
    """The first length of the piece of each length: 16, 256 and so on; a length below 16 itself."""
    ratio = np.log(np.maximum(n_keys, 1) / _EXACT_LENGTHS) / log(_PIECE)
    powers = np.floor(ratio + 1e-12).astype(int)
    first = _EXACT_LENGTHS * _PIECE ** np.maximum(powers, 0)
    return np.where(n_keys < _EXACT_LENGTHS, n_keys, first)


def _nodes_of_piece(piece: int) -> IntArray:
    """Whole numbers near Chebyshev's nodes of a piece."""
    angles = np.pi * np.arange(_LENGTH_NODES) / (_LENGTH_NODES - 1)
    ends = (np.cos(angles) + 1) / 2
    return np.unique(np.round(piece * _PIECE**ends)).astype(int)
