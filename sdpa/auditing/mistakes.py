"""Mistakes that no fact names, each with the output of an attention that makes it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp

from sdpa.auditing.computation import Array, Steps, shares

Mistake = Callable[[Steps], Array]
_LOW = 0, -1, -100, -1000, -10000, -65504
_BLOCKS = 16, 32, 64, 128, 256


def _turned(x: Array) -> Array:
    return x.swapaxes(1, 2)


def _split(x: Array) -> Array:
    return _turned(x).reshape(x.shape)


def _finite(scores: Any, a: Steps) -> Array:
    """The output if hidden keys have scores."""
    return a.of(a.weights(a.masked(scores)))


def _merged(size: int, a: Steps, share: Callable[[Array, Array], Array]) -> Array:
    """The output if blocks of keys get a share by the logarithms of their sums and their largest
    scores.
    """
    s, places = a.masked(), np.arange(a.s.shape[-1]) // size
    apart = np.stack([np.where(places == i, s, -math.inf) for i in range(places[-1] + 1)])
    sums = logsumexp(apart, axis=-1, keepdims=True)
    share_of_block = share(sums, apart.max(axis=-1, keepdims=True))
    return a.of(np.nansum(np.exp(apart - sums) * share_of_block, axis=0))


def _not_rescaled(sums: Array, tops: Array) -> Array:
    kept = np.exp(sums - np.maximum.accumulate(tops, axis=0))
    return np.asarray(kept / np.exp(sums - tops.max(axis=0)).sum(axis=0))


# By what a report says, with a thread that reports it, as owner/repository#number.
_PLAIN: dict[str, Mistake] = {
    "": lambda a: a.output,  # none beside the facts
    "a reshape without a transpose splits the heads (reczoo/FuxiCTR#30)": lambda a: a.but(
        q=_split(a.case.q), k=_split(a.case.k), v=_split(a.case.v)
    ),
    "a reshape without a transpose merges the heads (jsbaan/transformer-from-scratch#6)": (
        lambda a: _turned(a.output.reshape(_turned(a.output).shape))
    ),
    "each position attends over its heads (huggingface/diffusers#14338)": lambda a: _turned(
        shares(_turned(a.q) @ _turned(a.k).mT / a.divisor) @ _turned(a.v)
    ),
    "query heads read heads of keys in turn (onnx/onnx#7274)": lambda a: a.but(
        **{x: np.tile(getattr(a.case, x), (1, a.facts.groups, 1, 1)) for x in "kv"}, groups=1
    ),
    "the keys are reshaped, not transposed (rish-16/tokenlearner-pytorch#1)": lambda a: a.but(
        k=a.case.k.reshape(a.case.k.mT.shape).mT
    ),
    "queries and keys are exchanged (karpathy/llm.c#531)": lambda a: a.but(q=a.k, k=a.q),
    "the weights are transposed (ok1zjf/VASNet#25)": lambda a: a.of(a.w.mT),
    "the keys are the values, too (snu-comparch/InfiniGen#5)": lambda a: a.but(v=a.case.k),
    "the softmax is taken twice (zyy-2001/DisKT#6)": lambda a: a.of(shares(a.w)),
    "no softmax (PaddlePaddle/PaddleOCR#4556)": lambda a: a.of(a.s * a.visible),
    "the mask multiplies weights, after the softmax (huggingface/pytorch-image-models#2236)": (
        lambda a: a.of(a.weights(a.s) * a.visible)
    ),
    "no sink (vllm-project/vllm-metal#550)": lambda a: a.but(sink=-math.inf),
    "no bias": lambda a: a.but(bias=0),
    "no soft cap (sgl-project/sgl-kernel-xpu#491)": lambda a: a.but(cap=0),
}
# By words with the place of a number, the numbers to try. An infinite output stands for 0 or what is not finite.
_NUMBERED: dict[str, tuple[tuple[Any, ...], Callable[[Any, Steps], Array]]] = {
    "hidden keys have the score {} (hyunwoongko/transformer#10)": (_LOW, _finite),
    "hidden keys get {}, not -inf (huggingface/transformers#12109)": (
        _LOW,
        lambda x, a: _finite(a.s + x, a),
    ),
    "the softmax runs over axis {}, not over keys (FudanNLP/fastNLP#254)": (
        (-2, 1, 0, (1, -1)),
        lambda axis, a: a.of(shares(a.masked(), axis)),
    ),
    "the running maximum starts at 0: e^s is 0 below {} (flashinfer-ai/flashinfer#4267)": (
        (-745.2, -103.9),
        lambda x, a: np.where(a.top < x, math.inf, a.output),
    ),
    "the maximum is that of all rows: e^s is 0 below it and {}": (
        (-745.2, -103.9),
        lambda x, a: np.where(a.top < a.top.max() + x, math.inf, a.output),
    ),
    "no maximum is subtracted: e^s is inf above {} (prescient-design/e3tools#3)": (
        (709.8, 88.7),
        lambda x, a: np.where(np.abs(a.top) > x, math.inf, a.output),
    ),
    "blocks of {} keys are merged by log2 sums (sgl-project/sglang#35045)": (
        _BLOCKS,
        partial(_merged, share=lambda sums, _: shares(sums / math.log(2), 0)),
    ),
    "blocks of {} keys are merged by sums without their maximum": (
        _BLOCKS,
        partial(_merged, share=lambda sums, tops: shares(sums - tops, 0)),
    ),
    "blocks of {} keys are merged by outputs that no larger maximum rescales": (
        _BLOCKS,
        partial(_merged, share=_not_rescaled),
    ),
}
MISTAKES: dict[str, Mistake] = _PLAIN | {
    words.format(number): partial(output, number)
    for words, (numbers, output) in _NUMBERED.items()
    for number in numbers
}
