"""Attention functions in plain NumPy, apart from the audit: right ones of each option, and bugs
written from their public reports.
"""

import re
from functools import partial
from math import inf, sqrt

import numpy as np

from tests.prose import PAGES

PAGE = PAGES["docs/audit.md"]
CAUSAL = {"mask": "causal"}
NUMBERS = 0.5, 0.25, 0.125
BY_HEAD = np.float32(NUMBERS)[:, None, None]  # which leaves single precision as it is


def attention(
    q,
    k,
    v,
    divisor="d_k**0.5",
    cap=0.0,
    slopes=0.0,
    behind=inf,
    ahead=inf,
    last=True,
    fill=-inf,
    sink=-inf,
):
    """The one that all are made of.

    Args:
        q, k, v: (batch, heads, n, d), with as many heads of k and v as divide those of q.
        divisor: a formula of n_heads, d_k and n_keys.
        cap: the soft cap of scores; 0 for none.
        slopes: of ALiBi, by the position of the key alone.
        behind, ahead: the numbers of visible keys on both sides of the own one.
        last: whether queries are at the last positions, in place of the first ones.
        fill: the score of hidden keys.
        sink: the logits of a further key without a value.
    """
    (_, n_heads, n_queries, d_k), n_keys = q.shape, k.shape[2]
    k, v = (np.repeat(x, n_heads // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.mT / eval(divisor, {"n_heads": n_heads, "d_k": d_k, "n_keys": n_keys})
    if cap:
        scores = cap * np.tanh(scores / cap)
    keys = np.arange(n_keys, dtype="f4")
    own = np.arange(n_queries)[:, None] + last * (n_keys - n_queries)
    seen = (keys >= own - behind) & (keys <= own + ahead)
    scores = np.where(seen, scores + slopes * keys, fill)
    top = scores.max(axis=-1, keepdims=True)
    shares = np.exp(scores - top)
    total = shares.sum(axis=-1, keepdims=True) + np.exp(sink - top)
    return shares / total @ v


def changed(**options):
    return partial(attention, **options)


def in_single(q, k, v, function=attention):
    return function(*(x.astype("f4") for x in (q, k, v)))


def in_blocks(q, k, v, start=-np.inf, keep=True, running=True):
    """The recurrence of fused kernels: a running maximum and sum over blocks of keys, for one
    width of all arrays; wrong without `keep`, the new scale of the output, and without `running`, the
    maximum of the blocks before.
    """
    assert q.shape[3] == v.shape[3]
    top, total, out = start, 0.0, 0.0
    for cut in range(0, k.shape[2], 64):
        block = slice(cut, cut + 64)
        scores = q @ k[:, :, block].mT / sqrt(q.shape[3])
        new = scores.max(axis=-1, keepdims=True)
        new = np.maximum(top, new) if running else new
        shares, kept = np.exp(scores - new), np.exp(top - new)
        total = total * kept + shares.sum(axis=-1, keepdims=True)
        out = out * (kept if keep else 1) + shares @ v[:, :, block]
        top = new
    return out / total


BIAS = np.sin(np.arange(3 * 16 * 16)).reshape(3, 16, 16)


def with_bias(q, k, v, factor=1.0):
    """The bias as a row of products: a further channel for each key."""
    n = k.shape[2]
    more = np.broadcast_to(BIAS * factor * q.shape[3] ** 0.5, (*q.shape[:3], n))
    ones = np.broadcast_to(np.eye(n), (*k.shape[:3], n))
    q, k, d_k = np.concatenate([q, more], -1), np.concatenate([k, ones], -1), q.shape[3]
    return attention(q, k, v, divisor=str(d_k**0.5))


def with_rope(q, k, v, neighbours=False, late=True, times=1):
    """Queries and keys in pairs of channels (i, i + d_k / 2), or of neighbours, turned."""

    def turned(x, start):
        half = x.shape[-1] // 2
        one, two = (x[..., ::2], x[..., 1::2]) if neighbours else (x[..., :half], x[..., half:])
        position = np.arange(start, start + x.shape[2])[:, None]
        angle = position / 10000 ** (np.arange(half) / half)
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([one * cos - two * sin, one * sin + two * cos], axis=-1)

    q = turned(q, late * (k.shape[2] - q.shape[2]))
    for _ in range(times):
        k = turned(k, 0)
    return attention(q, k, v)


def of_reshaped_heads(q, k, v):
    out = attention(*(x.swapaxes(1, 2).reshape(x.shape) for x in (q, k, v)))
    return out.reshape(out.swapaxes(1, 2).shape).swapaxes(1, 2)


def in_turn(q, k, v):
    return attention(q, *(np.tile(x, (1, 2, 1, 1)) for x in (k, v)))


def of_layer_norms(q, k, v):
    means = (x.mean(axis=-1, keepdims=True) for x in (q, k))
    q, k = (x - mean for x, mean in zip((q, k), means, strict=True))
    return of_unit_root_mean_squares(q, k, v)


def of_unit_root_mean_squares(q, k, v):
    q, k = (x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True)) for x in (q, k))
    return attention(q, k, v)


def of_page(package):
    """The function of docs/audit.md that imports a package first, as written there."""
    block = re.search(rf"```python\n(import {package}\b.*?)```", PAGE, re.DOTALL)[1]
    names = {}
    exec(block, names)
    return names["attention"]


FORMULAS = {
    "1 + d_k**0.5": "q·k / (1 + d_k^1/2)",
    "(n_heads * d_k) ** 0.5": "q·k / d_k^1/2 / n_heads^1/2",
    "-(d_k**0.5)": "-1 * q·k / d_k^1/2",
    "(-(-d_k // 128) * 128) ** 0.5": "q·k / (d_k up to whole 128s)^1/2",
}
# Functions, the words that name them, and what is expected of them.
REPORTED = [
    (changed(divisor=formula), f"scores: {words}, expected", {"d_k": 48})
    for formula, words in FORMULAS.items()
]
REPORTED += [
    (
        changed(sink=0),
        "by: the sum over keys + 1 (e^sink), expected the sum over keys + 1.649",
        {"sink": 0.5},
    ),
    (changed(ahead=0, last=False), "with queries at the first positions, expected", CAUSAL),
    (changed(ahead=-1, fill=-1e9), "keys: from the first to 1 before the query's own", CAUSAL),
    (
        partial(in_single, function=changed(divisor="d_k**0.5 / 1.1")),
        "scores: 1.1 * q·k / d_k^1/2, expected",
        {"dtype": "float16"},
    ),
    (
        partial(in_single, function=changed(divisor="d_k**0.5 / 1.03")),
        "scores: 1.03 * q·k / d_k^1/2, expected",
        {"dtype": "float16"},
    ),
    (changed(behind=-1), "keys: from 1 after the query's own to the last", CAUSAL),
    (changed(ahead=0, fill=-1e4), "hidden keys have a finite score", CAUSAL | {"dtype": "float32"}),
    (changed(slopes=-BY_HEAD), "+ -1 * slope * distance, expected", {"alibi": NUMBERS}),
    (changed(ahead=0, cap=9.0, fill=-9.0), "or minus the soft cap", CAUSAL | {"softcap": 9.0}),
    (of_reshaped_heads, "reshapes without a transpose split and merge the heads", {}),
    (in_turn, "scores: q·k of heads in turn", {"groups": 2}),
    (partial(with_bias, factor=-2.0), "+ -2 * bias, expected", {"bias": BIAS}),
    (with_rope, "after RoPE (half) / d_k^1/2, expected", {"rope": "interleaved"}),
    (attention, "scores: q·k / d_k^1/2, expected q·k after RoPE", {"rope": "half"}),
    (
        partial(with_rope, late=False),
        "RoPE (half) with queries at the first positions, expected",
        {"rope": "half"},
    ),
    (
        partial(with_rope, times=2),
        "RoPE (half) with keys turned twice / d_k^1/2, expected",
        {"rope": "half"},
    ),
    (in_single, "not in float64\n  as if computed in float32: add --dtype float32\n", {}),
    (
        partial(in_blocks, keep=False),
        "blocks: borders at keys [ 64 128 192 256 320 384 448] of 514",
        {},
    ),
    (
        lambda *x: attention(*x) * np.random.default_rng().random(),
        "expected the same output again: is dropout on",
        {},
    ),
    (partial(in_blocks, start=0.0), "low rows are lost: the maximum starts above them", {}),
    (changed(ahead=0), "queries without keys: nan, expected zero", CAUSAL | {"empty": "zero"}),
]
RIGHT = [
    (changed(ahead=0), CAUSAL),
    (changed(ahead=0, last=False), {"mask": "causal-first"}),
    (changed(ahead=0, fill=-1e9), CAUSAL | {"empty": "uniform"}),
    (changed(behind=4, ahead=4), {"mask": "local-4"}),
    (changed(ahead=0), {"mask": np.tri(16, dtype=bool)}),
    (changed(sink=BY_HEAD), {"sink": NUMBERS}),
    (changed(cap=30.0), {"softcap": 30.0}),
    (changed(slopes=BY_HEAD, ahead=0), CAUSAL | {"alibi": NUMBERS}),
    (attention, {"groups": 2}),
    (of_unit_root_mean_squares, {"normalize": 8}),
    (of_layer_norms, {"normalize": "layer"}),
    (in_blocks, {}),
    (with_bias, {"bias": BIAS}),
    (with_rope, {"rope": "half"}),
    (partial(with_rope, neighbours=True), {"rope": "interleaved"}),
]
