"""The audit of a function: outputs against those of the expected attention, and what explains them."""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa._names import not_among
from sdpa.auditing.facts import facts_of
from sdpa.auditing.mistakes import COARSE, MISTAKES
from sdpa.auditing.model import Array, Attention
from sdpa.auditing.probes import TYPES, Audited, Case
from sdpa.masks import broadcast_mask, reach_of
from sdpa.row_maps import RowMap
from sdpa.scaling import SCALED, Rule, resolve_divisor

Function = Callable[..., Any]  # of arrays
EMPTY = "any", "zero", "nan", "uniform"


@dataclass
class Audit:
    """What was found about a function.

    Attributes:
        name: that of the function.
        findings: what is wrong, in words; empty if it is right.
        evidence: wrong inputs, the smallest wrong output, and errors of the function.
        facts: what was read from its outputs.
    """

    name: str
    findings: list[str]
    evidence: list[str]
    facts: dict[str, str]

    def __str__(self) -> str:
        verdict = "WRONG" if self.findings else "no findings"
        facts = (f"  {name}: {words}" for name, words in self.facts.items())
        heading = ["what it does:"] * bool(self.facts)
        lines = *self.findings, *self.evidence, *heading, *facts
        return "\n  ".join((f"audit of {self.name}: {verdict}", *lines))


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
    alibi: npt.ArrayLike = 0.0,
    groups: int = 1,
    empty: str = "any",
    backward: Function | None = None,
) -> Audit:
    """The computation of a function, found from its outputs alone; `Audit` prints as a report.

    Args:
        attention: attention(q, k, v) of NumPy arrays (batch, heads, n, d), with the output
            (batch, heads, n_queries, d_v); k and v have heads / groups heads.
        d_k: the width of most inputs.
        dtype: the type of the arrays: float64, float32, float16, or bfloat16 of ml_dtypes.
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
        TypeError: `attention` is no function.

    >>> from sdpa import scaled_dot_product_attention
    >>> audit(scaled_dot_product_attention, scaling="unscaled").findings
    ['scores: q·k / d_k^1/2, expected q·k']
    """
    if not callable(attention):
        raise TypeError(f"attention: expected a function of q, k and v, got {attention!r}")
    for option, word, known in ("dtype", dtype, TYPES), ("empty", empty, EMPTY):
        if word not in known:
            raise ValueError(f"{option}: {not_among(word, known)}")
    if dtype == "bfloat16":
        importlib.import_module("ml_dtypes")  # adds the type to NumPy
    if normalize is not None and (normalize <= 0 or softcap):
        raise ValueError(
            f"normalize: expected a gain above 0, without a soft cap, got {normalize:g} and a cap "
            f"of {softcap:g}"
        )
    sinks = RowMap.with_sinks(softcap, sink).sink
    logits = np.reshape(-math.inf if sinks is None else sinks, (-1, 1, 1))
    slopes = np.reshape(alibi, (-1, 1, 1))
    sees = _mask(mask)
    name = "q·k of unit vectors" if normalize else "q·k after the soft cap" if softcap else "q·k"

    def expected(q: Array, k: Array, v: Array) -> Attention:
        k, v = (np.repeat(x, groups, axis=1) for x in (k, v))
        seen = np.broadcast_to(sees(q.shape[2], k.shape[2]), (*q.shape[:3], k.shape[2]))
        multiplier = normalize or 1 / resolve_divisor(scaling, q.shape[3], k.shape[2])
        terms = {name: multiplier} | ({"distance": slopes} if slopes.any() else {})
        return Attention(q, k, v, groups, multiplier, softcap, terms, logits, ~seen, seen)

    shape = np.broadcast_shapes(np.shape(mask), slopes.shape, logits.shape)
    audited = Audited(attention, expected, dtype, *_sizes(d_k, groups, shape), groups)
    report = Audit(getattr(attention, "__name__", type(attention).__name__), [], [], {})
    with np.errstate(all="ignore"):
        _tell(audited, report, empty)
        if backward and not report.findings:
            try:
                _tell_gradients(audited, backward, report)
            except Exception as error:  # whatever it raises is a result of the audit
                report.findings.append(f"backward raises {type(error).__name__}: {error}")
    return report


def _sizes(d_k: int, groups: int, shape: tuple[int, ...]) -> tuple[dict[str, int], dict[str, int]]:
    """The usual sizes, and those of them that the shape of a mask or of numbers by head decides."""
    names = "n_keys", "n_queries", "n_heads", "batch"
    fixed = {size: n for size, n in zip(names, shape[::-1], strict=False) if n > 1}
    usual = {"batch": 2, "n_heads": 3 * groups, "n_queries": 16, "d_k": d_k, "n_keys": 16}
    usual |= {"d_v": d_k, "far": 0} | fixed
    if d_k < 4 or groups < 1 or usual["n_heads"] % groups:
        raise ValueError(
            f"expected d_k from 4 and groups that divide heads, got {d_k}, and {groups} for "
            f"{usual['n_heads']} heads"
        )
    return usual, fixed


def _mask(mask: npt.ArrayLike) -> Callable[[int, int], Array]:
    """The visible keys of numbers of queries and keys."""
    if not isinstance(mask, str):
        shown = broadcast_mask(mask, np.shape(mask))
        return lambda *_: shown
    reach = reach_of(mask.removesuffix("-first"))
    if any(128 < side < math.inf for side in reach):
        raise ValueError(
            f"mask: expected at most 128 keys on a side, which inputs show, got {mask}"
        )

    def sees(n_queries: int, n_keys: int) -> Array:
        start = 0 if mask.endswith("-first") else n_keys - n_queries
        return reach.sees(np.arange(start, start + n_queries)[:, None], np.arange(n_keys))

    return sees


def _tell(audited: Audited, report: Audit, empty: str) -> None:
    """Tell the facts, and what explains wrong outputs: facts of weights, and a mistake.

    They are the cause if they give all outputs, which are of other q, k and v.
    """
    cases = audited.cases(report.evidence)
    if not cases:
        report.findings.append("no output that can be audited")
        del report.evidence[1:]  # most sizes have the same error
        return
    a, limit = cases[0].expected, TYPES[audited.dtype].rounding
    again = np.nan_to_num(audited.output(a, a.v), posinf=0, neginf=0)
    if cases[0].errors(again).max() > limit:
        report.findings.append("different in each call: is dropout on?")
        return
    if words := " or ".join(sorted({case.empty() for case in cases} - {""})):
        report.facts["queries without keys"] = words
        if empty not in ("any", words):
            report.findings.append(f"queries without keys: {words}, expected {empty}")
    cases.sort(key=lambda case: -case.error("expected"))  # those that tell come first
    expected, fitted = [case.expected for case in cases], [case.fitted for case in cases]
    facts, usual = (facts_of(expected, x, TYPES[audited.dtype].near) for x in (fitted, expected))
    report.facts |= facts
    differing = [f"{x}: {facts[x]}, expected {usual[x]}" for x in facts if facts[x] != usual[x]]
    bases = {"expected": [], "fitted": differing}
    wrong = [case for case in cases if case.error("expected") > limit]
    inputs = "all inputs" if len(wrong) == len(cases) else "; ".join(case.words for case in wrong)
    for mistake, base in product(MISTAKES, bases):
        told = [*bases[base], *[mistake] * bool(mistake)]
        is_cause = all(case.error(base, MISTAKES[mistake]) < limit for case in cases)
        if is_cause and (told or base == "expected"):
            report.findings += told
            report.evidence += [f"wrong in {inputs}"] * bool(told)
            return
    # Facts that leave a hundredth of errors are told, with the rest.
    size = {base: np.median([case.error(base) for case in wrong]) for base in bases}
    base = "fitted" if size["fitted"] < size["expected"] / 100 else "expected"
    report.findings += [*bases[base], f"wrong in {inputs}, {_size(wrong, base)}"]
    report.evidence.append(f"largest difference: {cases[0].worst()}")


def _size(cases: list[Case], base: str) -> str:
    """The size of errors, and the step in a coarser type that leaves less than three quarters."""
    sizes = {step: np.median([c.error(base, COARSE[step]) for c in cases]) for step in COARSE}
    best = min(sizes, key=sizes.__getitem__)
    coarse = f", as of {best}" if sizes[best] < sizes[""] * 0.75 else ""
    return f"by about {sizes['']:.0e} of the size of scores{coarse}"


def _tell_gradients(audited: Audited, backward: Function, report: Audit) -> None:
    """Tell the factors of dq, dk and dv beside differences of the expected output, in three
    directions.
    """
    rng = np.random.default_rng(0)
    a = audited.input(3)
    arrays = {"q": a.q, "k": a.k[:, :: a.groups], "v": a.v[:, :: a.groups]}
    upstream = rng.standard_normal(a.output.shape)
    given = (x.astype(audited.dtype) for x in (*arrays.values(), upstream))
    for (name, x), gradient in zip(arrays.items(), backward(*given), strict=True):
        steps = 1e-6 * rng.standard_normal((3, *x.shape))
        moved = [audited.expected(**arrays | {name: x + step}).output for step in steps]
        right = np.tensordot(moved - a.output, upstream, 4)
        factors = np.tensordot(steps, gradient, 4) / right
        is_number = np.allclose(factors, factors[0], rtol=0.03)
        words = f"{factors[0]:.3g}" if is_number else "no number"
        report.facts[f"d{name}"] = words
        if not np.allclose(factors, 1, rtol=0.03):
            report.findings.append(f"d{name}: {words} times the right one")
