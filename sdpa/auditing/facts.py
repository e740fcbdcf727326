"""Facts of an attention, fitted to its weights, and their words."""

import math
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from sdpa.auditing.model import BIASES, FEATURES, PRODUCTS, Array, Attention

_EQUATIONS = 1000  # of a fit for a head


class Precision(NamedTuple):
    """What arrays of a type can tell."""

    rounding: float  # of outputs beside the size of scores, with some room
    near: float  # of ln(weight)
    far: int  # a score s beyond which neither e^s nor e^-s is a number above 0
    lowest: float  # ln(weight) that is exact, with some room


def fit(a: Attention, weights: Array, precision: Precision) -> Attention:
    """The attention with these weights; with unknown scores if no product of q and k gives them."""
    uniform = np.ptp(weights, axis=-1, keepdims=True) < 1e-9
    uniform &= not uniform.all()  # some rows: those of queries without keys
    logs = np.log(np.abs(np.where(uniform, 0, weights)))
    seen = logs > precision.lowest
    a = replace(a, seen=seen, blank=np.where(uniform, weights, 0), least=np.floor(weights.min()))
    if np.any(seen.sum(axis=-1) > 1):  # the weight of a single key tells nothing about its score
        a = replace(a, coefficients=_coefficients(a, logs, precision.near))
    # Weights of 0 may be those of low scores.
    low = a.scores - np.logaddexp.reduce(a.masked, axis=-1, keepdims=True) < precision.lowest + 1
    a = replace(a, seen=seen | low)
    total, sink = _total_and_sink(a, weights.sum(axis=-1), precision.near)
    return replace(a, total=total, sink=np.log(sink)[..., None])


def _coefficients(a: Attention, logs: Array, near: float) -> dict[str, Any]:
    """Coefficients of a product and the biases that give all weights.

    ln w = score - ln(sum of e^score): less their means in rows, ln w are the scores, and least
    squares give the coefficients for each head.
    """

    def apart(x: Any) -> Array:
        x = np.broadcast_to(x, logs.shape)
        sums = x.sum(axis=-1, keepdims=True, where=a.seen)
        x = np.where(a.seen, x - sums / a.seen.sum(axis=-1, keepdims=True), 0)
        by_head = x.swapaxes(0, 1).reshape(logs.shape[1], -1)
        return np.asarray(by_head[:, :: 1 + by_head.shape[1] // _EQUATIONS, None])

    target = apart(logs)
    for one in *a.coefficients, *PRODUCTS:
        names = [*({one: one} | BIASES)]
        try:
            columns = np.concatenate([apart(FEATURES[name](a)) for name in names], axis=-1)
            numbers = np.linalg.pinv(columns) @ target
        except ValueError:  # sizes do not fit, or there is no number
            continue
        if np.abs(columns @ numbers - target).max() < near:
            sizes = np.abs(columns * numbers.mT).max(axis=(0, 1))
            return {names[i]: numbers[:, [i]] for i in np.flatnonzero(sizes > near)}
    return {"unknown": 1.0}


def _total_and_sink(a: Attention, sums: Array, near: float) -> tuple[Any, Any]:
    """The total and e^sink, (heads, 1), that give the sums of weights: the expected ones before
    others; nan if none do.
    """
    rows = a.seen.any(axis=-1)
    shares = np.exp(a.masked).sum(axis=-1)
    sinks = np.sum(shares * (1 / sums - 1), axis=(0, 2), where=rows) / rows.sum(axis=(0, 2))
    trials = [(1.0, np.exp(a.sink[..., 0])), (sums[rows].sum() / rows.sum(), 0.0)]
    for total, sink in *trials, (1.0, sinks[:, None]):
        x = total / (1 + sink / shares) if np.any(sink) else np.full_like(sums, total)
        if np.allclose(x[rows], sums[rows], rtol=near):
            return total, sink
    return math.nan, math.nan


def facts_of(expected: list[Attention], found: list[Attention], near: float) -> dict[str, str]:
    """The facts of attentions of several sizes, each beside the one that is expected."""
    pairs = [*zip(expected, found, strict=True)]
    # Biases of hidden keys have no effect at sizes without such keys.
    others = [f for e, f in pairs if f.coefficients.keys() != e.coefficients.keys()] or found
    names = others[0].coefficients.keys()
    alike = [f for f in others if f.coefficients.keys() == names]
    terms = (_term(name, {f: f.coefficients[name] for f in alike}, near) for name in names)
    telling = max(pairs, key=lambda pair: (np.any(pair[0].seen != pair[1].seen), pair[1].seen.size))
    return {
        "scores": " + ".join(terms) or "without effect",
        "keys": _keys(*telling),
        "weights sum to": _term("1", {f: f.total for f in found}, near),
        "sink as e^logit": _term("1", {f: np.exp(f.sink) for f in found}, near),
    }


def _term(of: str, by_size: dict[Attention, Any], near: float) -> str:
    """Numbers at several sizes, by head, times what they are of: a formula, or one by one."""
    by_head = [np.ravel(x) for x in by_size.values()]
    shapes = [a.q.shape[1::2] + a.v.shape[2:] for a in by_size]
    n_heads, d_k, n_keys, d_v = np.repeat(shapes, [x.size for x in by_head], axis=0).T
    sizes = {
        "d_k": d_k,
        "n_keys": n_keys,
        "d_v": d_v,
        "n_heads": n_heads,
        "(n_heads d_k)": n_heads * d_k,
        "(d_k up to whole 128s)": -(-d_k // 128) * 128,
    }
    factors = {"": n_keys**0, "ln(n_keys)": np.log(n_keys), "(1 + d_k^1/2)": 1 + d_k**0.5}
    for power, exponent in ("^1/2", 0.5), ("", 1), ("^1/4", 0.25):
        factors |= {name + power: size**exponent for name, size in sizes.items()}
    numbers = np.concatenate(by_head)
    if np.isnan(numbers).any():
        return "not one number"
    for above, below in product(factors, factors):
        rest = numbers * factors[below] / factors[above]
        if np.allclose(rest, rest[0], rtol=near, atol=0):
            names = (x for x in (f"{rest[0]:.4g}", of, above) if x not in ("", "1"))
            return " / ".join(filter(None, (" * ".join(names) or "1", below)))
    texts = dict.fromkeys(", ".join(dict.fromkeys(f"{one:.3g}" for one in x)) for x in by_head)
    return f"({' or '.join(texts)}) * {of}".removesuffix(" * 1")


def _keys(e: Attention, f: Attention) -> str:
    """The keys that have a weight: by position, or by the expected mask."""
    n_queries, n_keys = e.hidden.shape[2:]
    masks = {"all": np.ones_like(e.hidden)}
    for place, shift in ("last", 0), ("first", n_keys - n_queries):
        distance = e.distance + shift
        seen = distance[f.seen.any(axis=(0, 1))]
        # Causal masks from the first query end far before the last queries' own positions.
        low, high = seen.min(initial=0), seen.max(initial=-99)
        start = low if low > distance.min() else -math.inf
        stop = high if high < distance.max() else math.inf
        words = f"positions {start:g} to {stop:g} from the query's own, queries at the {place} ones"
        masks[words] = (distance >= low) & (distance <= high)
    masks |= {"those of the mask": ~e.hidden, "those that the mask should hide": e.hidden}
    for words, mask in masks.items():
        # A query without keys may have any weights.
        told = f.seen.any(axis=-1, keepdims=True) & mask.any(axis=-1, keepdims=True)
        if np.any(told) and ((mask == f.seen) | ~told).all():
            return words
    last = np.flatnonzero(f.seen[0, 0, -1])
    ends = f", from {last[0]} to {last[-1]}" if last.size else ""
    return f"others; the last query sees {last.size} of {n_keys}{ends}"
