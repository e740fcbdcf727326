"""A transformer, forward and backward: blocks of attention and an MLP on one stream of tokens.

A block changes the stream x, n tokens of one width, twice. Attention with c the divisor of the
scores, and RoPE on q and k if there is one:

    h = norm(x),   q = h W_Q,   k = h W_K,   v = h W_V          in heads of d_k entries
    w = softmax(q k^T / c),   y = (w v of all heads) W_O,   x' = a x + y

and an MLP, with f(u) z in the place of the hidden units m for a gated one:

    h' = norm(x'),   u = h' W_G,   z = h' W_U,   m = silu(u) z or relu(z),   x'' = a x' + m W_D

`pre` norms h as above, `post` norms the sums x' and x'' instead. The norm is the RMS norm,
x / sqrt(mean x^2 + epsilon) times a gain. Several query heads may share a head of keys and values.
QK-norm divides each q and k by its r.m.s. entry, before RoPE; a gain of each head may multiply q
(Henry et al. 2020, arXiv:2010.04245, with the norm l2 in place of r.m.s.). Between the divisor and
the weights may stand a soft cap and a sink, or another normalizer (`sdpa.row_maps`).

The backward pass goes through the same lines from below, with the chain rule at each: a product
y = h W gives dL/dh = dL/dy W^T and dL/dW = h^T dL/dy. Sources: Vaswani et al. 2017; RMS norm, Zhang
and Sennrich 2019 (arXiv:1910.07467); SwiGLU, Shazeer 2020 (arXiv:2002.05202); grouped heads, Ainslie
et al. 2023 (arXiv:2305.13245).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sdpa._arrays import FloatArray, IntArray
from sdpa.masks import masked
from sdpa.positions import rotated
from sdpa.row_maps import NORMALIZERS, PLAIN, RowMap

Norm = Literal["pre", "post", "none"]


@dataclass(frozen=True)
class Design:
    """The numbers and choices that all blocks of a network share.

    Attributes:
        n_heads, n_key_heads: heads of queries, and of keys and values; the second divides the
            first, and each head of keys serves a block of consecutive heads of queries.
        divisor: of the scores; 1 for none. An array has one for each query, (n, 1).
        gradient_divisor: divides the gradients at the scores once more, in the backward pass alone.
        mask: a name of `sdpa.masks`.
        norm: `pre`, `post` or `none`.
        residual: the weight a of the stream in each sum.
        rope_base: the base of RoPE's angles; None for no rotation.
        row_map: soft cap, sink or sinks of the heads, and normalizer.
        epsilon: of the norms.
        qk_norm: true for q and k of r.m.s. 1 in each head, before RoPE.
    """

    n_heads: int
    n_key_heads: int
    divisor: float | FloatArray
    mask: str = "causal"
    norm: Norm = "pre"
    residual: float = 1.0
    rope_base: float | None = None
    row_map: RowMap = PLAIN
    epsilon: float = 0.0
    qk_norm: bool = False
    gradient_divisor: float = 1.0

    def __post_init__(self) -> None:
        if self.n_heads % self.n_key_heads:
            got = f"{self.n_heads} and {self.n_key_heads}"
            raise ValueError(f"expected n_key_heads that divide n_heads, got {got}")


@dataclass(frozen=True)
class Block:
    """The weights of a block, or the gradients to them; (rows of input, columns of output)."""

    query: FloatArray  # (width, n_heads d_k)
    key: FloatArray  # (width, n_key_heads d_k)
    value: FloatArray  # (width, n_key_heads d_v)
    output: FloatArray  # (n_heads d_v, width)
    gate: FloatArray | None = None  # (width, hidden); None for an MLP without a gate
    up: FloatArray | None = None  # (width, hidden); None for a block without an MLP
    down: FloatArray | None = None  # (hidden, width)
    attention_gain: FloatArray | None = None  # of the first norm, (width,); None for ones
    mlp_gain: FloatArray | None = None  # of the second
    query_gain: FloatArray | None = None  # of q in each head, (n_heads, 1, 1); None for ones


@dataclass(frozen=True)
class Steps:
    """The arrays of a block between its stream and the next; heads come before tokens."""

    x: FloatArray  # stream before the block, (..., n, width)
    h: FloatArray  # input of the attention, (..., n, width)
    raw_q: FloatArray  # before QK-norm, gain and RoPE, (..., n_heads, n, d_k)
    raw_k: FloatArray  # the same, (..., n_key_heads, n, d_k)
    q: FloatArray  # after RoPE, (..., n_heads, n, d_k)
    k: FloatArray  # after RoPE, (..., n_key_heads, n, d_k)
    v: FloatArray  # (..., n_key_heads, n, d_v)
    scaled: FloatArray  # q k^T / divisor, -inf where masked, (..., n_heads, n, n)
    weights: FloatArray  # of the same shape
    heads: FloatArray  # w v of all heads, side by side, (..., n, n_heads d_v)
    attended: FloatArray  # a x + y, before a norm, (..., n, width)
    middle: FloatArray  # x'
    mlp_input: FloatArray  # h'
    gate: FloatArray | None  # u, (..., n, hidden); None without a gate
    up: FloatArray | None  # z; None without an MLP
    fed: FloatArray  # a x' + m W_D, before a norm
    after: FloatArray  # stream after the block


@dataclass(frozen=True)
class BlockGradients:
    """Gradients of a loss, each of the shape of its array in `Steps` or `Block`."""

    x: FloatArray
    q: FloatArray
    k: FloatArray
    v: FloatArray
    products: dict[str, tuple[FloatArray, FloatArray]]  # h and dL/dy of each y = h W, by name
    gains: dict[str, FloatArray]

    def weights(self) -> Block:
        """The gradients to all weights: dL/dW = h^T dL/dy, summed over tokens and sequences."""
        products = {name: outer(*pair) for name, pair in self.products.items()}
        return Block(**products, **self.gains)


def forward(x: FloatArray, blocks: Sequence[Block], design: Design) -> list[Steps]:
    """All steps of the blocks in turn, from a stream (..., n, width).

    >>> ones = np.ones((1, 1))
    >>> block = Block(query=ones, key=ones, value=2 * ones, output=ones)
    >>> forward(np.ones((3, 1)), [block], Design(1, 1, divisor=1.0))[0].after.ravel()
    array([3., 3., 3.])
    """
    steps: list[Steps] = []
    for block in blocks:
        steps.append(block_forward(x, block, design))
        x = steps[-1].after
    return steps


def backward(
    gradient: FloatArray, steps: Sequence[Steps], blocks: Sequence[Block], design: Design
) -> list[BlockGradients]:
    """The gradients of each block, in the order of the blocks, from that to the last stream.

    `gradient` has the shape of the stream; the x of the first block is the gradient to the first
    stream.
    """
    gradients: list[BlockGradients] = []
    for step, block in zip(reversed(steps), reversed(blocks), strict=True):
        gradients.append(block_backward(gradient, step, block, design))
        gradient = gradients[-1].x
    return gradients[::-1]


def block_forward(x: FloatArray, block: Block, design: Design) -> Steps:
    """The steps of one block."""
    h = _norm(x, block.attention_gain, design) if design.norm == "pre" else x
    raw_q = _split(h @ block.query, design.n_heads)
    raw_k = _split(h @ block.key, design.n_key_heads)
    q = _rotate(_sized(raw_q, block.query_gain, design), design)
    k = _rotate(_sized(raw_k, None, design), design)
    v = _split(h @ block.value, design.n_key_heads)
    scores = q @ _for_queries(k, design).swapaxes(-1, -2)
    scores /= design.divisor
    scaled = masked(scores, design.mask)
    weights = design.row_map.weights(scaled)
    heads = _merge(weights @ _for_queries(v, design))
    attended = design.residual * x + heads @ block.output
    middle = _norm(attended, block.attention_gain, design) if design.norm == "post" else attended

    mlp_input = _norm(middle, block.mlp_gain, design) if design.norm == "pre" else middle
    gate = None if block.gate is None else mlp_input @ block.gate
    up = None if block.up is None else mlp_input @ block.up
    fed = after = middle
    if up is not None and block.down is not None:
        fed = after = design.residual * middle + _hidden(gate, up) @ block.down
        if design.norm == "post":
            after = _norm(fed, block.mlp_gain, design)
    return Steps(
        *(x, h, raw_q, raw_k, q, k, v, scaled, weights, heads),
        *(attended, middle, mlp_input, gate, up, fed, after),
    )


def block_backward(g: FloatArray, step: Steps, block: Block, design: Design) -> BlockGradients:
    """The gradients of one block, from the gradient g to the stream after it."""
    pre, post = design.norm == "pre", design.norm == "post"
    products: dict[str, tuple[FloatArray, FloatArray]] = {}
    gains: dict[str, FloatArray] = {}

    if step.up is not None and block.up is not None and block.down is not None:
        if post:
            g, gains["mlp_gain"] = _norm_backward(g, step.fed, block.mlp_gain, design)
        products["down"] = _hidden(step.gate, step.up), g
        to_gate, to_up = _hidden_backward(g @ block.down.T, step.gate, step.up)
        products["up"] = step.mlp_input, to_up
        to_input: FloatArray = to_up @ block.up.T
        if to_gate is not None and block.gate is not None:
            products["gate"] = step.mlp_input, to_gate
            to_input = to_input + to_gate @ block.gate.T
        if pre:
            to_input, gains["mlp_gain"] = _norm_backward(
                to_input, step.middle, block.mlp_gain, design
            )
        g = design.residual * g + to_input

    if post:
        g, gains["attention_gain"] = _norm_backward(g, step.attended, block.attention_gain, design)
    products["output"] = step.heads, g
    to_heads = _split(g @ block.output.T, design.n_heads)
    to_v = _group_sums(step.weights.swapaxes(-1, -2) @ to_heads, design)
    to_weights = to_heads @ _for_queries(step.v, design).swapaxes(-1, -2)
    to_scores = _weights_backward(to_weights, step, design)
    to_scores /= design.divisor * design.gradient_divisor
    to_q = to_scores @ _for_queries(step.k, design)
    to_k = _group_sums(to_scores.swapaxes(-1, -2) @ step.q, design)

    to_raw_q, to_gain = _sized_backward(
        _rotate(to_q, design, back=True), step.raw_q, block.query_gain, design
    )
    to_raw_k, _ = _sized_backward(_rotate(to_k, design, back=True), step.raw_k, None, design)
    if to_gain is not None:
        gains["query_gain"] = to_gain

    to_h: FloatArray = np.zeros_like(step.h)
    for name, gradient, matrix in (
        ("query", to_raw_q, block.query),
        ("key", to_raw_k, block.key),
        ("value", to_v, block.value),
    ):
        products[name] = step.h, _merge(gradient)
        to_h = to_h + products[name][1] @ matrix.T
    if pre:
        to_h, gains["attention_gain"] = _norm_backward(to_h, step.x, block.attention_gain, design)
    return BlockGradients(design.residual * g + to_h, to_q, to_k, to_v, products, gains)


def _norm(x: FloatArray, gain: FloatArray | None, design: Design) -> FloatArray:
    """x / sqrt(mean x^2 + epsilon), times the gain."""
    normed = x / _length(x, design)
    return normed if gain is None else normed * gain


def _norm_backward(
    g: FloatArray, x: FloatArray, gain: FloatArray | None, design: Design
) -> tuple[FloatArray, FloatArray]:
    """With y = x / r, dL/dx = (g - y mean(g y)) / r for the gradient g to y; and that to the gain."""
    r = _length(x, design)
    y = x / r
    to_gain = (g * y).reshape(-1, x.shape[-1]).sum(axis=0)
    g = g if gain is None else g * gain
    along = (g * y).mean(axis=-1, keepdims=True)
    return (g - y * along) / r, to_gain


def _sized(heads: FloatArray, gain: FloatArray | None, design: Design) -> FloatArray:
    """Vectors of heads, of r.m.s. 1 under QK-norm, times the gain of their head."""
    if design.qk_norm:
        return _norm(heads, gain, design)
    return heads if gain is None else heads * gain


def _sized_backward(
    g: FloatArray, heads: FloatArray, gain: FloatArray | None, design: Design
) -> tuple[FloatArray, FloatArray | None]:
    """The gradients to vectors of heads and to their gains, from that to `_sized`."""
    to_gain = None
    if gain is not None:
        by_head = (g * _sized(heads, None, design)).sum(axis=(-2, -1))
        to_gain = by_head.reshape(-1, len(gain)).sum(axis=0).reshape(gain.shape)
        g = g * gain
    return _norm_backward(g, heads, None, design)[0] if design.qk_norm else g, to_gain


def _length(x: FloatArray, design: Design) -> FloatArray:
    mean_square = (x * x).mean(axis=-1, keepdims=True)
    return np.asarray(np.sqrt(mean_square + design.epsilon))


def _hidden(gate: FloatArray | None, up: FloatArray) -> FloatArray:
    """silu(u) z = u z / (1 + e^-u), or max(z, 0) without a gate."""
    if gate is None:
        return np.maximum(up, 0.0)
    hidden: FloatArray = gate * _logistic(gate) * up
    return hidden


def _hidden_backward(
    g: FloatArray, gate: FloatArray | None, up: FloatArray
) -> tuple[FloatArray | None, FloatArray]:
    """The gradients to u and z; silu'(u) = p (1 + u (1 - p)) with p = 1 / (1 + e^-u)."""
    if gate is None:
        return None, g * (up > 0)
    p = _logistic(gate)
    return g * up * p * (1 + gate * (1 - p)), g * gate * p


def _logistic(u: FloatArray) -> FloatArray:
    """1 / (1 + e^-u)."""
    from scipy.special import expit  # here, because SciPy takes long to load

    return np.asarray(expit(u))


def _weights_backward(g: FloatArray, step: Steps, design: Design) -> FloatArray:
    """The gradient to the scaled scores: that to the capped ones, times 1 - tanh(s / cap)^2. A sink
    takes part in no sum, because its value is 0.
    """
    cap = design.row_map.softcap
    to_capped = NORMALIZERS[design.row_map.normalizer].backward(g, step.weights)
    slope = 1 - np.tanh(step.scaled / cap) ** 2 if cap else 1.0
    return np.asarray(to_capped * slope)


def _rotate(x: FloatArray, design: Design, *, back: bool = False) -> FloatArray:
    """RoPE of heads (..., n, d_k); back: by the opposite angles, which is its transpose."""
    if design.rope_base is None:
        return x
    positions = np.arange(x.shape[-2])
    return rotated(x, -positions if back else positions, design.rope_base).astype(x.dtype)


def _split(y: FloatArray, n_heads: int) -> FloatArray:
    """(..., n, n_heads d) as heads (..., n_heads, n, d)."""
    return y.reshape(*y.shape[:-1], n_heads, -1).swapaxes(-2, -3)


def _merge(y: FloatArray) -> FloatArray:
    """Heads (..., n_heads, n, d) side by side, (..., n, n_heads d)."""
    tokens_first = y.swapaxes(-2, -3)
    return tokens_first.reshape(*tokens_first.shape[:-2], -1)


def _for_queries(keys: FloatArray, design: Design) -> FloatArray:
    """Heads of keys or values, one for each head of queries."""
    return np.repeat(keys, design.n_heads // design.n_key_heads, axis=-3)


def _group_sums(gradient: FloatArray, design: Design) -> FloatArray:
    """The sum over the heads of queries that share a head of keys."""
    *leading, _, n, d = gradient.shape
    groups = gradient.reshape(*leading, design.n_key_heads, -1, n, d)
    return np.asarray(groups.sum(axis=-3))


def outer(inputs: FloatArray, gradient: FloatArray) -> FloatArray:
    """h^T dL/dy, summed over all axes but the last."""
    rows = inputs.reshape(-1, inputs.shape[-1])
    return rows.T @ gradient.reshape(-1, gradient.shape[-1])


def next_token_losses(
    x: FloatArray,
    unembedding: FloatArray,
    targets: IntArray,
    design: Design,
    gain: FloatArray | None = None,
) -> FloatArray:
    """-ln softmax(h U)_target of each token, (..., n), with h = norm(x), or x unless the blocks are
    `pre`.

    x is the last stream (..., n, width), the unembedding U (width, vocabulary), targets (..., n)
    are integers, and the gain of the norm is (width,).

    >>> design = Design(1, 1, divisor=1.0, norm="none")
    >>> next_token_losses(np.zeros((1, 2)), np.eye(2), np.array([1]), design).round(4)  # ln 2
    array([0.6931])
    """
    h = _norm(x, gain, design) if design.norm == "pre" else x
    losses, _, _ = _exponentials(h @ unembedding, targets)
    return losses


def next_token_gradients(
    x: FloatArray,
    unembedding: FloatArray,
    targets: IntArray,
    design: Design,
    gain: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray]]:
    """The losses of `next_token_losses`, the gradient of each to the x of its own token, and the h
    and dL/dy of y = h U.

    >>> design = Design(1, 1, divisor=1.0, norm="none")
    >>> _, to_x, _ = next_token_gradients(np.zeros((1, 2)), np.eye(2), np.array([1]), design)
    >>> to_x  # (softmax(x U) - one at the target) U^T
    array([[ 0.5, -0.5]])
    """
    h = _norm(x, gain, design) if design.norm == "pre" else x
    losses, g, sums = _exponentials(h @ unembedding, targets)
    g /= sums
    np.put_along_axis(g, targets[..., None], _at(targets, g) - 1, axis=-1)
    to_x: FloatArray = g @ unembedding.T
    if design.norm == "pre":
        to_x, _ = _norm_backward(to_x, x, gain, design)
    return losses, to_x, (h, g)


def _exponentials(
    logits: FloatArray, targets: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The losses; e^(logits - largest), written over the logits, and their sums, (..., n, 1)."""
    logits -= logits.max(axis=-1, keepdims=True)
    at_target = _at(targets, logits)
    exponentials = np.exp(logits, out=logits)
    sums = exponentials.sum(axis=-1, keepdims=True)
    return (np.log(sums) - at_target)[..., 0], exponentials, sums


def _at(targets: IntArray, values: FloatArray) -> FloatArray:
    """The values at the targets, (..., n, 1)."""
    return np.take_along_axis(values, targets[..., None], axis=-1)
