"""The audit of a function: outputs against those of the expected facts, and what explains them."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa._names import not_among
from sdpa.auditing.computation import TYPES, Array, Attention, Audited, Fact, Facts
from sdpa.auditing.findings import facts_of, mistake_of, weights_of
from sdpa.masks import broadcast_mask, reach_of
from sdpa.row_maps import RowMap
from sdpa.scaling import SCALED, Rule, resolve_divisor

Function = Callable[..., Any]  # of arrays
_DIGITS = {"float32": "6e-8", "float16": "5e-4"}


@dataclass
class Audit:
    """Findings about a function.

    Attributes:
        name: that of the function.
        findings: what is wrong, in words; empty if it is right.
        evidence: wrong rows, the smallest wrong output, and errors of the function.
        facts: what was read from its outputs.
    """

    name: str
    findings: list[str]
    evidence: list[str]
    facts: dict[str, str]

    def __str__(self) -> str:
        verdict = "WRONG" if self.findings else "no findings"
        facts = "; ".join(f"{name}: {words}" for name, words in self.facts.items())
        title = f"audit of {self.name}: {verdict}"
        lines = *self.findings, *self.evidence, f"facts: {facts}"
        return "\n  ".join([title, *lines])


def audit(
    attention: Function,
    *,
    d_k: int = 64,
    dtype: str = "float64",
    scaling: Rule = SCALED,
    mask: npt.ArrayLike = "none",
    softcap: float = 0.0,
    sink: npt.ArrayLike | None = None,
    alibi: npt.ArrayLike = 0.0,
    groups: int = 1,
    backward: Function | None = None,
) -> Audit:
    """The computation of a function, found from its outputs alone; `Audit` prints as a report.

    Args:
        attention: attention(q, k, v) of NumPy arrays (batch, heads, n, d), with the output
            (batch, heads, n_queries, d_v); k and v have heads / groups heads.
        d_k: the width of most inputs.
        dtype: the type of the arrays: float64, float32, float16, or bfloat16 of ml_dtypes.
        scaling, softcap, sink: what the function should have, as in `sdpa.attention_weights`.
        mask: by name as there, queries at the last positions; at the first ones with `-first`, such
            as `causal-first` (PyTorch's `is_causal`); or an array (..., n_queries, n_keys), as for
            padding, whose sizes are then those of all inputs.
        alibi: the slope of a bias -slope (query position - key position), or one for each head.
        groups: query heads per head of keys and values, in consecutive order.
        backward: backward(q, k, v, gradient of the output) with the gradients (dq, dk, dv).

    Raises:
        ValueError: an expectation that `sdpa.attention_weights` refuses, or an unknown word.
        TypeError: `attention` is no function.

    >>> from sdpa import scaled_dot_product_attention
    >>> audit(scaled_dot_product_attention, scaling="unscaled").findings
    ['divisor: d_k^1/2, expected unscaled']
    """
    if not callable(attention):
        raise TypeError(f"attention: expected a function of q, k and v, got {attention!r}")
    if dtype not in TYPES:
        raise ValueError(f"dtype: {not_among(dtype, TYPES)}")
    if dtype == "bfloat16":
        importlib.import_module("ml_dtypes")  # adds the type to NumPy
    if min(d_k // 4, groups) < 1:
        raise ValueError(f"expected d_k from 4 and groups from 1, got {d_k} and {groups}")
    rows = RowMap.with_sinks(softcap, sink)
    logits = -math.inf if rows.sink is None else rows.sink
    facts = Facts(
        divisor=Fact(str(scaling), lambda x: resolve_divisor(scaling, x["d_k"], x["n_keys"])),
        keys=_keys(mask),
        groups=groups,
        cap=rows.softcap,
        slopes=np.reshape(alibi, (-1, 1, 1)),
        sink=np.reshape(logits, (-1, 1, 1)),
    )
    shape = np.broadcast_shapes(np.shape(mask), facts.slopes.shape, facts.sink.shape)
    names = "n_keys", "n_queries", "n_heads", "batch"
    fixed = {name: n for name, n in zip(names, shape[::-1], strict=False) if n > 1}
    audited = Audited(attention, facts, dtype, d_k, fixed)
    name = getattr(attention, "__name__", type(attention).__name__)
    report = Audit(name, [], [], {})
    with np.errstate(all="ignore"):
        cases = audited.cases(3) + audited.far_cases()
        outputs = audited.outputs(cases, report.evidence)
        if outputs:
            _compare(audited, outputs, report)
        else:
            report.findings.append("no output")
            del report.evidence[1:]  # most sizes have the same error
        if backward and not report.findings:
            _compare_gradients(audited, backward, report)
    return report


def _keys(mask: npt.ArrayLike) -> Fact:
    """The visible keys."""
    if isinstance(mask, str):
        reach = reach_of(mask.removesuffix("-first"))
        return Fact.by_position(reach, first=mask.endswith("-first"))
    shown = broadcast_mask(mask, np.shape(mask))
    return Fact("those of the mask", lambda _: shown)


def _compare(audited: Audited, outputs: list[Attention], report: Audit) -> None:
    """Tell the facts, and what explains wrong outputs."""
    precision = TYPES[audited.dtype]
    weights = weights_of(audited)
    facts = facts_of(weights, precision.near)
    report.facts |= {name: fact.words for name, fact in facts.items()}
    for a in outputs:
        is_empty = ~a.visible.any(axis=-1)
        if is_empty.any():
            report.facts["queries without keys"] = _kind(a.found[is_empty])
    wrong = [a for a in outputs if a.errors(a.output).max() > precision.rounding]
    if not wrong:
        return
    first = outputs[0]
    (again,) = audited.outputs([first.case], [])
    if again.errors(first.found).any():
        report.findings.append("different in each call: is dropout on?")
        return
    report.findings += _explanation(audited, wrong + outputs, weights, facts)
    if not report.findings:
        words = "; ".join(a.case.words for a in wrong)
        report.findings.append(f"wrong in rows with {words}")
        report.evidence.append(_smallest(wrong))


def _kind(rows: Array) -> str:
    """The outputs of queries that see no key."""
    if np.isnan(rows).all():
        return "nan"
    return "numbers" if rows.any() else "zero"


def _explanation(
    audited: Audited, outputs: list[Attention], weights: list[Attention], facts: dict[str, Any]
) -> list[str]:
    """The facts, the mistake and the precision with which an attention has all outputs."""
    usual = audited.facts
    precision = TYPES[audited.dtype]
    findings = []
    for name, digits in _DIGITS.items():
        is_rounded = all(
            np.array_equal(a.found, a.found.astype(name), equal_nan=True) for a in weights
        )
        if is_rounded and TYPES[name].rounding > precision.rounding:
            precision = TYPES[name]
            findings = [f"outputs are only right to {digits}, as in {name}"]
    mistake = mistake_of(outputs, usual, precision.rounding)
    if mistake is None:
        near = precision.rounding / precision.spread
        mistake = mistake_of(outputs, replace(usual, **facts), near)
        for name, fact in facts.items():
            expected = getattr(usual, name).words
            if fact.words != expected:
                findings.append(f"{name}: {fact.words}, expected {expected}")
    if mistake is None:
        return []
    return [mistake, *findings] if mistake else findings


def _smallest(wrong: list[Attention]) -> str:
    """The worst row of the smallest wrong output."""
    a = min(wrong, key=lambda a: a.output.size)
    errors = a.errors(a.output)
    row = np.unravel_index(errors.argmax(), errors.shape)
    scores = a.scores[row][:4].round(4)
    output = a.found[row][:4].round(4)
    expected = a.output[row][:4].round(4)
    return f"smallest: {a.case.words}, scores {scores}: output {output}, expected {expected}"


def _compare_gradients(audited: Audited, backward: Function, report: Audit) -> None:
    """Tell the factors of dq, dk and dv beside differences of the expected output, in three
    directions.
    """
    rng = np.random.default_rng(0)
    a = Attention(audited.case(1), audited.facts)
    upstream = rng.standard_normal(a.output.shape)
    arrays = (x.astype(audited.dtype) for x in (*a.case[:3], upstream))
    for name, gradient in zip("qkv", backward(*arrays), strict=True):
        x = getattr(a.case, name)
        factors = []
        for step in 1e-6 * rng.standard_normal((3, *x.shape)):
            change = a.but(**{name: x + step}) - a.output
            right = np.nansum(change * upstream)
            factors.append((gradient * step).sum() / right)
        is_number = np.allclose(factors, factors[0], rtol=1e-3)
        words = f"{factors[0]:.3g}" if is_number else "no number"
        report.facts[f"d{name}"] = words
        if words != "1":
            report.findings.append(f"d{name}: {words} times the right one")
