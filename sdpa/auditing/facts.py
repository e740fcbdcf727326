"""Facts of an attention, fitted to its weights, and their words."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from sdpa.auditing.model import BIASES, FEATURES, PRODUCTS, Array, Attention

_EQUATIONS = 1000  # of a fit
Pairs = list[tuple[Attention, Attention]]  # expected and found


def fit(a: Attention, weights: Array, near: float) -> Attention:
    """The attention with these weights; with unknown scores if no product of q and k gives them."""
    uniform = np.ptp(weights, axis=-1, keepdims=True) < 1e-9
    uniform &= not uniform.all()  # some rows: those of queries without keys
    logs = np.log(np.where(uniform, 0, weights))
    wrong = (np.abs(np.diff(logs - a.scores)) > near).any(axis=(0, 1, 2))
    block = int(np.append(wrong, True).argmax()) + 1
    a = replace(a, seen=logs > -600, blank=np.where(uniform, weights, 0), block=block)
    a = replace(a, coefficients=_coefficients(a, logs, near), sink=-math.inf)
    if "unknown" in a.coefficients:
        return a
    a = replace(a, seen=a.seen | (a.scores - a.top < -500))  # weights of 0 beside others
    total = (weights / a.weights)[a.seen].mean()
    sinks = np.where(a.seen, np.exp(a.scores) * (1 / weights - 1 / a.weights), 0)
    sink = sinks.sum(axis=(0, 2, 3)) / a.seen.sum(axis=(0, 2, 3))
    for trial in replace(a, total=total), replace(a, sink=np.log(sink)[:, None, None]):
        if np.allclose(trial.weights[a.seen], weights[a.seen], rtol=near, atol=1e-300):
            return trial
    return replace(a, total=math.nan, sink=math.nan)


def _coefficients(a: Attention, logs: Array, near: float) -> dict[str, Any]:
    """Coefficients of a product and the biases that give all weights.

    ln w = score - ln(sum of e^score): less their means in rows, ln w are the scores, and least
    squares give the coefficients for each head.
    """
    index = np.flatnonzero(a.seen)
    if not index.size:
        return {"unknown": 1.0}
    index = index[:: 1 + index.size // _EQUATIONS]
    heads = np.eye(logs.shape[1])[np.unravel_index(index, logs.shape)[1]]

    def apart(x: Any) -> Array:
        x = np.where(a.seen, x, 0)
        mean = x.sum(axis=-1, keepdims=True) / a.seen.sum(axis=-1, keepdims=True)
        return np.asarray((x - mean).ravel()[index, None])

    target = apart(logs)
    for one in *a.coefficients, *PRODUCTS:
        names = [*dict.fromkeys((one, *BIASES))]
        try:
            columns = [apart(FEATURES[name](a)) * heads for name in names]
            solution, *_ = np.linalg.lstsq(np.hstack(columns), target)
        except ValueError:  # sizes do not fit, or there is no number
            continue
        numbers = solution.reshape(len(names), -1, 1)
        terms = np.matmul(columns, numbers)
        if np.abs(terms.sum(axis=0) - target).max(initial=0) < near:
            is_term = np.abs(terms).max(axis=(1, 2), initial=0) > near
            return {names[i]: numbers[i][..., None] for i in np.flatnonzero(is_term)}
    return {"unknown": 1.0}


def facts_of(pairs: Pairs, near: float) -> dict[str, str]:
    """The facts of attentions of several sizes, each beside the one that is expected."""
    found = [f for _, f in pairs]
    telling = max(pairs, key=lambda pair: (np.any(pair[0].seen != pair[1].seen), pair[1].seen.size))
    alike: dict[tuple[str, ...], list[Attention]] = {}
    # Biases of hidden keys have no effect at sizes without such keys.
    others = [f for e, f in pairs if {*f.coefficients} != {*e.coefficients}]
    for f in others or found:
        alike.setdefault((*f.coefficients,), []).append(f)
    sums = (
        " + ".join(_term(name, some, [f.coefficients[name] for f in some], near) for name in names)
        for names, some in alike.items()
    )
    return {
        "scores": " or ".join(filter(None, sums)) or "without effect",
        "keys": _keys(*telling),
        "weights sum to": _term("1", found, [f.total for f in found], near),
        "sink as e^logit": _term("1", found, [np.exp(f.sink) for f in found], near),
    }


def _term(of: str, found: list[Attention], numbers: list[Any], near: float) -> str:
    """Numbers at several sizes, by head, times what they are of: a formula, or one by one."""
    n_heads, d_k, n_keys, d_v = np.transpose([f.q.shape[1::2] + f.v.shape[2:] for f in found])
    factors = {
        "": n_keys**0,
        "d_k^1/2": d_k**0.5,
        "d_k": d_k,
        "d_k^1/4": d_k**0.25,
        "n_keys^1/2": n_keys**0.5,
        "n_keys": n_keys,
        "ln(n_keys)": np.log(n_keys),
        "d_v^1/2": d_v**0.5,
        "n_heads^1/2": n_heads**0.5,
        "(n_heads d_k)^1/2": (n_heads * d_k) ** 0.5,
        "(1 + d_k^1/2)": 1 + d_k**0.5,
        "(d_k up to whole 128s)^1/2": (-(-d_k // 128) * 128) ** 0.5,
    }
    by_head = [np.ravel(x) for x in numbers]
    if np.isnan(np.concatenate(by_head)).any():
        return "not one number"
    for above, below in product(factors, factors):
        ratio = factors[below] / factors[above]
        rest = np.concatenate([x * y for x, y in zip(by_head, ratio, strict=True)])
        if np.allclose(rest, rest[0], rtol=near, atol=0):
            names = (x for x in (f"{rest[0]:.4g}", of, above) if x not in ("", "1"))
            return " / ".join(filter(None, (" * ".join(names) or "1", below)))
    texts = dict.fromkeys(", ".join(f"{one:.3g}" for one in x) for x in by_head)
    return f"({' or '.join(texts)}) * {of}".removesuffix(" * 1")


def _keys(e: Attention, f: Attention) -> str:
    """The keys that have a weight: by position, or by the expected mask."""
    n_queries, n_keys = e.hidden.shape[2:]
    masks: dict[str, Any] = {"all": True}
    for place, shift in ("last", 0), ("first", n_keys - n_queries):
        distance = e.distance + shift
        seen = distance[f.seen.any(axis=(0, 1))]
        low, high = seen.min(initial=0), seen.max(initial=-99)
        start = low if low > distance.min() else -math.inf
        stop = high if high < distance.max() else math.inf
        words = f"positions {start:g} to {stop:g} from the query's own, queries at the {place} ones"
        masks[words] = (distance >= low) & (distance <= high)
    masks |= {"those of the mask": ~e.hidden, "those that the mask should hide": e.hidden}
    for words, mask in masks.items():
        if ((mask == f.seen) | ~f.seen.any(axis=-1, keepdims=True)).all():
            return words
    last = np.flatnonzero(f.seen[0, 0, -1])
    ends = f", from {last[0]} to {last[-1]}" if last.size else ""
    return f"others; the last query sees {last.size} of {n_keys}{ends}"
