"""Mistakes that no fact names: the output of an attention that has one."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sdpa.auditing.model import Array, Attention, in_turn, softmax

_FAR = 100  # scores beyond this are in cases where e^s is 0 or not finite


def _split(x: Array) -> Array:
    """Heads that a reshape without a transpose gives."""
    return x.swapaxes(1, 2).reshape(x.shape)


def _merge(x: Array) -> Array:
    """Heads that a reshape without a transpose puts together again."""
    batch, heads, n, width = x.shape
    return x.reshape(batch, n, heads, width).swapaxes(1, 2)


def _blocks(a: Attention, change: Callable[[Array, Array], Array]) -> Array:
    """Scores, changed in each block of keys by a function of ln(sum of e^score) and the largest
    score of the blocks.
    """
    keys = np.arange(a.masked.shape[-1])
    sums, tops = (f.reduceat(a.masked, keys[:: a.block], -1) for f in (np.logaddexp, np.maximum))
    changes = change(sums, tops)[..., keys // a.block]
    return np.where(a.seen, a.scores + changes, -math.inf)


def _so_far(tops: Array) -> Array:
    """The largest score up to each block."""
    return np.maximum.accumulate(tops, axis=-1)


# By what a report says, with a thread that reports it, as owner/repository#number.
MISTAKES: dict[str, Callable[[Attention], Array]] = {
    "": lambda a: a.output,  # none beside the facts
    "query heads read heads of values in turn (onnx/onnx#7274)": (
        lambda a: a.weights @ in_turn(a.v, a.groups)
    ),
    "the keys are the values, too (snu-comparch/InfiniGen#5)": lambda a: a.weights @ a.k,
    "a reshape without a transpose splits the heads (reczoo/FuxiCTR#30)": (
        lambda a: replace(a, q=_split(a.q), k=_split(a.k), v=_split(a.v)).output
    ),
    "a reshape without a transpose merges the heads (jsbaan/transformer-from-scratch#6)": (
        lambda a: _merge(a.output)
    ),
    "weights sum to 1 over queries (FudanNLP/fastNLP#254)": (
        lambda a: softmax(a.masked, -2, a.sink) @ a.v
    ),
    "weights sum to 1 over heads": lambda a: softmax(a.masked, 1, a.sink) @ a.v,
    "the weights are transposed (ok1zjf/VASNet#25)": lambda a: a.weights.mT @ a.v,
    "the softmax is taken twice (zyy-2001/DisKT#6)": lambda a: softmax(a.weights) @ a.v,
    "no softmax (PaddlePaddle/PaddleOCR#4556)": lambda a: (a.scores * a.seen) @ a.v,
    "the mask multiplies weights, after the softmax (huggingface/pytorch-image-models#2236)": (
        lambda a: softmax(a.scores, sink=a.sink) * ~a.hidden @ a.v
    ),
    "a sigmoid in place of the softmax": lambda a: 1 / (1 + np.exp(-a.masked)) @ a.v,
    "q is added to the output": lambda a: a.output + a.q,
    "all outputs are 0 or no number": lambda a: 0 * a.output,
    "hidden keys have a finite score, such as -10000 (huggingface/transformers#12109)": (
        lambda a: softmax(np.where(a.seen, a.scores, -_FAR)) @ a.v
    ),
    "the sink is added without the maximum": (
        lambda a: softmax(a.masked, sink=a.sink + a.top) @ a.v
    ),
    "scores are clipped": lambda a: softmax(a.masked.clip(-_FAR, _FAR)) @ a.v,
    "low rows are lost: the maximum starts at 0, or is that of all (flashinfer-ai/flashinfer#4267)": (
        lambda a: np.where(a.top < -_FAR, 0, a.output)
    ),
    "no maximum is subtracted: e^s is 0 or inf (prescient-design/e3tools#3)": (
        lambda a: np.where(np.abs(a.top) > _FAR, 0, a.output)
    ),
    "blocks of keys are merged by log2 sums as natural ones (sgl-project/sglang#35045)": (
        lambda a: softmax(_blocks(a, lambda sums, _: sums / math.log(2) - sums)) @ a.v
    ),
    "blocks of keys are merged by sums without their maximum": (
        lambda a: softmax(_blocks(a, lambda _, tops: -tops)) @ a.v
    ),
    "blocks of keys are merged with equal shares": (
        lambda a: softmax(_blocks(a, lambda sums, _: -sums)) @ a.v
    ),
    "blocks of keys are not rescaled by a larger maximum": (
        lambda a: softmax(_blocks(a, lambda _, tops: -_so_far(tops))) @ a.v
    ),
    "blocks of keys are not rescaled by a larger maximum in the output": lambda a: (
        a.weights
        * np.exp(_blocks(a, lambda _, x: x.max(-1, keepdims=True) - _so_far(x)) - a.scores)
        @ a.v
    ),
    "blocks of keys are scaled once more each": lambda a: (
        softmax(a.masked * a.multiplier ** (np.arange(a.masked.shape[-1]) // a.block)) @ a.v
    ),
}
