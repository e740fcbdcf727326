"""Facts of an audited function, read from its weights, and mistakes that no fact names."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from sdpa.auditing.computation import (
    TYPES,
    Array,
    Attention,
    Audited,
    Fact,
    Facts,
    Sizes,
    distance,
    shares,
)
from sdpa.masks import Reach

Mistake = Callable[[Attention], Array]
_POWERS = {"1/2": 0.5, "1": 1, "-1/2": -0.5, "-1": -1, "1/4": 0.25}
_FAR = 100  # scores beyond this are in cases where e^s is 0 or not finite


def weights_of(audited: Audited) -> list[Attention]:
    """Attentions whose found outputs are weights, because values are one-hot."""
    cases = []
    for case in audited.cases(TYPES[audited.dtype].spread):
        one_hot = np.eye(*case.v.shape[2:])
        v = np.broadcast_to(one_hot, case.v.shape)
        cases.append(case._replace(v=v))
    return audited.outputs(cases, [])


def facts_of(weights: list[Attention], near: float) -> dict[str, Fact]:
    """Facts of weights; those that nothing fits are absent."""
    if not weights:
        return {}
    facts = {"divisor": _divisor(weights, near), "keys": _keys(weights)}
    return {name: fact for name, fact in facts.items() if fact}


def _found(a: Attention) -> Array:
    """The weights that were found."""
    return np.nan_to_num(a.found)[..., : a.case.sizes["n_keys"]]


def _divisor(weights: list[Attention], near: float) -> Fact | None:
    """The divisor of q.k: 1 over the slope of ln w of the last query."""
    sizes, divisors = [], []
    for a in weights:
        row = _found(a)[0, 0, -1]
        seen = a.visible[0, 0, -1] & (row > 0)
        if seen.sum() > 1:
            logs = np.log(row) - a.bias[0, -1]
            scores = (a.scores - a.bias)[0, 0, -1]
            slope = np.polyfit(scores[seen], logs[seen], 1)[0]
            sizes.append(a.case.sizes)
            divisors.append(a.divisor / slope)
    if not sizes:
        return None
    for fact in _formulas(weights[0].facts.divisor):
        ratios = np.divide(divisors, [fact.of(x) for x in sizes])
        if np.allclose(ratios, ratios[0], rtol=near, atol=0):
            return _times(fact, ratios[0], near)
    return None


def _times(fact: Fact, ratio: float, near: float) -> Fact:
    if abs(ratio - 1) < near:
        return fact
    words = f"{ratio:.4g} times {fact.words}".removesuffix(" times 1")
    return Fact(words, lambda sizes: ratio * fact.of(sizes))


def _formulas(expected: Fact) -> Iterator[Fact]:
    """The expected formula, a constant, and powers of sizes."""
    yield expected
    yield Fact("1", lambda _: 1.0)
    for words, power in _POWERS.items():
        for name in "d_k", "n_keys", "d_v", "n_heads":
            yield Fact(f"{name}^{words}", partial(_power, name, power))
    yield Fact("(n_heads d_k)^1/2", lambda sizes: math.sqrt(sizes["n_heads"] * sizes["d_k"]))
    yield Fact("(d_k up to whole 128s)^1/2", lambda sizes: math.sqrt(-(-sizes["d_k"] // 128) * 128))


def _power(name: str, power: float, sizes: Sizes) -> float:
    return float(sizes[name] ** power)


def _keys(weights: list[Attention]) -> Fact | None:
    """The keys that have a weight; rows without keys say nothing."""
    for fact in _masks(weights[0]):
        if all(_agree(fact.of(a.case.sizes), _found(a) != 0) for a in weights):
            return fact
    return None


def _agree(seen: Array, weighted: Array) -> bool:
    is_empty = ~seen.any(axis=-1, keepdims=True)
    agree = (seen == weighted) | is_empty
    return bool(agree.all() and not is_empty.all())


def _masks(a: Attention) -> Iterator[Fact]:
    """Masks: the expected one, its opposite, and those by position that agree with late queries."""
    expected = a.facts.keys
    yield expected
    yield Fact("those that should be hidden", lambda sizes: ~expected.of(sizes))
    for first in False, True:
        weighted = _found(a)[0, 0] != 0
        late = distance(a.case.sizes, first=first)[-8:]
        seen = late[weighted[-8:]]
        for behind in math.inf, -seen.min(initial=0):
            for ahead in math.inf, seen.max(initial=-99):
                yield Fact.by_position(Reach(behind, ahead), first=first)


def _turned(x: Array) -> Array:
    """Heads and positions exchanged."""
    return x.swapaxes(1, 2)


def _split(x: Array) -> Array:
    """Heads that a reshape without a transpose gives."""
    return _turned(x).reshape(x.shape)


def _in_turn(a: Attention) -> Array:
    times = 1, a.facts.groups, 1, 1
    k = np.tile(a.case.k, times)
    v = np.tile(a.case.v, times)
    return a.but(k=k, v=v, groups=1)


# By what a report says, with a thread that reports it, as owner/repository#number.
MISTAKES: dict[str, Mistake] = {
    "": lambda a: a.output,  # none beside the facts
    "a reshape without a transpose splits the heads (reczoo/FuxiCTR#30)": (
        lambda a: a.but(q=_split(a.case.q), k=_split(a.case.k), v=_split(a.case.v))
    ),
    "a reshape without a transpose merges the heads (jsbaan/transformer-from-scratch#6)": (
        lambda a: _turned(a.output.reshape(_turned(a.output).shape))
    ),
    "query heads read heads of keys in turn (onnx/onnx#7274)": _in_turn,
    "the keys are reshaped, not transposed (rish-16/tokenlearner-pytorch#1)": (
        lambda a: a.but(k=a.case.k.reshape(a.case.k.mT.shape).mT)
    ),
    "queries and keys are exchanged (karpathy/llm.c#531)": lambda a: a.but(q=a.k, k=a.case.q),
    "the weights are transposed (ok1zjf/VASNet#25)": lambda a: a.mean(a.weights.mT),
    "the softmax is taken twice (zyy-2001/DisKT#6)": lambda a: a.mean(shares(a.weights)),
    "the softmax runs over queries, not over keys (FudanNLP/fastNLP#254)": (
        lambda a: a.mean(shares(a.masked(), axis=-2))
    ),
    "no softmax (PaddlePaddle/PaddleOCR#4556)": lambda a: a.mean(a.scores * a.visible),
    "the mask multiplies weights, after the softmax (huggingface/pytorch-image-models#2236)": (
        lambda a: a.mean(shares(a.scores, sink=a.facts.sink) * a.visible)
    ),
    "no sink (vllm-project/vllm-metal#550)": lambda a: a.but(sink=-math.inf),
    "no soft cap (sgl-project/sgl-kernel-xpu#491)": lambda a: a.but(cap=0),
    "hidden keys have the score 0 (hyunwoongko/transformer#10)": (lambda a: a.of(a.masked(0))),
    "hidden keys have a finite score, such as -10000 (huggingface/transformers#12109)": (
        lambda a: a.of(a.masked(-100))
    ),
    "the mask is added to scores as 0 and 1": (lambda a: a.of(a.scores + a.visible)),
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


def mistake_of(outputs: list[Attention], facts: Facts, near: float) -> str | None:
    """The mistake with which an attention of these facts has all outputs; "" for none."""
    attentions = [Attention(a.case, facts) for a in outputs]
    for words, mistake in MISTAKES.items():
        with contextlib.suppress(ValueError):  # shapes that do not fit
            if all(a.errors(mistake(a)).max() <= near for a in attentions):
                return words
    return None
