"""Attention in stages, of which a variant replaces one or two.

A stage is a method of `Computation` that returns what the next ones read: `products` the scores,
`divisor` what divides them, and so on. A variant is another function of a computation for a stage.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa.masks import reach_of
from sdpa.scaling import Rule, resolve_divisor

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Expected:
    """What a function should compute, in the arguments of `sdpa.audit`."""

    scaling: Rule
    mask: str
    softcap: float
    sink: float | tuple[float, ...] | None
    alibi: float
    groups: int

    def divisor(self, d_k: int, n_keys: int) -> float:
        """The divisor at these sizes."""
        return resolve_divisor(
            self.scaling,
            d_k,
            n_keys,
            self.mask,
        )

    def sink_of(self, heads: int) -> float | tuple[float, ...] | None:
        """The sinks of an input with so many heads: the first ones."""
        return self.sink[:heads] if isinstance(self.sink, tuple) else self.sink

    def __str__(self) -> str:
        return f"divisor {self.scaling} and mask {self.mask}"


class Computation:
    """The arrays of one attention: q, k and v, then the scores, then the weights, as far as the
    stages have come, beside the free number of a variant.
    """

    def __init__(
        self,
        arrays: tuple[Array, ...],
        expected: Expected,
        number: Any,
    ) -> None:
        self.q, self.k, self.v = arrays
        self.expected, self.number = expected, number
        self.n_batch, self.n_heads, self.n_queries, self.d_k = self.q.shape
        self.n_keys = self.k.shape[2]
        self.places = np.arange(self.n_keys)  # of the keys
        sink = expected.sink_of(self.n_heads)
        self.sink = -math.inf if sink is None else np.reshape(sink, (-1, 1, 1))

    def output(self, variants: Mapping[str, Callable[["Computation"], Any]]) -> Array:
        """The output, with these variants of stages."""

        def stage(name: str) -> Any:
            return variants.get(name, getattr(Computation, name))(self)

        self.own = stage("positions")
        self.back = self.own[:, None] - self.places
        self.q, self.k, self.v = stage("inputs")
        self.k, self.v = stage("groups")
        self.scores = stage("products")
        self.scores = self.scores / stage("divisor")
        self.scores = stage("cap")
        self.unmasked = self.scores = stage("bias")
        self.scores = stage("mask")
        self.weights_of_keys = stage("weights")
        return np.asarray(stage("values"))

    def positions(self) -> Any:
        """The positions of the queries: the last ones."""
        return self.places[-self.n_queries :]

    def inputs(self) -> Any:
        """Queries, keys and values."""
        return self.q, self.k, self.v

    def groups(self) -> Any:
        """Keys and values of each query head, in consecutive order."""
        groups = self.expected.groups
        return repeated(self.k, groups), repeated(self.v, groups)

    def products(self) -> Any:
        """The scores before the divisor."""
        return self.q @ self.k.mT

    def divisor(self) -> Any:
        """The divisor of the scores."""
        return self.expected.divisor(self.d_k, self.n_keys)

    def cap(self) -> Any:
        """Scores within the soft cap."""
        return capped(self.scores, self.expected.softcap)

    def bias(self) -> Any:
        """Scores with the bias by position."""
        return self.scores - self.expected.alibi * self.back

    def mask(self) -> Any:
        """Scores, -inf for hidden keys."""
        return hidden(self, self.visible)

    def weights(self) -> Any:
        """The weights of the keys."""
        return shares(self.scores, sink=self.sink)

    def values(self) -> Any:
        """The weighted values."""
        return self.weights_of_keys @ self.v

    @property
    def visible(self) -> Any:
        """True for the keys that each query should see, from its position."""
        return reach_of(self.expected.mask).sees(self.back, 0)


def repeated(x: Array, times: int) -> Any:
    """Each head several times, one after the other."""
    return np.repeat(x, times, axis=1)


def hidden(
    c: Computation,
    visible: Array,
    score: Any = -math.inf,
) -> Any:
    """The scores, and another one for keys that are not visible."""
    return np.where(visible, c.scores, score)


def capped(scores: Array, cap: Any) -> Any:
    """cap tanh(score / cap), or the scores where the cap is 0."""
    return cap * np.tanh(scores / cap) if np.any(cap) else scores


def shares(
    scores: Array,
    axis: int | tuple[int, ...] = -1,
    sink: Any = -math.inf,
) -> Any:
    """The softmax along axes, beside the logit of a sink; NaN where no score is finite."""
    top = scores.max(axis=axis, keepdims=True)
    e = np.exp(scores - top)
    return e / (e.sum(axis=axis, keepdims=True) + np.exp(sink - top))
