"""Mistakes that no fact names: the output of an attention that has one."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import numpy as np

from sdpa._arrays import Array
from sdpa.tools.auditing.model import Attention, in_turn, softmax

Mistake = Callable[[Attention], Array]
_EXTREME_SCORE = 100  # scores beyond this are in cases where e^s is 0 or not finite


def _split_heads(a: Attention) -> Array:
    """The output of an attention whose heads a reshape without a transpose gives."""
    q, k, v = (x.swapaxes(1, 2).reshape(x.shape) for x in (a.q, a.k, a.v))
    return _merge(replace(a, q=q, k=k, v=v).output)


def _swapped_axes(a: Attention) -> Array:
    """The output of an attention of (batch, n, heads, d) without a mask."""
    q, k, v = (x.swapaxes(1, 2) for x in (a.q, a.k, a.v))
    return (softmax(a.multiplier * q @ k.mT) @ v).swapaxes(1, 2)


def _merge(x: Array) -> Array:
    """Heads that a reshape without a transpose puts together again."""
    return x.reshape(x.swapaxes(1, 2).shape).swapaxes(1, 2)


def _without_strides(names: str) -> Mistake:
    """The output of an attention that reads some arrays in the order of their memory."""

    def output(a: Attention) -> Array:
        arrays = {name: getattr(a, name) for name in names}
        return replace(
            a, **{name: x.ravel("K").reshape(x.shape) for name, x in arrays.items()}
        ).output

    return output


# By what a report says, with a thread that reports it, as owner/repository#number.
MISTAKES: dict[str, Mistake] = {
    "": lambda a: a.output,  # none beside the facts
    "query heads read heads of values in turn (onnx/onnx#7274)": (
        lambda a: a.weights @ in_turn(a.v, a.groups)
    ),
    "reshapes without a transpose split and merge the heads (reczoo/FuxiCTR#30)": _split_heads,
    "a reshape without a transpose merges the heads (jsbaan/transformer-from-scratch#6)": (
        lambda a: _merge(a.output)
    ),
    "each value gets the weight of the key before, the first one that of the sink": (
        lambda a: np.insert(a.weights[..., :-1], 0, 1 - a.weights.sum(axis=-1), axis=-1) @ a.v
    ),
    "strides of q, k and v are ignored, as if views were contiguous": _without_strides("qkv"),
    "strides of k are ignored, as if views were contiguous": _without_strides("k"),
    "strides of v are ignored, as if views were contiguous (flagos-ai/FlagGems#5896)": (
        _without_strides("v")
    ),
    "positions and heads are swapped; the axes are batch, heads, n, d": _swapped_axes,
    "weights sum to 1 over queries (FudanNLP/fastNLP#254)": (
        lambda a: softmax(a.masked, -2, a.sink) @ a.v
    ),
    "weights sum to 1 over heads and keys (facebookresearch/detr#247)": (
        lambda a: softmax(a.masked, (1, 3), a.sink) @ a.v
    ),
    "the weights are transposed (ok1zjf/VASNet#25)": lambda a: a.weights.mT @ a.v,
    "weights are divided once more, by their sums over queries (MenghaoGuo/PCT#13)": (
        lambda a: a.weights / (1e-9 + a.weights.sum(axis=-2, keepdims=True)) @ a.v
    ),
    "sums so far are not scaled to each new maximum (paiml/aprender#2753)": (
        lambda a: softmax(a.masked - np.fmax.accumulate(a.masked, axis=-1)) @ a.v
    ),
    "the softmax is taken twice (zyy-2001/DisKT#6)": lambda a: softmax(a.weights) @ a.v,
    "no softmax (PaddlePaddle/PaddleOCR#4556)": lambda a: (a.scores * a.seen) @ a.v,
    "the mask multiplies weights, after the softmax (huggingface/pytorch-image-models#2236)": (
        lambda a: softmax(a.scores, sink=a.sink) * ~a.hidden @ a.v
    ),
    "hidden keys have a finite score, such as -10000, or minus the soft cap (huggingface/transformers#12109)": (
        lambda a: softmax(np.where(a.seen, a.scores, -(a.cap or _EXTREME_SCORE))) @ a.v
    ),
    "the mask adds a number such as -10000, less than scores may differ by (huggingface/transformers#14859)": (
        lambda a: softmax(a.scores - 10000 * a.hidden, sink=a.sink) @ a.v
    ),
    "the sink, 0 if none is expected, is added without the maximum": (
        lambda a: softmax(a.masked - a.top, sink=np.nan_to_num(a.sink, neginf=0)) @ a.v
    ),
    "low rows are lost: the maximum starts above them, or is that of all rows (flashinfer-ai/flashinfer#4267)": (
        lambda a: np.where(a.top < -_EXTREME_SCORE, 0, a.output)
    ),
    "rows of scores below -50000 are lost: the maximum starts there (flashinfer-ai/flashinfer#4267)": (
        lambda a: np.where(a.top < -50000, 0, a.output)
    ),
    "no maximum is subtracted: e^s is 0 or inf (prescient-design/e3tools#3)": (
        lambda a: np.where(np.abs(a.top) > _EXTREME_SCORE, 0, a.output)
    ),
    "q·k is more than float16 has, before the scale (PaddlePaddle/Paddle#41933)": (
        lambda a: np.where(np.abs(a.q @ a.k.mT).max(axis=-1, keepdims=True) > 65504, 0, a.output)
    ),
}

Moved = Callable[[Attention, Attention], Array]  # from inputs after and before a small step


def _within(is_first: bool) -> Moved:
    """The output if pairs of queries and keys beyond a causal mask do not move."""

    def output(a: Attention, before: Attention) -> Array:
        own = a.distance[0, 0] if is_first else 0
        moves = np.broadcast_to(a.distance <= own, a.seen.shape)
        w = softmax(np.where(moves, a.masked, before.masked), sink=a.sink)
        return np.asarray((w * moves) @ a.v + (w * ~moves) @ before.v)

    return output


# By what a report says, of which output a gradient is the one.
GRADIENTS: dict[str, Moved] = {
    "right": lambda a, _: a.output,
    "of the first head in each group, not their sum": (
        lambda a, _: a.output * (np.arange(a.q.shape[1])[:, None, None] % a.groups == 0)
    ),
    "of the last head in each group, not their sum": (
        lambda a, _: a.output * (np.arange(1, 1 + a.q.shape[1])[:, None, None] % a.groups == 0)
    ),
    "as if no key were hidden": lambda a, _: replace(a, seen=np.ones_like(a.seen)).output,
    "of pairs within a causal mask alone": _within(False),
    "of pairs within a causal mask alone, with queries at the first positions": _within(True),
    "as if there were no sink": lambda a, _: replace(a, sink=np.array(-inf)).output,
    "without the row sum of output times its gradient": (
        lambda a, before: before.weights * np.exp(a.scores - before.scores) @ a.v
    ),
    "without the derivative of the soft cap (Dao-AILab/flash-attention#1033)": (
        lambda a, before: (
            softmax(
                before.masked + a.multiplier * (a.q @ a.k.mT - before.q @ before.k.mT), sink=a.sink
            )
            @ a.v
        )
    ),
    "as if query heads read keys and values in turn": (
        lambda a, _: replace(a, k=in_turn(a.k, a.groups), v=in_turn(a.v, a.groups)).output
    ),
}
