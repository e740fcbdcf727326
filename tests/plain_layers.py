"""The values of layers of a network from their definitions.

Gradients are those of `sdpa.network`, which its own tests compare with differences.
"""

import itertools
import math

import numpy as np

from sdpa import network
from tests.plain_rows import of_row

OF_ROWS = "max_weight", "entropy", "row_variance"


def values_of_layers(x, blocks, top, design):
    """The values of each layer, where `top` is the gradient to the stream above the last."""
    steps = network.forward(x, blocks, design)
    gradients = network.backward(top, steps, blocks, design)
    layers = forward(x, blocks, design)
    return [values_of_layer(*each) for each in zip(layers, map(vars, gradients), strict=True)]


def forward(x, blocks, design):
    """The arrays of each layer."""
    layers = []
    for block in blocks:
        below = norm(x) if design.norm == "pre" else x
        q, k, v = (split(below @ w, design) for w in (block.query, block.key, block.value))
        scores = turned(q, design) @ turned(k, design).swapaxes(-1, -2) / design.divisor
        if design.mask == "causal":
            scores = np.where(np.tri(x.shape[-2], dtype=bool), scores, -np.inf)
        weights = np.exp(scores)
        weights = weights / weights.sum(axis=-1, keepdims=True)
        layers.append({"x": x, "scores": scores})
        mixed = (weights @ v).swapaxes(-3, -2)
        x = design.residual * x + mixed.reshape(*mixed.shape[:-2], -1) @ block.output
        x = norm(x) if design.norm == "post" else x
        if block.up is not None:
            below = norm(x) if design.norm == "pre" else x
            hidden = below @ block.up
            gate = hidden > 0
            if block.gate is not None:
                opened = below @ block.gate
                gate = opened / (1 + np.exp(-opened))
            x = design.residual * x + (hidden * gate) @ block.down
            x = norm(x) if design.norm == "post" else x
    return layers


def norm(x):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True))


def split(x, design):
    return x.reshape(*x.shape[:-1], design.n_heads, -1).swapaxes(-3, -2)


def turned(x, design):
    """Each pair of entries rotated by the position over its wavelength."""
    if design.rope_base is None:
        return x
    half = x.shape[-1] // 2
    turns = np.arange(x.shape[-2])[:, None] / design.rope_base ** (np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    cosines, sines = np.cos(turns), np.sin(turns)
    return np.concatenate([a * cosines - b * sines, a * sines + b * cosines], axis=-1)


def values_of_layer(arrays, gradients):
    scores = (head for draw in arrays["scores"] for head in draw)
    rows = [of_row(row[np.isfinite(row)].tolist())[0] for row in scores]
    of_heads = {name: [row @ row for head in gradients[name] for row in head] for name in "qkv"}
    x, to_x = arrays["x"], gradients["x"]
    square = (to_x**2).mean()
    return {name: np.mean([row[name] for row in rows]) for name in OF_ROWS} | {
        "stream": (x**2).mean(),
        "cosine": mean_of_pairs(x, lambda a, b: a @ b / math.hypot(*a) / math.hypot(*b)),
        "collision": np.mean([row["output_std"] for row in rows]),
        "stream_gradient": square,
        "gradient_cosine": mean_of_pairs(to_x, np.dot) / (square * x.shape[1]),
        "query_gradient": np.mean(of_heads["q"]),
        "key_gradient": np.mean(of_heads["k"]),
        "value_gradient": np.mean(of_heads["v"]),
        "query_gradient_median": np.median(np.sqrt(of_heads["q"])),
    }


def mean_of_pairs(vectors, of):
    return np.mean([of(a, b) for a, b in itertools.combinations(vectors, 2)])
