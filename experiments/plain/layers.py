"""The second, plain kernel for layers of a network: their numbers, one head at a time.

A layer is compared from the stream below it and the gradient above it, as `sdpa.network` found
them. RoPE multiplies complex numbers here, and the gradient g above an RMS norm becomes
g / r - x (x . g) / (width r^3), with r the root mean square of x.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments.plain.rows import difference
from sdpa import network

Floats = npt.NDArray[np.floating]
Back = Callable[[Floats], Floats]  # from the gradient above a step to that below

_EPS = float(np.finfo(float).eps)
_RELATIVE = 1e-8
_ROUNDINGS = 256  # of scores, in units of |q| |k| / divisor
_NEAR = 1e-9  # of cosines
_SQUARES = ("row_variance", "query_gradient", "key_gradient")  # compared by their roots


@dataclass(frozen=True)
class _Head:
    """The arrays of one head."""

    q: Floats  # after RoPE, (n, d_k)
    k: Floats
    v: Floats
    scores: Floats  # over the divisor, -inf where masked, (n, n)
    weights: Floats

    def back(self, g: Floats, divisor: float) -> tuple[Floats, Floats, Floats]:
        """The gradients to q, k and v from the gradient g to the weighted values."""
        to_weights = g @ self.v.T
        means = (self.weights * to_weights).sum(axis=1)[:, None]
        to_scores = self.weights * (to_weights - means) / divisor
        return to_scores @ self.k, to_scores.T @ self.q, self.weights.T @ g


def compare_layer(
    step: network.Steps,
    gradient: network.BlockGradients,
    block: network.Block,
    design: network.Design,
    above: Floats,
    reported: Mapping[str, float],
) -> None:
    """Compare the stream above a layer, the gradient to that below it, and the reported numbers of
    the layer with their definitions.

    `above` is the gradient to the stream above; `reported` has the numbers of the layer by column.
    The design has no shared heads, gains, caps or sinks, and one divisor.

    Raises:
        ArithmeticError: a number differs by more than rounding explains.
    """
    pre, post, divisor = design.norm == "pre", design.norm == "post", float(design.divisor)
    h, h_back = _norm(step.x, pre)
    heads = _heads(h, block, design)
    mixed = np.concatenate([head.weights @ head.v for head in heads], axis=1)
    middle, middle_back = _norm(design.residual * step.x + mixed @ block.output, post)
    after, after_back = _mlp(middle, block, design)

    g = middle_back(after_back(above))
    to_mixed = np.split(g @ block.output.T, len(heads), axis=1)
    found = [head.back(each, divisor) for head, each in zip(heads, to_mixed, strict=True)]
    to_q, to_k, to_v = (np.stack(gradients) for gradients in zip(*found, strict=True))
    to_h = _joined(_turned(to_q, design, -1)) @ block.query.T
    to_h += _joined(_turned(to_k, design, -1)) @ block.key.T
    to_h += _joined(to_v) @ block.value.T
    to_x = design.residual * g + h_back(to_h)

    longest = {
        name: max(_lengths(getattr(head, name)).max() for head in heads) for name in ("q", "k", "v")
    }
    reach = longest["q"] * longest["k"] / divisor
    rounding = float(_ROUNDINGS * _EPS * (1 + reach))
    to_weights = longest["v"] * max(_lengths(each).max() for each in to_mixed)
    of_query, of_key = (
        float(rounding * to_weights * longest[name] / divisor) for name in ("k", "q")
    )
    _compare_arrays("stream above a layer", after, step.after, _RELATIVE + rounding)
    _compare_arrays("gradient below a layer", to_x, gradient.x, _RELATIVE + rounding)
    expected: dict[str, tuple[float, float]] = {
        "stream": ((step.x**2).mean(), 0.0),
        "cosine": (_mean_product(step.x / _lengths(step.x)), _NEAR),
        **_of_rows(heads, rounding),
        "stream_gradient": ((to_x**2).mean(), 0.0),
        "gradient_cosine": (_mean_product(to_x) / (to_x**2).sum(axis=1).mean(), _NEAR),
        "query_gradient": ((to_q**2).sum(axis=2).mean(), of_query),
        "key_gradient": ((to_k**2).sum(axis=2).mean(), len(step.x) * of_key),
        "value_gradient": ((to_v**2).sum(axis=2).mean(), 0.0),
        "query_gradient_median": (float(np.median(_lengths(to_q))), of_query),
    }
    for name, (value, absolute) in expected.items():
        root = math.sqrt if name in _SQUARES else float
        want, got = root(value), root(reported[name])
        if not abs(got - want) <= (_RELATIVE + rounding) * abs(want) + absolute:
            raise difference(f"{name} of a layer", value, reported[name])


def _heads(h: Floats, block: network.Block, design: network.Design) -> list[_Head]:
    """All heads of a layer, from the input of its attention."""
    q, k, v = (
        np.stack(np.split(h @ matrix, design.n_heads, axis=1))
        for matrix in (block.query, block.key, block.value)
    )
    visible = _visible(len(h), design.mask)
    heads = []
    for of_q, of_k, of_v in zip(_turned(q, design), _turned(k, design), v, strict=True):
        scores = np.where(visible, of_q @ of_k.T / design.divisor, -np.inf)
        exponentials = np.exp(scores - scores.max(axis=1)[:, None])
        weights = exponentials / exponentials.sum(axis=1)[:, None]
        heads.append(_Head(of_q, of_k, of_v, scores, weights))
    return heads


def _visible(n: int, mask: str) -> npt.NDArray[np.bool_]:
    """True where the query of a row sees the key of a column: itself and the keys before it, at
    most as many as the window has.
    """
    if mask == "none":
        return np.ones((n, n), bool)
    behind = np.arange(n)[:, None] - np.arange(n)
    longest = n if mask == "causal" else int(mask.removeprefix("window-"))
    return (behind >= 0) & (behind < longest)


def _turned(heads: Floats, design: network.Design, sign: int = 1) -> Floats:
    """Heads (n_heads, n, d_k) under RoPE; with the sign -1, back."""
    if design.rope_base is None:
        return heads
    n, d_k = heads.shape[1:]
    half = d_k // 2
    turns = np.arange(n)[:, None] / design.rope_base ** (np.arange(half) / half)
    z = (heads[..., :half] + 1j * heads[..., half:]) * np.exp(sign * 1j * turns)
    return np.concatenate([z.real, z.imag], axis=-1)


def _joined(heads: Floats) -> Floats:
    """Heads (n_heads, n, d) side by side."""
    return np.concatenate(list(heads), axis=1)


def _norm(x: Floats, applies: bool) -> tuple[Floats, Back]:
    """The RMS norm of each token, or the tokens as they are, and the way back."""
    if not applies:
        return x, _unchanged
    width = x.shape[1]
    r = _lengths(x) / math.sqrt(width)

    def back(g: Floats) -> Floats:
        along = (x * g).sum(axis=1)[:, None]
        return np.asarray(g / r - x * along / (width * r**3))

    return x / r, back


def _unchanged(g: Floats) -> Floats:
    return g


def _mlp(middle: Floats, block: network.Block, design: network.Design) -> tuple[Floats, Back]:
    """The stream above the MLP, if there is one, and the way back to that below."""
    w_gate, w_up, w_down = block.gate, block.up, block.down
    if w_up is None or w_down is None:
        return middle, _unchanged
    x, x_back = _norm(middle, design.norm == "pre")
    up = x @ w_up
    if w_gate is None:
        hidden = up * (up > 0)
    else:
        gate = x @ w_gate
        p, rest = (1 + np.tanh(gate / 2)) / 2, (1 - np.tanh(gate / 2)) / 2
        hidden = gate * p * up
    after, after_back = _norm(design.residual * middle + hidden @ w_down, design.norm == "post")

    def back(g: Floats) -> Floats:
        g = after_back(g)
        to_hidden = g @ w_down.T
        if w_gate is None:
            to_x = (to_hidden * (up > 0)) @ w_up.T
        else:
            slope = p + gate * p * rest
            to_x = (to_hidden * gate * p) @ w_up.T + (to_hidden * slope * up) @ w_gate.T
        return np.asarray(design.residual * g + x_back(to_x))

    return after, back


def _of_rows(heads: list[_Head], rounding: float) -> dict[str, tuple[float, float]]:
    """Means over the rows of all heads, with the absolute error that each may have."""
    w = np.concatenate([head.weights for head in heads])
    scores = np.concatenate([head.scores for head in heads])
    visible = np.ma.masked_invalid(scores)
    return {
        "collision": ((w**2).sum(axis=1).mean(), 0.0),
        "max_weight": (w.max(axis=1).mean(), 0.0),
        "entropy": (-(w * np.log(np.where(w > 0, w, 1.0))).sum(axis=1).mean(), rounding),
        "row_variance": (visible.var(axis=1).mean(), rounding),
    }


def _lengths(vectors: Floats) -> Floats:
    return np.asarray(np.linalg.norm(vectors, axis=-1, keepdims=True))


def _mean_product(vectors: Floats) -> float:
    """The mean product of two different vectors, (n, width)."""
    products = vectors @ vectors.T
    n = len(vectors)
    return float(products.sum() - products.trace()) / (n * (n - 1))


def _compare_arrays(what: str, expected: Floats, got: Floats, relative: float) -> None:
    """ArithmeticError if an entry differs by more than a share of the largest."""
    allowed = relative * np.abs(expected).max()
    for token, entry in np.argwhere(~(np.abs(got - expected) <= allowed)):
        raise difference(f"{what}, token {token}", expected[token, entry], got[token, entry])
