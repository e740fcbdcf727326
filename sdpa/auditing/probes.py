"""Inputs that tell attentions apart, and what an audited function makes of them."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sdpa.auditing.facts import fit
from sdpa.auditing.mistakes import MISTAKES, Mistake
from sdpa.auditing.model import Array, Attention

Function = Callable[..., Any]  # of arrays


class Case(NamedTuple):
    """The output of an input, the expected attention, and the one that other weights show."""

    words: str
    unit: float  # of rounding
    found: Array
    expected: Attention
    fitted: Attention

    def errors(self, a: Attention, mistake: Mistake = MISTAKES[""]) -> Array:
        """The largest difference of each row from an attention with a mistake, beside the largest
        value; inf for one of another shape.

        What is found and no number stands for 0; queries without keys say nothing.
        """
        found = np.nan_to_num(self.found, posinf=0, neginf=0)
        try:
            errors = np.abs(found - mistake(a)).max(axis=-1) / np.abs(a.v).max()
        except ValueError:
            return np.array(math.inf)
        return np.where(a.hidden.all(axis=-1), 0, np.nan_to_num(errors, nan=math.inf))

    def is_given_by(self, a: Attention, mistake: Mistake = MISTAKES[""]) -> bool:
        """True if rounding, which grows with scores, may explain all differences."""
        size = 1 + 2 * np.abs(a.scores).max()
        return bool(self.errors(a, mistake).max() < 16 * self.unit * size)


@dataclass(frozen=True)
class Audited:
    """A function, the attention that it should be, and the arrays that it gets.

    Attributes:
        draw: the expected attention of random arrays with a spread of scores, and of sizes by name;
            beside a largest score, they are near it, and near minus this number in other rows.
        sizes: the usual ones, of those without a default.
        fixed: those of them that a mask or numbers by head decide.
    """

    function: Function
    draw: Callable[..., Attention]
    dtype: str
    sizes: dict[str, int]
    fixed: Collection[str]

    def cases(self, errors: dict[str, str]) -> list[Case]:
        """What the function makes of inputs; those that it does not take are errors."""
        d_k, n_heads = self.sizes["d_k"], self.sizes["n_heads"]
        info = np.finfo(self.dtype)
        unit, largest = float(info.eps), min(20000, int(info.max) // 512)
        inputs = (
            f"d_k {d_k}",
            "n_queries 20",
            f"n_heads {2 * n_heads}",
            f"d_k {3 * d_k}",
            f"d_v {2 * d_k + 24}",
            "n_queries 1, n_keys 262",
            "n_queries 130, n_keys 262",
            "n_queries 5, n_keys 514",
            f"largest_score {largest}",  # neither e^s nor e^-s is a number above 0
        )
        cases: list[Case] = []
        for words in inputs:
            sizes = {name: int(n) for name, n in map(str.split, words.split(","))}
            if sizes.keys() & self.fixed:
                continue
            a = self.draw(3, **self.sizes | sizes)
            other = self.draw(0.5, **self.sizes | sizes | {"largest_score": 0})
            try:
                found, weights = self.output(a), self.weights(other)
            except (Exception, SystemExit) as error:  # whatever it raises is a result
                errors[words] = f"arrays of {self.dtype} raise {type(error).__name__}: {error}"
                if not cases:
                    break  # most sizes have the same error
                continue
            fitted = replace(fit(other, weights, self.dtype), q=a.q, k=a.k, v=a.v)
            cases.append(Case(words, unit, found, a, fitted))
        return cases

    def arrays(self, a: Attention) -> list[Array]:
        """The q, k and v that the function gets."""
        return [x.astype(self.dtype) for x in (a.q, a.k[:, :: a.groups], a.v[:, :: a.groups])]

    def output(self, a: Attention) -> Array:
        """The output of the function; ValueError for one of another shape."""
        given = self.arrays(a)
        outputs = [self.function(*given) for _ in range(2)]
        if isinstance(outputs[0], tuple):
            raise TypeError("expected the output alone, got a tuple")
        found, again = (np.asarray(x, float) for x in outputs)
        if not np.allclose(found, again, atol=0.01, equal_nan=True):
            raise ValueError("expected the same output again: is dropout on, or q or k changed?")
        if found.shape != (*a.q.shape[:3], a.v.shape[3]):
            raise ValueError(f"expected (batch, heads, n_queries, d_v), got {found.shape}")
        return found

    def weights(self, a: Attention) -> Array:
        """The outputs of one-hot values, as many as v is wide."""
        n_keys, d_v = a.v.shape[2:]
        hot = (0 * a.v + np.eye(n_keys, d_v, -start) for start in range(0, n_keys, d_v))
        outputs = [self.output(replace(a, v=v)) for v in hot]
        return np.concatenate(outputs, axis=-1)[..., :n_keys]
