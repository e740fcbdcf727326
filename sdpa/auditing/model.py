"""An attention in double precision, whose steps can be replaced one by one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa.masks import Reach

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Attention:
    """The output of q, k and v, (batch, heads, n, d), and the steps to it.

    Attributes:
        groups: query heads that read the same head of k and v, which may have fewer.
        hidden: True for keys that the mask should hide, (batch, heads, n_queries, n_keys).
        seen: True for keys that have a weight.
        multiplier: of q.k; like slopes and sink, a number or (heads, 1, 1).
        slopes: of the distance of a key from the query.
        sink: logit of a key without a value.
        unit: whether q and k are divided by their lengths.
        cap: the soft cap; 0 for none.
        leak: what is added to scores of hidden keys, after these are multiplied by `kept`.
        axis: along which weights have the sum `total`.
    """

    q: Array
    k: Array
    v: Array
    groups: int
    hidden: Array
    seen: Array
    multiplier: Any
    slopes: Any
    sink: Any
    unit: bool
    cap: float
    leak: Any = 0.0
    kept: Any = 1.0
    axis: int = -1
    total: float = 1.0

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The sizes by name."""
        names = "batch", "n_heads", "n_queries", "d_k", "n_keys", "d_v"
        return dict(zip(names, self.q.shape + self.v.shape[2:], strict=True))

    @cached_property
    def products(self) -> Array:
        """q.k of each head."""
        q, k = self.q, np.repeat(self.k, self.groups, axis=1)
        if self.unit:
            q, k = (np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True)) for x in (q, k))
        return np.asarray(q @ k.mT)

    @cached_property
    def distance(self) -> Array:
        """Positions of keys less those of queries, which are the last ones."""
        n_queries, n_keys = self.hidden.shape[2:]
        own = np.arange(n_keys - n_queries, n_keys)
        return np.arange(n_keys) - own[:, None]

    @cached_property
    def scores(self) -> Array:
        """Scores before the mask."""
        s = self.products * self.multiplier
        if self.cap:
            s = self.cap * np.tanh(s / self.cap)
        s = s + self.slopes * self.distance
        return np.asarray(np.where(self.hidden, self.kept * s + self.leak, s))

    @cached_property
    def masked(self) -> Array:
        """Scores, -inf where a key has no weight."""
        return np.where(self.seen, self.scores, -math.inf)

    @cached_property
    def top(self) -> Array:
        """The largest score of each row."""
        return np.asarray(self.masked.max(axis=-1, keepdims=True))

    @cached_property
    def weights(self) -> Array:
        """(batch, heads, n_queries, n_keys)."""
        return np.asarray(self.total * shares(self.masked, self.sink, self.axis))

    @cached_property
    def output(self) -> Array:
        """(batch, heads, n_queries, d_v)."""
        return self.mean(self.weights)

    def mean(self, weights: Array) -> Array:
        """The weighted values; NaN, which says nothing, for queries without keys."""
        output = np.nan_to_num(weights) @ np.repeat(self.v, self.groups, axis=1)
        return np.where(self.hidden.all(axis=-1, keepdims=True), math.nan, output)


def shares(scores: Array, sink: Any = -math.inf, axis: int = -1) -> Array:
    """The softmax along an axis, beside a sink; NaN where no score is finite."""
    top = scores.max(axis=axis, keepdims=True)
    e = np.exp(scores - top)
    return np.asarray(e / (e.sum(axis=axis, keepdims=True) + np.exp(sink - top)))


def by_position(reach: Reach, place: str, n_queries: int, n_keys: int) -> Array:
    """The visible keys of queries at the first or last positions."""
    start = (n_keys - n_queries) * (place == "last")
    return np.asarray(reach.sees(np.arange(start, start + n_queries)[:, None], np.arange(n_keys)))
