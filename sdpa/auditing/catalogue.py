"""The catalogue: slips of public threads, each a variant of one stage of `Computation`.

An entry is a function under `@slip`, which names the stage. Its docstring is its name in plain
words, with `{}` for a free number, and in brackets the threads that report it or ask about it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdpa.auditing.computation import (
    Array,
    Computation,
    capped,
    hidden,
    repeated,
    shares,
)
from sdpa.row_maps import rotated

_FACTORS = tuple(2.0 ** np.arange(-6, 8))
_LOGITS = tuple(np.arange(-8.0, 9.0))
_BASES = (
    10_000,
    500_000,
    1_000_000,
)
_EPSILONS = (
    0,
    1e-6,
    1e-5,
)
_SHARES = (
    0.2,
    0.8,
)
_HIDDEN = -1e9  # instead of -inf, where all scores may be hidden
# of float32, float64 and float16
_OVERFLOWS = (
    88.723,
    709.783,
    11.09,
)
_MASKS = (
    -1e4,
    -65504.0,
    -1.0,
    -3.0,
    -10.0,
    -30.0,
    -100.0,
)
_BLOCKS = (
    16,
    32,
    64,
    128,
    256,
)
_NEAR_POWERS = (2**i + j for i in range(6, 13) for j in (-1, 0, 1))
_SIZES = (*range(1, 33), *_NEAR_POWERS)

Function = Callable[[Computation], Any]


@dataclass(frozen=True)
class Slip:
    """An entry.

    Attributes:
        stage: the method of `Computation` that it replaces.
        numbers: first guesses of its free number, if it has one.
        name: in plain words, with {} for the free number.
        threads: those that report it or ask about it, as owner/repository#number.
    """

    stage: str
    numbers: tuple[float, ...]
    compute: Function
    name: str
    threads: tuple[str, ...]


CATALOGUE: list[Slip] = []


def slip(stage: str, numbers: tuple[float, ...] = ()) -> Callable[[Function], Function]:
    """The decorator of an entry."""

    def add(function: Function) -> Function:
        words = " ".join((function.__doc__ or "").split())
        name, _, listed = words.rpartition(" (")
        name = name[:1].lower() + name[1:]
        threads = tuple(listed[:-2].split(", "))
        CATALOGUE.append(Slip(stage, numbers, function, name, threads))
        return function

    return add


@slip("positions")
def from_first(c: Computation) -> Any:
    """The queries stand at the first positions (ml-explore/mlx#2835,
    Dao-AILab/flash-attention#282).
    """
    return np.arange(c.n_queries)


@slip("inputs")
def split_by_reshape(c: Computation) -> Any:
    """A reshape without a transpose splits the heads (reczoo/FuxiCTR#30,
    hyunwoongko/transformer#15).
    """
    return (x.swapaxes(1, 2).reshape(x.shape) for x in (c.q, c.k, c.v))


@slip("inputs", _EPSILONS)
def root_mean_square(c: Computation) -> Any:
    """Q and k are divided by the root of their mean square plus {} (lucidrains/x-transformers#24)."""
    mean_squares = (np.mean(x**2, -1, keepdims=True) for x in (c.q, c.k))
    of_q, of_k = (np.sqrt(square + c.number) for square in mean_squares)
    return c.q / of_q, c.k / of_k, c.v


@slip("inputs", _BASES)
def rotated_halves(c: Computation) -> Any:
    """Q and k are rotated (RoPE of halves, base {}) (karpathy/nanochat#264)."""
    return rotated(c.q, c.own, c.number), rotated(c.k, c.places, c.number), c.v


@slip("inputs", _BASES)
def rotated_pairs(c: Computation) -> Any:
    """Q and k are rotated (RoPE of pairs, base {}) (tenstorrent/tt-metal#26844)."""
    q, k = (np.concatenate([x[..., ::2], x[..., 1::2]], axis=-1) for x in (c.q, c.k))
    return rotated(q, c.own, c.number), rotated(k, c.places, c.number), c.v


@slip("inputs", _BASES)
def rotated_values(c: Computation) -> Any:
    """The values are rotated (labmlai/annotated_deep_learning_paper_implementations#251)."""
    return c.q, c.k, rotated(c.v, c.places, c.number)


@slip("inputs")
def keys_as_values(c: Computation) -> Any:
    """The keys are the values, too (ruvnet/agentic-flow#191, snu-comparch/InfiniGen#5)."""
    return c.q, c.k, c.k


@slip("groups")
def tiled(c: Computation) -> Any:
    """Query heads read heads of keys in turn, not in consecutive groups (onnx/onnx#7274,
    ggml-org/llama.cpp#25315).
    """
    copies = (1, c.expected.groups, 1, 1)
    return (np.tile(x, copies) for x in (c.k, c.v))


@slip("groups")
def first_head(c: Computation) -> Any:
    """Every query head reads the first head of keys (PSAL-POSTECH/ONNXim#33)."""
    return (repeated(x[:, :1], c.n_heads) for x in (c.k, c.v))


@slip("products")
def summed_groups(c: Computation) -> Any:
    """The scores of a group of query heads are summed (fkodom/grouped-query-attention-pytorch#5)."""
    scores = c.products()
    groups = scores.reshape(c.n_batch, -1, c.expected.groups, *scores.shape[2:])
    return repeated(groups.sum(axis=2), c.expected.groups)


@slip("products")
def reshaped_keys(c: Computation) -> Any:
    """The keys are reshaped, not transposed (rish-16/tokenlearner-pytorch#1)."""
    keys = c.k.reshape(*c.k.shape[:2], c.d_k, c.n_keys)
    return c.q @ keys


@slip("products")
def transposed_scores(c: Computation) -> Any:
    """Queries and keys are exchanged (karpathy/llm.c#531)."""
    return c.k @ c.q.mT


@slip("products", _FACTORS)
def unit_vectors(c: Computation) -> Any:
    """Unit q and k, with a gain of {} (lucidrains/muse-maskgit-pytorch#40)."""
    return c.number * c.divisor() * unit(c.q) @ unit(c.k).mT


@slip("divisor")
def of_all_heads(c: Computation) -> Any:
    """The divisor is sqrt(d_model), of all heads together (lucidrains/vit-pytorch#65,
    chelsea0x3b/dfdx#171, karpathy/ng-video-lecture#6).
    """
    return math.sqrt(c.n_heads * c.d_k)


@slip("divisor")
def of_number_of_heads(c: Computation) -> Any:
    """The divisor is sqrt(n_heads) (tenstorrent/tt-metal#56789)."""
    return math.sqrt(c.n_heads)


@slip("divisor")
def divided_twice(c: Computation) -> Any:
    """The divisor is sqrt(d_k // n_heads): the heads divide twice (pengshuang/Transformer#1)."""
    return math.sqrt(c.d_k // c.n_heads)


@slip("divisor")
def multiplied(c: Computation) -> Any:
    """The scores are multiplied by sqrt(d_k) (esceptico/perceiver-io#9,
    AI-Hypercomputer/maxtext#1370).
    """
    return 1 / math.sqrt(c.d_k)


@slip("divisor")
def fourth_root(c: Computation) -> Any:
    """The divisor is sqrt(sqrt(d_k)), as if on both q and k (openai/guided-diffusion#38)."""
    return c.d_k**0.25


@slip("divisor")
def without_root(c: Computation) -> Any:
    """The divisor is d_k, without a root (delzac/cntkx#10)."""
    return c.d_k


@slip("divisor")
def unscaled(_: Computation) -> Any:
    """Unscaled (mlc-ai/mlc-llm#3426, Sakuraaa0/RaBitQCache#1)."""
    return 1.0


@slip("divisor")
def root_alone(c: Computation) -> Any:
    """The divisor is sqrt(d_k) alone (pytorch/torchtitan#2170)."""
    return math.sqrt(c.d_k)


@slip("divisor")
def base_two(c: Computation) -> Any:
    """Exp2 without log2(e): the divisor is 1 / ln 2 of the expected one (vllm-project/vllm#28840)."""
    return c.divisor() / math.log(2)


@slip("divisor", _FACTORS)
def a_number(c: Computation) -> Any:
    """The divisor is {} (vllm-project/vllm#48658, NVIDIA/Megatron-LM#1501)."""
    return c.number


@slip("divisor", _FACTORS)
def a_multiple(c: Computation) -> Any:
    """The divisor is {} times the expected one (onnxruntime/mobius#548)."""
    return c.number * c.divisor()


@slip("cap")
def uncapped(c: Computation) -> Any:
    """No soft cap (sgl-project/sgl-kernel-xpu#491)."""
    return c.scores


@slip("cap")
def cap_before_divisor(c: Computation) -> Any:
    """The soft cap comes before the divisor (huggingface/trl#5691)."""
    return capped(c.scores * c.divisor(), c.expected.softcap) / c.divisor()


@slip("cap", _FACTORS)
def another_cap(c: Computation) -> Any:
    """The soft cap is {} (Dao-AILab/flash-attention#1025)."""
    return capped(c.scores, c.number)


@slip("bias")
def divided_bias(c: Computation) -> Any:
    """The bias is divided, too (bigscience-workshop/Megatron-DeepSpeed#222)."""
    return c.scores - c.expected.alibi * c.back / c.divisor()


@slip("bias", (0.01, 0.1, 0.5))
def another_slope(c: Computation) -> Any:
    """The slope of the bias is {} (paiml/aprender#2143)."""
    return c.scores - c.number * c.back


@slip("bias")
def symmetric_bias(c: Computation) -> Any:
    """The bias falls on both sides (ml-explore/mlx#343)."""
    return c.scores - c.expected.alibi * np.abs(c.back)


@slip("mask")
def no_mask(c: Computation) -> Any:
    """No mask (jax-ml/jax#19237, iCog-Labs-Dev/PC-Transformers#97)."""
    return c.scores


@slip("mask")
def causal(c: Computation) -> Any:
    """A causal mask (unslothai/unsloth#8253)."""
    return hidden(c, c.back >= 0)


@slip("mask")
def one_ahead(c: Computation) -> Any:
    """Each query sees one key after its own (RVC-Boss/GPT-SoVITS#965)."""
    return hidden(c, c.visible | (c.back == -1))


@slip("mask")
def strict(c: Computation) -> Any:
    """No query sees its own key (pbloem/former#10)."""
    return hidden(c, c.visible & (c.back != 0))


@slip("mask")
def transposed(c: Computation) -> Any:
    """The triangle is transposed (karpathy/nanoGPT#170)."""
    return hidden(c, c.back <= 0)


@slip("mask")
def inverted(c: Computation) -> Any:
    """Hidden and visible keys are exchanged (InseeFrLab/torchTextClassifiers#92)."""
    return hidden(c, ~c.visible)


@slip("mask", _SIZES)
def another_window(c: Computation) -> Any:
    """A window of {} keys (huggingface/transformers#39408, zml/zml#763)."""
    return hidden(c, (c.back >= 0) & (c.back < c.number))


@slip("mask", _SIZES)
def both_sides(c: Computation) -> Any:
    """The mask local-{}, of so many keys on both sides (tenstorrent/tt-metal#51080)."""
    return hidden(c, np.abs(c.back) <= c.number)


@slip("mask")
def zero_scores(c: Computation) -> Any:
    """Hidden keys have the score 0, not -inf (georg-wolflein/good-features#1,
    Shujun-He/RibonanzaNet#5).
    """
    return hidden(c, c.visible, 0.0)


@slip("mask", _MASKS)
def finite_scores(c: Computation) -> Any:
    """Hidden keys have the score {}, not -inf (hyunwoongko/transformer#10)."""
    return hidden(c, c.visible, c.number)


@slip("mask", _MASKS)
def lowered_scores(c: Computation) -> Any:
    """A finite mask: it adds about {} to scores, not -inf (huggingface/transformers#12109)."""
    return hidden(c, c.visible, c.scores + c.number)


@slip("mask")
def mask_before_cap(c: Computation) -> Any:
    """Hidden keys have the negative soft cap as score: the cap comes after the mask
    (onnx/onnx#7865, emmtrix/emx-onnx-cgen#731).
    """
    return hidden(c, c.visible, -(c.expected.softcap or math.inf))


@slip("mask")
def added_booleans(c: Computation) -> Any:
    """The mask adds 1 to the scores of visible keys (huggingface/diffusers#14342)."""
    return c.scores + c.visible


@slip("weights")
def over_queries(c: Computation) -> Any:
    """The softmax runs over the queries (labmlai/annotated_deep_learning_paper_implementations#146,
    labmlai/annotated_deep_learning_paper_implementations#282).
    """
    return shares(np.maximum(c.scores, _HIDDEN), axis=-2)


@slip("weights")
def over_heads(c: Computation) -> Any:
    """The softmax runs over the heads (FudanNLP/fastNLP#254)."""
    return shares(np.maximum(c.scores, _HIDDEN), axis=1)


@slip("weights")
def over_batch(c: Computation) -> Any:
    """The softmax runs over the batch (PetrochukM/PyTorch-NLP#2)."""
    return shares(np.maximum(c.scores, _HIDDEN), axis=0)


@slip("weights")
def over_batch_and_heads(c: Computation) -> Any:
    """The softmax runs over batch entries and heads
    (jadore801120/attention-is-all-you-need-pytorch#52).
    """
    return shares(np.maximum(c.scores, _HIDDEN), axis=(0, 1))


@slip("weights")
def over_heads_and_keys(c: Computation) -> Any:
    """The softmax runs over the keys of all heads together (facebookresearch/detr#247)."""
    return shares(c.scores, axis=(1, 3))


@slip("weights")
def twice(c: Computation) -> Any:
    """The softmax is taken twice (zyy-2001/DisKT#6)."""
    return shares(c.weights())


@slip("weights")
def no_softmax(c: Computation) -> Any:
    """No softmax: the scores are the weights (PaddlePaddle/PaddleOCR#4556)."""
    return np.where(np.isneginf(c.scores), 0.0, c.scores)


@slip("weights")
def mask_after_softmax(c: Computation) -> Any:
    """The mask multiplies the weights after the softmax (huggingface/pytorch-image-models#2236,
    lucidrains/memory-compressed-attention#2).
    """
    return shares(c.unmasked, sink=c.sink) * c.visible


@slip("weights")
def one_after_maximum(c: Computation) -> Any:
    """Softmax1 adds its 1 after the maximum was subtracted (kyegomez/AttentionIsOFFByOne#6,
    kyegomez/AttentionIsOFFByOne#5).
    """
    return shares(c.scores, sink=c.scores.max(axis=-1, keepdims=True))


@slip("weights")
def no_sink(c: Computation) -> Any:
    """No sink (vllm-project/vllm-metal#550)."""
    return shares(c.scores)


@slip("weights", _LOGITS)
def another_sink(c: Computation) -> Any:
    """A sink of {} (kyegomez/AttentionIsOFFByOne#3, fla-org/flash-linear-attention#831)."""
    return shares(c.scores, sink=c.number)


@slip("weights")
def divided_weights(c: Computation) -> Any:
    """The divisor divides the weights after the softmax, not the scores
    (FrancescoSaverioZuppichini/ViT#2).
    """
    return shares(c.scores * c.divisor(), sink=c.sink) / c.divisor()


@slip("weights", _OVERFLOWS)
def overflowing(c: Computation) -> Any:
    """No maximum is subtracted: e^s overflows beyond {} (prescient-design/e3tools#3)."""
    e = np.where(c.scores > c.number, np.inf, np.exp(c.scores))
    return e / e.sum(axis=-1, keepdims=True)


@slip("weights")
def eight_bits(c: Computation) -> Any:
    """Exponentials are rounded to 8 bits, their sum is not (Dao-AILab/flash-attention#2694)."""
    e = np.exp(c.scores - c.scores.max(axis=-1, keepdims=True))
    _, exponents = np.frexp(e)
    steps = np.exp2(np.maximum(exponents, -5) - 4.0)  # of E4M3
    return steps * np.rint(e / steps) / e.sum(axis=-1, keepdims=True)


@slip("weights", _BLOCKS)
def padded_blocks(c: Computation) -> Any:
    """Zero keys that pad rows to blocks of {} have weights (flashinfer-ai/flashinfer#5090,
    NVIDIA/TensorRT-LLM#18111).
    """
    return shares(c.scores, sink=np.log(-c.n_keys % c.number))


@slip("weights", _SHARES)
def difference(c: Computation) -> Any:
    """The difference of two softmaxes, of halves of q and k, the second times {}
    (microsoft/unilm#1666).
    """
    q, k = (np.split(x, 2, axis=-1) for x in (c.q, c.k))
    divisor = c.divisor() / math.sqrt(2)  # of their width
    first, second = (
        shares(np.where(np.isneginf(c.scores), c.scores, x @ y.mT / divisor))
        for x, y in zip(q, k, strict=True)
    )
    return first - c.number * second


@slip("values")
def divided_values(c: Computation) -> Any:
    """The values are divided, too (FrancescoSaverioZuppichini/ViT#2)."""
    return c.values() / c.divisor()


@slip("values", _FACTORS)
def scaled_output(c: Computation) -> Any:
    """The output is multiplied by {} (m-a-n-i-f-e-s-t/power-attention#21)."""
    return c.number * c.values()


@slip("values")
def transposed_weights(c: Computation) -> Any:
    """The weights are transposed (ok1zjf/VASNet#25)."""
    return c.weights_of_keys.mT @ c.v


@slip("values")
def own_values(c: Computation) -> Any:
    """Each position returns its own value: an einsum does not sum over the keys
    (pytorch-tpu/transformers#34).
    """
    sums = c.weights_of_keys.sum(axis=-1, keepdims=True)
    return sums * c.v[:, :, c.own]


@slip("values")
def merged_by_reshape(c: Computation) -> Any:
    """A reshape without a transpose merges the heads (jsbaan/transformer-from-scratch#6,
    hackiey/QAnet-pytorch#2).
    """
    merged = c.values().reshape(c.n_batch, c.n_queries, c.n_heads, -1)
    return merged.swapaxes(1, 2)


@slip("values")
def across_heads(c: Computation) -> Any:
    """Each position attends over its heads: the layout is (batch, n, heads, d_k)
    (huggingface/diffusers#14338).
    """
    q, k, v = (x.swapaxes(1, 2) for x in (c.q, c.k, c.v))
    weights = shares(q @ k.mT / c.divisor())
    return (weights @ v).swapaxes(1, 2)


def unit(x: Array) -> Array:
    """Vectors of length 1."""
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))
