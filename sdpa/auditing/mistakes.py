"""Mistakes that no fact names: the output of an attention that has one."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from sdpa.auditing.model import Array, Attention, in_turn, softmax

Mistake = Callable[[Attention], Array]
_FAR = 100  # scores beyond this are in cases where e^s is 0 or not finite
_HUGE = 1e300  # in place of infinity, which has no differences


def _split(x: Array) -> Array:
    """Heads that a reshape without a transpose gives."""
    return x.swapaxes(1, 2).reshape(x.shape)


def _merge(x: Array) -> Array:
    """Heads that a reshape without a transpose puts together again."""
    return x.reshape(x.swapaxes(1, 2).shape).swapaxes(1, 2)


def _of_block(a: Attention, size: int, function: np.ufunc) -> Array:
    """The sum or the maximum of the scores of each key's block."""
    n_keys = a.masked.shape[-1]
    each = function.reduceat(a.masked, range(0, n_keys, size), axis=-1).clip(-_HUGE)
    return np.asarray(np.repeat(each, size, axis=-1)[..., :n_keys])


def _raised(a: Attention, size: int) -> Array:
    """e^score, less the largest score up to the key's block."""
    tops = np.maximum.accumulate(_of_block(a, size, np.maximum), axis=-1)
    return np.asarray(np.exp(a.masked - tops))


def _over(shares: Array, others: Array) -> Array:
    """Shares beside the sum of others, in rows."""
    return np.asarray(shares / others.sum(axis=-1, keepdims=True))


# By what a report says, with a thread that reports it, as owner/repository#number.
MISTAKES: dict[str, Mistake] = {
    "all outputs are 0 or no number": lambda a: 0 * a.output,
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
    "hidden keys have a finite score, such as -10000, or minus the soft cap (huggingface/transformers#12109)": (
        lambda a: softmax(np.where(a.seen, a.scores, -(a.cap or _FAR))) @ a.v
    ),
    "the sink, 0 if none is expected, is added without the maximum": (
        lambda a: softmax(a.masked, sink=np.nan_to_num(a.sink, neginf=0) + a.top) @ a.v
    ),
    "low rows are lost: the maximum starts at 0, or is that of all (flashinfer-ai/flashinfer#4267)": (
        lambda a: np.where(a.top < -_FAR, 0, a.output)
    ),
    "no maximum is subtracted: e^s is 0 or inf (prescient-design/e3tools#3)": (
        lambda a: np.where(np.abs(a.top) > _FAR, 0, a.output)
    ),
}
# The same in kernels that read blocks of so many keys.
BLOCKS: dict[str, Callable[[int, Attention], Array]] = {
    "merged by log2 sums as natural ones (sgl-project/sglang#35045)": lambda size, a: (
        softmax(a.masked + (1 / math.log(2) - 1) * _of_block(a, size, np.logaddexp)) @ a.v
    ),
    "merged by sums without their maximum": (
        lambda size, a: softmax(a.masked - _of_block(a, size, np.maximum)) @ a.v
    ),
    "not rescaled by a larger maximum": (
        lambda size, a: _over(_raised(a, size), _raised(a, size)) @ a.v
    ),
    "not rescaled by a larger maximum in the output": (
        lambda size, a: _over(_raised(a, size), np.exp(a.masked - a.top)) @ a.v
    ),
    "not rescaled by a larger maximum in the sum": (
        lambda size, a: _over(np.exp(a.masked - a.top), _raised(a, size)) @ a.v
    ),
    "scaled once more each": lambda size, a: (
        softmax(a.masked * a.multiplier ** (np.arange(a.masked.shape[-1]) // size)) @ a.v
    ),
}
MISTAKES |= {
    f"blocks of {size} keys are {words}": partial(BLOCKS[words], size)
    for words, size in product(BLOCKS, (16, 32, 64, 128, 256))
}
_STEPS: dict[str, Callable[[str, Attention], Array]] = {
    "q and k": lambda kind, a: replace(a, q=a.q.astype(kind), k=a.k.astype(kind)).output,
    "weights": lambda kind, a: a.weights.astype(kind) @ a.v,
}
# Steps in a coarser type.
COARSE = {"": MISTAKES[""]} | {
    f"{step} in {kind}": partial(_STEPS[step], kind)
    for kind, step in product(("float16", "float32"), _STEPS)
}
