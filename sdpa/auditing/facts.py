"""Facts of an attention, fitted to its weights, and their words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np

from sdpa.auditing.model import Array, Attention, by_position
from sdpa.masks import Reach

Pair = tuple[Attention, Attention]  # expected and found
_AXES = {-1: "keys", -2: "queries", 1: "heads", 0: "batch entries"}


def fit(a: Attention, weights: Array, near: float) -> Attention | None:
    """The attention with these weights; None if no facts give them.

    ln w = s - ln(sum of all e^s), with s = multiplier q.k + slope distance, and kept s + leak if
    hidden: least squares of differences along the axis, in which the sum disappears.
    """
    # Rows without visible keys may be uniform.
    blank = np.ptp(weights, axis=-1, keepdims=True) < 1e-9 * weights.max(axis=-1, keepdims=True)
    logs = np.log(np.where(blank, 0, weights))
    seen = np.isfinite(logs)
    fitted = replace(a, seen=seen, hidden=a.hidden | blank, cap=0.0)
    if not np.isfinite(np.diff(logs)).any():  # each query sees one key, or none
        return fitted if (seen | blank).any() else None
    leaks = a.hidden & (seen & ~a.hidden).any(axis=-1, keepdims=True)
    heads = np.eye(logs.shape[1])[:, :, None, None]
    features = a.products * a.multiplier, a.distance + 0.0 * leaks, leaks, leaks * a.scores
    for axis in _AXES:
        change = np.diff(logs, axis=axis)
        known = np.isfinite(change)
        columns = [np.diff(x * head, axis=axis)[known] for x in features for head in heads]
        matrix = np.transpose(columns)
        found, *_ = np.linalg.lstsq(matrix, change[known])
        if known.any() and np.abs(matrix @ found - change[known]).max() < near:
            ratio, slopes, leak, more = found.reshape(4, -1, 1, 1)
            fitted = replace(
                fitted,
                multiplier=_or(1, ratio, near) * a.multiplier,
                slopes=_or(a.slopes, _or(0, slopes, near), near),
                leak=_or(0, leak, near),
                kept=_or(0, _or(1, 1 + more / ratio, near), near),
                axis=axis,
            )
            return replace(_summed(fitted, logs, near), cap=a.cap)
    return None


def _or(expected: Any, found: Any, near: float) -> Any:
    """What is expected, if it was found."""
    return expected if np.allclose(found, expected, rtol=near, atol=near) else found


def _summed(a: Attention, logs: Array, near: float) -> Attention:
    """The attention with the sink, or the sum of its weights, that these logarithms have."""
    e = np.exp(a.masked)
    sums = e.sum(axis=a.axis, keepdims=True)
    more = np.where(a.seen, e / np.exp(logs) - sums, math.nan)
    totals = sums / (more + sums)
    sink = np.nanmedian(more, axis=(0, 2, 3), keepdims=True)[0]
    total = np.nanmedian(totals)
    if (sink > 0).all() and np.nanmax(np.abs(more / sink - 1)) < near:
        return replace(a, sink=_or(a.sink, np.log(sink), near))
    if np.nanmax(np.abs(totals / total - 1)) < near:
        return replace(a, sink=-math.inf, total=_or(1, total, near))
    return a


def described(pairs: list[Pair], near: float) -> dict[str, str]:
    """The facts in words of attentions, each beside the one that is expected."""
    fits = [f for _, f in pairs]
    words = partial(_words, fits, near)
    return {
        "scores": words("q·k", [f.multiplier for f in fits]),
        "keys": _keys(pairs),
        "bias": words("distance", [f.slopes for f in fits]),
        "weights": f"sum to {words('1', [f.total for f in fits])} over {_AXES[fits[0].axis]}",
        "sink as e^logit": words("1", [np.exp(f.sink) for f in fits]),
    }


def _words(fits: list[Attention], near: float, of: str, numbers: list[Any]) -> str:
    """Numbers of all sizes, as a formula or one by one."""
    by_head = [np.ravel(x) for x in numbers]
    if not any(x.any() for x in by_head):
        return "none"
    if all(np.allclose(x, x[0], rtol=near) for x in by_head):
        first = np.array([x[0] for x in by_head])
        if named := _formula(fits, near, of, first):
            return named
    texts = (f"({', '.join(f'{one:.3g}' for one in x)} by head) * {of}" for x in by_head)
    return " or ".join(dict.fromkeys(texts)).replace(" * 1", "")


def _terms(d_k: int, n_keys: int, d_v: int, n_heads: int, **_: int) -> dict[str, float]:
    """Numbers of which a multiplier may be made."""
    return {
        "d_k": d_k,
        "n_keys": n_keys,
        "d_v": d_v,
        "n_heads": n_heads,
        "(n_heads d_k)": n_heads * d_k,
        "ln(n_keys)": math.log(n_keys),
        "(1 + d_k^1/2)": 1 + math.sqrt(d_k),
        "(d_k up to whole 128s)": -(-d_k // 128) * 128,
    }


def _formula(fits: list[Attention], near: float, of: str, values: Array) -> str | None:
    """A constant times at most two powers of sizes; None if there is none."""
    terms = [_terms(**f.sizes) for f in fits]
    logs = {name: np.log([x[name] for x in terms]) for name in terms[0]}
    powers = 0.5, -0.5, 1, -1, 0.25, -0.25
    factors = [*product((name for name, x in logs.items() if np.ptp(x)), powers)]
    found = []
    for chosen in ((), *combinations(factors, 1), *combinations(factors, 2)):
        rest = np.log(np.abs(values)) - sum(power * logs[name] for name, power in chosen)
        if np.ptp(rest) < near:
            constant = np.sign(values[0]) * np.exp(rest[0])
            text = of if abs(constant - 1) < near else f"{constant:.4g} * {of}".removesuffix(" * 1")
            for name, power in chosen:
                text += f" {'*' if power > 0 else '/'} {name}^{Fraction(abs(power))}"
            found.append(text.replace("^1 ", " ").removesuffix("^1"))
    return min(found, key=len, default=None)


def _keys(pairs: list[Pair]) -> str:
    """The keys that have a weight, and what hidden ones have in place of -inf."""
    largest = max(pairs, key=lambda pair: pair[0].q.size)
    fits = (words for words, mask in _masks(*largest) if all(_agree(mask(e), f) for e, f in pairs))
    last = np.flatnonzero(largest[1].seen[0, 0, -1])
    ends = f", from {last[0]} to {last[-1]}" if last.size else ""
    n_keys = largest[1].seen.shape[-1]
    text = next(fits, f"others; the last query sees {last.size} of {n_keys}{ends}")
    for _, f in pairs:
        leak, kept = float(np.mean(f.leak)), float(np.mean(f.kept))
        if leak or kept != 1:
            score = f"{leak:.3g} + {kept:.3g} * their own".removesuffix(" + 0 * their own")
            return f"{text}, hidden ones with the score {score}"
    return text


def _agree(seen: Array, f: Attention) -> bool:
    """Whether these are the keys of rows that have keys."""
    says = seen.any(axis=-1) & ~f.hidden.all(axis=-1)
    return bool((seen == f.seen)[says].all())


def _masks(e: Attention, f: Attention) -> Iterator[tuple[str, Callable[[Attention], Array]]]:
    """Masks: by position, from what the last queries see, and changes of the expected one."""
    seen = e.distance[-8:][f.seen[0, 0, -8:]]
    ends = (-math.inf, seen.min(initial=0)), (math.inf, seen.max(initial=-99))
    for place, start, stop in product(("last", "first"), *ends):
        is_all = start == -stop == -math.inf
        words = f"positions {start:g} to {stop:g} from the query's own, queries at the {place} ones"
        yield "all" if is_all else words, partial(_by_position, Reach(-start, stop), place)
    yield "those of the mask", lambda a: ~a.hidden
    if e.hidden.any():
        yield "those that the mask should hide", lambda a: a.hidden
    yield "those of another batch entry", lambda a: ~np.roll(a.hidden, 1, axis=0)
    for size in range(2, 65):
        yield f"up to the end of its block of {size}", partial(_by_block, size)


def _by_block(size: int, a: Attention) -> Array:
    keys = np.arange(a.hidden.shape[-1]) + 0 * a.hidden
    return np.asarray(keys // size <= (keys - a.distance) // size)


def _by_position(reach: Reach, place: str, a: Attention) -> Array:
    return np.broadcast_to(by_position(reach, place, *a.hidden.shape[2:]), a.hidden.shape)
