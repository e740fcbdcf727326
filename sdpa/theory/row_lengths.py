"""Means over rows of many lengths, from values at few lengths."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa.masks import reach_of
from sdpa.theory.integrals import FloatArray, lagrange

IntArray = npt.NDArray[np.integer]
# How often each length occurs, and the least and the greatest of neighbouring lengths.
Run = tuple[int, int, float]
# The lengths of the rows of a draw: runs, a number m for m, m + 1 ... n_keys once each, as under a
# causal mask, or None for n_keys alone.
RowLengths = int | tuple[Run, ...] | None

# Each length below 16 is computed, and longer ones between 12 nodes in pieces of the ratio 16.
_EXACT_LENGTHS = 16
_PIECE = 16
LENGTH_NODES = 12


def mean_over_lengths(
    values: Callable[[float], FloatArray],
    of_one: FloatArray,
    n_keys: float,
    rows: RowLengths,
) -> FloatArray:
    """(1 / N) sum of values(n) over the lengths n of N rows.

    `of_one` are the values of a row of one key. From length 16 on, a polynomial of degree 11 in
    ln n interpolates over every factor of 16, at whole numbers near Chebyshev's nodes.

    >>> mean_over_lengths(lambda n: np.array([1 / n]), np.ones(1), n_keys=3, rows=1)
    array([0.61111111])
    """
    if rows is None:
        return values(n_keys)
    weights = _weights(_runs(rows, n_keys))
    total = np.zeros_like(of_one)
    for n, weight in weights.items():
        of_length = of_one if n == 1 else values(n)
        total = total + weight * of_length
    return total


def rows_under(mask: str, n_queries: int, n_keys: int) -> RowLengths:
    """The rows of the last n_queries of n_keys positions under a named mask.

    >>> rows_under("local-1", 5, 5)  # 2, 3, 3, 3 and 2 keys
    ((1, 2, 3), (1, 2, 3), (1, 3, 3))
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
    left = Counter(dict(zip(lengths.tolist(), counts[lengths].tolist(), strict=True)))
    runs = []
    while left:
        shortest = longest = min(left)
        while longest + 1 in left:
            longest += 1
        times = left[shortest] if shortest == longest else 1
        runs.append((times, shortest, longest))
        left -= Counter(dict.fromkeys(range(shortest, longest + 1), times))
    return tuple(runs)


def lengths_of(rows: RowLengths, n_keys: float) -> npt.NDArray[Any]:
    """The length of each row, in any order; of n_keys alone where all rows have it.

    >>> lengths_of(((1, 2, 3), (2, 3, 3)), n_keys=5)
    array([2, 3, 3, 3])
    """
    if rows is None:
        return np.array([n_keys])
    lengths = []
    for times, shortest, longest in _runs(rows, n_keys):
        run = np.arange(shortest, longest + 1)
        lengths.append(np.tile(run, times))
    return np.concatenate(lengths)


def _runs(rows: int | tuple[Run, ...], n_keys: float) -> tuple[Run, ...]:
    """The lengths as runs; ValueError unless they are whole numbers from 1 to n_keys."""
    runs = rows if isinstance(rows, tuple) else ((1, rows, n_keys),)
    for _, shortest, longest in runs:
        if not (longest == int(longest) and 1 <= shortest <= longest <= n_keys):
            expected = "whole numbers with shortest from 1 to n_keys"
            raise ValueError(f"expected {expected}, got {shortest} and {n_keys}")
    return runs


@cache
def _weights(runs: tuple[Run, ...]) -> dict[int, float]:
    """Weights as from `length_weights`, over all runs."""
    rows = [times * (int(longest) - shortest + 1) for times, shortest, longest in runs]
    found: dict[int, float] = {}
    for count, (_, shortest, longest) in zip(rows, runs, strict=True):
        share = count / sum(rows)
        for n, weight in length_weights(shortest, int(longest)).items():
            found[n] = found.get(n, 0.0) + share * weight
    return found


@cache
def length_weights(shortest: int, longest: int) -> dict[int, float]:
    """Weights with which values at few lengths sum to the mean over all lengths, by length."""
    last = longest
    if longest - shortest >= _EXACT_LENGTHS:
        last = min(longest, _EXACT_LENGTHS - 1)
    weights = dict.fromkeys(range(shortest, last + 1), 1.0)
    start = max(shortest, last + 1)
    while start <= longest:
        piece = int(pieces(np.array([start]))[0])
        end = min(longest, piece * _PIECE - 1)
        lengths = np.arange(start, end + 1)
        nodes = nodes_of_piece(piece)
        by_length = lagrange(np.log(lengths), np.log(nodes))
        shares = by_length.sum(axis=0)
        for node, share in zip(nodes.tolist(), shares.tolist(), strict=True):
            weights[node] = weights.get(node, 0.0) + share
        start = end + 1
    count = longest - shortest + 1
    return {n: weight / count for n, weight in weights.items()}


def pieces(n_keys: IntArray) -> IntArray:
    """The first length of the piece of each length: 16, 256 and so on; a length below 16 itself."""
    ratio = np.log(np.maximum(n_keys, 1) / _EXACT_LENGTHS) / log(_PIECE)
    powers = np.floor(ratio + 1e-12).astype(int)
    first = _EXACT_LENGTHS * _PIECE ** np.maximum(powers, 0)
    return np.where(n_keys < _EXACT_LENGTHS, n_keys, first)


def nodes_of_piece(piece: int) -> IntArray:
    """Whole numbers near Chebyshev's nodes of a piece."""
    angles = np.pi * np.arange(LENGTH_NODES) / (LENGTH_NODES - 1)
    ends = (np.cos(angles) + 1) / 2
    return np.unique(np.round(piece * _PIECE**ends)).astype(int)
