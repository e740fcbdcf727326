"""An attention in double precision, whose scores are a sum of declared features of its inputs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf
from typing import NamedTuple

import numpy as np

from sdpa._arrays import Array


class Kind(NamedTuple):
    """A type of numbers, and how far those of a right function may be off.

    Attributes:
        tiny: the smallest number that has all digits.
        rounding: the largest relative error of a score and of an output.
        error: of a difference of scores.
        sums: the relative error of a sum of weights.
        fact: the relative error of a number that is fitted to all weights.
        largest_score: neither e^s nor e^-s is a number above 0, but q·k is one.
    """

    tiny: float
    rounding: float
    error: float
    sums: float
    fact: float
    largest_score: int


# Sums have many roundings, but in half precision, as a rule, those of a wider type.
KINDS = {
    "float64": Kind(2.0**-1022, 2.0**-48, 0.001, 1e-5, 0.0005, 20000),
    "float32": Kind(2.0**-126, 2.0**-19, 0.001, 1e-5, 0.0005, 20000),
    "float16": Kind(2.0**-14, 2.0**-8, 0.02, 0.002, 0.005, 127),
    "bfloat16": Kind(2.0**-14, 2.0**-6, 0.05, 0.005, 0.005, 127),
}


def rounded(x: Array, kind: str) -> Array:
    """Numbers in a type; those of bfloat16, the upper half of float32, are in arrays of float32.

    >>> rounded(np.array([1 + 2**-8, 1.01]), "bfloat16").tolist()
    [1.0, 1.0078125]
    """
    if kind != "bfloat16":
        return x.astype(kind)
    bits = x.astype("f4").view("u4")
    return np.asarray((bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view("f4"))


@dataclass(frozen=True, eq=False)
class Attention:
    """The output of q, k and v, each (batch, heads, n, d), and the steps to it.

    Attributes:
        groups: consecutive heads that have the same k and v.
        multiplier: the expected one of q·k.
        cap: the expected soft cap; 0 for none.
        slopes: the expected ones of ALiBi, which broadcast with heads; 1 for none.
        coefficients: numbers of products and biases in scores, which broadcast with heads.
        sink: logit of a key without a value, which broadcasts with heads; -inf for none.
        hidden: True for keys that the mask should hide, (batch, heads, n_queries, n_keys).
        seen: True for keys that have a weight.
        total: the sum of weights, and of the share of the sink.
        sums: the smallest and the largest sum of weights.
        blocks: the few keys at which ln(weight) less the expected score jumps, in any row, in words.
        empty: the output of queries that should see no key, in a word; empty for none.
        bias: what scores should have beside the product, which broadcasts with them.
        rope: whether scores may be of q and k that RoPE turns.
    """

    q: Array
    k: Array
    v: Array
    groups: int
    multiplier: float
    cap: float
    slopes: Array
    coefficients: Mapping[str, Array | float]
    sink: Array
    hidden: Array
    seen: Array
    total: float = 1.0
    sums: tuple[float, float] = (1.0, 1.0)
    blocks: str = "none"
    empty: str = ""
    bias: Array | float = 0.0
    rope: bool = False

    @property
    def has_keys(self) -> Array:
        """True for queries that should see a key: what others do says nothing."""
        return np.asarray(~self.hidden.all(axis=-1))

    @property
    def distance(self) -> Array:
        """Positions of keys less those of queries, which are the last ones."""
        n_queries, n_keys = self.hidden.shape[2:]
        return np.arange(n_keys) - np.arange(n_keys - n_queries, n_keys)[:, None]

    @property
    def products(self) -> list[str]:
        """The names of products of q and k, of which scores have one, times a number."""
        return [*(ROPES if self.rope else ()), *PRODUCTS]

    def feature(self, name: str) -> Array:
        """A product or a bias."""
        if name in self.biases:
            return self.biases[name]
        return (PRODUCTS | ROPES)[name](self)

    @property
    def biases(self) -> dict[str, Array]:
        """What scores may have beside a product, each times a number."""
        return {
            "slope * distance": self.slopes * self.distance,
            "hidden": self.hidden,
            "bias": np.asarray(self.bias),
        }

    @cached_property
    def scores(self) -> Array:
        """Scores before the mask."""
        terms = (number * self.feature(name) for name, number in self.coefficients.items())
        return sum(terms, np.zeros(self.hidden.shape))

    @cached_property
    def masked(self) -> Array:
        """Scores, -inf where a key has no weight."""
        return np.where(self.seen, self.scores, -inf)

    @property
    def top(self) -> Array:
        """The largest score of each row."""
        return np.asarray(self.masked.max(axis=-1, keepdims=True))

    @cached_property
    def weights(self) -> Array:
        """(batch, heads, n_queries, n_keys)."""
        return self.total * softmax(self.masked, sink=self.sink)

    @property
    def output(self) -> Array:
        """(batch, heads, n_queries, d_v)."""
        return self.weights @ self.v


def softmax(scores: Array, axis: int | tuple[int, ...] = -1, sink: Array | float = -inf) -> Array:
    """e^score over its sum along axes and that of a sink; 0 for a score of -inf."""
    top = np.maximum(scores.max(axis=axis, keepdims=True), sink)
    top = np.where(top == -inf, 0, top)
    powers = np.exp(scores - top)
    sums = powers.sum(axis=axis, keepdims=True) + np.exp(sink - top)
    return np.where(scores == -inf, 0, powers / sums)


def in_turn(x: Array, groups: int) -> Array:
    """The keys or values of all heads, if heads of queries read them in turn."""
    return np.tile(x[:, ::groups], (1, groups, 1, 1))


def _standardized(x: Array) -> Array:
    """LayerNorm without weights; 0 for a width of 1."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.maximum(x.std(axis=-1, keepdims=True), 1e-300))


def _unit(x: Array) -> Array:
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


# Computed one at a time: each is as large as the scores.
Feature = Callable[[Attention], Array]
PRODUCTS: dict[str, Feature] = {
    "q·k": lambda a: a.q @ a.k.mT,
    "q·k of unit vectors": lambda a: _unit(a.q) @ _unit(a.k).mT,
    "q·k after LayerNorm": lambda a: _standardized(a.q) @ _standardized(a.k).mT,
    "soft cap of scaled q·k": lambda a: a.cap * np.tanh(a.q @ a.k.mT * a.multiplier / a.cap),
    "soft cap of (scaled q·k + bias)": lambda a: (
        a.cap * np.tanh((a.q @ a.k.mT * a.multiplier + a.bias) / a.cap)
    ),
    "soft cap of unscaled q·k": lambda a: a.cap * np.tanh(a.q @ a.k.mT / a.cap),
    "q·k of visible keys": lambda a: np.where(a.hidden, 0, a.q @ a.k.mT),
    "q·k of keys reshaped, not transposed": lambda a: a.q @ a.k.reshape(a.k.mT.shape),
    "q·k of heads in turn": lambda a: a.q @ in_turn(a.k, a.groups).mT,
}

Pairs = Callable[[Array], Array]  # of channels, as complex numbers
_PAIRS: dict[str, Pairs] = {
    "half": lambda x: x[..., : x.shape[-1] // 2] + 1j * x[..., x.shape[-1] // 2 :],
    "interleaved": lambda x: x[..., ::2] + 1j * x[..., 1::2],
}
# Whether queries are at the first positions, and how often keys are turned.
_TURNS = {
    "": (False, 1),
    " with queries at the first positions": (True, 1),
    " with keys turned twice": (False, 2),
}


def _after_rope(a: Attention, pairs: Pairs, is_first: bool, times: int) -> Array:
    """The product of q and k whose pairs of channels are turned at their positions."""
    q, k = pairs(a.q), pairs(a.k)
    n_queries, n_pairs = q.shape[2:]
    keys = np.arange(k.shape[2])
    queries = np.arange(n_queries) + (0 if is_first else len(keys) - n_queries)
    rates = -1j * 10000.0 ** (-np.arange(n_pairs) / n_pairs)
    turned_k = k.conj() * np.exp(times * keys[:, None] * rates)
    return np.asarray((q * np.exp(-queries[:, None] * rates) @ turned_k.mT).real)


ROPES: dict[str, Feature] = {
    f"q·k after RoPE ({kind}){where}": partial(
        _after_rope, pairs=pairs, is_first=is_first, times=times
    )
    for where, (is_first, times) in _TURNS.items()
    for kind, pairs in _PAIRS.items()
}
