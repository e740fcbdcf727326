"""Attention as a whole: the formula, shapes, derivatives, symmetry."""

import math

import numpy as np

from experiments.statements.answer import Answer, cases
from experiments.statements.declare import statement
from experiments.statements.shared import normals
from sdpa import ScaledDotProductAttention, attention_gradients, scaled_dot_product_attention, trace_shapes


@statement(
    "qa-30 textbook-01 textbook-02 textbook-18 lesson-38 lesson-43 article-60 article-63",
    says="softmax(Q K^T / sqrt(d_k)) V computes for every token the weighted sum of all values,"
    " as one token at a time would.",
    severity="conceptual error",
)
def matrix_is_loop() -> Answer:
    """The formula for a whole sequence against one token and one value at a time."""
    q, k, v = normals(6, 5), normals(6, 5, seed=1), normals(6, 3, seed=2)
    loop = np.zeros((6, 3))
    for i in range(6):
        exponentials = [math.exp(sum(q[i] * k[j]) / math.sqrt(5)) for j in range(6)]
        for j in range(6):
            loop[i] += exponentials[j] / sum(exponentials) * v[j]
    return cases(
        {
            "the formula and the loop agree to rounding": np.allclose(
                scaled_dot_product_attention(q, k, v), loop, rtol=0, atol=1e-14
            )
        }
    )


@statement("textbook-21", says="Each output averages all values by its weights.", severity="conceptual error")
def weighted_average() -> Answer:
    """Every weight is positive, and outputs lie between the smallest and the largest value."""
    v = normals(7, 3, seed=2)
    output, weights = scaled_dot_product_attention(normals(7, 4), normals(7, 4, seed=1), v, return_weights=True)
    inside = ((output >= v.min(0)) & (output <= v.max(0))).all()
    return cases(
        {
            "every weight is positive": (weights > 0).all(),
            "every output lies between the smallest and the largest value": inside,
        }
    )


@statement(
    "qa-36 qa-38 qa-39 textbook-05 textbook-17 textbook-19 article-04 article-61",
    says="Q and K are n x d_k, V is n x d_v, scores and weights n x n, the output n x d_v.",
    severity="conceptual error",
)
def shapes_hold() -> Answer:
    """Shapes on the way through attention, for n = 7, d_k = 5, d_v = 3."""
    shapes = trace_shapes(normals(7, 5), normals(7, 5, seed=1), normals(7, 3, seed=2))
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
    return cases({"all shapes are as stated": shapes == expected})


@statement(
    "lesson-02 lesson-10 lesson-41",
    says="Four tokens of width 8 give 4 x 4 scores and a 4 x 8 output.",
    severity="wrong number",
)
def shapes_of_the_lesson() -> Answer:
    """Shapes for 4 tokens of 8 dimensions."""
    shapes = trace_shapes(*(normals(4, 8, seed=seed) for seed in range(3)))
    return cases(
        {"there are 4 x 4 scores": shapes["Q K^T"] == (4, 4), "the output is 4 x 8": shapes["output"] == (4, 8)}
    )


@statement(
    "qa-37 qa-40",
    says="Where projections keep the width of the tokens, Q, K, V and the output have the shape of the input.",
    severity="conceptual error",
)
def output_has_the_shape_of_the_input() -> Answer:
    """Shapes of Q, K, V and the output where d_k and d_v are d_model; of the output elsewhere in the note."""
    tokens, square, narrow = normals(5, 6), *(ScaledDotProductAttention(6, d, d, seed=99) for d in (6, 4))
    projected = [tokens @ weights for weights in (square.W_Q, square.W_K, square.W_V)]
    conditions = {
        "Q, K and V have the shape of the input": all(array.shape == tokens.shape for array in projected),
        "the output has it too": square(tokens).shape == tokens.shape,
    }
    note = (
        f"The source chooses such d_k and d_v. For d_model = 6 and d_k = d_v = 4, the output of 5 tokens has the shape"
        f" {narrow(tokens).shape}; only a further projection restores d_model"
    )
    return cases(conditions, note)


@statement("article-05", says="Queries and keys need the same width.", severity="conceptual error")
def widths_must_agree() -> Answer:
    """Queries of width 3 against keys of width 4, as a matrix product alone: our code would check the widths."""
    try:
        normals(2, 3) @ normals(2, 4).T
    except ValueError:
        return cases({"queries of width 3 and keys of width 4 have no matrix product": True})
    return cases({"queries of width 3 and keys of width 4 have no matrix product": False})


@statement(
    "qa-34 qa-41 lesson-42",
    says="Before attention a token holds only itself; its output depends on the other tokens.",
    severity="conceptual error",
)
def communication() -> Answer:
    """The output of token 0 as token 1 moves: its projection stays, its attention does not."""
    module, tokens, step = ScaledDotProductAttention(6, 4, 3, seed=99), normals(5, 6), 1e-6
    moved = tokens.copy()
    moved[1, 0] += step
    before, after = module(tokens)[0], module(moved)[0]
    change = np.linalg.norm(after - before) / step
    return cases(
        {
            "its own projection does not change with another token": np.array_equal(
                (moved @ module.W_V)[0], (tokens @ module.W_V)[0]
            ),
            "its output does": not np.allclose(before, after, rtol=0, atol=1e-12),
        },
        f"For a small change of one entry of token 1, the output of token 0 changes {change:.3f} times as much",
    )


@statement(
    "lesson-44", says="Attention is differentiable from its output back to the tokens.", severity="conceptual error"
)
def attention_is_differentiable() -> Answer:
    """Central differences through a whole module, from its output back to its tokens, against the chain rule."""
    module, tokens, step = ScaledDotProductAttention(6, 4, 3, seed=99), normals(5, 6), 1e-6
    upstream = normals(5, 3, seed=3)
    q, k, v = tokens @ module.W_Q, tokens @ module.W_K, tokens @ module.W_V
    gradients = attention_gradients(q, k, v, upstream)
    chain = gradients.q @ module.W_Q.T + gradients.k @ module.W_K.T + gradients.v @ module.W_V.T
    differences = np.empty_like(tokens)
    for place in np.ndindex(tokens.shape):
        moved = np.zeros_like(tokens)
        moved[place] = step
        differences[place] = ((module(tokens + moved) - module(tokens - moved)) * upstream).sum() / (2 * step)
    return cases({"finite differences agree with the chain rule": np.allclose(differences, chain, atol=1e-8)})


@statement(
    "lesson-04 article-09 article-93",
    says="Aligned vectors have a large positive score, orthogonal ones zero, opposite ones a negative one.",
    severity="conceptual error",
)
def alignment() -> Answer:
    """Scores of a vector with itself, a perpendicular one and its opposite."""
    u, across = np.array([3.0, 4.0]), np.array([-4.0, 3.0])
    return cases(
        {
            "a vector has a positive score with itself": u @ u == 25,
            "it has the score 0 with an orthogonal one": u @ across == 0,
            "it has a negative score with its opposite": u @ -u == -25,
        }
    )


@statement(
    "article-148",
    says="Attention is permutation-equivariant: shuffled tokens give shuffled outputs.",
    severity="conceptual error",
)
def permutation() -> Answer:
    """Outputs of permuted tokens are the permuted outputs."""
    module, tokens, order = (
        ScaledDotProductAttention(32, 16, 16, seed=99),
        normals(8, 32),
        [3, 1, 7, 0, 2, 6, 5, 4],
    )
    return cases(
        {
            "the outputs of shuffled tokens are the shuffled outputs": np.allclose(
                module(tokens[order]), module(tokens)[order], rtol=0, atol=1e-13
            )
        }
    )


@statement(
    "article-147",
    says="Without positions, 'dog bites man' cannot be told from 'man bites dog'.",
    severity="conceptual error",
)
def word_order() -> Answer:
    """dog bites man against man bites dog, without positions: each word's output, and their mean."""
    module, words = ScaledDotProductAttention(32, 16, 16, seed=99), normals(3, 32)
    one, other = module(words), module(words[::-1])
    return cases(
        {
            "each word has the same output in both orders": np.allclose(one, other[::-1], rtol=0, atol=1e-13),
            "the mean of all words is the same too": np.allclose(one.mean(0), other.mean(0), rtol=0, atol=1e-13),
        }
    )
