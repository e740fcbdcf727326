"""Queries and keys of one kind each: with normal entries, or with one of the faults that a
diagnosis tells apart.
"""

from collections.abc import Callable

import numpy as np

from sdpa.heads import HeadArrays
from sdpa.heads.table import table_of as heads_table

D_K, N = 16, 12
Arrays = tuple[np.ndarray, np.ndarray]


def normal(sequences: int = 24, heads: int = 3) -> Arrays:
    """(sequences, heads, N, D_K)."""
    q, k = np.random.default_rng(sequences).standard_normal((2, sequences, heads, N, D_K))
    return q, k


def saturated() -> Arrays:
    q, k = normal()
    return 10 * q, 10 * k


def uniform() -> Arrays:
    q, k = normal()
    return 0.1 * q, 0.1 * k


def sink() -> Arrays:
    """The first key of head 1 attracts every query."""
    q, k = normal()
    q[:, 1] += 2.0
    k[:, 1, 0] += 2.0
    return q, k


def aligned() -> Arrays:
    """Queries and keys of head 1 vary along two of the directions alone."""
    q, k = normal()
    for array in (q, k):
        array[:, 1, :, 2:] *= 0.01
        array[:, 1] *= (D_K / 2) ** 0.5  # for entries of standard deviation 1
    return q, k


def opposed() -> Arrays:
    """The queries of head 1 vary along the directions along which its keys hardly vary."""
    q, k = normal()
    q[:, 1, :, : D_K // 2] *= 0.01
    k[:, 1, :, D_K // 2 :] *= 0.01
    for array in (q, k):
        array[:, 1] *= 2**0.5
    return q, k


def long_vectors() -> Arrays:
    """In head 1, both queries and keys of every fourth sequence are three times as long."""
    q, k = normal()
    for array in (q, k):
        array[::4, 1] *= 3
    return q, k


KINDS: dict[str, Callable[[], Arrays]] = {
    each.__name__: each
    for each in (normal, saturated, uniform, sink, aligned, opposed, long_vectors)
}


def table_of(arrays: Arrays, **options: str):
    """The table of a diagnosis of one pair of arrays."""
    return heads_table([HeadArrays(None, None, *arrays)], **options)
