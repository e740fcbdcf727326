"""Inputs that tell attentions apart, and what an audited function makes of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sdpa.auditing.facts import fit
from sdpa.auditing.mistakes import MISTAKES
from sdpa.auditing.model import Array, Attention

# Rounding of outputs beside the size of scores, with some room; precision of ln(weights); and a
# score s beyond which neither e^s nor e^-s is a number above 0.
TYPES = {
    "float64": (2**-44, 3e-6, 20000),
    "float32": (2**-19, 1e-5, 20000),
    "float16": (2**-9, 0.02, 110),
    "bfloat16": (2**-6, 0.1, 110),
}


@dataclass(frozen=True)
class Case:
    """The output of an input, the expected attention, and the one that other weights show."""

    words: str
    found: Array
    expected: Attention
    fitted: Attention

    @cached_property
    def size(self) -> float:
        """The size of scores and values, on which rounding depends."""
        a = self.expected
        products = a.multiplier * np.abs(a.q @ a.k.mT)
        return float((1 + np.abs(a.scores).max() + products.max()) * np.abs(a.v).max())

    def errors(self, output: Array) -> Array:
        """The error of each row beside this size; what is found and not finite counts as 0, and
        queries without keys say nothing.
        """
        errors = np.abs(np.where(np.isfinite(self.found), self.found, 0) - output).max(axis=-1)
        return np.asarray(errors * ~self.expected.hidden.all(axis=-1) / self.size)

    def is_explained(self, base: str, mistake: str, limit: float) -> bool:
        """Whether the output is that of an attention, by name, with a mistake."""
        a: Attention = getattr(self, base)
        try:
            output = MISTAKES[mistake](a)
            is_near = bool(self.errors(output).max() < limit)
        except ValueError:  # of another shape
            return False
        # What is not a number is that of a mistake whose output is 0.
        lost = ~np.isfinite(self.found).all(axis=-1) & ~self.expected.hidden.all(axis=-1)
        return is_near and not output[lost].any() and "unknown" not in a.coefficients

    def smallest(self) -> str:
        """The worst row, in words."""
        errors = self.errors(self.expected.output)
        row = np.unravel_index(errors.argmax(), errors.shape)
        found, expected = (x[row][:4].round(4) for x in (self.found, self.expected.output))
        return f"smallest: {self.words}: output {found}, expected {expected}"


@dataclass(frozen=True)
class Audited:
    """A function; the attention that it should be, of q, k and v; and the arrays that it gets."""

    function: Callable[..., Any]
    expected: Callable[[Array, Array, Array], Attention]
    dtype: str
    usual: dict[str, int]  # sizes
    fixed: dict[str, int]  # those that a mask or numbers by head decide
    groups: int

    def cases(self, errors: list[str]) -> list[Case]:
        """What the function makes of inputs; those that it does not take are errors."""
        d_k, (_, near, far) = self.usual["d_k"], TYPES[self.dtype]
        inputs = [
            {},
            {"n_queries": 1},
            {"n_queries": 20},
            {"n_queries": 24, "n_keys": 24},
            {"n_heads": 2 * self.groups},
            {"batch": 3},
            {"d_k": 3 * d_k},
            {"d_v": 2 * d_k + 24},
            {"n_queries": 130, "n_keys": 262},
            {"n_queries": 5, "n_keys": 514},
            {"n_queries": 130, "n_keys": 130},
            {"far": far},
        ]
        cases = {}
        for each in inputs:
            given = {name: n for name, n in each.items() if name not in self.fixed}
            words = ", ".join(f"{name} {n}" for name, n in given.items()) or "usual sizes"
            far_from_0 = given.pop("far", 0)
            a, other = self.input(3, far_from_0, **given), self.input(0.5, **given)
            try:
                found, weights = self.output(a, a.v), self.weights(other)
            except Exception as error:  # whatever it raises is a result of the audit
                kind = f"{type(error).__name__}: {error}"
                errors.append(f"{words}: arrays of {self.dtype} raise {kind}")
                continue
            fitted = replace(fit(other, weights, near), q=a.q, k=a.k, v=a.v)
            cases[words] = Case(words, found, replace(a, block=fitted.block), fitted)
        return [*cases.values()]

    def input(self, spread: float, far: float = 0, **sizes: int) -> Attention:
        """Random arrays with a spread of scores, which may be far above 0, and far below it in every
        other row.
        """
        batch, heads, n_queries, d_k, n_keys, d_v = (self.usual | sizes).values()
        draw = np.random.default_rng([n_keys, int(spread)]).standard_normal
        q = draw((batch, heads, n_queries, d_k))
        k, v = (draw((batch, heads // self.groups, n_keys, d)) for d in (d_k, d_v))
        multiplier = self.expected(q, k, v).multiplier
        q *= spread / multiplier / d_k**0.5
        if far:
            root = (far / multiplier) ** 0.5
            k[..., 0] = root
            q[..., 0] = root * (-1.0) ** np.arange(n_queries)
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
        one_hot = (np.eye(n_keys, d_v, -start) for start in range(0, n_keys, d_v))
        outputs = [self.output(a, np.broadcast_to(x, a.v.shape)) for x in one_hot]
        return np.concatenate(outputs, axis=-1)[..., :n_keys]
