"""The audit of a function: outputs against those of the expected facts, and what explains them."""

from __future__ import annotations

import contextlib
import importlib
import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa._names import not_among
from sdpa.auditing.computation import Array, Fact, Facts, Steps
from sdpa.auditing.function import TYPES, Audited, Sample, named
from sdpa.auditing.mistakes import MISTAKES
from sdpa.masks import broadcast_mask, reach_of
from sdpa.row_maps import RowMap
from sdpa.scaling import SCALED, Rule, resolve_divisor

Function = Callable[..., Any]  # of arrays
EMPTY = "any", "zero", "nan", "uniform"
_ROUNDED = "float16 rounds to 5e-4, float32 to 6e-8"
_ONE = Fact("1", lambda _: 1.0)


@dataclass
class Audit:
    """What was found about a function.

    Attributes:
        name: that of the function.
        findings: what is wrong, in words; empty if it is right.
        evidence: wrong rows, the smallest wrong output, and errors of the function.
        facts: what was read from its weights.
    """

    name: str
    findings: list[str]
    evidence: list[str]
    facts: dict[str, str]

    def __str__(self) -> str:
        verdict = "WRONG" if self.findings else "no findings"
        facts = "; ".join(f"{name}: {words}" for name, words in self.facts.items())
        lines = *self.findings, *self.evidence, f"facts: {facts}"
        folded = (textwrap.fill(f"  {line}", 98, subsequent_indent="    ") for line in lines)
        return "\n".join([f"audit of {self.name}: {verdict}", *folded])


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
    normalize: float | None = None,
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
        mask: by name as there, queries at the last positions; at the first ones with `-first`, such
            as `causal-first` (PyTorch's `is_causal`); or an array (..., n_queries, n_keys), as for
            padding, whose sizes are then those of all inputs.
        alibi: the slope of a bias -slope (query position - key position), or one for each head.
        normalize: the gain of scores gain q.k of unit q and k, in place of `scaling`.
        groups: query heads per head of keys and values, in consecutive order.
        empty: outputs of queries that see no key: any, zero, nan, or uniform (the mean of v).
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
    for name, word, known in (("dtype", dtype, TYPES), ("empty", empty, EMPTY)):
        if word not in known:
            raise ValueError(f"{name}: {not_among(word, known)}")
    if min(d_k // 4, groups) < 1:
        raise ValueError(f"expected d_k from 4 and groups from 1, got {d_k} and {groups}")
    if dtype == "bfloat16":
        importlib.import_module("ml_dtypes")  # adds the type to NumPy
    facts, sizes = _expected(scaling, mask, softcap, sink, alibi, normalize, groups)
    audited = Audited(attention, facts, dtype, d_k, sizes)
    report = Audit(getattr(attention, "__name__", type(attention).__name__), [], [], {})
    with np.errstate(all="ignore"):
        samples = _samples(audited, report)
        if not report.findings:
            _compare(audited, samples, report)
            _tell_empty(samples, empty, report)
            if backward:
                _tell_gradients(audited, backward, report)
    return report


def _expected(
    scaling: Rule,
    mask: npt.ArrayLike,
    softcap: float,
    sink: npt.ArrayLike | None,
    alibi: npt.ArrayLike,
    gain: float | None,
    groups: int,
) -> tuple[Facts, dict[str, int]]:
    """The facts that a function should have, and the sizes that arrays decide."""
    keys, sizes = _mask(mask)
    rows, slopes = RowMap.of(softcap, sink), np.asarray(alibi, float)
    logits = -math.inf if rows.sink is None else rows.sink
    if (heads := max(np.size(logits), slopes.size)) > 1:
        sizes["n_heads"] = heads
    divisor = Fact(
        str(scaling), lambda c: resolve_divisor(scaling, c.sizes["d_k"], c.sizes["n_keys"])
    )
    if gain is not None:
        divisor = Fact(f"1/{gain:g}", lambda _: 1 / gain)
    return Facts(divisor, keys, _ONE, groups, gain is not None, rows.softcap, slopes, logits), sizes


def _mask(mask: npt.ArrayLike) -> tuple[Fact, dict[str, int]]:
    """The visible keys of a case, and the sizes of inputs that an array decides."""
    if isinstance(mask, str):
        first, reach = mask.endswith("-first"), reach_of(mask.removesuffix("-first"))
        words = "all" if mask == "none" else f"those of {mask}"
        return Fact(words, lambda c: reach.sees(0, c.distance(first=first))), {}
    given = np.atleast_2d(mask)
    shown = broadcast_mask(given, given.shape)
    sizes = zip(("n_keys", "n_queries", "n_heads", "batch"), shown.shape[::-1], strict=False)
    return Fact("those of the mask", lambda _: shown), {name: n for name, n in sizes if n > 1}


def _samples(audited: Audited, report: Audit) -> list[Sample]:
    """The outputs; a case without one is a finding if it is the first, else a note."""
    samples: list[Sample] = []
    for case in [*audited.cases(3), *audited.far_cases()]:
        found, a = audited.output(case), Steps(case, audited.facts)
        if isinstance(found, str):
            (report.evidence if samples else report.findings).append(f"{case.words}: {found}")
        elif np.abs(a.s).max() > 1e3 and not np.isfinite(found).all():
            report.evidence.append(f"{case.words}: not finite")
        else:
            samples.append((a, found))
        if report.findings:
            break
    return samples


def _compare(audited: Audited, samples: list[Sample], report: Audit) -> None:
    """Tell the facts, and what explains wrong outputs."""
    read, (eps, _, _) = audited.read(), TYPES[audited.dtype]
    report.facts |= {name: fact.words for name, fact in read.items()}
    off = [a.off(found, a.output, eps) for a, found in samples]
    wrong = [i for i, x in enumerate(off) if x.max() > 1]
    a, found = samples[0]
    if not np.array_equal(audited.output(a.case), found, equal_nan=True):
        report.findings.append("different in each call: is dropout on?")
    elif wrong:
        explained = _explanation(audited, [samples[i] for i in wrong] + samples, read)
        words = "rows with " + "; ".join(samples[i][0].case.words for i in wrong)
        where = words if 2 * len(wrong) < len(off) else f"{len(wrong)} of {len(off)} inputs"
        report.findings += explained or [f"wrong in {where}"]
        error = eps * max(x.max() for x in off)
        report.evidence.append(f"errors up to {error:.1g} of the scores; {_ROUNDED}")
        if not explained:
            report.evidence.append(_smallest([(samples[i], off[i]) for i in wrong]))


def _explanation(audited: Audited, samples: list[Sample], read: dict[str, Fact]) -> list[str]:
    """The facts, or the mistake, with which an attention has all outputs."""
    usual = audited.facts
    precision = read["precision"].words if read else audited.dtype
    eps, spread, _ = TYPES[precision]
    rounded = [f"precision: {precision}, expected {audited.dtype}"] * (precision != audited.dtype)
    known: dict[str, Any] = {name: fact for name, fact in read.items() if fact.of}
    others = [
        f"{name}: {fact.words}, expected {expected}"
        for name, fact in known.items()
        if fact.words != (expected := getattr(usual, name).words)
    ]
    bases: Any = [(usual, eps, []), (replace(usual, **known), eps / spread, others)]
    bases = bases[: 1 + bool(others)]
    for words, output in MISTAKES.items():
        for facts, near, lines in bases:
            with contextlib.suppress(ValueError):  # shapes that do not fit
                outputs = ((a, found, output(Steps(a.case, facts))) for a, found in samples)
                if all(a.off(found, x, near).max() <= 1 for a, found, x in outputs):
                    return [*filter(None, [words]), *lines, *rounded]
    return []


def _smallest(wrong: list[tuple[Sample, Array]]) -> str:
    """The worst row of the smallest wrong output."""
    (a, found), rows = min(wrong, key=lambda x: x[0][1].size)
    worst = np.unravel_index(rows.argmax(), rows.shape)
    s, x, exact = (np.round(y[worst][:4], 4) for y in (a.s, found, a.output))
    return f"smallest: {a.case.words}, scores {s}: output {x}, expected {exact}"


def _tell_empty(samples: list[Sample], empty: str, report: Audit) -> None:
    """The output of queries that see no key."""
    a, found = min(samples, key=lambda x: x[0].visible.any(axis=-1).all())
    rows = ~a.visible.any(axis=-1)
    means = np.broadcast_to(a.v.mean(axis=-2, keepdims=True), found.shape)[rows]
    kinds = {"nan": math.nan * means, "zero": 0 * means, "uniform": means}
    near = (x for x in kinds if np.allclose(found[rows], kinds[x], 0, 0.01, equal_nan=True))
    if rows.any():
        report.facts["queries without keys"] = kind = next(near, "other numbers")
        if empty not in ("any", kind):
            report.findings.append(f"queries without keys: {kind}, expected {empty}")


def _tell_gradients(audited: Audited, backward: Function, report: Audit) -> None:
    """The factors of dq, dk and dv against differences of the expected output."""
    rng, factors = np.random.default_rng(0), []
    steps = [Steps(case, audited.facts) for case in audited.cases(1)]
    for a in steps:
        given = *a.case[:3], rng.standard_normal(a.output.shape)
        try:
            found = backward(*(x.astype(audited.dtype) for x in given))
        except Exception as error:  # whatever it raises is a result of the audit
            report.findings.append(f"no usable gradients: {type(error).__name__}: {error}")
            return
        for name, x, gradient in zip("qkv", given, found, strict=False):
            step = 1e-6 * rng.standard_normal(x.shape)
            right = np.nansum((a.but(**{name: x + step}) - a.output) * given[-1])
            factors.append((gradient * step).sum() / right)
    near = max(1e-3, TYPES[audited.dtype][2])
    for i, name in enumerate(("dq", "dk", "dv")):
        report.facts[name] = words = named(steps, factors[i::3], _ONE, near).words
        if words != "1":
            report.findings.append(f"{name}: {words} times the right one")
