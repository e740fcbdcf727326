"""Attention functions in plain NumPy: right ones in many spellings, and bugs written from their
public reports, apart from the audit.
"""

import math
from functools import partial

import numpy as np

REPORTED = []  # functions, the words that name them, and what is expected of them
CAUSAL = {"mask": "causal"}


def reported(words, **expected):
    def add(function):
        REPORTED.append((function, words, expected))
        return function

    return add


def softmax(s, axis=-1):
    e = np.exp(s - s.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def scores(q, k):
    return q @ k.mT / math.sqrt(q.shape[-1])


def tril(q, k, offset=0):
    """True up to the own key, of queries at the last positions."""
    n_queries, n_keys = q.shape[2], k.shape[2]
    return np.tri(n_queries, n_keys, n_keys - n_queries + offset, dtype=bool)


@reported("e^sink: none, expected 1.649", sink=0.5)
@reported("keys: all", **CAUSAL)
@reported("keys: all", mask=np.arange(16) < 10)
def attend(q, k, v, mask=True, fill=-np.inf):
    return softmax(np.where(mask, scores(q, k), fill)) @ v


def divided(text):
    """The softmax of q.k over a formula of the sizes."""

    def attention(q, k, v):
        (_, n_heads, _, d_k), n_keys = q.shape, k.shape[2]
        sizes = {"n_heads": n_heads, "d_k": d_k, "n_keys": n_keys, "d_v": v.shape[3]}
        return softmax(q @ k.mT / eval(text, sizes)) @ v

    return attention


for words, text in {
    "q·k": "1",
    "q·k / n_keys^1/2": "n_keys**0.5",
    "q·k / d_v^1/2": "d_v**0.5",
    "q·k / d_k": "d_k",
    "q·k * d_k": "1 / d_k",
    "q·k / (1 + d_k^1/2)": "1 + d_k**0.5",
    "q·k / (n_heads d_k)^1/2": "(n_heads * d_k) ** 0.5",
    "-1 * q·k / d_k^1/2": "-(d_k**0.5)",
}.items():
    reported(f"scores: {words}, expected q·k / d_k^1/2")(divided(text))
reported("(d_k up to whole 128s)^1/2", d_k=80)(divided("(-(-d_k // 128) * 128) ** 0.5"))


@reported("from -inf to 0 of its own, queries at the last positions, expected", mask="window-5")
def causal(q, k, v):
    return attend(q, k, v, tril(q, k))


@reported("queries at the first positions", **CAUSAL)
def from_first(q, k, v):
    return attend(q, k, v, np.tri(q.shape[2], k.shape[2], dtype=bool))


@reported("keys: from -4 to 4 of its own", mask="window-5")
def both_sides(q, k, v):
    return attend(q, k, v, tril(q, k, 4) & ~tril(q, k, -5))


@reported("keys: from -inf to -1 of its own", **CAUSAL)
def strict(q, k, v):
    return attend(q, k, v, tril(q, k, -1), -1e9)


@reported("hidden ones with the score 0", **CAUSAL)
def zero_filled(q, k, v, fill=0.0):
    return attend(q, k, v, tril(q, k), fill)


@reported("outputs are only right to 6e-08")
def in_singles(q, k, v, attention=attend):
    return attention(*(x.astype(np.float32) for x in (q, k, v))).astype(q.dtype)


@reported("different in each call")
def dropped(q, k, v):
    w = softmax(scores(q, k))
    return np.random.default_rng().binomial(1, 0.9, w.shape) * w / 0.9 @ v


@reported("no maximum is subtracted")
def direct(q, k, v):
    e = np.exp(scores(q, k))
    return e / e.sum(axis=-1, keepdims=True) @ v


def in_blocks(q, k, v, size=64, start=-np.inf, keep=None):
    """The recurrence of fused kernels: a running maximum and sum over blocks of keys."""
    top, total, out = np.full((*q.shape[:3], 1), start), 0.0, 0.0
    for cut in range(0, k.shape[2], size):
        s = scores(q, k[:, :, cut : cut + size])
        new = np.maximum(top, s.max(axis=-1, keepdims=True))
        e, kept = np.exp(s - new), np.exp(top - new)
        total = total * kept + e.sum(axis=-1, keepdims=True)
        out = out * (keep or kept) + e @ v[:, :, cut : cut + size]
        top = new
    return out / np.maximum(total, 1e-300)


reported("the running maximum starts at 0")(partial(in_blocks, start=0.0))
reported("hidden keys have a finite score", dtype="float32", **CAUSAL)(
    partial(zero_filled, fill=-1e4)
)


# right ones


def renormalized(q, k, v):
    w = softmax(scores(q, k)) * tril(q, k)
    return w / w.sum(axis=-1, keepdims=True) @ v


def sinks(q, k, v, logits=(-1, 0.5, 2)):
    column = np.broadcast_to(np.reshape(logits, (-1, 1, 1)), (*q.shape[:3], 1))
    return softmax(np.concatenate([scores(q, k), column], axis=-1))[..., :-1] @ v


def slopes(q, k, v):
    """ALiBi by the position of the key alone."""
    slope = 2.0 ** -np.arange(1, q.shape[1] + 1)[:, None, None]
    s = scores(q, k) + slope * np.arange(k.shape[2])
    return softmax(np.where(tril(q, k), s, -np.inf)) @ v


def grouped(q, k, v):
    group = q.shape[1] // k.shape[1]
    return attend(q, np.repeat(k, group, 1), np.repeat(v, group, 1))


def capped(q, k, v, cap=30.0):
    return softmax(cap * np.tanh(scores(q, k) / cap)) @ v


def one_width(q, k, v):
    assert q.shape[-1] == v.shape[-1] == 64
    return attend(q, k, v)


reported("outputs are only right to 6e-08", **CAUSAL)(partial(in_singles, attention=renormalized))
