"""An attention by its facts, in double precision, for the arrays of a case."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SIZES = "n_heads", "n_queries", "d_k", "n_keys", "d_v"


class Case(NamedTuple):
    """q, k and v, (batch, heads, n, d), in words; k and v may have fewer heads."""

    q: Array
    k: Array
    v: Array
    words: str = ""

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes that a divisor may depend on."""
        return dict(zip(SIZES, (*self.q.shape[1:], *self.v.shape[2:]), strict=True))

    def distance(self, *, first: bool = False) -> Array:
        """Positions of keys less those of the queries, which are the last ones, or the first."""
        own, keys = (np.arange(x.shape[2]) for x in (self.q, self.k))
        return np.asarray(keys - own[:, None] - (0 if first else len(keys) - len(own)))


class Fact(NamedTuple):
    """What an attention does, in words, and the function of a case that gives its number or array;
    None if no attention does it.
    """

    words: str
    of: Any


@dataclass(frozen=True)
class Facts:
    """What an attention does."""

    divisor: Fact  # of q.k
    keys: Fact  # True for those that a query sees
    sums: Fact  # of weights, as parts of those of softmax and sink
    groups: int  # of query heads, which read the same head of keys
    is_unit: bool  # q and k are divided by their lengths
    cap: float
    bias: npt.ArrayLike  # the distance times this, one number or one for each head
    sink: npt.ArrayLike  # a logit, or one for each head


def shares(s: Array, axes: Any = -1, sink: Any = -math.inf) -> Any:
    """The softmax along axes, beside a sink; NaN where no score is finite."""
    top = s.max(axis=axes, keepdims=True)
    e = np.exp(s - top)
    return e / (e.sum(axis=axes, keepdims=True) + np.exp(sink - top))


class Steps:
    """The steps of an attention.

    Attributes:
        bias: what is added to scores.
        s, top: scores before the mask, and the largest one behind it.
        w, output: weights and output.
    """

    def __init__(self, case: Case, facts: Facts) -> None:
        self.case, self.facts, self.divisor = case, facts, facts.divisor.of(case)
        self.q = case.q
        self.k, self.v = (np.repeat(x, facts.groups, axis=1) for x in (case.k, case.v))
        if facts.is_unit:
            self.q, self.k = (
                x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (self.q, self.k)
            )
        slopes, self.sink = (np.reshape(x, (-1, 1, 1)) for x in (facts.bias, facts.sink))
        self.bias = slopes * case.distance()
        s = self.q @ self.k.mT / self.divisor
        self.s: Array = (facts.cap * np.tanh(s / facts.cap) if facts.cap else s) + self.bias
        self.visible = np.broadcast_to(facts.keys.of(case), s.shape)
        self.top = self.masked().max(axis=-1, keepdims=True)
        self.w = self.weights(self.masked())
        self.output = self.of(self.w)

    def masked(self, hidden: Any = -math.inf) -> Array:
        """The scores, and others for hidden keys."""
        return np.where(self.visible, self.s, hidden)

    def weights(self, s: Array) -> Array:
        """The weights of scores."""
        return np.asarray(self.facts.sums.of(self.case) * shares(s, sink=self.sink))

    def of(self, weights: Array) -> Array:
        """The weighted values; NaN, which says nothing, for queries that see no key."""
        seen = self.visible.any(axis=-1, keepdims=True)
        return np.where(seen, np.nan_to_num(weights) @ self.v, math.nan)

    def but(self, **changed: Any) -> Array:
        """The output of other arrays or facts."""
        arrays = {name: changed.pop(name) for name in "qkv" if name in changed}
        return Steps(self.case._replace(**arrays), replace(self.facts, **changed)).output

    def off(self, found: Array, output: Array, eps: float) -> Any:
        """The deviation of rows over what rounding may do, which grows with the lengths of vectors.

        NaN in an output says nothing; inf says that what was found is 0 or not finite.
        """
        largest = math.prod(np.linalg.norm(x, axis=-1).max() for x in (self.q, self.k))
        size = 2 + abs(largest / self.divisor) + np.abs(self.bias).max()
        lost = np.isinf(output) & ((found == 0) | ~np.isfinite(found))
        off = np.where(np.isnan(output) | lost, 0, np.abs(found - output)).max(axis=-1)
        return np.nan_to_num(off / eps / size / np.abs(self.v).max(), nan=math.inf)
