"""The audit: outputs first, then the cause of wrong ones, and probes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import DTypeLike

from sdpa.auditing import items
from sdpa.auditing.causes import causes
from sdpa.auditing.computation import Expected
from sdpa.auditing.formats import FORMATS, Format
from sdpa.auditing.function import Attention, Audited, CallError, Sample
from sdpa.row_maps import RowMap
from sdpa.scaling import Rule, Scaling

_RIGHT, _WRONG = "as expected", "FINDING"
_USABLE = "no usable output", "a usable output"
_COARSEST_FIRST = ("bfloat16", "float16", "float32")
# what describes wrong outputs that no slip explains
_PROBES = (items.dropout, items.mask, items.divisor, items.heads, items.lost_mass)


@dataclass(frozen=True)
class Finding:
    """One item of an audit.

    Attributes:
        item: such as `divisor`.
        verdict: `as expected` or `FINDING`.
        found, expected: in words.
        evidence: the probe and its numbers, and the threads that report the same slip.
    """

    item: str
    verdict: str
    found: str
    expected: str
    evidence: str


@dataclass(frozen=True)
class Audit:
    """Findings about a function; printed, a verdict and the causes."""

    name: str
    items: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The items that are not as expected."""
        return tuple(item for item in self.items if item.verdict == _WRONG)

    @property
    def evidence(self) -> str:
        """The report with all items."""
        return self._report(self.items)

    def __str__(self) -> str:
        return self._report(self.findings)

    def _report(self, shown: Iterable[Finding]) -> str:
        names = ", ".join(finding.item for finding in self.findings)
        lines = [f"audit of {self.name}: {f'findings: {names}' if names else 'no findings'}"]
        for one in shown:
            expected = f", expected {one.expected}" if one.verdict == _WRONG else ""
            text = f"{one.verdict:<12}{one.item}: {one.found}{expected}. {one.evidence}"
            lines += textwrap.wrap(
                text,
                98,
                initial_indent="  ",
                subsequent_indent=" " * 14,
                break_on_hyphens=False,
            )
        return "\n".join(lines)


def audit(
    attention: Attention,
    *,
    d_k: int = 64,
    n_keys: int | Sequence[int] = (16, 512, 4096),
    dtype: DTypeLike = "float64",
    scaling: Rule = "d_k^1/2",
    mask: str = "none",
    softcap: float = 0.0,
    sink: npt.ArrayLike | None = None,
    alibi: float = 0.0,
    groups: int = 1,
    backward: Attention | None = None,
) -> Audit:
    """The computation of a function, found from its outputs alone: right, or with which slip.

    Args:
        attention: attention(q, k, v) of NumPy arrays (batch, heads, n, d_k), with the output
            (batch, heads, n_queries, d_k); k and v have heads / groups heads. The queries are the
            last n_queries of n_keys positions.
        d_k: the width of queries, keys and values; half of it is tried, too.
        n_keys: numbers of keys, rising from at least 4; the first, of at most 512, is that of most
            inputs.
        dtype: the type of the arrays: float64, float32, float16 or bfloat16, by name or as a type.
        scaling, mask, softcap, sink: what the function should have, as in `sdpa.attention_weights`;
            a mask by name. Inputs have up to 3 * groups heads, with the first of the sinks by head.
        alibi: the slope of a bias -slope (query position - key position) (Press et al. 2022); 0 for
            none.
        groups: query heads per head of keys and values, in consecutive order (Ainslie et al. 2023).
        backward: backward(q, k, v, gradient of the output) with the gradients (dq, dk, dv).

    Returns:
        `Audit`: its `findings`, and printed a report. Outputs of random inputs are compared with
        double precision. Wrong ones are compared with those of every slip of
        `sdpa.auditing.catalogue`, and of pairs; what none explains is described. Every input is the
        same in each run.

    Raises:
        ValueError: an expectation that `sdpa.attention_weights` refuses, an unknown dtype, or
            unusable sizes.
        TypeError: `attention` is no function.

    >>> from sdpa import scaled_dot_product_attention
    >>> print(audit(scaled_dot_product_attention, n_keys=(16, 128), scaling="unscaled"))
    audit of scaled_dot_product_attention: findings: divisor
      FINDING     divisor: the divisor is sqrt(d_k) alone, expected divisor unscaled and mask none.
                  Agrees to 2e-16 in 15 outputs; pytorch/torchtitan#2170.
    """
    if not callable(attention):
        raise TypeError(f"attention: expected a function of q, k and v, got {attention!r}")
    if not isinstance(mask, str):
        raise TypeError(f"mask: expected a name such as none or causal, got {mask!r}")
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    number_format = Format.parse(name)
    lengths = tuple(np.atleast_1d(n_keys).tolist())
    rule = Scaling.parse(scaling) if isinstance(scaling, str) else scaling
    expected = Expected(
        rule,
        mask,
        softcap,
        RowMap.of(softcap, sink).sink,
        alibi,
        groups,
    )
    audited = Audited(
        attention,
        backward,
        number_format,
        d_k,
        lengths,
        expected,
    )
    found = _of_outputs(audited)
    if all(one.verdict == _RIGHT for one in found):
        beyond = (items.lost_mass, items.gradients) if backward else (items.lost_mass,)
        found += [_item(audited, item) for item in beyond]
    return Audit(getattr(attention, "__name__", repr(attention)), tuple(found))


def _rounded(audited: Audited, samples: Sequence[Sample]) -> str:
    """The format in which most outputs would have about their deviations; empty if none is."""
    off = sorted(64 * audited.eps * sample.error for sample in samples)
    low = off[len(off) // 4]
    high = off[len(off) * 3 // 4]
    for name in _COARSEST_FIRST:
        eps = FORMATS[name].eps
        if audited.eps < eps and eps / 16 < low and high < 2 * eps:
            return name
    return ""


def _item(audited: Audited, item: items.Item) -> Finding:
    """The result of an item."""
    try:
        is_expected, *words = item(audited)
    except CallError as error:
        is_expected, *words = False, *_USABLE, f"{error}."
    verdict = _RIGHT if is_expected else _WRONG
    return Finding(item.__name__.replace("_", " "), verdict, *map(str, words))


def _of_outputs(audited: Audited) -> list[Finding]:
    """The verdict on outputs of random inputs: the cause of wrong ones, or what describes them."""
    samples, failures = audited.samples()
    found = [Finding("outputs", _WRONG, *_USABLE, text) for text in failures[:1]]
    if not samples:
        return found
    wrong = [sample for sample in samples if sample.error > 1]
    is_same = np.array_equal(
        audited.outputs(*samples[0].arrays)[0],
        samples[0].found,
        equal_nan=True,
    )
    explained = causes(samples, audited.expected) if wrong and is_same else []
    if explained:
        cause = explained[0]
        stages = " and ".join(slip.stage for slip in cause.slips)
        threads = ", ".join(thread for slip in cause.slips for thread in slip.threads)
        off = max(cause.off * samples[0].tolerance, audited.eps)
        evidence = f"Agrees to {off:.1g} in {len(samples)} outputs; {threads}."
        words = " or ".join(map(str, explained))
        named = Finding(stages, _WRONG, words, str(audited.expected), evidence)
        return [named, *found]
    off = max(sample.error for sample in samples)
    share = f"{len(wrong)} of {len(samples)} outputs are wrong"
    where = f"{share}, by up to {off:.1g} times what rounding allows."
    if not np.isfinite(off):
        where = f"{share}, some by nan or inf, as e^s of large scores without their maximum."
    right = "right, the same in each call"
    if not wrong and is_same:
        return found or [Finding("outputs", _RIGHT, right, right, where)]
    words = "wrong, and no slip explains it"
    if format_ := _rounded(audited, samples):
        words = f"errors like those of {format_}"
        where = f"{where} If it computes in {format_}, audit with --dtype {format_}."
    if not is_same:
        words = "different in each call"
    found.append(Finding("outputs", _WRONG, words, right, where))
    return found + [_item(audited, probe) for probe in _PROBES]
