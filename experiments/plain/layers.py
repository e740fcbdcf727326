"""The second, plain kernel for layers of a network: their numbers from the definitions.

A layer is compared from the stream below it and the gradient above it, as `sdpa.network` found
them. Its forward pass is repeated one head at a time, with complex numbers: the imaginary part of
f(x + i h v), over a tiny h, is the derivative of f along v to the last digits (Squire and Trapp
1998). So no gradient has a formula here: the gradients g of a loss to the stream, queries, keys and
values, each times its move v, add up to the derivative of the loss.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.plain.rows import Floats, difference
from sdpa import network

Complex = npt.NDArray[np.inexact[Any]]  # numbers with derivatives as imaginary parts

_EPS = float(np.finfo(float).eps)
_STEP = 1e-100  # h, whose square vanishes beside any number
_RELATIVE = 1e-8
_ROUNDINGS = 256  # of scores, in units of |q| |k| / divisor
_NEAR = 1e-9  # of cosines
_MOVED = ("x", "q", "k", "v")  # arrays of a layer, each with its gradient


def compare_layer(
    step: network.Steps,
    gradient: network.BlockGradients,
    block: network.Block,
    design: network.Design,
    above: Floats,
    reported: Mapping[str, float],
) -> None:
    """Compare the stream above a layer, its gradients, and the reported numbers of the layer with
    their definitions.

    `above` is the gradient to the stream above; `reported` has the numbers of the layer by column.
    The design has no shared heads, gains, caps or sinks, and one divisor.

    Raises:
        ArithmeticError: a number differs by more than rounding explains.
    """
    rng = np.random.default_rng(0)
    gradients = {name: getattr(gradient, name) for name in _MOVED}
    moves = {name: rng.standard_normal(g.shape) for name, g in gradients.items()}
    after, heads = _forward(step.x, moves, block, design)
    q, k, v, scores, weights = map(np.real, heads)

    longest_query = _lengths(q).max()
    longest_key = _lengths(k).max()
    longest_value = _lengths(v).max()
    divisor = float(design.divisor)
    rounding = _ROUNDINGS * _EPS * (1 + longest_query * longest_key / divisor)
    relative = _RELATIVE + rounding
    allowed = relative * np.abs(after.real).max()
    is_beyond = ~(np.abs(step.after - after.real) <= allowed)
    for place in map(tuple, np.argwhere(is_beyond)):
        raise difference(f"stream above a layer {place}", after.real[place], step.after[place])

    derivative = float((above * after.imag).sum()) / _STEP
    along = size = 0.0
    for name, of_array in gradients.items():
        move = moves[name]
        along += float((of_array * move).sum())
        size += float(np.linalg.norm(of_array) * np.linalg.norm(move))
    # In saturated rows, the terms of the gradients to queries and keys cancel.
    to_weights = np.linalg.norm(above @ block.output.T) * longest_value
    to_heads = to_weights * (longest_query + longest_key) / divisor
    size += to_heads * math.sqrt(q.size)
    if not abs(along - derivative) <= relative * size:
        raise difference("gradient below a layer, along a move", derivative, along)

    of_rows = {"entropy": rounding, "row_variance": rounding}
    of_token = (gradient.x**2).sum(axis=1).mean()
    expected = {
        **_of_rows(scores, weights),
        "stream": (step.x**2).mean(),
        "cosine": _mean_product(step.x / _lengths(step.x)),
        "stream_gradient": (gradient.x**2).mean(),
        "gradient_cosine": _mean_product(gradient.x) / of_token,
        "query_gradient": (gradient.q**2).sum(axis=2).mean(),
        "key_gradient": (gradient.k**2).sum(axis=2).mean(),
        "value_gradient": (gradient.v**2).sum(axis=2).mean(),
        "query_gradient_median": float(np.median(_lengths(gradient.q))),
    }
    for name, value in expected.items():
        absolute = of_rows.get(name, _NEAR * name.endswith("cosine"))
        tolerance = relative * abs(value) + absolute
        if not abs(reported[name] - value) <= tolerance:
            raise difference(f"{name} of a layer", value, reported[name])


def _forward(
    x: Floats, moves: Mapping[str, Floats], block: network.Block, design: network.Design
) -> tuple[Complex, tuple[Complex, ...]]:
    """The stream above a layer where each array moves by i h times its move, (n, width); and q, k,
    v, scores and weights of all heads, -inf where masked.
    """
    step = {name: 1j * _STEP * move for name, move in moves.items()}
    pre = design.norm == "pre"
    post = design.norm == "post"
    stream = x + step["x"]
    h = _norm(stream) if pre else stream
    matrices = block.query, block.key, block.value
    parts = (np.split(h @ matrix, design.n_heads, axis=1) for matrix in matrices)
    q, k, v = map(np.stack, parts)
    q = _turned(q, design) + step["q"]
    k = _turned(k, design) + step["k"]
    v = v + step["v"]
    visible = np.tri(len(x), dtype=bool) if design.mask == "causal" else True
    scaled = q @ k.swapaxes(1, 2) / design.divisor
    scores = np.where(visible, scaled, -np.inf)
    largest = scores.real.max(axis=2, keepdims=True)
    exponentials = np.exp(scores - largest)
    weights = exponentials / exponentials.sum(axis=2, keepdims=True)
    mixed = np.concatenate([*(weights @ v)], axis=1)
    middle: Complex = design.residual * stream + mixed @ block.output
    if post:
        middle = _norm(middle)
    after: Complex = middle
    if block.up is not None and block.down is not None:
        below = _norm(middle) if pre else middle
        up = below @ block.up
        if block.gate is None:
            hidden = up * (up.real > 0)
        else:
            gate = below @ block.gate
            hidden = gate * up * (1 + np.tanh(gate / 2)) / 2
        after = design.residual * middle + hidden @ block.down
        if post:
            after = _norm(after)
    return after, (q, k, v, scores, weights)


def _norm(x: Complex) -> Complex:
    """The RMS norm of each token."""
    mean_square = (x * x).mean(axis=1, keepdims=True)
    return np.asarray(x / np.sqrt(mean_square))


def _turned(heads: Complex, design: network.Design) -> Complex:
    """Heads (n_heads, n, d_k) under RoPE."""
    if design.rope_base is None:
        return heads
    n, d_k = heads.shape[1:]
    half = d_k // 2
    wavelengths = design.rope_base ** (np.arange(half) / half)
    turns = np.arange(n)[:, None] / wavelengths
    cosines = np.cos(turns)
    sines = np.sin(turns)
    a = heads[..., :half]
    b = heads[..., half:]
    first = a * cosines - b * sines
    second = a * sines + b * cosines
    return np.concatenate([first, second], axis=-1)


def _of_rows(scores: Floats, weights: Floats) -> dict[str, float]:
    """Means over the rows of all heads."""
    logarithms = np.log(np.where(weights > 0, weights, 1.0))

    return {
        "collision": (weights**2).sum(axis=2).mean(),
        "max_weight": weights.max(axis=2).mean(),
        "entropy": -(weights * logarithms).sum(axis=2).mean(),
        "row_variance": np.ma.masked_invalid(scores).var(axis=2).mean(),
    }


def _lengths(vectors: Floats) -> Floats:
    return np.asarray(np.linalg.norm(vectors, axis=-1, keepdims=True))


def _mean_product(vectors: Floats) -> float:
    """The mean product of two different vectors, (n, width)."""
    products = vectors @ vectors.T
    n = len(vectors)
    of_different = float(products.sum() - products.trace())
    return of_different / (n * (n - 1))
