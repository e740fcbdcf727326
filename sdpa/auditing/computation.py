"""Inputs that tell attentions apart, and the outputs of an expected attention, in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdpa.masks import Reach

Array = npt.NDArray[Any]
Sizes = dict[str, int]  # batch, n_heads, n_queries, n_keys, d_k and d_v


class Precision(NamedTuple):
    """The precision of a type of arrays."""

    rounding: float  # of outputs beside the size of scores, with some room
    spread: float  # of scores from which facts are read; small, so that a soft cap is nothing
    near: float  # the relative precision of these facts
    far: float  # a score s beyond which neither e^s nor e^-s is a number above 0


TYPES = {
    "float64": Precision(2**-49, 1e-3, 1e-4, 2e4),
    "float32": Precision(2**-20, 0.05, 1e-3, 2e4),
    "float16": Precision(2**-10, 1, 0.05, 110),
    "bfloat16": Precision(2**-7, 1, 0.05, 110),
}


class Case(NamedTuple):
    """q, k and v, (batch, heads, n, d), their sizes, and what was found; k and v may have fewer heads."""

    q: Array
    k: Array
    v: Array
    sizes: Sizes
    words: str
    found: Array  # the output of an audited function


class Fact(NamedTuple):
    """A fact about an attention in words, and the function of sizes that gives its number or array."""

    words: str
    of: Callable[[Sizes], Any]

    @classmethod
    def by_position(cls, reach: Reach, *, first: bool) -> Fact:
        """The keys that queries see, which have the last positions, or the first ones."""
        words = f"{-reach.behind:g} to {reach.ahead:g} from its own"
        if reach == Reach(math.inf, math.inf):
            words = "all"
        if first:
            words += ", queries at the first positions"
        return cls(words, lambda sizes: reach.sees(0, distance(sizes, first=first)))


def distance(sizes: Sizes, *, first: bool = False) -> Array:
    """Positions of keys less those of the queries, which are the last ones, or the first."""
    n_queries, n_keys = sizes["n_queries"], sizes["n_keys"]
    start = 0 if first else n_keys - n_queries
    own = np.arange(start, start + n_queries)
    return np.arange(n_keys) - own[:, None]


@dataclass(frozen=True)
class Facts:
    """The facts about an attention."""

    divisor: Fact  # of q.k
    keys: Fact  # True for those that a query sees
    groups: int  # of query heads, which read the same head of keys
    cap: float
    slopes: Array  # of the distance, (heads or 1, 1, 1)
    sink: Array  # logits, (heads or 1, 1, 1)


class Attention:
    """The steps of an attention.

    Attributes:
        bias: what is added to scores.
        scores, top: scores before the mask, and the largest one behind it.
        weights, output: (batch, heads, n_queries, n_keys) and (batch, heads, n_queries, d_v).
    """

    def __init__(self, case: Case, facts: Facts) -> None:
        self.case = case
        self.facts = facts
        self.found = case.found
        self.k = np.repeat(case.k, facts.groups, axis=1)
        self.v = np.repeat(case.v, facts.groups, axis=1)
        self.divisor = facts.divisor.of(case.sizes)
        self.bias = facts.slopes * distance(case.sizes)
        scores = case.q @ self.k.mT / self.divisor
        if facts.cap:
            scores = facts.cap * np.tanh(scores / facts.cap)
        self.scores = scores + self.bias
        seen = facts.keys.of(case.sizes)
        self.visible = np.broadcast_to(seen, scores.shape)
        masked = self.masked()
        self.top = masked.max(axis=-1, keepdims=True)
        self.weights = shares(masked, sink=facts.sink)
        self.output = self.mean(self.weights)

    def masked(self, hidden: float = -math.inf) -> Array:
        """The scores, and another one for hidden keys."""
        return np.where(self.visible, self.scores, hidden)

    def mean(self, weights: Array) -> Array:
        """The weighted values; NaN, which says nothing, for queries that see no key."""
        sees = self.visible.any(axis=-1, keepdims=True)
        output = np.nan_to_num(weights) @ self.v
        return np.where(sees, output, math.nan)

    def of(self, scores: Array) -> Array:
        """The output of other scores."""
        return self.mean(shares(scores, sink=self.facts.sink))

    def but(self, **changed: Any) -> Array:
        """The output of other arrays or facts."""
        arrays = {name: changed.pop(name) for name in "qkv" if name in changed}
        case = self.case._replace(**arrays)
        facts = replace(self.facts, **changed)
        return Attention(case, facts).output

    def errors(self, expected: Array) -> Array:
        """The error of each row beside the size of scores and values, on which rounding depends.

        NaN that is expected says nothing; what is found and not finite counts as 0.
        """
        found = np.where(np.isfinite(self.found), self.found, 0)
        errors = np.nan_to_num(np.abs(found - expected))
        longest_q = np.linalg.norm(self.case.q, axis=-1).max()
        longest_k = np.linalg.norm(self.k, axis=-1).max()
        largest = abs(longest_q * longest_k / self.divisor)
        size = 2 + largest + np.abs(self.bias).max()
        largest_value = np.abs(self.v).max()
        return np.asarray(errors.max(axis=-1) / size / largest_value)


def shares(scores: Array, axis: int = -1, sink: npt.ArrayLike = -math.inf) -> Array:
    """The softmax along an axis, beside a sink; NaN where no score is finite."""
    top = scores.max(axis=axis, keepdims=True)
    e = np.exp(scores - top)
    total = e.sum(axis=axis, keepdims=True) + np.exp(sink - top)
    return np.asarray(e / total)


@dataclass(frozen=True)
class Audited:
    """A function, the facts that it should have, the type and usual width of its arrays, and the
    sizes that a mask or numbers by head decide.
    """

    function: Callable[..., Any]
    facts: Facts
    dtype: str
    d_k: int
    fixed: Sizes

    def case(self, spread: float, at: float = 0, **other: int) -> Case:
        """Random arrays whose scores have a spread about a number, and minus it in every other row
        if it is above 0."""
        groups = self.facts.groups
        usual = {"batch": 2, "n_heads": 3 * groups, "n_queries": 16, "n_keys": 16}
        widths = {"d_k": self.d_k, "d_v": max(self.d_k, 24)}
        sizes = usual | widths | other | self.fixed
        batch, heads, n_queries, n_keys, d_k, d_v = sizes.values()
        rng = np.random.default_rng(n_keys)
        q = rng.standard_normal((batch, heads, n_queries, d_k))
        k = rng.standard_normal((batch, heads // groups, n_keys, d_k))
        v = rng.standard_normal((batch, heads // groups, n_keys, d_v))
        divisor = self.facts.divisor.of(sizes)
        q *= spread * divisor / math.sqrt(d_k)
        if at:
            root = math.sqrt(abs(at) * divisor)
            k[..., 0] = root
            q[..., 0] = math.copysign(root, at)
            q[:, :, ::2, 0] = -root
        q, k, v = (x.astype(self.dtype).astype(float) for x in (q, k, v))
        words = ", ".join(f"{name} {n}" for name, n in other.items()) or f"scores near {at:g}"
        return Case(q, k, v, sizes, words, v)

    def cases(self, spread: float) -> list[Case]:
        """Cases of several sizes."""
        sizes: list[Sizes] = [
            {"n_queries": 16},
            {"n_queries": 1},
            {"n_queries": 20},
            {"n_queries": 24, "n_keys": 24},
            {"n_heads": 2 * self.facts.groups},
            {"d_k": 3 * self.d_k},
            {"d_v": 2 * self.d_k + 24},
        ]
        return [self.case(spread, **other) for other in sizes]

    def far_cases(self) -> list[Case]:
        """A case of long rows, and cases of scores far above and below usual ones."""
        far = TYPES[self.dtype].far
        return [
            self.case(3, n_queries=3, n_keys=517),
            self.case(1, far),
            self.case(1, -far),
        ]

    def outputs(self, cases: list[Case], errors: list[str]) -> list[Attention]:
        """The expected attention beside what was found, for cases that the function takes."""
        outputs = []
        for case in cases:
            expected = *case.q.shape[:3], case.v.shape[3]
            arrays = [x.astype(self.dtype) for x in case[:3]]
            try:
                found = np.asarray(self.function(*arrays))
                if found.shape != expected:
                    raise ValueError(f"expected shape {expected}, got {found.shape}")  # noqa: TRY301
            except Exception as error:  # whatever it raises is a result of the audit
                words = f"arrays of {self.dtype} raise {type(error).__name__}: {error}"
                errors.append(f"{case.words}: {words}")
            else:
                told = case._replace(found=found.astype(float))
                outputs.append(Attention(told, self.facts))
        return outputs
