"""Attention as a whole: the formula, shapes, what moves with what, symmetry."""

import math

import numpy as np

from experiments.statements.answers import Answer, Tables, cases, quantity, shown
from experiments.statements.checks import example
from experiments.statements.cutoffs import DOMINANT
from sdpa import (
    ScaledDotProductAttention,
    scaled_dot_product_attention,
    softmax,
    trace_shapes,
)


@quantity
def matrix_is_loop(_: Tables) -> Answer:
    """The formula for a whole sequence against one token and one value at a time."""
    q, k, v = example(6, 5), example(6, 5, seed=1), example(6, 3, seed=2)
    loop = np.zeros((6, 3))
    for i in range(6):
        exponentials = [math.exp(sum(q[i] * k[j]) / math.sqrt(5)) for j in range(6)]
        for j in range(6):
            loop[i] += exponentials[j] / sum(exponentials) * v[j]
    return cases({"equal to rounding": np.allclose(scaled_dot_product_attention(q, k, v), loop, rtol=0, atol=1e-14)})


@quantity
def weighted_average(_: Tables) -> Answer:
    """Every weight is positive, and outputs lie between the smallest and the largest value."""
    v = example(7, 3, seed=2)
    output, weights = scaled_dot_product_attention(example(7, 4), example(7, 4, seed=1), v, return_weights=True)
    inside = ((output >= v.min(0)) & (output <= v.max(0))).all()
    return cases({"every weight is positive": (weights > 0).all(), "outputs within the values": inside})


@quantity
def shapes_hold(_: Tables) -> Answer:
    """Shapes on the way through attention, for n = 7, d_k = 5, d_v = 3."""
    shapes = trace_shapes(example(7, 5), example(7, 5, seed=1), example(7, 3, seed=2))
    expected = {
        "Q": (7, 5),
        "K": (7, 5),
        "V": (7, 3),
        "K^T": (5, 7),
        "Q K^T": (7, 7),
        "scaled scores": (7, 7),
        "weights": (7, 7),
        "output": (7, 3),
    }
    return cases({"as stated": shapes == expected})


@quantity
def shapes_of_the_lesson(_: Tables) -> Answer:
    """Shapes for 4 tokens of 8 dimensions."""
    shapes = trace_shapes(*(example(4, 8, seed=seed) for seed in range(3)))
    return cases({"four by four scores": shapes["Q K^T"] == (4, 4), "four by eight output": shapes["output"] == (4, 8)})


@quantity
def output_has_the_shape_of_the_input(_: Tables) -> Answer:
    """Whether Q, K, V and the output have the shape of X, where d_k and d_v are d_model; elsewhere in the note."""
    tokens, square, narrow = example(5, 6), *(ScaledDotProductAttention(6, d, d, seed=99) for d in (6, 4))
    projected = [tokens @ weights for weights in (square.W_Q, square.W_K, square.W_V)]
    conditions = {
        "Q, K and V": all(array.shape == tokens.shape for array in projected),
        "the output": square(tokens).shape == tokens.shape,
    }
    note = (
        f"so the source chooses d_k and d_v. For d_model = 6 and d_k = d_v = 4 the output of 5 tokens is"
        f" {narrow(tokens).shape}: d_model only comes back through a further projection"
    )
    return cases(conditions, note)


@quantity
def projections(_: Tables) -> Answer:
    """Q, K and V of a module are products of X with its three matrices."""
    module, tokens = ScaledDotProductAttention(6, 4, 3, seed=99), example(5, 6)
    expected = scaled_dot_product_attention(tokens @ module.W_Q, tokens @ module.W_K, tokens @ module.W_V)
    return cases({"the module is attention of X W": np.allclose(module(tokens), expected, rtol=0, atol=1e-14)})


@quantity
def widths_must_agree(_: Tables) -> Answer:
    """Queries of width 3 against keys of width 4."""
    try:
        scaled_dot_product_attention(example(2, 3), example(2, 4), example(2, 2))
    except ValueError:
        return cases({"other widths are refused": True})
    return cases({"other widths are refused": False})


@quantity
def communication(_: Tables) -> Answer:
    """How the output of token 0 moves with token 1: not before attention, but after."""
    module, tokens, step = ScaledDotProductAttention(6, 4, 3, seed=99), example(5, 6), 1e-6
    moved = tokens.copy()
    moved[1, 0] += step
    before, after = module(tokens)[0], module(moved)[0]
    change = np.linalg.norm(after - before) / step
    return cases(
        {
            "a projection of its own does not move": np.array_equal((moved @ module.W_V)[0], (tokens @ module.W_V)[0]),
            "its output does": not np.allclose(before, after, rtol=0, atol=1e-12),
        },
        f"|d output_0 / d x_1| = {change:.3f} in one direction",
    )


@quantity
def alignment(_: Tables) -> Answer:
    """Scores of a vector with itself, a perpendicular one and its opposite."""
    u, across = np.array([3.0, 4.0]), np.array([-4.0, 3.0])
    return cases({"positive aligned": u @ u == 25, "zero across": u @ across == 0, "negative opposed": u @ -u == -25})


@quantity
def permutation(_: Tables) -> Answer:
    """Outputs of permuted tokens are the permuted outputs."""
    module, tokens, order = (
        ScaledDotProductAttention(32, 16, 16, seed=99),
        example(8, 32),
        [3, 1, 7, 0, 2, 6, 5, 4],
    )
    return cases(
        {"outputs permute alike": np.allclose(module(tokens[order]), module(tokens)[order], rtol=0, atol=1e-13)}
    )


@quantity
def word_order(_: Tables) -> Answer:
    """dog bites man against man bites dog, without positions: each word's output, and their mean."""
    module, words = ScaledDotProductAttention(32, 16, 16, seed=99), example(3, 32)
    one, other = module(words), module(words[::-1])
    return cases(
        {
            "each word has the same output": np.allclose(one, other[::-1], rtol=0, atol=1e-13),
            "so has their mean": np.allclose(one.mean(0), other.mean(0), rtol=0, atol=1e-13),
        }
    )


@quantity
def sharp_and_soft(_: Tables) -> Answer:
    """The mean largest of 8 weights of a scaled module whose W_Q is a tenth, as it is, and ten times as large."""
    module, tokens, largest = ScaledDotProductAttention(32, 16, 16, seed=99), example(8, 32), []
    for factor in (0.1, 1.0, 10.0):
        q, k = factor * tokens @ module.W_Q, tokens @ module.W_K
        largest.append(softmax(q @ k.T / 4).max(-1).mean())
    return cases(
        {"soft": largest[0] < DOMINANT, "sharp": largest[2] > DOMINANT},
        f"mean largest of 8 weights, d_k = 16, W_Q times 0.1, 1 and 10: {shown(largest, 3)}",
    )
