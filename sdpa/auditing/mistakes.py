"""Mistakes that no fact names: a changed attention, or its output."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from sdpa.auditing.model import Array, Attention, shares

_FAR = 100  # scores beyond this are in cases where e^s is 0 or not finite


def _turned(x: Array) -> Array:
    """Heads and positions exchanged."""
    return x.swapaxes(1, 2)


def _split(x: Array) -> Array:
    """Heads that a reshape without a transpose gives."""
    return _turned(x).reshape(x.shape)


def _in_turn(a: Attention) -> Attention:
    times = 1, a.groups, 1, 1
    return replace(a, k=np.tile(a.k, times), v=np.tile(a.v, times), groups=1)


# By what a report says, with a thread that reports it, as owner/repository#number.
CHANGES: dict[str, Callable[[Attention], Attention]] = {
    "": lambda a: a,
    "a reshape without a transpose splits the heads (reczoo/FuxiCTR#30)": (
        lambda a: replace(a, q=_split(a.q), k=_split(a.k), v=_split(a.v))
    ),
    "query heads read heads of keys in turn (onnx/onnx#7274)": _in_turn,
    "the keys are reshaped, not transposed (rish-16/tokenlearner-pytorch#1)": (
        lambda a: replace(a, k=a.k.reshape(a.k.mT.shape).mT)
    ),
    "queries and keys are exchanged (karpathy/llm.c#531)": lambda a: replace(a, q=a.k, k=a.q),
    "the keys are the values, too (snu-comparch/InfiniGen#5)": lambda a: replace(a, v=a.k),
    "q and k are divided by their lengths": lambda a: replace(a, unit=True),
    "q and k are not divided by their lengths": lambda a: replace(a, unit=False),
}
MISTAKES: dict[str, Callable[[Attention], Array]] = {
    "": lambda a: a.output,  # none beside the facts
    "a reshape without a transpose merges the heads (jsbaan/transformer-from-scratch#6)": (
        lambda a: _turned(a.output.reshape(_turned(a.output).shape))
    ),
    "the weights are transposed (ok1zjf/VASNet#25)": lambda a: a.mean(a.weights.mT),
    "the softmax is taken twice (zyy-2001/DisKT#6)": lambda a: a.mean(shares(a.weights)),
    "no softmax (PaddlePaddle/PaddleOCR#4556)": lambda a: a.mean(a.scores * a.seen),
    "all outputs are 0 or no number": lambda a: 0 * a.output,
    "no sum divides e^s": lambda a: a.mean(np.exp(a.masked - a.top)),
    "all weights are the same": lambda a: a.mean(shares(0 * a.masked)),
    "the mask multiplies weights, after the softmax (huggingface/pytorch-image-models#2236)": (
        lambda a: a.mean(shares(a.scores, a.sink) * a.seen)
    ),
    "q is added to the output": lambda a: a.output + a.q,
    "no soft cap (sgl-project/sgl-kernel-xpu#491)": lambda a: replace(a, cap=0).output,
    "the soft cap acts before the scale": lambda a: replace(a, cap=a.cap * a.multiplier).output,
    "a soft cap of 50": lambda a: replace(a, cap=50).output,
    "a soft cap of 30": lambda a: replace(a, cap=30).output,
    "hidden keys have a finite score, such as -10000 (huggingface/transformers#12109)": (
        lambda a: a.mean(shares(np.where(a.seen, a.scores, -_FAR), a.sink))
    ),
    "scores are clipped": lambda a: a.mean(shares(a.masked.clip(-_FAR, _FAR), a.sink)),
    "the running maximum starts at 0: low rows are lost (flashinfer-ai/flashinfer#4267)": (
        lambda a: np.where(a.top < -_FAR, 0, a.output)
    ),
    "the maximum is that of all rows: low rows are lost": (
        lambda a: np.where(a.top < a.top.max() - _FAR, 0, a.output)
    ),
    "no maximum is subtracted: e^s is 0 or inf (prescient-design/e3tools#3)": (
        lambda a: np.where(np.abs(a.top) > _FAR, 0, a.output)
    ),
}


def _merged(share: Callable[..., Array], size: int, a: Attention) -> Array:
    """The output of blocks of keys, or of halves, that get a share."""
    n_keys = a.hidden.shape[-1]
    cuts = range(size, n_keys, size) if size else [n_keys // 2]
    blocks = np.split(a.masked, cuts, axis=-1)
    tops = np.stack([s.max(axis=-1, keepdims=True) for s in blocks])
    sums = [
        np.exp(s - top).sum(axis=-1, keepdims=True) for s, top in zip(blocks, tops, strict=True)
    ]
    parts = share(np.log(sums) + tops, tops, np.maximum.accumulate(tops))
    weights = [shares(s) * part for s, part in zip(blocks, parts, strict=True)]
    return a.mean(np.concatenate(weights, axis=-1))


def _scaled_by_block(size: int, a: Attention) -> Array:
    n_keys = a.hidden.shape[-1]
    block = np.arange(n_keys) // (size or n_keys // 2 + n_keys % 2)
    return replace(a, multiplier=a.multiplier ** (1 + block)).output


# Shares of blocks of keys, by ln(sum of e^s), the largest score, and the largest one so far.
_MERGES: dict[str, Callable[..., Array]] = {
    "merged by log2 sums as natural ones (sgl-project/sglang#35045)": (
        lambda s, *_: shares(s / math.log(2), axis=0)
    ),
    "merged by natural sums as log2 ones": lambda s, *_: shares(s * math.log(2), axis=0),
    "merged by sums without their maximum": lambda s, top, _: shares(s - top, axis=0),
    "merged with equal shares": lambda s, *_: shares(0 * s, axis=0),
    "not rescaled by a larger maximum": lambda s, _, far: shares(s - far, axis=0),
    "not rescaled by a larger maximum in the output": (
        lambda s, _, far: shares(s, axis=0) * np.exp(far[-1] - far)
    ),
}
for _size in 0, 4, 8, 16, 32, 64, 128, 256:
    _blocks = f"blocks of {_size} keys" if _size else "halves of the keys"
    for _words, _share in _MERGES.items():
        MISTAKES[f"{_blocks} are {_words}"] = partial(_merged, _share, _size)
    MISTAKES[f"{_blocks} are scaled once more each"] = partial(_scaled_by_block, _size)
