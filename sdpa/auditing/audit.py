"""The audit: every item, in the order of the report."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from sdpa.arithmetic import Arithmetic
from sdpa.auditing import items
from sdpa.auditing.function import Attention, Audited, CallError, LostMass
from sdpa.scaling import Rule

_ALONE = (
    items.mask,
    items.hidden_keys,
    items.divisor,
    items.soft_cap,
    items.bias,
    items.sink,
    items.heads,
)
# whatever is wrong would show here, too
_WHOLE = (
    items.large_scores,
    items.scaled,
    items.outputs,
    items.gradients,
)


@dataclass(frozen=True)
class Finding:
    """One item of an audit.

    Attributes:
        item: such as `divisor`.
        verdict: `as expected`, `FINDING`, or `not tested`.
        found, expected: in the words of the suite.
        evidence: the probe and its numbers.
    """

    item: str
    verdict: str
    found: str
    expected: str
    evidence: str


@dataclass(frozen=True)
class Audit:
    """Findings about a function; printed, a report."""

    name: str
    items: tuple[Finding, ...]
    lost_mass: tuple[LostMass, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The items that are not as expected."""
        return tuple(item for item in self.items if item.verdict == "FINDING")

    def __str__(self) -> str:
        names = ", ".join(finding.item for finding in self.findings)
        untested = sum(item.verdict == "not tested" for item in self.items)
        rest = f"; {untested} of {len(self.items)} items not tested" if untested else ""
        lines = [f"audit of {self.name}: {f'findings: {names}' if names else 'no findings'}{rest}"]
        for item in self.items:
            what = (
                f"{item.found}, expected {item.expected}"
                if item.verdict == "FINDING"
                else item.found
            )
            text = f"{item.item}: {what}. {item.evidence}"
            lines += textwrap.wrap(
                text, 96, initial_indent=f"  {item.verdict:<12}", subsequent_indent=" " * 14
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
    sink: float | None = None,
    alibi: float = 0.0,
    groups: int = 1,
    backward: Attention | None = None,
) -> Audit:
    """The divisor, mask, soft cap, bias, sink, heads and arithmetic of a function, found from its
    outputs alone.

    Args:
        attention: attention(q, k, v) of NumPy arrays (batch, heads, n, d_k), with the output
            (batch, heads, n_queries, d_k); k and v have heads / groups heads. The queries are the
            last n_queries of n_keys positions.
        d_k: the width of queries, keys and values; half and one and a half of it are tried, too.
        n_keys: numbers of keys, rising from at least 4; the first, of at most 512, is that of most
            probes.
        dtype: the type of the arrays: float64, float32, float16 or bfloat16, by name or as a type.
        scaling, mask, softcap, sink: what the function should have, as in `sdpa.attention_weights`;
            a mask by name.
        alibi: the slope of a bias -slope (query position - key position) (Press et al. 2022); 0 for
            none.
        groups: query heads per head of keys and values, in consecutive order (Ainslie et al. 2023).
        backward: backward(q, k, v, gradient of the output) with the gradients (dq, dk, dv).

    Returns:
        `Audit`: its `findings`, and printed a report. Designed inputs decide the single items; if
        all are as expected, whole outputs of random inputs are compared with double precision.
        Every input is the same in each run.

    Raises:
        ValueError: an expectation that `sdpa.attention_weights` refuses, an unknown dtype, or
            unusable sizes.
        TypeError: `attention` is no function.

    >>> from sdpa import scaled_dot_product_attention
    >>> print(str(audit(scaled_dot_product_attention, n_keys=(16, 128), scaling="unscaled")).partition(";")[0])
    audit of scaled_dot_product_attention: findings: divisor
    """
    if not callable(attention):
        raise TypeError(f"attention: expected a function of q, k and v, got {attention!r}")
    arithmetic = Arithmetic.parse(dtype if isinstance(dtype, str) else np.dtype(dtype).name)
    lengths = tuple(np.atleast_1d(n_keys).tolist())
    audited = Audited(
        attention, backward, arithmetic, d_k, lengths, scaling, mask, softcap, sink, alibi, groups
    )
    found: list[Finding] = []
    for item in (*_ALONE, items.lost_mass, *(_WHOLE if backward else _WHOLE[:-1])):
        wrong = {one.item for one in found if one.verdict == "FINDING"}
        result: items.Result = (
            None,
            "not compared",
            "",
            "The findings above would show here, too.",
        )
        if not ((item in _WHOLE and wrong) or (item is items.lost_mass and "sink" in wrong)):
            try:
                result = item(audited)
            except CallError as error:
                result = (False, error.found, error.expected, f"{error}.")
        is_expected, *words = result
        verdict = (
            "not tested" if is_expected is None else "as expected" if is_expected else "FINDING"
        )
        found.append(Finding(item.__name__.replace("_", " "), verdict, *map(str, words)))
        if item is items.mask and words[0] == CallError.found:
            break
    return Audit(getattr(attention, "__name__", repr(attention)), tuple(found), tuple(audited.lost))
