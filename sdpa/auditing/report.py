"""The audit of a function: outputs against those of the expected attention, and what explains them."""

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from sdpa._names import not_among
from sdpa.auditing.facts import words_of
from sdpa.auditing.mistakes import MISTAKES
from sdpa.auditing.model import Array, Attention
from sdpa.auditing.probes import Audited, Case, Function
from sdpa.masks import broadcast_mask, reach_of
from sdpa.row_maps import RowMap
from sdpa.scaling import SCALED, Rule, resolve_divisor


_TYPES = "float64", "float32", "float16"
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
    for option, size in ("d_k", d_k), ("groups", groups):
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{option}: expected a whole number from 1, got {size}")
    if normalize is not None and (softcap or not 0 < float(normalize) < math.inf):
        raise ValueError(
            f"normalize: expected a gain above 0 and no soft cap, got {normalize} and {softcap}"
        )
    sinks = RowMap.with_sinks(softcap, sink).sink
    logits = np.reshape(-math.inf if sinks is None else sinks, (-1, 1, 1))
    slopes = np.asarray(1 if alibi is None else alibi, float).reshape(-1, 1, 1)
    biases = {} if alibi is None else {"slope * distance": 1.0}
    name = "q·k of unit vectors" if normalize else "q·k after the soft cap" if softcap else "q·k"

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
        normal = np.random.default_rng([n_keys, int(spread)]).standard_normal
        q = normal((batch, n_heads, n_queries, d_k)) * spread / multiplier / d_k**0.5
        k, v = (normal((batch, n_heads // groups, n_keys, d)) for d in (d_k, d_v))
        if largest_score:  # or minus it, in every other row
            k[..., 0] = (largest_score / multiplier) ** 0.5
            q[..., 0] = k[0, 0, 0, 0] * (-1.0) ** np.arange(n_queries)
        q, k, v = (x.astype(dtype).astype(float) for x in (q, k, v))
        k, v = (np.repeat(x, groups, axis=1) for x in (k, v))
        seen = np.broadcast_to(_seen(mask, n_queries, n_keys), (batch, n_heads, n_queries, n_keys))
        scores = {name: multiplier} | biases
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
    limit = 16 * float(np.finfo(audited.dtype).eps)  # of rounding, with some room
    wrong = [case for case in cases if case.errors(case.expected).max() > limit]
    told = wrong or cases
    facts, usual = words_of([x.fitted for x in told]), words_of([x.expected for x in told])
    report.facts |= facts
    if not wrong:
        return
    differing = [f"{x}: {facts[x]}, expected {usual[x]}" for x in facts if facts[x] != usual[x]]
    inputs = "; ".join(case.words for case in wrong)
    where = "wrong in " + ("all inputs" if len(wrong) == len(cases) else inputs)
    if cause := _cause(cases, differing, limit):
        report.findings += [*cause, where]
    else:
        error = np.median([case.errors(case.expected).max() for case in wrong])
        size = f"2^{math.log2(error):.0f} of the size of scores"
        report.findings += [*differing, f"{where}, by about {size}, which nothing explains"]


def _cause(cases: list[Case], differing: list[str], limit: float) -> list[str]:
    """The facts and the mistake that give all outputs, which are of other inputs than the fit."""
    for mistake, base in product(MISTAKES, ("expected", "fitted")):
        errors = [case.errors(getattr(case, base), MISTAKES[mistake]) for case in cases]
        if all(x.max() < limit for x in errors):
            told = differing if base == "fitted" else []
            return [*told, *filter(None, [mistake])]
    return []


def _tell_gradients(audited: Audited, backward: Function, report: Audit) -> None:
    """Tell the factors of dq, dk and dv beside differences of the expected output, along a step."""
    a, b = (audited.draw(spread, **audited.sizes) for spread in (3, 2))
    given = *audited.arrays(a), b.output.astype(audited.dtype)
    shapes = [x.shape for x in given[:3]]
    try:
        gradients = [np.asarray(x, float) for x in backward(*given)]
        found = [x.shape for x in gradients]
        if found != shapes:
            raise ValueError(f"expected dq, dk and dv of the shapes {shapes}, got {found}")
    except (Exception, SystemExit) as error:  # whatever it raises is a result
        report.findings.append(f"backward raises {type(error).__name__}: {error}")
        return
    for name, gradient in zip("qkv", gradients, strict=True):
        step = 1e-6 * getattr(b, name)
        moved = replace(a, **{name: getattr(a, name) + step})
        right = np.sum((moved.output - a.output) * b.output)
        own_heads = step[:, :: step.shape[1] // gradient.shape[1]]
        factor = np.sum(own_heads * gradient) / right
        report.facts[f"d{name}"] = f"{factor:.3g}"
        if abs(factor - 1) > 0.01:
            report.findings.append(
                f"d{name}: {factor:.3g} times the right one, along a random step"
            )
