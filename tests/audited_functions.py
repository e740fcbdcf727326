"""Attention functions in plain NumPy: bugs written from their public reports, apart from the
catalogue, and right functions in many spellings.
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


@reported("no soft cap", softcap=5.0)
@reported("no sink", sink=0.5)
@reported("no mask", **CAUSAL)
@reported("the divisor is sqrt(d_k) alone", scaling="d_k^1/2/1.873854")
def attend(q, k, v, mask=True, fill=-np.inf):
    return softmax(np.where(mask, scores(q, k), fill)) @ v


@reported("a causal mask", mask="window-5")
def causal(q, k, v):
    return attend(q, k, v, tril(q, k))


@reported("the divisor is d_k, without a root")
def no_root(q, k, v):
    return softmax(q @ k.mT / q.shape[-1]) @ v


@reported("unscaled")
@reported("unscaled, and no mask", **CAUSAL)
def unscaled(q, k, v):
    return softmax(q @ k.mT) @ v


@reported("the divisor is 24")
def latent_width(q, k, v):
    return softmax(q @ k.mT * q.dtype.type(576**-0.5)) @ v


@reported("a sink of -1, 0.5, 2 (by head)", sink=0.5)
def sinks(q, k, v, logits=(-1, 0.5, 2)):
    column = np.broadcast_to(np.reshape(logits, (-1, 1, 1))[: q.shape[1]], (*q.shape[:3], 1))
    return softmax(np.concatenate([scores(q, k), column], axis=-1))[..., :-1] @ v


@reported("the slope of the bias is 0.5, 0.25, 0.125 (by head)", alibi=0.5, **CAUSAL)
def slopes(q, k, v):
    slope = 2.0 ** -np.arange(1, q.shape[1] + 1)[:, None, None]
    s = scores(q, k) + slope * np.arange(k.shape[2])
    return softmax(np.where(tril(q, k), s, -np.inf)) @ v


@reported("query heads read heads of keys in turn", groups=2)
def tiled(q, k, v):
    times = (1, q.shape[1] // k.shape[1], 1, 1)
    return attend(q, np.tile(k, times), np.tile(v, times))


@reported("the scores of a group of query heads are summed", groups=2)
def summed(q, k, v):
    b, _, n, d = q.shape
    grouped = q.reshape(b, k.shape[1], -1, n, d)
    s = np.einsum("bhgnd,bhsd->bhns", grouped, k) / math.sqrt(d)
    return np.repeat(softmax(s) @ v, grouped.shape[2], axis=1)


@reported("the queries stand at the first positions", **CAUSAL)
def from_first(q, k, v):
    return attend(q, k, v, np.tri(q.shape[2], k.shape[2], dtype=bool))


@reported("the mask local-4, of so many keys on both sides", mask="window-5")
def both_sides(q, k, v):
    return attend(q, k, v, tril(q, k, 4) & ~tril(q, k, -5))


@reported("a window of 6 keys", mask="window-5")
def one_more(q, k, v):
    return attend(q, k, v, tril(q, k) & ~tril(q, k, -6))


@reported("no query sees its own key", **CAUSAL)
def strict(q, k, v, fill=-1e9):
    return attend(q, k, v, tril(q, k, -1), fill)


reported("no query sees its own key", **CAUSAL)(partial(strict, fill=-np.inf))


@reported("hidden keys have the score 0", **CAUSAL)
def zero_filled(q, k, v, fill=0.0):
    return attend(q, k, v, tril(q, k), fill)


@reported("a finite mask: it adds about -10000", **CAUSAL)
def small_mask(q, k, v):
    return softmax(scores(q, k) - 10_000.0 * ~tril(q, k)) @ v


@reported("the cap comes after the mask", softcap=5.0, **CAUSAL)
def cap_last(q, k, v):
    s = np.where(tril(q, k), scores(q, k), -np.inf)
    return softmax(5 * np.tanh(s / 5)) @ v


@reported("unit q and k, with a gain of 8")
def unit_gain(q, k, v):
    q, k = (x / np.sqrt((x**2).sum(-1, keepdims=True)) for x in (q, k))
    return softmax(8 * q @ k.mT) @ v


def turned(x, positions):
    """Pairs as complex numbers, as in the paper of RoPE."""
    d = x.shape[-1]
    pairs = x[..., ::2] + 1j * x[..., 1::2]
    y = pairs * np.exp(1j * positions[:, None] / 10_000 ** (np.arange(0, d, 2) / d))
    return np.stack([y.real, y.imag], axis=-1).reshape(x.shape)


@reported("q and k are rotated (RoPE of pairs, base 10000)")
def rope(q, k, v):
    at = np.arange(k.shape[2])
    return attend(turned(q, at[len(at) - q.shape[2] :]), turned(k, at), v)


@reported("the keys are reshaped, not transposed")
def reshaped(q, k, v):
    b, h, n, d = k.shape
    return softmax(q @ k.reshape(b, h, d, n) / math.sqrt(d)) @ v


@reported("the difference of two softmaxes, of halves of q and k, the second times 0.5")
def differential(q, k, v):
    d = q.shape[-1] // 2
    return attend(q[..., :d], k[..., :d], v) - 0.5 * attend(q[..., d:], k[..., d:], v)


@reported("a reshape without a transpose merges the heads")
def merged(q, k, v):
    out = attend(q, k, v)
    return out.reshape(len(q), q.shape[2], q.shape[1], -1).swapaxes(1, 2)


@reported("splits the heads, and a reshape without a transpose merges the heads")
def viewed(q, k, v):
    return merged(*(x.swapaxes(1, 2).reshape(x.shape) for x in (q, k, v)))


@reported("each position attends over its heads")
def heads_for_tokens(q, k, v):
    return attend(*(x.swapaxes(1, 2) for x in (q, k, v))).swapaxes(1, 2)


@reported("zero keys that pad rows to blocks of 64 have weights")
def zero_tail(q, k, v):
    pad = [(0, 0), (0, 0), (0, -k.shape[2] % 64), (0, 0)]
    return attend(q, np.pad(k, pad), np.pad(v, pad))


@reported("different in each call")
def dropped(q, k, v):
    w = softmax(scores(q, k))
    return np.random.default_rng().binomial(1, 0.9, w.shape) * w / 0.9 @ v


# right ones


def in_blocks(q, k, v, size=64):
    """The recurrence of fused kernels: a running maximum and sum over blocks of keys."""
    top, total, out = -np.inf, 0.0, 0.0
    for start in range(0, k.shape[2], size):
        s = scores(q, k[:, :, start : start + size])
        new = np.maximum(top, s.max(axis=-1, keepdims=True))
        e, keep = np.exp(s - new), np.exp(top - new)
        total = total * keep + e.sum(axis=-1, keepdims=True)
        out = out * keep + e @ v[:, :, start : start + size]
        top = new
    return out / total


def in_singles(q, k, v, attention=attend):
    return attention(*(x.astype(np.float32) for x in (q, k, v))).astype(q.dtype)


def grouped(q, k, v):
    group = q.shape[1] // k.shape[1]
    return attend(q, np.repeat(k, group, 1), np.repeat(v, group, 1))


def capped(q, k, v, cap=30.0):
    return softmax(cap * np.tanh(scores(q, k) / cap)) @ v


def alibi(q, k, v):
    s = scores(q, k) + 0.25 * np.arange(k.shape[2])
    return softmax(np.where(tril(q, k), s, -np.inf)) @ v


def one_width(q, k, v):
    assert q.shape[-1] == 64
    return attend(q, k, v)
