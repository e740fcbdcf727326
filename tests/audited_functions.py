"""Attention functions in plain NumPy: right ones in many spellings, and bugs written from their
public reports, apart from the audit.
"""

import math
from functools import partial

import numpy as np

CAUSAL = {"mask": "causal"}
PADDING = np.arange(16) < np.reshape([10, 13], (2, 1, 1, 1))
SLOPES = 0.5, 0.25, 0.125


def softmax(s, axis=-1):
    e = np.exp(s - s.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def scores(q, k):
    return q @ k.mT / math.sqrt(q.shape[-1])


def attend(q, k, v, mask=True, fill=-np.inf, axis=-1):
    return softmax(np.where(mask, scores(q, k), fill), axis) @ v


def tril(q, k, offset=0, last=True):
    """True up to the own key and an offset, of queries at the last or first positions."""
    n_queries, n_keys = q.shape[2], k.shape[2]
    return np.tri(n_queries, n_keys, last * (n_keys - n_queries) + offset, dtype=bool)


def causal(q, k, v, offset=0, last=True, fill=-np.inf):
    return attend(q, k, v, tril(q, k, offset, last), fill)


def window(q, k, v, behind=4, ahead=0):
    return attend(q, k, v, tril(q, k, ahead) & ~tril(q, k, -behind - 1))


def divided(text, q, k, v):
    """The softmax of q.k over a formula of the sizes."""
    (_, n_heads, _, d_k), n_keys = q.shape, k.shape[2]
    sizes = {"n_heads": n_heads, "d_k": d_k, "n_keys": n_keys, "d_v": v.shape[3]}
    return softmax(q @ k.mT / eval(text, sizes)) @ v


def in_type(dtype, q, k, v, attention=attend):
    return attention(*(x.astype(dtype) for x in (q, k, v))).astype(q.dtype)


def dropped(q, k, v):
    w = softmax(scores(q, k))
    return np.random.default_rng().binomial(1, 0.9, w.shape) * w / 0.9 @ v


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


def masked_after(q, k, v, renormalized=False):
    w = softmax(scores(q, k)) * tril(q, k)
    return w / (w.sum(axis=-1, keepdims=True) if renormalized else 1) @ v


def sinks(q, k, v, logits=(-1, 0.5, 2)):
    column = np.broadcast_to(np.reshape(logits, (-1, 1, 1)), (*q.shape[:3], 1))
    return softmax(np.concatenate([scores(q, k), column], axis=-1))[..., :-1] @ v


def biased(q, k, v, slopes=SLOPES):
    """ALiBi by the position of the key alone."""
    s = scores(q, k) + np.reshape(slopes, (-1, 1, 1)) * np.arange(k.shape[2])
    return softmax(np.where(tril(q, k), s, -np.inf)) @ v


def grouped(q, k, v, spread=np.repeat):
    group = q.shape[1] // k.shape[1]
    return attend(q, spread(k, group, 1), spread(v, group, 1))


def in_turn(x, group, _):
    return np.tile(x, (1, group, 1, 1))


def capped(q, k, v, cap=30.0):
    return softmax(cap * np.tanh(scores(q, k) / cap)) @ v


def cosines(q, k, v):
    q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
    return softmax(10 * q @ k.mT) @ v


def one_width(q, k, v):
    assert q.shape[-1] == v.shape[-1] == 64
    return attend(q, k, v)


FIXED = {
    "1": "q·k",
    "n_keys**0.5": "q·k / n_keys^1/2",
    "1 / d_k": "q·k * d_k",
    "1 + d_k**0.5": "q·k / (1 + d_k^1/2)",
    "(n_heads * d_k) ** 0.5": "q·k / (n_heads d_k)^1/2",
    "-(d_k**0.5)": "-1 * q·k / d_k^1/2",
    "d_k**0.5 / 0.6931": "0.6931 * q·k / d_k^1/2",
}
# Functions, the words that name them, and what is expected of them.
REPORTED = [
    (partial(divided, text), f"scores: {words}, expected", {}) for text, words in FIXED.items()
]
REPORTED += [
    (partial(divided, "(-(-d_k // 128) * 128) ** 0.5"), "(d_k up to whole 128s)", {"d_k": 80}),
    (lambda q, k, v: divided("1", q, k, v) / 8, "weights sum to: 0.125, expected 1", {}),
    (attend, "sink as e^logit: 0, expected 1.649", {"sink": 0.5}),
    (partial(sinks, logits=0), "sink as e^logit: 1, expected 0", {}),
    (attend, "keys: all, expected those of the mask", {"mask": PADDING}),
    (causal, "keys: positions -inf to 0 from the query's own", {"mask": "window-5"}),
    (partial(causal, last=False), "queries at the first ones, expected", CAUSAL),
    (partial(causal, offset=-1, fill=-1e9), "keys: positions -inf to -1 from", CAUSAL),
    (partial(window, ahead=4), "keys: positions -4 to 4 from", {"mask": "window-5"}),
    (partial(window, behind=0), "keys: positions 0 to 0 from", CAUSAL),
    (lambda q, k, v: attend(q, k, v, ~tril(q, k)), "keys: those that the mask should hid", CAUSAL),
    (partial(causal, fill=0.0), "scores: q·k of visible keys / d_k^1/2", CAUSAL),
    (partial(causal, fill=-1e4), "hidden keys have a finite score", {"dtype": "float32", **CAUSAL}),
    (masked_after, "the mask multiplies weights", CAUSAL),
    (partial(biased, slopes=-0.5), "+ -0.5 * distance, expected", {"alibi": 0.5, **CAUSAL}),
    (partial(biased, slopes=SLOPES[::-1]), "(0.125, 0.25, 0.5) * d", {"alibi": SLOPES, **CAUSAL}),
    (partial(attend, axis=-2), "weights sum to 1 over queries", {}),
    (partial(grouped, spread=in_turn), "scores: q·k of heads in turn", {"groups": 2}),
    (attend, "scores: q·k / d_k^1/2, expected 8 * q·k of unit vectors", {"normalize": 8}),
    (attend, "expected q·k after the soft cap", {"softcap": 30.0}),
    (partial(in_type, "f4"), "of the size of scores, as of float32", {}),
    (dropped, "different in each call", {}),
    (partial(in_blocks, start=0.0), "low rows are lost: the maximum starts at 0", {}),
    (partial(in_blocks, keep=1.0), "not rescaled by a larger maximum in the output", {}),
    (causal, "queries without keys: nan, expected zero", {"empty": "zero", **CAUSAL}),
]
RIGHT = [
    (causal, CAUSAL),
    (
        partial(in_type, "f4", attention=partial(masked_after, renormalized=True)),
        {"dtype": "float32", **CAUSAL},
    ),
    (partial(causal, last=False), {"mask": "causal-first"}),
    (partial(causal, fill=-1e9), {"empty": "uniform", **CAUSAL}),
    (partial(window, ahead=4), {"mask": "local-4"}),
    (partial(attend, mask=PADDING), {"mask": PADDING}),
    (sinks, {"sink": (-1, 0.5, 2)}),
    (capped, {"softcap": 30.0}),
    (biased, {"alibi": SLOPES, **CAUSAL}),
    (grouped, {"groups": 2}),
    (in_blocks, {}),
    (cosines, {"normalize": 10}),
    (one_width, {}),
]
