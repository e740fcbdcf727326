"""The audit of a function: outputs against those of the expected attention, and what explains them."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa._names import not_among
from sdpa.auditing.explanation import explain
from sdpa.auditing.model import Array, Attention, by_position, shares
from sdpa.auditing.probes import LONGEST, SQUARE, TYPES, Audited, Case, Precision
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
        lines = *self.findings, *self.evidence, "what it does:", *facts
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
    for name, word, known in ("dtype", dtype, TYPES), ("empty", empty, EMPTY):
        if word not in known:
            raise ValueError(f"{name}: {not_among(word, known)}")
    if dtype == "bfloat16":
        importlib.import_module("ml_dtypes")  # adds the type to NumPy
    if min(d_k // 4, groups) < 1:
        raise ValueError(f"expected d_k from 4 and groups from 1, got {d_k} and {groups}")
    rows = RowMap.with_sinks(softcap, sink)
    logits = np.reshape(-math.inf if rows.sink is None else rows.sink, (-1, 1, 1))
    slopes = np.reshape(alibi, (-1, 1, 1))
    sees = _mask(mask)

    def expected(q: Array, k: Array, v: Array) -> Attention:
        shape = *q.shape[:3], k.shape[2]
        divisor = resolve_divisor(scaling, q.shape[3], k.shape[2])
        seen = np.broadcast_to(sees(*shape[2:]), shape)
        unit = normalize is not None
        multiplier = 1 / divisor if normalize is None else normalize
        return Attention(q, k, v, groups, ~seen, seen, multiplier, slopes, logits, unit, softcap)

    shape = np.broadcast_shapes(np.shape(mask), slopes.shape, logits.shape)
    names = "n_keys", "n_queries", "n_heads", "batch"
    fixed = {name: n for name, n in zip(names, shape[::-1], strict=False) if n > 1}
    audited = Audited(attention, expected, dtype, d_k, groups, fixed)
    report = Audit(getattr(attention, "__name__", type(attention).__name__), [], [], {})
    with np.errstate(all="ignore"):
        if cases := audited.cases(audited.inputs(3), report.evidence):
            _tell(audited, cases, report, empty)
        else:
            report.findings.append("no output")
            del report.evidence[1:]  # most sizes have the same error
        if backward and not report.findings:
            _tell_gradients(audited, backward, report)
    return report


def _mask(mask: npt.ArrayLike) -> Callable[[int, int], Array]:
    """The visible keys of numbers of queries and keys."""
    if not isinstance(mask, str):
        shown = broadcast_mask(mask, np.shape(mask))
        return lambda *_: shown
    place = "first" if mask.endswith("-first") else "last"
    reach = reach_of(mask.removesuffix("-first"))
    for side, most in (reach.behind, LONGEST - 2), (reach.ahead, SQUARE - 2):
        if most < side < math.inf:
            raise ValueError(
                f"mask: expected at most {most} keys on this side, which inputs can show, got "
                f"{side} of {mask}; audit with a smaller number"
            )
    return partial(by_position, reach, place)


def _tell(audited: Audited, cases: list[Case], report: Audit, empty: str) -> None:
    """Tell the facts, and what explains wrong outputs."""
    if kinds := " or ".join(
        sorted({_kind(c) for c in cases if c.expected.hidden.all(axis=-1).any()})
    ):
        report.facts["empty"] = f"{kinds} for queries without keys"
        if empty not in ("any", kinds):
            report.findings.append(f"queries without keys: {kinds}, expected {empty}")
    first = cases[0]
    again = first.errors(audited.output(first.expected, first.expected.v))
    if again.max() > TYPES[audited.dtype].rounding:
        report.findings.append("different in each call: is dropout on?")
        return
    usual = TYPES[audited.dtype]
    precision = _precision(cases, usual)
    findings, facts, wrong = explain(audited, cases, precision)
    report.facts |= facts
    report.findings += findings
    if wrong:
        words = "; ".join(case.words for case in wrong)
        report.findings.append(f"wrong in {words if len(wrong) < len(cases) else 'all inputs'}")
        report.evidence.append(_smallest(wrong))
    elif precision is not usual:
        report.findings.append(f"outputs are only right to {2.0**-precision.bits:.0e}")


def _precision(cases: list[Case], usual: Precision) -> Precision:
    """The precision of the coarsest type that has all outputs, if these are numbers."""
    for precision in sorted(TYPES.values()):
        scaled = [np.frexp(case.found)[0] * 2.0**precision.bits for case in cases]
        if np.nansum(scaled[0]) and all(np.allclose(x, x.round(), 0, 0, True) for x in scaled):
            return min(precision, usual)
    return usual


def _kind(case: Case) -> str:
    """The outputs of queries that see no key."""
    a = case.expected
    rows = a.hidden.all(axis=-1)
    mean = replace(a, hidden=~a.hidden).mean(shares(0 * a.scores))
    if np.isnan(case.found[rows]).all():
        return "nan"
    if not case.found[rows].any():
        return "zero"
    return "uniform" if np.allclose(case.found[rows], mean[rows], atol=0.01) else "numbers"


def _smallest(wrong: list[Case]) -> str:
    """The worst row of the smallest wrong output."""
    case = min(wrong, key=lambda case: case.found.size)
    a = case.expected
    errors = case.errors(a.output)
    row = np.unravel_index(errors.argmax(), errors.shape)
    numbers = (x[row][:4].round(4) for x in (a.scores, case.found, a.output))
    return "smallest: {}, scores {}: output {}, expected {}".format(case.words, *numbers)


def _tell_gradients(audited: Audited, backward: Function, report: Audit) -> None:
    """Tell the factors of dq, dk and dv beside differences of the expected output, in three
    directions.
    """
    rng = np.random.default_rng(0)
    near = max(1e-3, TYPES[audited.dtype].near)
    a = audited.input(1)
    upstream = rng.standard_normal(a.output.shape)
    arrays = (x.astype(audited.dtype) for x in (a.q, a.k, a.v, upstream))
    for name, gradient in zip("qkv", backward(*arrays), strict=True):
        x = getattr(a, name)
        factors = []
        for step in 1e-6 * rng.standard_normal((3, *x.shape)):
            change = replace(a, **{name: x + step}).output - a.output
            right = np.nansum(change * upstream)
            factors.append((gradient * step).sum() / right)
        is_number = np.allclose(factors, factors[0], rtol=near)
        words = f"{factors[0]:.3g}" if is_number else "no number"
        report.facts[f"d{name}"] = words
        if not is_number or abs(factors[0] - 1) > near:
            report.findings.append(f"d{name}: {words} times the right one")
