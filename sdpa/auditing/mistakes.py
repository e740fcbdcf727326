"""Mistakes that no fact names: the output of an attention that has one."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from sdpa.auditing.model import Array, Attention, in_turn, softmax

_FAR = 100  # scores beyond this are in cases where e^s is 0 or not finite
_HUGE = 1e300  # in place of infinity, which has no differences


def _split(x: Array) -> Array:
    """Heads that a reshape without a transpose gives."""
    return x.swapaxes(1, 2).reshape(x.shape)


def _merge(x: Array) -> Array:
    """Heads that a reshape without a transpose puts together again."""
    batch, heads, n, width = x.shape
    return x.reshape(batch, n, heads, width).swapaxes(1, 2)


def _of_block(a: Attention, function: np.ufunc) -> Array:
    """The sum or the maximum of the scores of each key's block."""
    starts = np.arange(0, a.masked.shape[-1], a.block)
    each = function.reduceat(a.masked, starts, axis=-1).clip(-_HUGE)
    return np.asarray(np.repeat(each, a.block, axis=-1)[..., : a.masked.shape[-1]])


def _raised(a: Attention) -> Array:
    """e^score, less the largest score up to the key's block."""
    tops = np.maximum.accumulate(_of_block(a, np.maximum), axis=-1)
    return np.asarray(np.exp(a.masked - tops))


def _sum_not_rescaled(block: int, a: Attention) -> Array:
    """The output beside a sum of e^score that has blocks' maxima, not the last one."""
    total = _raised(replace(a, block=block)).sum(axis=-1, keepdims=True)
    return np.asarray(np.exp(a.masked - a.top) / total @ a.v)


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
    "all batch entries read the values of the first one": lambda a: a.weights @ a.v[:1],
    "each value gets the weight of the key before: the sink's comes first": (
        lambda a: np.insert(a.weights[..., :-1], 0, 1 - a.weights.sum(axis=-1), axis=-1) @ a.v
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
    "the mask is added to weights, after the softmax": (
        lambda a: (softmax(a.scores, sink=a.sink) + a.least * a.hidden) @ a.v
    ),
    "a sigmoid in place of the softmax": lambda a: 1 / (1 + np.exp(-a.masked)) @ a.v,
    "q is added to the output": lambda a: a.output + a.q,
    "all outputs are 0 or no number": lambda a: 0 * a.output,
    "hidden keys have a finite score, such as -10000, or minus the soft cap (huggingface/transformers#12109)": (
        lambda a: softmax(np.where(a.seen, a.scores, -(a.cap or _FAR))) @ a.v
    ),
    "the sink, 0 if none is expected, is added without the maximum": (
        lambda a: softmax(a.masked, sink=np.nan_to_num(a.sink, neginf=0) + a.top) @ a.v
    ),
    "scores are clipped": lambda a: softmax(a.masked.clip(-_FAR, _FAR)) @ a.v,
    "low rows are lost: the maximum starts at 0, or is that of all (flashinfer-ai/flashinfer#4267)": (
        lambda a: np.where(a.top < -_FAR, 0, a.output)
    ),
    "no maximum is subtracted: e^s is 0 or inf (prescient-design/e3tools#3)": (
        lambda a: np.where(np.abs(a.top) > _FAR, 0, a.output)
    ),
    "blocks of keys are merged by log2 sums as natural ones (sgl-project/sglang#35045)": (
        lambda a: softmax(a.masked + (1 / math.log(2) - 1) * _of_block(a, np.logaddexp)) @ a.v
    ),
    "blocks of keys are merged by sums without their maximum": (
        lambda a: softmax(a.masked - _of_block(a, np.maximum)) @ a.v
    ),
    "blocks of keys are merged with equal shares": (
        lambda a: softmax(a.masked - _of_block(a, np.logaddexp)) @ a.v
    ),
    "blocks of keys are not rescaled by a larger maximum": (
        lambda a: _raised(a) / _raised(a).sum(axis=-1, keepdims=True) @ a.v
    ),
    "blocks of keys are not rescaled by a larger maximum in the output": (
        lambda a: _raised(a) / np.exp(a.masked - a.top).sum(axis=-1, keepdims=True) @ a.v
    ),
    "blocks of keys are scaled once more each": lambda a: (
        softmax(a.masked * a.multiplier ** (np.arange(a.masked.shape[-1]) // a.block)) @ a.v
    ),
} | {
    f"blocks of {n} keys are not rescaled by a larger maximum in the sum": (
        partial(_sum_not_rescaled, n)
    )
    for n in (16, 32, 64, 128)
}


def _rounded(x: Array, bits: int) -> Array:
    """Numbers of so many bits."""
    mantissa, exponent = np.frexp(x)
    return np.asarray(np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits))


def _rounded_scores(a: Attention, _: Array, bits: int) -> Array:
    coarse = replace(a, q=_rounded(a.q, bits), k=_rounded(a.k, bits))
    return softmax(_rounded(coarse.masked, bits), sink=a.sink) @ a.v


# The output of an attention with a step in so many bits, beside what is found.
STEPS: dict[str, Callable[[Attention, Array, int], Array]] = {
    "q, k and scores": _rounded_scores,
    "weights": lambda a, _, bits: _rounded(a.weights, bits) @ a.v,
    "outputs": lambda a, found, bits: np.where(_rounded(found, bits) == found, found, a.output),
}
