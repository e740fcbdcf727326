"""Inputs that tell attentions apart, and what an audited function makes of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sdpa.auditing.facts import Precision, fit
from sdpa.auditing.mistakes import MISTAKES, Mistake
from sdpa.auditing.model import Array, Attention

TYPES = {
    "float64": Precision(2**-44, 3e-6, 20000, -600),
    "float32": Precision(2**-19, 1e-5, 20000, -80),
    "float16": Precision(2**-9, 0.02, 110, -9),
    "bfloat16": Precision(2**-6, 0.1, 110, -80),
}


@dataclass(frozen=True)
class Case:
    """The output of an input, the expected attention, and the one that other weights show."""

    words: str
    found: Array
    expected: Attention
    fitted: Attention

    def errors(self, output: Array) -> Array:
        """The error of each row beside the size of scores and of values or outputs, on which
        rounding depends.

        What is found and no number stands for 0 alone; queries without keys say nothing.
        """
        a, is_number = self.expected, np.isfinite(self.found)
        largest = np.abs(self.found).max(where=is_number, initial=np.abs(a.v).max())
        size = (1 + 2 * np.abs(a.scores).max()) * largest
        found = np.where(is_number | (output != 0), self.found, 0)
        errors = np.nan_to_num(np.abs(found - output).max(axis=-1), nan=math.inf)
        return np.where(a.hidden.all(axis=-1), 0, errors / size)

    def error(self, base: str, mistake: Mistake = MISTAKES[""]) -> float:
        """The largest error of `expected` or `fitted` with a mistake; inf for one of another shape."""
        try:
            return float(self.errors(mistake(getattr(self, base))).max())
        except ValueError:
            return math.inf

    def empty(self) -> str:
        """The outputs of queries that see no key, in a word; empty if there are none."""
        rows = self.expected.hidden.all(axis=-1)
        mean = self.expected.v.mean(axis=2, keepdims=True) + np.zeros(self.found.shape)
        for kind, x in ("zero", 0 * mean), ("nan", math.nan * mean), ("uniform", mean):
            if np.allclose(self.found[rows], x[rows], atol=0.01, equal_nan=True):
                return kind if rows.any() else ""
        return "numbers"

    def worst(self) -> str:
        """The worst row, in words."""
        errors = self.errors(self.expected.output)
        row = np.unravel_index(errors.argmax(), errors.shape)
        found, expected = (x[row][:4].round(4) for x in (self.found, self.expected.output))
        return f"{self.words}: output {found}, expected {expected}"


@dataclass(frozen=True)
class Audited:
    """A function; the attention that it should be, of q, k and v; and the arrays that it gets."""

    function: Callable[..., Any]
    expected: Callable[..., Attention]  # of q, k and v
    dtype: str
    usual: dict[str, int]  # sizes, and `far`, in the order of `input`
    fixed: dict[str, int]  # those that a mask or numbers by head decide
    groups: int

    def cases(self, errors: list[str]) -> list[Case]:
        """What the function makes of inputs; those that it does not take are errors."""
        precision, d_k = TYPES[self.dtype], self.usual["d_k"]
        inputs: list[dict[str, int]] = [
            {},
            {"n_queries": 1},
            {"n_queries": 1, "n_keys": 262},
            {"n_queries": 20},
            {"n_heads": 2 * self.groups},
            {"d_k": 3 * d_k},
            {"d_v": 2 * d_k + 24},
            {"n_queries": 130, "n_keys": 262},
            {"n_queries": 5, "n_keys": 514},
            {"n_queries": 130, "n_keys": 130},
            {"far": precision.far},
        ]
        cases = []
        for sizes in inputs:
            if sizes.keys() & self.fixed.keys():
                continue
            words = ", ".join(f"{name} {n}" for name, n in sizes.items()) or "usual sizes"
            a, other = self.input(3, **sizes), self.input(0.5, **sizes | {"far": 0})
            try:
                found, weights = self.output(a, a.v), self.weights(other)
            except Exception as error:  # whatever it raises is a result of the audit
                what = f"{type(error).__name__}: {error}"
                errors.append(f"{words}: arrays of {self.dtype} raise {what}")
                continue
            fitted = replace(fit(other, weights, precision), q=a.q, k=a.k, v=a.v)
            cases.append(Case(words, found, replace(a, least=fitted.least), fitted))
        return cases

    def input(self, spread: float, **sizes: int) -> Attention:
        """Random arrays with a spread of scores; beside `far`, they are far above 0, and far below it
        in every other row.
        """
        batch, heads, n_queries, d_k, n_keys, d_v, far = (self.usual | sizes).values()
        draw = np.random.default_rng([n_keys, int(spread)]).standard_normal
        q = draw((batch, heads, n_queries, d_k))
        k, v = (draw((batch, heads // self.groups, n_keys, d)) for d in (d_k, d_v))
        multiplier = self.expected(q, k, v).multiplier
        q *= spread / multiplier / d_k**0.5
        if far:
            k[..., 0] = (far / multiplier) ** 0.5
            q[..., 0] = k[0, 0, 0, 0] * (-1.0) ** np.arange(n_queries)
        return self.expected(*(x.astype(self.dtype).astype(float) for x in (q, k, v)))

    def output(self, a: Attention, v: Array) -> Array:
        """The output of the function; ValueError for one of another shape."""
        arrays = [x.astype(self.dtype) for x in (a.q, a.k[:, :: a.groups], v[:, :: a.groups])]
        given = [x.copy() for x in arrays]
        found = np.asarray(self.function(*given))
        if not all(map(np.array_equal, given, arrays)):
            raise ValueError("expected q, k and v as they were, got changed ones")
        expected = *a.q.shape[:3], v.shape[3]
        if found.shape != expected:
            raise ValueError(f"expected shape {expected}, got {found.shape}")
        return found.astype(float)

    def weights(self, a: Attention) -> Array:
        """The outputs of one-hot values, as many as v is wide."""
        n_keys, d_v = a.v.shape[2:]
        starts = range(0, n_keys, d_v)
        outputs = [self.output(a, 0 * a.v + np.eye(n_keys, d_v, -start)) for start in starts]
        return np.concatenate(outputs, axis=-1)[..., :n_keys]
