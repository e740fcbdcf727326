"""Inputs that tell attentions apart, and what an audited function makes of them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sdpa.auditing.model import Array, Attention

LONGEST, SQUARE = 514, 130  # keys of inputs with few queries, and with as many


class Precision(NamedTuple):
    """The precision of a type of arrays."""

    bits: int  # of a number
    rounding: float  # of outputs beside the size of scores, with some room
    spread: float  # of scores from which facts are read; small, so that a soft cap is nothing
    near: float  # the relative precision of these facts
    far: float  # a score s beyond which neither e^s nor e^-s is a number above 0


TYPES = {
    "float64": Precision(53, 2**-49, 0.002, 1e-5, 2e4),
    "float32": Precision(24, 2**-20, 0.2, 1e-3, 2e4),
    "float16": Precision(11, 2**-10, 1, 0.03, 110),
    "bfloat16": Precision(8, 2**-7, 1, 0.1, 110),
}


class Case(NamedTuple):
    """The attention that is expected of an input, and the output that was found."""

    words: str
    expected: Attention
    found: Array

    def errors(self, output: Array) -> Array:
        """The error of each row beside the size of scores and values, on which rounding depends.

        NaN that is expected says nothing; what is found and not finite counts as 0.
        """
        a = self.expected
        errors = np.abs(np.where(np.isfinite(self.found), self.found, 0) - output)
        longest = math.prod(np.linalg.norm(x, axis=-1).max() for x in (a.q, a.k))
        size = 2 + longest * a.multiplier + np.abs(a.slopes * a.distance).max()
        return np.asarray(np.nan_to_num(errors).max(axis=-1) / size / np.abs(a.v).max())


@dataclass(frozen=True)
class Audited:
    """A function; the attention that it should be, of q, k and v; and the arrays that it gets."""

    function: Callable[..., Any]
    expected: Callable[[Array, Array, Array], Attention]
    dtype: str
    d_k: int
    groups: int
    fixed: dict[str, int]  # sizes that a mask or numbers by head decide

    def inputs(self, spread: float) -> dict[str, Attention]:
        """Inputs of several sizes, and with scores far above and below usual ones, in words."""
        far = TYPES[self.dtype].far
        sizes: list[dict[str, Any]] = [
            {"n_queries": 16},
            {"n_queries": 1},
            {"n_queries": 20},
            {"n_queries": 24, "n_keys": 24},
            {"n_heads": 2 * self.groups},
            {"batch": 3},
            {"d_k": 3 * self.d_k},
            {"d_v": 2 * self.d_k + 24},
            {"n_queries": 3, "n_keys": 262},
            {"n_queries": 5, "n_keys": LONGEST},
            {"n_queries": SQUARE, "n_keys": SQUARE},
            {"scores near": far},
            {"scores near": -far},
        ]
        words = (", ".join(f"{name} {n:g}" for name, n in one.items()) for one in sizes)
        return {name: self.input(spread, **one) for name, one in zip(words, sizes, strict=True)}

    def input(self, spread: float, **other: Any) -> Attention:
        """Random arrays whose scores have a spread about a number, and minus it in every other row
        if it is above 0."""
        at = other.pop("scores near", 0)
        usual = {"batch": 2, "n_heads": 3 * self.groups, "n_queries": 16, "n_keys": 16}
        usual |= {"d_k": self.d_k, "d_v": self.d_k}
        batch, heads, n_queries, n_keys, d_k, d_v = (usual | other | self.fixed).values()
        draw = np.random.default_rng(n_keys).standard_normal
        q = draw((batch, heads, n_queries, d_k))
        k, v = (draw((batch, heads // self.groups, n_keys, d)) for d in (d_k, d_v))
        multiplier = self.expected(q, k, v).multiplier
        q *= spread / multiplier / math.sqrt(d_k)
        if at:
            root = math.sqrt(abs(at) / multiplier)
            k[..., 0] = root
            q[..., 0] = math.copysign(root, at)
            q[:, :, ::2, 0] = -root
        return self.expected(*(x.astype(self.dtype).astype(float) for x in (q, k, v)))

    def output(self, a: Attention, v: Array) -> Array:
        """The output of the function; ValueError for one of another shape."""
        found = np.asarray(self.function(*(x.astype(self.dtype) for x in (a.q, a.k, v))))
        expected = *a.q.shape[:3], v.shape[3]
        if found.shape != expected:
            raise ValueError(f"expected shape {expected}, got {found.shape}")
        return found.astype(float)

    def cases(self, inputs: dict[str, Attention], errors: list[str]) -> list[Case]:
        """What the function makes of inputs, if it takes them."""
        cases = []
        for words, a in inputs.items():
            try:
                cases.append(Case(words, a, self.output(a, a.v)))
            except Exception as error:  # whatever it raises is a result of the audit
                kind = f"{type(error).__name__}: {error}"
                errors.append(f"{words}: arrays of {self.dtype} raise {kind}")
        return cases

    def weights(self, spread: float) -> list[tuple[Attention, Array]]:
        """Inputs and their weights, which are the outputs of one-hot values, as many as v is wide."""
        found = []
        for a in [*self.inputs(spread).values()][:-2]:
            n_keys, d_v = a.v.shape[2:]
            columns = (np.eye(n_keys, d_v, -start) for start in range(0, n_keys, d_v))
            with contextlib.suppress(Exception):  # sizes that the function does not take
                outputs = [self.output(a, np.broadcast_to(x, a.v.shape)) for x in columns]
                found.append((a, np.concatenate(outputs, axis=-1)[..., :n_keys]))
        return found
