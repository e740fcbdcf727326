"""Inputs that tell attentions apart, and what an audited function makes of them."""

import math
import re
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa._arrays import Array
from sdpa.masks import NAMES, broadcast_mask, reach_of
from sdpa.scaling import Rule, resolve_divisor
from sdpa.tools.auditing.facts import fit, formulas_of, sees_others
from sdpa.tools.auditing.mistakes import MISTAKES, Mistake
from sdpa.tools.auditing.model import KINDS, Attention, Kind, rounded

Function = Callable[..., Any]  # of arrays
# By inputs of views, the axes that are swapped.
VIEWS = {"views of (batch, n, heads, d)": (1, 2), "views of (batch, heads, d, n)": (2, 3)}


class WrongOutputError(Exception):
    """What a function returned, though nothing was raised, in words."""


def raised(error: BaseException) -> str:
    """What a function raised, and where."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [x for x in frames if "site-packages" not in x.filename and x.filename != __file__]
    where = "".join(f" ({x.filename.split('/')[-1]}, line {x.lineno})" for x in own[-1:])
    return f"raises {type(error).__name__}: {error}{where}"


@dataclass(frozen=True, eq=False)
class Case:
    """The output of an input, and the weights of another one, beside the expected attentions."""

    words: str
    kind: Kind
    output: Array
    expected: Attention
    weights: Array
    weighted: Attention

    @cached_property
    def fitted(self) -> Attention:
        """The attention that the weights show, of this input."""
        a = self.expected
        return replace(fit(self.weighted, self.weights, self.kind), q=a.q, k=a.k, v=a.v)

    def errors(self, a: Attention, mistake: Mistake = MISTAKES[""]) -> Array:
        """The difference of each output from an attention with a mistake, beside the largest value;
        inf for one of another shape.

        An output that is no finite number is wrong, unless 0 was expected. Queries without keys are not
        judged.
        """
        output = np.nan_to_num(self.output, posinf=0, neginf=0)
        largest = max(np.abs(a.v).max(), np.abs(output).max())
        try:
            given = mistake(a)
            is_near = np.isfinite(self.output) | (given == 0)
            errors = np.where(is_near, np.abs(output - given), math.inf) / largest
        except ValueError:
            return np.array(math.inf)
        is_told = (a.has_keys & a.seen.any(axis=-1))[..., None]
        return np.where(is_told, np.nan_to_num(errors, nan=math.inf), 0)

    def is_given_by(self, a: Attention, mistake: Mistake = MISTAKES[""]) -> bool:
        """True if rounding of scores and outputs may explain all differences.

        A relative change e of a score s changes its weight w by w (1 - w) s e.
        """
        return bool(self.near(a, mistake).all())

    def near(self, a: Attention, mistake: Mistake = MISTAKES[""]) -> Array:
        """True for the outputs of which `is_given_by` holds."""
        changes = a.weights * (1 - a.weights) * a.scores
        size = 1 + np.abs(np.nan_to_num(changes)).sum(axis=-1).max()
        return np.asarray(self.errors(a, mistake) < self.kind.rounding * size)

    @property
    def is_right(self) -> bool:
        """True if the output and all facts are the expected ones."""
        formulas = formulas_of([self.fitted]) == formulas_of([self.expected])
        is_told = formulas and not sees_others(self.fitted).any()
        return is_told and self.is_given_by(self.expected)


@dataclass(frozen=True)
class Audited:
    """A function, and the attention that it should be: the options of `sdpa.audit`.

    Attributes:
        gain: of unit vectors, in place of scaling; None for none.
        product: the name of the expected one.
        sink, slopes: (heads, 1, 1), or (1, 1, 1) for all heads.
        biases: the expected coefficients beside that of the product.
        has_one_key_head: whether a group is all heads, of whose number it then is.
    """

    function: Function
    dtype: str
    d_k: int
    scaling: Rule
    gain: float | None
    mask: npt.ArrayLike
    cap: float
    sink: Array
    slopes: Array
    product: str
    biases: dict[str, float]
    groups: int
    bias: Array
    has_one_key_head: bool = False

    @cached_property
    def fixed(self) -> dict[str, int]:
        """The sizes that a mask or numbers by head decide, and the width of a gain, because that of
        root mean squares is another one at each width.
        """
        arrays = self.mask, self.bias, self.slopes, self.sink
        shape = np.broadcast_shapes(*map(np.shape, arrays))
        names = "n_keys", "n_queries", "n_heads", "batch"
        sizes = {size: n for size, n in zip(names, shape[::-1], strict=False) if n > 1}
        if self.has_one_key_head:
            sizes["n_heads"] = self.groups
        return sizes | {"d_k": self.d_k} if self.gain else sizes

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The usual sizes."""
        # As many key heads as heads in a group would hide that a function takes one for the other.
        n_heads = self.groups * (3 if self.groups <= 2 else 2)
        usual = {"batch": 2, "n_heads": n_heads, "n_queries": 16, "n_keys": 16}
        return usual | {"d_k": self.d_k, "d_v": self.d_k} | self.fixed

    def draw(
        self,
        spread: float,
        swapped: tuple[int, int],
        largest_score: int = 0,
        step: int = 0,
        first_keys: int | None = None,
        mean: int = 0,
        **sizes: int,
    ) -> Attention:
        """The expected attention of random arrays with a spread of scores, and values of a mean.

        Beside a largest score, those of the first keys (or all) are near it, and more by about a step at each
        key, and near minus these numbers in every other row; with a step, no two rows or heads have the same
        ones. Arrays are views of those with swapped axes.
        """
        batch, n_heads, n_queries, n_keys, d_k, d_v = (self.sizes | sizes).values()
        multiplier = self.gain or 1 / resolve_divisor(self.scaling, d_k, n_keys)
        size = 1 if self.gain else spread / multiplier / d_k**0.5
        normal = np.random.default_rng([n_keys, int(spread)]).standard_normal
        q = normal((batch, n_heads, n_queries, d_k)) * size
        k, v = (normal((batch, n_heads // self.groups, n_keys, d)) for d in (d_k, d_v))
        v += mean
        if largest_score:
            # RoPE turns the last channel least.
            root = (largest_score / multiplier) ** 0.5
            rise = step / largest_score
            rows = np.linspace(1, 1 + rise, n_heads * n_queries).reshape(n_heads, -1)
            large = root * (1 + rise * (np.arange(n_keys) + k[..., -1] / 8))
            k[..., :first_keys, -1] = large[..., :first_keys]
            q[..., -1] = root * rows * (-1.0) ** np.arange(n_queries)
        q, k, v = (rounded(x, self.dtype).astype(float) for x in (q, k, v))
        k, v = (np.repeat(x, self.groups, axis=1) for x in (k, v))
        q, k, v = (x.swapaxes(*swapped).copy().swapaxes(*swapped) for x in (q, k, v))
        seen = np.broadcast_to(self.seen(n_queries, n_keys), (batch, n_heads, n_queries, n_keys))
        return Attention(
            q,
            k,
            v,
            self.groups,
            multiplier,
            self.cap,
            self.slopes,
            {self.product: 1.0 if self.cap else multiplier} | self.biases,
            self.sink,
            hidden=~seen,
            seen=seen,
            bias=self.bias,
            rope="RoPE" in self.product,
        )

    def seen(self, n_queries: int, n_keys: int) -> Array:
        """The keys that the mask shows, (..., n_queries, n_keys)."""
        if not isinstance(self.mask, str):
            return broadcast_mask(self.mask, np.shape(self.mask))
        own = np.arange(n_queries)[:, None]
        if not self.mask.endswith("-first"):
            own += n_keys - n_queries
        reach = reach_of(self.mask.removesuffix("-first"), (*NAMES, "causal-first"))
        return reach.sees(own, np.arange(n_keys))

    def possible(self, inputs: Iterable[str]) -> dict[str, dict[str, Any]]:
        """What `draw` takes for the inputs in words that have the sizes which the options decide."""
        sizes = {
            words: {"swapped": VIEWS.get(words, (0, 0))}
            | {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", words)}
            for words in inputs
        }
        return {x: of for x, of in sizes.items() if self.fixed.items() <= (self.fixed | of).items()}

    def cases(self, findings: list[str], errors: dict[str, str]) -> list[Case]:
        """What the function makes of inputs; an output that is none is a finding, and what it
        raises an error.
        """
        kind = KINDS[self.dtype]
        # In float16, which has all scores, q·k of 80000 and more, which it has not, beside d_k of 64.
        farthest = 10000 if self.dtype == "float16" else 160000
        inputs = (
            f"d_k {self.d_k}",
            f"d_k {max(1, self.d_k // 4)}",
            "n_queries 20",
            f"n_heads {2 * self.sizes['n_heads']}",
            f"d_k {3 * self.d_k}",
            f"d_v {2 * self.d_k + 24}",
            *VIEWS,
            "batch 1",
            "n_queries 1, n_keys 256",  # of full pages
            f"n_queries 1, n_keys 256, d_v {max(1, self.d_k // 2)}",
            "n_queries 1, n_keys 262",
            "n_queries 128, n_keys 256",  # of whole tiles
            "n_queries 130, n_keys 262",
            "n_queries 5, n_keys 514",
            # Sums that are large beside their terms.
            *(["n_queries 5, n_keys 514, mean 64, spread 1"] if "16" in self.dtype else []),
            f"largest_score {kind.largest_score}",
            f"largest_score {kind.largest_score}, n_queries 130, n_keys 262",  # of several blocks
            f"largest_score {kind.largest_score}, first_keys 128, n_queries 5, n_keys 262",
            # Hidden keys are far above visible ones.
            f"largest_score {farthest}, step {farthest // 8}",
        )
        cases: list[Case] = []
        for words, sizes in self.possible(inputs).items():
            a = self.draw(**{"spread": 3} | sizes)
            other = self.draw(**sizes | {"spread": 0.5, "largest_score": 0})
            try:
                output, weights = self.output(a, calls=2), self.weights(other)
            except WrongOutputError as error:
                findings.append(f"{words}: {error}")
            except (Exception, SystemExit) as error:  # whatever it raises is a result
                errors[words] = f"beside arrays of {self.dtype}, it {raised(error)}"
            else:
                cases.append(Case(words, kind, output, a, weights, other))
            if not cases:
                break  # most sizes have the same error
        return cases

    def nan_effect(self, case: Case) -> str:
        """What NaN in k and v does, at keys that no query sees."""
        a = case.expected
        is_idle = np.asarray(a.hidden.all(axis=(1, 2)))[:, None, :, None]
        k, v = (np.where(is_idle, math.nan, x) for x in (a.k, a.v))
        try:
            output = self.output(replace(a, k=k, v=v))
        except (Exception, SystemExit) as error:  # whatever it raises is a result
            return raised(error)
        is_same = np.array_equal(output, case.output, equal_nan=True)
        return "no effect" if is_same else "reaches the output"

    def sources(self, a: Attention) -> str:
        """The heads whose values query heads read, in a batch entry where they are others; else empty.

        Values are one-hot, by batch entry and head; empty if there are more of these than channels.
        """
        batch, n_heads, _, d_v = a.v.shape
        marks = np.arange(batch * n_heads // self.groups)
        if len(marks) > d_v:
            return ""
        expected = np.repeat(marks.reshape(batch, -1), self.groups, axis=1)
        v = np.broadcast_to(np.eye(len(marks), d_v)[expected][:, :, None], a.v.shape)
        shares = np.abs(self.output(replace(a, v=v)).mean(axis=2))
        actual = shares.argmax(axis=-1)
        entry = int((actual != expected).any(axis=1).argmax())
        is_clear = (shares.max(axis=-1) > 0.9 * shares.sum(axis=-1)).all()
        if not is_clear or np.array_equal(actual[entry], expected[entry]):
            return ""
        own, others = (
            np.array2string(x[entry], max_line_width=999, threshold=16) for x in (expected, actual)
        )
        return f"values in batch entry {entry}: of heads {others}, expected {own}, counted over the batch"

    def arrays(self, a: Attention) -> list[Array]:
        """The q, k and v that the function gets, views where those of the attention are."""
        return [rounded(x, self.dtype) for x in (a.q, a.k[:, :: a.groups], a.v[:, :: a.groups])]

    def output(self, a: Attention, calls: int = 1) -> Array:
        """The output of the function, if it is an array of the right shape, the same at each call."""
        given = self.arrays(a)
        outputs = [self.function(*given) for _ in range(calls)]
        if outputs[0] is None or isinstance(outputs[0], tuple):
            got = type(outputs[0]).__name__
            raise WrongOutputError(
                f"expected that the function returns its output alone, got {got}"
            )
        first, *again = (np.asarray(output, float) for output in outputs)
        shape = *a.q.shape[:3], a.v.shape[3]
        if first.shape != shape:
            raise WrongOutputError(f"expected an output of shape {shape}, got {first.shape}")
        if again and not np.allclose(first, again, atol=0.01, equal_nan=True):
            raise WrongOutputError(
                "expected the same output again: is dropout on, or q or k changed?"
            )
        return first

    def weights(self, a: Attention) -> Array:
        """The outputs of one-hot values, as many as v is wide."""
        n_keys, d_v = a.v.shape[2:]
        hot = (0 * a.v + np.eye(n_keys, d_v, -start) for start in range(0, n_keys, d_v))
        outputs = [self.output(replace(a, v=v)) for v in hot]
        return np.concatenate(outputs, axis=-1)[..., :n_keys]
