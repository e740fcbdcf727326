"""Means over rows of every length, as a causal mask makes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_EXACT = 16  # each length up to this one is computed, and longer ones are interpolated
_PIECE, _NODES = 16, 12  # the ratio of the ends of a piece, and its nodes


def mean_over_lengths(
    values: Callable[[float], FloatArray], of_one: FloatArray, n_keys: float, shortest: int | None
) -> FloatArray:
    """(1 / N) sum of values(n) over the N lengths n = shortest ... n_keys; values(n_keys) without a shortest one.

    The values are smooth functions of ln n: from length 16 a polynomial of degree 11 interpolates them over every
    factor of 16, at whole numbers near Chebyshev's nodes. A sum over many lengths is then one of few with weights.

    Args:
        values: from a length of at least 2 to numbers.
        of_one: the values of a row of one key.
        n_keys: the greatest length; with a shortest one a whole number.
        shortest: from 1 to n_keys, or None.

    Raises:
        ValueError: a shortest length out of its range.

    >>> mean_over_lengths(lambda n: np.array([1 / n]), np.ones(1), n_keys=3, shortest=1)  # of 1, 1/2 and 1/3
    array([0.61111111])
    """
    if shortest is None:
        return values(n_keys)
    if not (n_keys == int(n_keys) and 1 <= shortest <= n_keys):
        raise ValueError(f"expected whole numbers with shortest from 1 to n_keys, got {shortest} and {n_keys}")
    weights = length_weights(shortest, int(n_keys))
    return np.asarray(sum(weight * (of_one if n == 1 else values(n)) for n, weight in weights.items()))


@cache
def length_weights(shortest: int, longest: int) -> dict[int, float]:
    """Weights with which values at few lengths have the sum of the mean over all lengths, by length."""
    weights: dict[int, float] = {}
    exact = range(shortest, min(longest, _EXACT - 1) + 1)
    if longest - shortest < _EXACT:
        exact = range(shortest, longest + 1)
    for n in exact:
        weights[n] = 1.0
    start = max(shortest, exact.stop)
    while start <= longest:
        piece = _EXACT * _PIECE ** math.floor(math.log(start / _EXACT) / math.log(_PIECE) + 1e-12)
        lengths = np.arange(start, min(longest, piece * _PIECE - 1) + 1)
        nodes = _nodes(piece)
        for node, weight in zip(nodes, lagrange(np.log(lengths), np.log(nodes)).sum(axis=0), strict=True):
            weights[int(node)] = weights.get(int(node), 0.0) + float(weight)
        start = int(lengths[-1]) + 1
    return {n: weight / (longest - shortest + 1) for n, weight in weights.items()}


def _nodes(first: int) -> FloatArray:
    """Whole numbers near Chebyshev's nodes in ln n, from first to 16 times that."""
    ends = (np.cos(np.pi * np.arange(_NODES) / (_NODES - 1)) + 1) / 2
    return np.unique(np.round(first * _PIECE**ends))


def lagrange(at: FloatArray, nodes: FloatArray) -> FloatArray:
    """Lagrange's polynomial of every node at every point, (points, nodes)."""
    ratio = (at[:, None, None] - nodes) / (nodes[:, None] - nodes + np.eye(len(nodes)))
    ratio[:, np.arange(len(nodes)), np.arange(len(nodes))] = 1.0
    return np.asarray(ratio.prod(axis=-1))
