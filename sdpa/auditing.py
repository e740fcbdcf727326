"""The audit of an attention function from its outputs alone: facts, and the mistake if it has one.

Outputs are compared with those of `Facts`, in double precision. Facts of a function are read from its
weights (the outputs of one-hot values). They are the mistake if an attention with them has all
outputs; else each of `MISTAKES` is tried, and what nothing explains is described.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import itertools
import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from sdpa._names import not_among
from sdpa.masks import Reach, broadcast_mask, reach_of
from sdpa.row_maps import RowMap, rotated
from sdpa.scaling import SCALED, Rule, resolve_divisor

# By type: the distance from 1 to the next number, the spread of scores from which facts are read, and
# the precision of these.
_TYPES = {
    "float64": (2**-52, 1e-3, 1e-4),
    "float32": (2**-23, 0.05, 1e-3),
    "float16": (2**-10, 1.0, 0.05),
    "bfloat16": (2**-7, 1.0, 0.05),
}
EMPTY = "any", "zero", "nan", "uniform"
_ROUNDED = "errors are at most {:.1g} of the scores; float16 rounds to 5e-4, float32 to 6e-8"
_POWERS = {"-1/2": -0.5, "1/2": 0.5, "-1": -1, "1": 1, "-1/4": -0.25, "1/4": 0.25}
_BLOCKS = 16, 32, 64, 128, 256
Attention = Callable[..., Any]
Named = tuple[str, Any]  # a fact in words, and as the value of a field of `Facts`


@dataclass(frozen=True)
class Case:
    """q, k and v, (batch, heads, n, d); k and v may have fewer heads."""

    q: Any
    k: Any
    v: Any

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes that a multiplier may depend on."""
        (batch, heads, n_queries, d_k), (n_keys, d_v) = self.q.shape, self.v.shape[2:]
        sizes = {"d_k": d_k, "n_keys": n_keys, "n_heads": heads, "d_model": heads * d_k}
        return sizes | {"d_v": d_v, "n_queries": n_queries, "batch": batch}

    @property
    def keys(self) -> Any:
        """The positions of the keys."""
        return np.arange(self.k.shape[2])

    def own(self, *, first: bool = False) -> Any:
        """The positions of the queries, (n_queries, 1): the last ones, or the first."""
        n_queries = self.q.shape[2]
        return np.arange(n_queries)[:, None] + (not first) * (self.k.shape[2] - n_queries)

    def __str__(self) -> str:
        return f"n_queries {self.q.shape[2]}, n_keys {len(self.keys)}, d_k {self.q.shape[3]}"


@dataclass(frozen=True)
class Facts:
    """What an attention computes; functions are of a `Case`."""

    scores: Callable[[Case], Any]  # q.k times this
    vectors: bool  # True: unit q and k
    bias: Any  # minus the distance times this, one number or one for each head
    cap: float
    keys: Callable[[Case], Any]  # those that a query sees
    hidden: float  # what the others add to their scores
    sums: Callable[[Case], Any]  # of weights, over these axes:
    axes: tuple[int, ...]
    sink: Any  # a logit, or one for each head
    heads: Callable[[Case], Any]  # the head of keys of each head


def shares(s: Any, axes: Any = -1, sink: Any = -math.inf) -> Any:
    """The softmax along axes, beside a sink; NaN where no score is finite."""
    top = s.max(axis=axes, keepdims=True)
    e = np.exp(s - top)
    return e / (e.sum(axis=axes, keepdims=True) + np.exp(sink - top))


class Steps:
    """The steps of an attention with these facts: scores s, weights w and the output."""

    def __init__(self, case: Case, facts: Facts) -> None:
        self.case, self.facts = case, facts
        index = facts.heads(case)
        self.q, self.k, self.v = case.q, case.k[:, index], case.v[:, index]
        bias, self.sink = (
            np.reshape(x, (-1, 1, 1))[: len(index)] for x in (facts.bias, facts.sink)
        )
        self.m, self.visible = facts.scores(case), facts.keys(case)
        self.bias = bias * (case.keys - case.own())
        self.s = self.scores(self.q, self.k)
        self.w = self.weights(self.s)
        self.output = self.of(self.w)

    def scores(self, q: Any, k: Any) -> Any:
        """The scores before the mask."""
        if self.facts.vectors:
            q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
        return self.capped(self.m * (q @ k.mT)) + self.bias

    def capped(self, s: Any) -> Any:
        """Scores within the soft cap."""
        cap = self.facts.cap
        return cap * np.tanh(s / cap) if cap else s

    def masked(self, s: Any) -> Any:
        """The scores behind the mask."""
        return np.where(self.visible, s, s + self.facts.hidden)

    def weights(self, s: Any) -> Any:
        """The weights of scores before the mask."""
        return self.facts.sums(self.case) * shares(self.masked(s), self.facts.axes, self.sink)

    def of(self, weights: Any, v: Any = None) -> Any:
        """The weighted values; NaN, which says nothing, for queries that see no key."""
        out = np.nan_to_num(weights) @ (self.v if v is None else v)
        empty = ~np.broadcast_to(self.visible, self.s.shape).any(axis=-1, keepdims=True)
        return np.where(empty, math.nan, out)

    def attend(self, q: Any, k: Any, v: Any = None) -> Any:
        """The output of other arrays."""
        return self.of(self.weights(self.scores(q, k)), v)

    def instead(self, score: Any) -> Any:
        """The output if hidden keys have a score."""
        return self.of(shares(np.where(self.visible, self.s, score), sink=self.sink))

    def blocks(self, size: int) -> tuple[Any, Any, Any]:
        """Softmaxes of blocks of keys, (blocks, ..., n_keys), the logarithms of their sums, and
        their largest scores.
        """
        s = self.masked(self.s)
        places = self.case.keys // size
        apart = np.stack([np.where(places == i, s, -math.inf) for i in range(places[-1] + 1)])
        sums = logsumexp(apart, axis=-1, keepdims=True)
        return np.exp(apart - sums), sums, apart.max(axis=-1, keepdims=True)

    def turned(self, first: slice, second: slice) -> Any:
        """The output of RoPE, whose pairs of entries are those of two slices."""
        q, k = (np.concatenate([x[..., first], x[..., second]], axis=-1) for x in (self.q, self.k))
        return self.attend(rotated(q, self.case.own()[:, 0]), rotated(k, self.case.keys))


def _split(x: Any) -> Any:
    return x.swapaxes(1, 2).reshape(x.shape)


Mistake = tuple[str, str, Callable[[Steps], Any]]
# What no fact names: in words, a thread as owner/repository#number, and the output.
MISTAKES: list[Mistake] = [
    (
        "a reshape without a transpose splits the heads",
        "reczoo/FuxiCTR#30",
        lambda a: a.attend(*map(_split, (a.q, a.k, a.v))),
    ),
    (
        "a reshape without a transpose merges the heads",
        "jsbaan/transformer-from-scratch#6",
        lambda a: a.output.reshape(a.output.swapaxes(1, 2).shape).swapaxes(1, 2),
    ),
    (
        "each position attends over its heads",
        "huggingface/diffusers#14338",
        lambda a: np.einsum(
            "bnhg,bgnd->bhnd", shares(a.m * np.einsum("bhnd,bgnd->bnhg", a.q, a.k)), a.v
        ),
    ),
    (
        "the keys are reshaped, not transposed",
        "rish-16/tokenlearner-pytorch#1",
        lambda a: a.attend(a.q, a.k.reshape(a.k.mT.shape).mT),
    ),
    ("queries and keys are exchanged", "karpathy/llm.c#531", lambda a: a.attend(a.k, a.q)),
    ("the weights are transposed", "ok1zjf/VASNet#25", lambda a: a.of(a.w.mT)),
    ("the keys are the values, too", "snu-comparch/InfiniGen#5", lambda a: a.of(a.w, a.k)),
    (
        "q and k are rotated (RoPE of halves)",
        "karpathy/nanochat#264",
        lambda a: a.turned(slice(a.q.shape[3] // 2), slice(a.q.shape[3] // 2, None)),
    ),
    (
        "q and k are rotated (RoPE of pairs)",
        "tenstorrent/tt-metal#26844",
        lambda a: a.turned(slice(0, None, 2), slice(1, None, 2)),
    ),
    ("the softmax is taken twice", "zyy-2001/DisKT#6", lambda a: a.of(shares(a.w))),
    ("no softmax", "PaddlePaddle/PaddleOCR#4556", lambda a: a.of(a.s * a.visible)),
    (
        "the mask multiplies weights, after the softmax",
        "huggingface/pytorch-image-models#2236",
        lambda a: a.of(shares(a.s, sink=a.sink) * a.visible),
    ),
    ("hidden keys have the score 0", "georg-wolflein/good-features#1", lambda a: a.instead(0.0)),
    ("hidden keys have the score -10000", "hyunwoongko/transformer#10", lambda a: a.instead(-1e4)),
    (
        "hidden keys get -10000, not -inf",
        "huggingface/transformers#12109",
        lambda a: a.instead(a.s - 1e4),
    ),
    (
        "the soft cap comes after the mask",
        "onnx/onnx#7865",
        lambda a: a.instead(-a.facts.cap),
    ),
    (
        "the soft cap comes before the multiplier",
        "huggingface/trl#5691",
        lambda a: a.of(a.weights(a.m * a.capped(a.q @ a.k.mT) + a.bias)),
    ),
    (
        "the bias falls on both sides",
        "ml-explore/mlx#343",
        lambda a: a.of(a.weights(a.s - a.bias - np.abs(a.bias))),
    ),
    (
        "softmax1 adds 1 after the maximum was subtracted",
        "kyegomez/AttentionIsOFFByOne#6",
        lambda a: a.of(shares(a.masked(a.s), sink=a.masked(a.s).max(axis=-1, keepdims=True))),
    ),
]


def _cap(cap: float) -> Mistake:
    def output(a: Steps) -> Any:
        return Steps(a.case, replace(a.facts, cap=cap)).output

    words = f"the soft cap is {cap:g}" if cap else "no soft cap"
    return words, "sgl-project/sgl-kernel-xpu#491", output


def _beyond(words: str, thread: str, low: float, high: float, value: float) -> Mistake:
    """A value, inf for NaN, in rows whose largest score is beyond limits."""

    def output(a: Steps) -> Any:
        top = a.masked(a.s).max(axis=-1, keepdims=True)
        return np.where((top < low) | (top > high), value, a.output)

    return words, thread, output


def _merged(size: int) -> list[Mistake]:
    """Mistakes of merging blocks of keys."""

    def by(words: str, thread: str, share: Callable[[Any, Any], Any]) -> Mistake:
        def output(a: Steps) -> Any:
            weights, sums, tops = a.blocks(size)
            return a.of(np.nansum(weights * share(sums, tops), axis=0))

        return f"blocks of {size} keys are merged by {words}", thread, output

    def running(tops: Any) -> Any:
        return np.maximum.accumulate(tops, axis=0)

    def last(sums: Any, tops: Any) -> Any:
        before = np.concatenate([tops[:1], tops[:-1]])
        larger = np.maximum(before, tops)
        return shares(sums - larger - (before - larger).cumsum(axis=0), 0)

    return [
        by("log2 sums as natural ones", _LOG2, lambda s, _: shares(s / math.log(2), 0)),
        by("sums without their maximum", "", lambda s, top: shares(s - top, 0)),
        by("the maximum of the last block", "Dao-AILab/flash-attention#2082", last),
        by("unscaled outputs and sums", "", lambda s, top: shares(s - running(top), 0)),
        by(
            "outputs that no larger maximum rescales",
            "",
            lambda s, top: np.exp(s - running(top)) / np.exp(s - top.max(axis=0)).sum(axis=0),
        ),
        (
            f"the multiplier comes once more in each block of {size} keys",
            "",
            lambda a: a.of(a.weights(a.s * a.m ** (a.case.keys // size))),
        ),
        (
            f"zero keys that pad rows to blocks of {size} have weights",
            "flashinfer-ai/flashinfer#5090",
            lambda a: a.of(shares(a.masked(a.s), sink=np.log(-len(a.case.keys) % size))),
        ),
    ]


_LOG2 = "sgl-project/sglang#35045"
MISTAKES += map(_cap, (0.0, 15.0, 20.0, 30.0, 50.0))
for _low, _high in ((-745.2, 709.8), (-103.9, 88.7)):  # of e^s in two types
    _words, _thread = "the running maximum starts at 0:", "flashinfer-ai/flashinfer#4267"
    MISTAKES += [
        _beyond(
            f"no maximum: e^s beyond {_high}", "prescient-design/e3tools#3", _low, _high, math.inf
        ),
        _beyond(f"{_words} zeros below {_low}", _thread, _low, math.inf, 0.0),
        _beyond(f"{_words} NaN below {_low}", _thread, _low, math.inf, math.inf),
    ]
MISTAKES += itertools.chain(*map(_merged, _BLOCKS))
_ALL = Reach(math.inf, math.inf)
_OVER = {"keys": (-1,), "queries": (-2,), "heads": (1,), "batch": (0,), "heads and keys": (1, -1)}
# Threads about facts, by their words.
THREADS = {
    "1": "mlc-ai/mlc-llm#3426",
    "d_k^-1/2": "pytorch/torchtitan#2170",
    "d_k^-1": "delzac/cntkx#10",
    "d_k^1/2": "esceptico/perceiver-io#9",
    "d_k^-1/4": "openai/guided-diffusion#38",
    "d_model^-1/2": "lucidrains/vit-pytorch#65",
    "n_heads^-1/2": "tenstorrent/tt-metal#56789",
    "all": "jax-ml/jax#19237",
    "those that should be hidden": "InseeFrLab/torchTextClassifiers#92",
    "-inf to 0 from its own, queries at the first positions": "ml-explore/mlx#2835",
    "-inf to 1 from its own": "RVC-Boss/GPT-SoVITS#965",
    "-inf to -1 from its own": "pbloem/former#10",
    "0 to 0 from its own": "pytorch-tpu/transformers#34",
    "d_k^-1/2 over keys": "FrancescoSaverioZuppichini/ViT#2",
    "0 to inf from its own": "karpathy/nanoGPT#170",
    "-1": "huggingface/diffusers#14342",
    "1 over queries": "labmlai/annotated_deep_learning_paper_implementations#146",
    "1 over heads": "FudanNLP/fastNLP#254",
    "1 over batch": "PetrochukM/PyTorch-NLP#2",
    "1 over heads and keys": "facebookresearch/detr#247",
    "none": "vllm-project/vllm-metal#550",
    "by query heads in turn": "onnx/onnx#7274",
    "0 for all query heads": "PSAL-POSTECH/ONNXim#33",
}


def _text(numbers: Any) -> str:
    """A number, or several if they differ."""
    return ", ".join(dict.fromkeys(f"{x:.4g}" for x in np.ravel(numbers)))


def _named(cases: list[Case], found: list[Any], usual: Named, near: float) -> Named | None:
    """The usual number, a formula, or a constant that is near the numbers found."""

    def formulas(case: Case) -> dict[str, float]:
        of, sizes = usual[1](case), case.sizes
        plain = {"1": 1.0, "1/(1 + d_k^1/2)": 1 / (1 + sizes["d_k"] ** 0.5)}
        for name, size in sizes.items():
            plain |= {f"{name}^{words}": size**power for words, power in _POWERS.items()}
        plain["ln n_keys"] = math.log(sizes["n_keys"])
        times = {f"{words} times the expected one": of * x for words, x in plain.items()}
        fitted = {_text(x): x for x in found[:1]}
        ratio = found[0] / usual[1](cases[0])
        fitted[f"{_text(ratio)} times the expected one"] = of * ratio
        filled = {
            f"(d_k up to whole {n}s)^-1/2": (-(-sizes["d_k"] // n) * n) ** -0.5
            for n in (128, 64, 256, 32, 16)
        }
        return {usual[0]: of} | plain | times | fitted | filled

    tables = [formulas(case) for case in cases]
    for words in tables[0]:
        if np.allclose([table[words] for table in tables], found, rtol=near, atol=0):
            return words, lambda case, words=words: formulas(case)[words]
    return None


def _masks(expected: Named, seen: Any, case: Case) -> Iterator[Named]:
    """Masks: the expected one, others, and those by position that agree with the keys seen."""
    yield expected
    yield "those that should be hidden", lambda c: ~expected[1](c)
    yield "the expected ones but the last", lambda c: expected[1](c) & (c.keys < c.keys[-1])
    for first, words in ((False, ""), (True, ", queries at the first positions")):
        distance = (case.keys - case.own(first=first))[seen]
        for low, high in itertools.product((-math.inf, distance.min()), (math.inf, distance.max())):
            reach = Reach(-low, high)
            yield (
                "all" if reach == _ALL else f"{low:g} to {high:g} from its own{words}",
                lambda c, first=first, reach=reach: reach.sees(c.own(first=first), c.keys),
            )
    for size in _BLOCKS:
        words = f"those up to the end of its block of {size}"
        yield words, lambda c, size=size: c.keys // size <= c.own() // size


class _UnusableError(Exception):
    """The function raised, changed its arguments, or returned something else than an output."""


@dataclass(frozen=True)
class Audited:
    """A function, the type of its arrays, and what it should compute, as facts and in words."""

    function: Attention
    dtype: str
    facts: Facts
    words: dict[str, str]

    def case(self, sizes: dict[str, int], spread: float, shift: float) -> Case:
        """Arrays whose expected scores have a spread about a shift."""
        rng = np.random.default_rng([*sizes.values()])
        batch, heads, groups, n_queries, n_keys, d_k, d_v = sizes.values()
        q = rng.standard_normal((batch, heads, n_queries, d_k))
        k, v = (rng.standard_normal((batch, groups, n_keys, d)) for d in (d_k, d_v))
        m = self.facts.scores(Case(q, k, v))
        q *= spread / m / d_k**0.5
        if shift:
            q[..., 0] = math.sqrt(abs(shift) / m)
            k[..., 0] = shift / m / q[0, 0, 0, 0]
        return Case(*(x.astype(self.dtype).astype(float) for x in (q, k, v)))

    def call(self, function: Attention, case: Case, *more: Any) -> list[Any]:
        """What a function returns, as doubles: an output, or beside more arrays gradients."""
        given = [x.astype(self.dtype) for x in (case.q, case.k, case.v, *more)]
        copies = [x.copy() for x in given]
        wanted = [x.shape for x in given[:3]] if more else [(*case.q.shape[:3], case.v.shape[3])]
        try:
            with np.errstate(all="ignore"):
                result = function(*copies)
                found = [np.asarray(x).astype(float) for x in (result if more else [result])]
        except (Exception, SystemExit) as error:  # whatever it raises is a result of the audit
            raise _UnusableError(
                f"arrays of {self.dtype} raise {type(error).__name__}: {error}"
            ) from error
        shapes = [x.shape for x in found]
        if shapes != wanted or not all(map(np.array_equal, copies, given)):
            raise _UnusableError(f"expected {wanted} and arguments as they were, got {shapes}")
        return found

    def size(self, case: Case) -> float:
        """The largest score that rounding knows of, and 2 for the sums behind."""
        lengths = (np.linalg.norm(x, axis=-1).max() for x in (case.q, case.k))
        product = 1.0 if self.facts.vectors else math.prod(lengths)
        bias = np.abs(self.facts.bias).max() * len(case.keys)
        return float(2 + self.facts.scores(case) * product + bias)

    def off(self, case: Case, found: Any, output: Any, fitted: float = 0.0) -> Any:
        """The deviation of rows over what rounding may do, (batch, heads, n_queries). NaN in an
        output says nothing, inf stands for all that is not finite.
        """
        eps = _TYPES[self.dtype][0]
        allowed = (
            max((8 if eps < 1e-4 else 1) * eps * self.size(case), fitted) * np.abs(case.v).max()
        )
        is_same = np.isnan(output) | (np.isinf(output) & ~np.isfinite(found))
        off = np.where(is_same, 0.0, np.abs(found - output)).max(axis=-1) / allowed
        return np.nan_to_num(off, nan=math.inf)

    def weights(self, case: Case) -> Any:
        """Outputs of one-hot values: (batch, head, query, batch, head, key)."""
        shape, n = case.v.shape, math.prod(case.v.shape[:3])
        found = [
            self.call(self.function, replace(case, v=np.eye(n, shape[3], -start).reshape(shape)))[0]
            for start in range(0, n, shape[3])
        ]
        return np.nan_to_num(np.concatenate(found, -1)[..., :n]).reshape(
            *case.q.shape[:3], *shape[:3]
        )


def _slopes(w: Any, regressors: Any, axes: tuple[int, ...]) -> tuple[Any, float]:
    """Coefficients of least squares of ln w about its mean along axes, and the share left over."""
    columns = []
    for x in (np.log(w), *regressors):
        known = np.ma.array(x, mask=w <= 0)
        columns.append((known - known.mean(axis=axes, keepdims=True)).compressed())
    y, x = columns[0], np.transpose(columns[1:])
    found = np.linalg.lstsq(x, y)[0]
    return found, float(np.linalg.norm(y - x @ found) / np.linalg.norm(y))


def _vectors(unit: bool) -> Named:
    return ("unit q and k" if unit else "q and k"), unit


def _by_head(numbers: list[Any], case: Case) -> Any:
    return np.reshape([of(case) for of in numbers], (-1, 1, 1))[: case.q.shape[1]]


def _read(audited: Audited, probes: list[Case]) -> dict[str, Named]:
    """Facts of the weights of cases, by field; None for what is no fact of an attention."""
    facts, words, near = audited.facts, audited.words, _TYPES[audited.dtype][2]
    full, cases = [], []
    for case in probes:
        with contextlib.suppress(_UnusableError):  # of a size that it refuses
            full.append(audited.weights(case))
            cases.append(case)
    if not cases:
        return {}
    mass = np.abs(full[0]).sum(axis=(2, 5))
    own = np.einsum("bhbg->hg", mass)
    index = own.argmax(axis=1)
    if not own.max(axis=1).sum() > (1 - near) * mass.sum():
        return {"heads": ("values of other heads or batch entries, too", None)}
    heads: list[Named] = [
        (words["heads"], facts.heads),
        ("by query heads in turn", lambda c: np.arange(c.q.shape[1]) % c.k.shape[1]),
        (f"{_text(index)} for all query heads", lambda c: index[: c.q.shape[1]]),
    ]
    found = {"heads": next(each for each in heads if (each[1](cases[0]) == index).all())}
    w = []
    for case, x in zip(cases, full, strict=True):
        batch = np.arange(len(x))[:, None]
        w.append(x[batch, np.arange(x.shape[1]), :, batch, found["heads"][1](case)])
    for over, axes in _OVER.items():
        sums = [x.sum(axis=axes)[x.sum(axis=axes) != 0] for x in w]
        if np.ptp(sums[0]) < near / 100 * np.abs(sums[0]).max():
            means = [x.mean() for x in sums]
            if total := _named(cases, means, ("1", lambda _: 1.0), near / 10):
                found |= {"sums": (f"{total[0]} over {over}", total[1]), "axes": ("", axes)}
                break
    else:
        axes = (-1,)
    seen = [x != 0 for x in w]
    for keys in _masks((words["keys"], facts.keys), seen[-1][0, 0], cases[-1]):
        if all((keys[1](case) == x).all() for case, x in zip(cases, seen, strict=True)):
            found["keys"] = keys
            break
    else:
        found["keys"] = f"{seen[0][0, 0].sum(axis=-1).tolist()} of {len(cases[0].keys)}", None
    for vectors in (facts.vectors, not facts.vectors):
        plain: dict[str, Any] = {
            "scores": lambda _: 1.0,
            "vectors": vectors,
            "bias": 0.0,
            "cap": 0.0,
        }
        lines = []
        for case, x in zip(cases, w, strict=True):
            s = Steps(case, replace(facts, **plain, heads=found["heads"][1])).s
            others = case.keys - case.own(), ~facts.keys(case)
            regressors = np.stack([s, *(each + 0 * s for each in others)])
            parts = [slice(None)] if 1 in axes else [[i] for i in range(x.shape[1])]
            lines.append([_slopes(x[:, i], regressors[:, :, i], axes) for i in parts])
        if max(rest for each in lines for _, rest in each) < 30 * near:
            break
    else:
        return found | {"scores": ("no number", None)}
    slopes = [np.array([slope for slope, _ in each]) for each in lines]
    found["vectors"] = _vectors(vectors)
    named = []
    for i in range(len(slopes[0])):
        of = [(case, x[i, 0]) for case, x in zip(cases, slopes, strict=True) if i < len(x)]
        usual = words["scores"], facts.scores
        named.append(_named([case for case, _ in of], [x for _, x in of], usual, near))
    texts = [each[0] if each else "no formula" for each in named]
    if len(set(texts)) == 1:
        found["scores"] = named[0] or (f"{_text([x[0, 0] for x in slopes])} at several sizes", None)
    else:
        numbers = [each[1] if each else None for each in named]
        found["scores"] = f"{', '.join(texts)} by head", functools.partial(_by_head, numbers)
    bias, hidden = slopes[0][:, 1], slopes[0][:, 2].mean()
    bias = np.where(np.abs(bias) > near, bias, 0.0)
    if np.abs(bias - np.ravel(facts.bias)).max() > near:
        found["bias"] = _text(bias), bias
    if abs(hidden) > near:
        found |= {"hidden": (f"{hidden:.4g}", hidden), "keys": (words["keys"], facts.keys)}
    values = {name: value for name, (_, value) in found.items() if value is not None}
    sums = w[0].sum(axis=-1)
    if axes == (-1,) and (sums < 1 - near / 100).any():
        s = Steps(cases[0], replace(facts, **values))
        logits = np.log(1 / sums - 1) + logsumexp(s.masked(s.s), axis=-1)
        sink = logits.mean(axis=(0, 2))
        if np.allclose(logits, sink[:, None], atol=near):
            found |= {"sink": (_text(sink), sink), "sums": (words["sums"], facts.sums)}
    elif np.isfinite(facts.sink).any():
        found["sink"] = "none", -math.inf
    return found


@dataclass(frozen=True)
class Audit:
    """What was found about a function.

    Attributes:
        name: that of the function.
        findings: what is wrong, in words; empty if it is right.
        evidence: of the findings: wrong rows, and the smallest wrong output if nothing explains it.
        facts: what was read from its weights.
    """

    name: str
    findings: tuple[str, ...]
    evidence: tuple[str, ...]
    facts: dict[str, str]

    def __str__(self) -> str:
        verdict = "WRONG" if self.findings else "no findings"
        facts = "; ".join(f"{_label(name)} {words}" for name, words in self.facts.items())
        lines = *self.findings, *self.evidence, f"facts: {facts}"
        folded = (textwrap.fill(f"  {line}", 98, subsequent_indent="    ") for line in lines)
        return "\n".join([f"audit of {self.name}: {verdict}", *folded])


def audit(
    attention: Attention,
    *,
    d_k: int = 64,
    n_keys: int = 1100,
    dtype: str = "float64",
    scaling: Rule = SCALED,
    mask: ArrayLike = "none",
    softcap: float = 0.0,
    sink: ArrayLike | None = None,
    alibi: ArrayLike = 0.0,
    normalize: float | None = None,
    groups: int = 1,
    empty: str = "any",
    backward: Attention | None = None,
) -> Audit:
    """The computation of a function, found from its outputs alone: right, or with which mistake.

    Args:
        attention: attention(q, k, v) of NumPy arrays (batch, heads, n, d), with the output
            (batch, heads, n_queries, d_v); k and v have heads / groups heads.
        d_k: the width of most inputs.
        n_keys: the longest number of keys, at least 16.
        dtype: the type of the arrays: float64, float32, float16, or bfloat16 of ml_dtypes.
        scaling, softcap, sink: what the function should have, as in `sdpa.attention_weights`.
        mask: by name as there, queries at the last positions; at the first ones with `-first`, such
            as `causal-first` (PyTorch's `is_causal`); or an array (..., n_queries, n_keys), as for
            padding, whose sizes are then those of all inputs.
        alibi: the slope of a bias -slope (query position - key position), or one for each head.
        normalize: the gain of scores gain q.k of unit q and k, in place of `scaling`.
        groups: query heads per head of keys and values, in consecutive order.
        empty: outputs of queries that see no key: any, zero, nan, or uniform (the mean of v).
        backward: backward(q, k, v, gradient of the output) with the gradients (dq, dk, dv).

    Returns:
        `Audit`, which prints as a report. Inputs are the same in each run.

    Raises:
        ValueError: an expectation that `sdpa.attention_weights` refuses, an unknown dtype or word,
            or unusable sizes.
        TypeError: `attention` is no function.

    >>> from sdpa import scaled_dot_product_attention
    >>> audit(scaled_dot_product_attention, scaling="unscaled").findings
    ('scores are q.k times d_k^-1/2, expected 1 (as in pytorch/torchtitan#2170)',)
    """
    if not callable(attention):
        raise TypeError(f"attention: expected a function of q, k and v, got {attention!r}")
    for name, word, known in (("dtype", dtype, [*_TYPES]), ("empty", empty, EMPTY)):
        if word not in known:
            raise ValueError(f"{name}: {not_among(word, known)}")
    if dtype == "bfloat16":
        try:
            importlib.import_module("ml_dtypes")  # adds the type to NumPy
        except ModuleNotFoundError:
            raise ValueError("bfloat16 needs a package: pip install ml_dtypes") from None
    if min(d_k // 4, n_keys // 16, groups) < 1:
        sizes = f"{d_k}, {n_keys} and {groups}"
        raise ValueError(f"expected d_k from 4, n_keys from 16 and groups from 1, got {sizes}")
    keys, fixed = _mask(mask)
    row_map, slopes = RowMap.of(softcap, sink), np.asarray(alibi, float)
    logits = -math.inf if row_map.sink is None else row_map.sink
    if heads := max(np.size(logits), np.size(slopes)) - 1:
        fixed |= {"heads": heads + 1, "groups": (heads + 1) // groups}
    rule = f"1/({scaling})" if normalize is None else f"{normalize:g}"
    expected: dict[str, Named] = {
        "scores": (
            {"1/(d_k^1/2)": "d_k^-1/2", "1/(unscaled)": "1"}.get(rule, rule),
            lambda c: normalize or 1 / resolve_divisor(scaling, c.q.shape[3], len(c.keys)),
        ),
        "vectors": _vectors(normalize is not None),
        "bias": (_text(slopes), slopes),
        "cap": ("", row_map.softcap),
        "keys": ("all" if np.array_equal(mask, "none") else "those of the mask", keys),
        "hidden": ("-inf", -math.inf),
        "sums": ("1 over keys", lambda _: 1.0),
        "axes": ("", (-1,)),
        "sink": (_text(logits).replace("-inf", "none"), logits),
        "heads": ("by groups of query heads", lambda c: np.arange(c.q.shape[1]) // groups),
    }
    facts = Facts(**{name: of for name, (_, of) in expected.items()})
    words = {name: text for name, (text, _) in expected.items()}
    audited = Audited(attention, dtype, facts, words)

    def case(n: int, m: int, spread: float, shift: float = 0.0, **other: int) -> Case:
        usual = {"batch": 2, "heads": 3 * groups, "groups": 3, "n_queries": n, "n_keys": m}
        return audited.case(usual | {"d_k": d_k, "d_v": d_k} | fixed | other, spread, shift)

    eps, small, _ = _TYPES[dtype]
    few = {"heads": 2 * groups, "groups": 2} if "heads" not in fixed else {}
    others = {"d_v": d_k // 2 + 1}, {"d_k": 3 * d_k}, few
    far = 800.0 if dtype == "float64" else 110.0
    cases = [
        *(case(16, 16, spread) for spread in (1.0, 5.0, 20.0)),
        *(case(n, 16, spread) for n in (5, 1) for spread in (1.0, 5.0)),
        *(case(16, 16, 1.0, shift) for shift in (-far, far, -110.0)),
        *(case(12, 16, 2.0, **other) for other in others),
        *(case(8, n, 3.0) for n in (5, 40, n_keys, n_keys - 3)),
        *(case(16, 16, min(1e6, 0.002 / eps)) for _ in range(eps < 1e-4)),
    ]
    probes = [case(5, 12, small, **other) for other in ({}, *others)]
    return _report(audited, cases, [*probes, case(24, min(n_keys, 40), small)], empty, backward)


def _mask(mask: ArrayLike) -> tuple[Callable[[Case], Any], dict[str, int]]:
    """The visible keys of a case, and the sizes of inputs that an array decides."""
    if isinstance(mask, str):
        first, reach = mask.endswith("-first"), reach_of(mask.removesuffix("-first"))
        return lambda c: reach.sees(c.own(first=first), c.keys), {}
    shown = np.atleast_2d(mask)
    shown = broadcast_mask(shown, shown.shape)
    names = ("n_keys", "n_queries", "heads", "batch")
    sizes = {n: size for n, size in zip(names, shown.shape[::-1], strict=False) if size > 1}
    return lambda _: shown, sizes | ({"groups": sizes["heads"]} if "heads" in sizes else {})


def _name_of(function: Any) -> str:
    """The name of a function, of what it wraps, or where it stands."""
    function = inspect.unwrap(function)
    if isinstance(function, functools.partial):
        return f"partial of {_name_of(function.func)}"
    name = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        return f"the lambda in line {function.__code__.co_firstlineno}"
    return str(name)


def _report(
    audited: Audited, cases: list[Case], probes: list[Case], empty: str, backward: Attention | None
) -> Audit:
    """The verdict on all outputs, and what explains wrong ones."""
    samples: list[tuple[Case, Any]] = []
    unusable: list[str] = []
    notes: list[str] = []
    for case in cases:
        try:
            samples.append((case, *audited.call(audited.function, case)))
        except _UnusableError as error:
            note = f"no usable output at {case}: {error}"
            (notes if samples and "raise" in note else unusable).append(note)
    name, findings, eps = _name_of(audited.function), unusable[:1], _TYPES[audited.dtype][0]
    if not samples:
        return Audit(name, tuple(findings), (), {})
    case, found = samples[0]
    with np.errstate(all="ignore"):
        exact = [Steps(case, audited.facts) for case, _ in samples]
        off = [audited.off(*each, output=a.output) for each, a in zip(samples, exact, strict=True)]
        wrong = np.concatenate([np.ravel(x) for x in off]) > 1
        facts = _read(audited, probes)
        if not np.array_equal(audited.call(audited.function, case)[0], found, equal_nan=True):
            w = audited.weights(probes[0]).sum(axis=(3, 4))
            lost = np.mean(w[Steps(probes[0], audited.facts).w > 0] == 0)
            findings = [f"different in each call, with {lost:.0%} of the weights 0"]
        elif wrong.any():
            named = _explanation(audited, samples, facts)
            findings = named or [*findings, "wrong, by no mistake that is known here"]
            notes += [] if named else [_rows(wrong, exact), _smallest(audited, samples, off)]
    if wrong.any():
        most = max(x.max() for x in off)
        notes.append(
            f"{wrong.sum()} of {wrong.size} rows are off by up to {most:.1g} times rounding"
        )
        if most * eps < 1e-4:
            notes.append(_ROUNDED.format(8 * most * eps))
    shown = {name: words for name, (words, _) in facts.items() if words}
    if of_empty := _of_empty(samples, exact):
        shown["queries without keys"] = of_empty
        if empty not in ("any", of_empty):
            findings.append(f"queries without keys: {of_empty}, expected {empty}")
    if backward:
        try:
            factors = _of_gradients(audited, backward, samples)
        except _UnusableError as error:
            factors = {}
            findings.append(f"no usable gradients: {error}")
        shown |= factors
        findings += [f"{x}: {of} times the right one" for x, of in factors.items() if of != "1"]
    return Audit(name, tuple(findings), tuple(notes), shown)


def _explanation(audited: Audited, samples: list[Any], found: dict[str, Named]) -> list[str]:
    """The facts, or the mistake, with which an attention has all outputs."""

    def fits(facts: Facts, output: Callable[[Steps], Any], fitted: float) -> bool:
        with contextlib.suppress(ValueError, TypeError):  # shapes that do not fit
            return all(
                audited.off(
                    case,
                    found,
                    output(Steps(case, facts)),
                    min(0.05, fitted * audited.size(case)),
                ).max()
                <= 1
                for case, found in samples
            )
        return False

    others = [
        f"{_label(field)} {words}, expected {audited.words[field]}{_as_in(THREADS.get(words))}"
        for field, (words, of) in found.items()
        if words != audited.words[field] and of is not None
    ]
    values = {field: of for field, (_, of) in found.items() if of is not None}
    read = replace(audited.facts, **values)
    if others and fits(read, lambda a: a.output, 1e-6):
        return others
    bases = [(audited.facts, 0.0, []), (read, 1e-6, others)][: 1 + bool(others)]
    for (base, fitted, beside), (words, thread, output) in itertools.product(bases, MISTAKES):
        if fits(base, output, fitted):
            return [words + _as_in(thread), *beside]
    return []


def _label(field: str) -> str:
    return {"scores": "scores are q.k times"}.get(field, f"{field}:")


def _as_in(thread: str | None) -> str:
    return f" (as in {thread})" if thread else ""


def _rows(wrong: Any, exact: list[Steps]) -> str:
    """What tells wrong rows from right ones, if one number does."""
    features: dict[str, list[Any]] = {}
    for a in exact:
        s = a.masked(a.s)
        each = {"their largest score": s.max(axis=-1), "their smallest score": s.min(axis=-1)}
        for name, value in (each | a.case.sizes).items():
            features.setdefault(name, []).append(np.broadcast_to(value, s.shape[:3]).ravel())
    for name, values in features.items():
        x = np.concatenate(values)
        for sign, words in ((1, "at least"), (-1, "at most")):
            if not wrong.all() and (sign * x)[wrong].min() > (sign * x)[~wrong].max():
                return f"wrong in the rows with {name} {words} {sign * (sign * x)[wrong].min():.4g}"
    return f"wrong in {wrong.mean():.0%} of the rows"


def _smallest(audited: Audited, samples: list[Any], off: list[Any]) -> str:
    """The smallest wrong output, with weights where the number of keys is free."""
    q, k, v = vars(samples[1][0]).values()
    for n, m in ((1, 1), (1, 2), (2, 2), (1, 4), (4, 4), (8, 8)):
        case = Case(q[:1, :, :n], k[:1, :, :m], np.eye(m, v.shape[3]) + 0 * v[:1, :, :m])
        with contextlib.suppress(_UnusableError, ValueError):  # a mask has sizes of its own
            (found,) = audited.call(audited.function, case)
            a = Steps(case, audited.facts)
            rows = audited.off(case, found, a.output)
            if rows.max() > 1:
                at = np.unravel_index(rows.argmax(), rows.shape)
                s, x, right = (
                    ", ".join(f"{number:.4g}" for number in of[at][:m])
                    for of in (a.s, found, a.output)
                )
                return f"smallest: {case}, scores {s}: weights {x}, expected {right}"
    failed = [case for (case, _), x in zip(samples, off, strict=True) if x.max() > 1]
    return f"smallest: {min(failed, key=lambda case: case.q.size * case.k.size)}"


def _of_empty(samples: list[Any], exact: list[Steps]) -> str:
    """The outputs of queries that see no key."""
    for (_, found), a in zip(samples, exact, strict=True):
        rows = np.isnan(a.output[..., 0])
        if rows.any():
            x, mean = (
                found[rows],
                np.broadcast_to(a.v.mean(axis=-2, keepdims=True), found.shape)[rows],
            )
            kinds = {"nan": np.isnan(x), "zero": x == 0, "uniform": np.isclose(x, mean, atol=0.05)}
            return next((kind for kind, each in kinds.items() if each.all()), "other numbers")
    return ""


def _of_gradients(audited: Audited, backward: Attention, samples: list[Any]) -> dict[str, str]:
    """The factors of dq, dk and dv against differences of the expected output."""
    cases = [case for case, _ in samples if audited.size(case) < 50]
    factors: dict[str, list[float]] = {"dq": [], "dk": [], "dv": []}
    for case in cases:
        rng = np.random.default_rng(0)
        upstream = rng.standard_normal(Steps(case, audited.facts).output.shape)
        for (name, numbers), x in zip(
            factors.items(), audited.call(backward, case, upstream), strict=True
        ):
            step = 1e-5 * rng.standard_normal(x.shape)
            ends = (
                Steps(replace(case, **{name[1]: getattr(case, name[1]) + y}), audited.facts).output
                for y in (step, -step)
            )
            numbers.append((x * step).sum() / np.nansum(np.subtract(*ends) * upstream) * 2)
    one = "1", lambda _: 1.0
    near = max(1e-4, 30 * _TYPES[audited.dtype][0])
    named = {name: _named(cases, numbers, one, near) for name, numbers in factors.items()}
    return {name: of[0] if of else _text(factors[name]) for name, of in named.items()}
