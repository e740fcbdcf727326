"""The audit of a function: outputs against those of the expected attention, and what explains them."""

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from sdpa._names import not_among
from sdpa.auditing.facts import words_of
from sdpa.auditing.mistakes import MISTAKES, ROUNDED
from sdpa.auditing.model import Array, Attention
from sdpa.auditing.probes import Audited, Case, Function
from sdpa.masks import broadcast_mask, reach_of
from sdpa.row_maps import RowMap
from sdpa.scaling import SCALED, Rule, resolve_divisor

_TYPES = "float64", "float32", "float16"
_BASES = "expected", "fitted"
_EMPTY = "any", "zero", "nan", "uniform"


@dataclass
class Audit:
    """What was found about a function.

    Attributes:
        name: that of the function.
        findings: what is wrong, in words; empty if it is right.
        facts: what was read from its outputs, and its errors, by what they are about.
    """

    name: str
    findings: list[str]
    facts: dict[str, str]

    def __str__(self) -> str:
        verdict = "WRONG" if self.findings else "no findings"
        facts = (f"  {name}: {words}" for name, words in self.facts.items())
        lines = f"audit of {self.name}: {verdict}", *self.findings, "what it does:", *facts
        return "\n  ".join(lines)


def audit(
    attention: Function,
    *,
    d_k: int = 64,
    dtype: str = "float64",
    scaling: Rule = SCALED,
    normalize: float | None = None,
    mask: npt.ArrayLike = "none",
    softcap: float = 0.0,
    sink: npt.ArrayLike | None = None,
    alibi: npt.ArrayLike | None = None,
    groups: int = 1,
    empty: str = "any",
    backward: Function | None = None,
) -> Audit:
    """The computation of a function, found from its outputs alone; `Audit` prints as a report.

    Args:
        attention: attention(q, k, v) of NumPy arrays (batch, heads, n, d), with the output
            (batch, heads, n_queries, d_v); k and v have heads / groups heads.
        d_k: the width of most inputs.
        dtype: the type of the arrays: float64, float32 or float16.
        scaling, softcap, sink: what the function should have, as in `sdpa.attention_weights`.
        normalize: in place of scaling, the gain of q and k that are divided by their lengths.
        mask: by name as there, queries at the last positions; at the first ones with `-first`, such
            as `causal-first` (PyTorch's `is_causal`); or an array (..., n_queries, n_keys), as for
            padding, whose sizes are then those of all inputs.
        alibi: the slope of a bias -slope (query position - key position), or one for each head.
        groups: query heads per head of keys and values, in consecutive order.
        empty: the output of queries that see no key: zero, nan, uniform (the mean of all values),
            or any.
        backward: backward(q, k, v, gradient of the output) with the gradients (dq, dk, dv).

    Raises:
        ValueError: an expectation that `sdpa.attention_weights` refuses, or an unknown word.

    >>> from sdpa import scaled_dot_product_attention
    >>> audit(scaled_dot_product_attention, scaling="unscaled").findings
    ['scores: q·k / d_k^1/2, expected q·k', 'wrong in all inputs']
    """
    for option, word, known in ("dtype", dtype, _TYPES), ("empty", empty, _EMPTY):
        if word not in known:
            raise ValueError(f"{option}: {not_among(word, known)}")
    if not isinstance(groups, int) or groups < 1:
        raise ValueError(f"groups: expected a whole number from 1, got {groups}")
    if normalize and softcap:
        raise ValueError(f"softcap: expected 0 beside a gain of unit vectors, got {softcap}")
    sinks = RowMap.with_sinks(softcap, sink).sink
    logits = np.reshape(-math.inf if sinks is None else sinks, (-1, 1, 1))
    slopes = np.asarray(1 if alibi is None else alibi, float).reshape(-1, 1, 1)
    biases = {} if alibi is None else {"slope * distance": 1.0}
    name = "q·k of unit vectors" if normalize else "soft cap of scaled q·k" if softcap else "q·k"

    def draw(
        spread: float,
        *,
        n_heads: int,
        d_k: int,
        d_v: int,
        batch: int = 2,
        n_queries: int = 16,
        n_keys: int = 16,
        largest_score: int = 0,
    ) -> Attention:
        multiplier = normalize or 1 / resolve_divisor(scaling, d_k, n_keys)
        size = 1 if normalize else spread / multiplier / d_k**0.5
        normal = np.random.default_rng([n_keys, int(spread)]).standard_normal
        q = normal((batch, n_heads, n_queries, d_k)) * size
        k, v = (normal((batch, n_heads // groups, n_keys, d)) for d in (d_k, d_v))
        if largest_score:  # or minus it, in every other row
            k[..., 0] = (largest_score / multiplier) ** 0.5
            q[..., 0] = k[0, 0, 0, 0] * (-1.0) ** np.arange(n_queries)
        q, k, v = (x.astype(dtype).astype(float) for x in (q, k, v))
        k, v = (np.repeat(x, groups, axis=1) for x in (k, v))
        seen = np.broadcast_to(_seen(mask, n_queries, n_keys), (batch, n_heads, n_queries, n_keys))
        scores = {name: 1.0 if softcap else multiplier} | biases
        return Attention(q, k, v, groups, multiplier, softcap, slopes, scores, logits, ~seen, seen)

    shape = np.broadcast_shapes(np.shape(mask), slopes.shape, logits.shape)
    names = "n_keys", "n_queries", "n_heads", "batch"
    fixed = {size: n for size, n in zip(names, shape[::-1], strict=False) if n > 1}
    sizes = {"n_heads": max(3, 2 * groups), "d_k": d_k, "d_v": d_k} | fixed
    if sizes["n_heads"] % groups:
        raise ValueError(f"groups: expected a divisor of {sizes['n_heads']} heads, got {groups}")
    audited = Audited(attention, draw, dtype, sizes, fixed)
    report = Audit(getattr(attention, "__name__", type(attention).__name__), [], {})
    with np.errstate(all="ignore"):
        _tell(audited, report, empty)
        if backward and not report.findings:
            _tell_gradients(audited, backward, report)
    return report


def _seen(mask: npt.ArrayLike, n_queries: int, n_keys: int) -> Array:
    """The keys that the mask shows, (..., n_queries, n_keys)."""
    if not isinstance(mask, str):
        return broadcast_mask(mask, np.shape(mask))
    own = np.arange(n_queries)[:, None]
    if not mask.endswith("-first"):
        own += n_keys - n_queries
    return reach_of(mask.removesuffix("-first")).sees(own, np.arange(n_keys))


def _tell(audited: Audited, report: Audit, empty: str) -> None:
    """Tell the facts, and what explains wrong outputs."""
    cases = audited.cases(report.facts)
    if not cases:
        report.findings.append("no output that can be audited")
        return
    if words := " or ".join(sorted({case.fitted.empty for case in cases} - {""})):
        report.facts["queries without keys"] = words
        if empty not in ("any", words):
            report.findings.append(f"queries without keys: {words}, expected {empty}")
    wrong = [case for case in cases if not case.is_given_by(case.expected)]
    facts = words_of([case.fitted for case in wrong or cases])
    alike = words_of([case.expected for case in wrong or cases])
    differing = {x: words for x, words in facts.items() if words != alike.get(x)}
    usual = words_of([case.expected for case in cases])  # all sizes tell the rule
    report.facts |= usual | differing
    if not wrong:
        return
    inputs = "; ".join(case.words for case in wrong)
    where = "wrong in " + ("all inputs" if len(wrong) == len(cases) else inputs)
    told = [f"{x}: {differing[x]}, expected {usual.get(x, 'none')}" for x in differing]
    if cause := _cause(cases, told):
        report.findings += [*cause, where]
    else:
        report.findings += [*told, f"{where}, {_size(wrong)}"]


def _cause(cases: list[Case], words: list[str]) -> list[str]:
    """The facts and the mistake that give all outputs, which are of other inputs than the fit."""
    for mistake, base in product(MISTAKES, _BASES):
        if all(case.is_given_by(getattr(case, base), MISTAKES[mistake]) for case in cases):
            told = words if base == "fitted" else []
            return [*told, *filter(None, [mistake])]
    return []


def _size(cases: list[Case]) -> str:
    """The size of errors, and the rounding that explains a quarter of them or more."""
    sizes = {
        (base, step): np.median([x.errors(getattr(x, base), ROUNDED[step]).mean() for x in cases])
        for base, step in product(_BASES, ROUNDED)
    }
    base, step = min(sizes, key=lambda x: sizes[x])
    size = sizes[base, ""]
    beside = f"by about 2^{np.log2(size):.0f} of the largest value from the {base} attention"
    if sizes[base, step] < 0.75 * size:
        return f"{beside}, as of {step}"
    return f"{beside}; nothing found gives all outputs"


def _tell_gradients(audited: Audited, backward: Function, report: Audit) -> None:
    """Tell the factors of dq, dk and dv beside differences of the expected output, along a step."""
    a, b = (audited.draw(spread, **audited.sizes) for spread in (3, 2))
    given = *audited.arrays(a), b.output.astype(audited.dtype)
    try:
        gradients = [np.asarray(x, float) for x in backward(*given)]
    except (Exception, SystemExit) as error:  # whatever it raises is a result
        report.findings.append(f"backward raises {type(error).__name__}: {error}")
        return
    found, shapes = [x.shape for x in gradients], [x.shape for x in given[:3]]
    if found != shapes:
        report.findings.append(f"dq, dk and dv: {found}, expected the shapes {shapes}")
        return
    for name, gradient in zip("qkv", gradients, strict=True):
        step = 1e-6 * getattr(b, name)
        moved = replace(a, **{name: getattr(a, name) + step})
        right = np.sum((moved.output - a.output) * b.output)
        own_heads = step[:, :: step.shape[1] // gradient.shape[1]]
        factor = np.sum(own_heads * gradient) / right
        report.facts[f"d{name}"] = words = f"{factor:.3g} times the right one, along a random step"
        if not abs(factor - 1) < 0.01:  # also if it is no number
            report.findings.append(f"d{name}: {words}")
