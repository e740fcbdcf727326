"""The article's session: the running example, a batch, and a module."""

from functools import cache

import numpy as np

from experiments.examples import session
from experiments.statements.answer import Answer, cases, numbers
from experiments.statements.declare import statement
from experiments.statements.shared import Floats, normals
from sdpa import ScaledDotProductAttention, Trace, scaled_dot_product_attention, trace_shapes


def _running() -> Trace:
    """Attention of the running example."""
    return session.running().trace()


@statement(
    "article-07", says="Shapes of X, Q, K and V.", claimed="4 8 4 6 4 6 4 6", rule="shape", severity="wrong number"
)
def shapes_of_the_session() -> Answer:
    found = _running()
    return numbers(*(np.asarray(array).shape for array in (session.running().tokens, found.q, found.k, found.v)))


@statement("article-10", says="One matrix product replaces n^2 dot products.", severity="wrong number")
def one_product_for_all() -> Answer:
    found = _running()
    dots = np.array([q @ k for q in found.q for k in found.k])
    return cases(
        {"the product equals the dot products": np.allclose(found.scores, dots.reshape(4, 4), rtol=0, atol=1e-15)},
        f"There are {len(dots)} dot products",
    )


@statement("article-11", says="The score matrix is 4 x 4.", claimed="4 4", rule="shape", severity="wrong number")
def shape_of_the_scores() -> Answer:
    return numbers(_running().scores.shape)


@statement(
    "article-12",
    says="The sixteen raw scores.",
    claimed="0.045 -0.237 -0.014 0.061 -0.053 0.492 0.015 -0.134 -0.147 0.173 0.044 0.191 -0.114 0.163 0.109 -0.301",
    rule="digits",
    severity="wrong number",
)
def scores_of_the_session() -> Answer:
    return numbers(_running().scores)


@statement("article-13", says="Some raw scores are positive, others negative.", severity="wrong number")
def signs_of_the_scores() -> Answer:
    scores = _running().scores
    positive = int((scores > 0).sum())
    return cases(
        {"some are positive": positive > 0, "some are negative": positive < 16},
        f"{positive} are positive and {16 - positive} negative",
    )


@statement(
    "article-66",
    says="Shapes of input, output and weights.",
    claimed="4 8 4 6 4 4",
    rule="shape",
    severity="wrong number",
)
def shapes_of_the_output() -> Answer:
    found = _running()
    return numbers(session.running().tokens.shape, np.asarray(found.output).shape, found.weights.shape)


@statement(
    "article-67",
    says="The sixteen weights.",
    claimed="0.258 0.230 0.252 0.260 0.236 0.294 0.242 0.228 0.229 0.261 0.247 0.263 0.241 0.270 0.264 0.224",
    rule="digits",
    severity="wrong number",
)
def weights_of_the_session() -> Answer:
    return numbers(_running().weights)


@statement(
    "article-68",
    says="Row sums of the weights.",
    claimed="1.0000000 1.0000000 1.0000000 1.0000000",
    rule="digits",
    severity="wrong number",
)
def sums_of_the_session() -> Answer:
    return numbers(_running().weights.sum(axis=1))


@statement("article-69", says="Each row of weights sums to exactly 1.0.", severity="slip")
def exact_sums_of_the_session() -> Answer:
    return exactly_one(_running().weights)


def exactly_one(weights: Floats) -> Answer:
    """Rows of weights that sum to 1, to the rounding of doubles; their largest error is in the note."""
    sums = weights.sum(axis=1)
    note = f"Row sums in double precision differ from 1 by up to {abs(sums - 1).max():.1g}"
    return cases({"row sums are 1 to the rounding of doubles": np.allclose(sums, 1, rtol=0, atol=1e-15)}, note)


@statement(
    "article-70",
    says="The output is as long as the sequence and as wide as the values.",
    claimed="4 6",
    rule="shape",
    severity="wrong number",
)
def shape_of_the_output() -> Answer:
    return numbers(np.asarray(_running().output).shape)


@statement(
    "article-79",
    says="Seven shapes on the way through attention, for n = 100 and d_k = d_v = 64.",
    claimed="100 64 100 64 100 64 64 100 100 100 100 100 100 64",
    rule="shape",
    severity="wrong number",
)
def seven_shapes() -> Answer:
    """Shapes of arrays that went through attention; dividing keeps a shape, so that scaled scores do not count."""
    shapes = trace_shapes(*(normals(100, 64, seed=seed) for seed in range(3)))
    return numbers(*(shape for step, shape in shapes.items() if step != "scaled scores"))


@statement(
    "article-82", says="Shapes of the batch, in and out.", claimed="3 4 6 3 4 6", rule="shape", severity="wrong number"
)
def batch_shapes() -> Answer:
    q, k, v = session.batch()
    return numbers(q.shape, scaled_dot_product_attention(q, k, v).shape)


@statement("article-83", says="Attention of a batch equals that of its sequences one by one.", severity="wrong number")
def batch_is_loop() -> Answer:
    q, k, v = session.batch()
    loop = [scaled_dot_product_attention(*one) for one in zip(q, k, v, strict=True)]
    return cases({"the two are equal": np.allclose(scaled_dot_product_attention(q, k, v), loop, rtol=0, atol=1e-14)})


@cache
def module() -> tuple[Floats, Floats, Floats]:
    """Tokens, output and weights of the module of seed 42, with the tokens from the same stream."""
    rng = np.random.RandomState(42)
    attention = ScaledDotProductAttention(32, 16, 16, rng=rng)
    tokens = rng.standard_normal((8, 32))
    return tokens, *attention(tokens, return_weights=True)


@statement(
    "article-137",
    says="Shapes of the module's input, output and weights.",
    claimed="8 32 8 16 8 8",
    rule="shape",
    severity="wrong number",
)
def shapes_of_the_module() -> Answer:
    return numbers(*(array.shape for array in module()))


@statement(
    "article-138",
    says="Row sums of the module's weights.",
    claimed="1.0000000 1.0000000 1.0000000 1.0000000 1.0000000 1.0000000 1.0000000 1.0000000",
    rule="digits",
    severity="wrong number",
)
def sums_of_the_module() -> Answer:
    return numbers(module()[2].sum(axis=1))


@statement("article-139", says="Each row of the module's weights sums to exactly 1.0.", severity="slip")
def exact_sums_of_the_module() -> Answer:
    return exactly_one(module()[2])


@statement(
    "article-140",
    says="The module takes 8 tokens of width 32 to 8 of width 16.",
    claimed="8 32 8 16",
    rule="shape",
    severity="wrong number",
)
def in_and_out_of_the_module() -> Answer:
    return numbers(*(array.shape for array in module()[:2]))
