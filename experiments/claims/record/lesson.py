"""Statements of the lesson."""

from decimal import Decimal, localcontext
from math import sqrt

import numpy as np

from experiments.claims.entry import (
    Cases,
    about,
    count,
    digits,
    in_a_word,
    in_example,
    in_general,
    undecided,
)
from experiments.claims.judge import SLIP
from experiments.claims.laws import (
    central_difference,
    layer,
    median_ratio,
    normals,
    qkv,
    share_beyond,
    variance_of_unit_vectors,
)
from experiments.claims.measured import UNTRAINED, Floats, Given
from experiments.claims.record.shared import FORMULA, PRODUCTS, tokens
from experiments.claims.training import LIMITS, heads
from experiments.claims.words import between, shown
from experiments.examples.examples import CAT_SCORES, CAT_WEIGHTS, WORDS
from sdpa import attention_gradients, softmax, softmax_jacobian, theory, trace_shapes


@in_example("lesson-02 lesson-10 lesson-41")
def shapes_of_four_tokens(_: Given) -> Cases:
    """Four tokens of width 8 give 4 x 4 scores and a 4 x 8 output."""
    shapes = trace_shapes(*qkv(4, 8, 8))
    return {
        "there are 4 x 4 scores": shapes["Q K^T"] == (4, 4),
        "the output is 4 x 8": shapes["output"] == (4, 8),
    }, ""


@in_general("lesson-04 article-09 article-93")
def signs_of_scores(_: Given) -> Cases:
    """Aligned vectors have a large positive score, orthogonal ones zero, opposite ones a negative
    one.
    """
    return {
        "a vector has a positive score with itself": np.dot((3, 4), (3, 4)) > 0,
        "it has the score 0 with an orthogonal one": np.dot((3, 4), (-4, 3)) == 0,
        "it has a negative score with its opposite": np.dot((3, 4), (-3, -4)) < 0,
    }, ""


@undecided("lesson-05")
def relevant_pairs_score_high(given: Given) -> str:
    """Training makes relevant pairs of query and key score high."""
    largest = heads(given, "d_k^1/2", "after")["max_weight"]
    return (
        "Which pairs of a text are relevant is not known here. Under d_k^1/2, after training on"
        f" text, the mean largest weight of the heads of `language` is {between(largest)}. {LIMITS}"
    )


digits(
    "lesson-08",
    "The strip shows the sixteen scores of the table to two decimals.",
    "0.23 0.83 0.03 0.63 0.41 0.82 0.09 0.59 0.85 0.35 -0.08 0.96 -0.07 0.65 0.06 0.20",
    CAT_SCORES,
)
about("lesson-11", "The square root of 8 is about 2.83.", "2.83", sqrt(8))
about(
    "lesson-13 lesson-14 lesson-15",
    "In 8, 64 and 512 dimensions, the product of two random vectors, which the lesson calls unit"
    " vectors, has a variance of about 8, 64 and 512.",
    "8 64 512",
    [theory.score_variance(d, 1.0) for d in (8, 64, 512)],
    "The lesson says later that it means entries of variance 1. For vectors of length 1, the"
    f" variance is 1/d: {shown([variance_of_unit_vectors(d) for d in (8, 64, 512)], 3)}",
)
about(
    "lesson-16",
    "In 8 dimensions, such products range roughly from -4 to 4.",
    "-4 4",
    np.multiply(sqrt(8), (-2, 2)),
    "This is two standard deviations on either side, as in the lesson's ranges at d = 64 and 512;"
    f" the claimed range contains {1 - share_beyond(4, 8):.1%} of scores",
)
about(
    "lesson-17 lesson-18",
    "In 64 and 512 dimensions, such products range roughly from -16 to 16 and from -45 to 45.",
    "-16 16 -45 45",
    np.outer(np.sqrt((64, 512)), (-2, 2)),
    "These are two standard deviations on either side; the claimed ranges contain"
    f" {1 - share_beyond(16, 64):.1%} and {1 - share_beyond(45, 512):.1%} of scores",
)


@in_general("lesson-24")
def variances_before_and_after(given: Given) -> Cases:
    """The variance of a score is about d_k before and about 1 after dividing by sqrt(d_k), for
    entries of variance 1.
    """
    metric = "score_variance"
    bare = given.dimension("unscaled")
    scaled = given.dimension("d_k^1/2")
    return {
        "the measured variance agrees with d_k before": given.agrees(bare, metric, bare["d_k"]),
        "it agrees with 1 after": given.agrees(scaled, metric, 1),
    }, f"Both are measured from d_k = 4 to 512 with 64 keys, {UNTRAINED} (dimension.csv)"


def _largest_over(rows: Floats, place: int) -> Floats:
    """The largest of each row over the one at a place in falling order."""
    ordered = np.sort(rows)[:, ::-1]
    return np.asarray(ordered[:, 0] / ordered[:, place])


@in_general("lesson-26")
def exponentials_amplify(given: Given) -> Cases:
    """Exponentials amplify differences: a larger score becomes much larger than a smaller one."""
    median = median_ratio(8, sqrt(8))
    over_smallest, over_second = (_largest_over(CAT_WEIGHTS, place) for place in (3, 1))
    return {
        "in the median pair of scaled scores at d_k = 8, one exponential is more than twice the"
        " other": median > given.amplified
    }, (
        "The ratio of two exponentials, e^(a - b), depends on the difference alone. Its median is"
        f" {median:.2f} for two scaled scores at d_k = 8, {UNTRAINED}. In the rows of the table, it"
        f" is {shown(over_smallest, 3)} for the largest and the smallest score, and"
        f" {shown(over_second, 3)} for the largest and the second, which are close"
    )


@undecided("lesson-28")
def softmax_sharpens_the_table(_: Given) -> str:
    """In the table softmax sharpens: the largest score of each row is amplified, the others are
    suppressed.
    """
    scores = _largest_over(CAT_SCORES, 1)
    weights = _largest_over(CAT_WEIGHTS, 1)
    share_before = CAT_SCORES.max(-1) / CAT_SCORES.sum(-1)
    share = CAT_WEIGHTS.max(-1)
    return (
        f"Row by row, the largest over the second is {shown(scores, 3)} for scores and"
        f" {shown(weights, 3)} for weights; its share of the sum is {shown(share_before, 3)} and"
        f" {shown(share, 3)}. So softmax would flatten this table, but such ratios of scores depend on"
        " their origin: with 1 more in every score, they are all smaller than those of the weights,"
        " which do not change"
    )


@in_a_word("lesson-29")
def weights_are_between_0_and_1(_: Given) -> Cases:
    """Every softmax weight lies strictly between 0 and 1."""
    with localcontext(prec=1000):  # e^-800 has 347 zeros after the point
        smaller = Decimal(-800).exp()
        weights = [1 / (1 + smaller), smaller / (1 + smaller)]
    between_0_and_1 = all(0 < weight < 1 for weight in weights)
    return {"as real numbers, the weights of [0, -800] do": between_0_and_1}, (
        f"The second weight of [0, -800] is {weights[1]:.1e}; double precision rounds the row to"
        f" {shown(softmax([0.0, -800.0]))}"
    )


@in_general("lesson-30")
def softmax_keeps_order(_: Given) -> Cases:
    """Softmax keeps order: a larger score gets a larger weight."""
    scores = normals(40, 6)
    weights = softmax(scores)
    slopes = np.array([np.diag(softmax_jacobian(row)) for row in weights])
    return {
        "the order is kept": (np.argsort(scores) == np.argsort(weights)).all(),
        "the derivative is positive": (slopes > 0).all(),
    }, ""


@in_general("lesson-31")
def softmax_is_differentiable(_: Given) -> Cases:
    """Softmax is differentiable everywhere."""
    scores = normals(6)
    differences = [central_difference(softmax, scores, axis) for axis in np.eye(6)]
    agree = np.allclose(differences, softmax_jacobian(softmax(scores)), atol=1e-9)
    return {"finite differences agree with the Jacobian": agree}, ""


@in_a_word("lesson-33")
def bright_columns_get_attention(_: Given) -> Cases:
    """Darker means more attention, and a bright column marks a token that many attend to."""
    attention = CAT_WEIGHTS.mean(axis=0)
    leads = np.bincount(CAT_WEIGHTS.argmax(axis=-1)).argmax()
    least = attention.argmin()
    return {
        "the brightest column gets the most attention if darker means more": least == leads,
        "the brightest column gets the most attention if brighter means more": (
            attention.argmax() == leads
        ),
    }, f"If darker means more, {WORDS[least]} has the brightest column and gets the least attention"


@in_example("lesson-37")
def the_strongest_column_leads(_: Given) -> Cases:
    """A column of large weights marks a token that many attend to."""
    attention = CAT_WEIGHTS.mean(axis=0)
    strongest = attention.argmax()
    rows = (CAT_WEIGHTS.argmax(axis=-1) == strongest).sum()
    return {"the strongest column leads most rows": rows > 4 / 2}, (
        f"The column of {WORDS[strongest]} gets {attention.max():.1%} on average and leads {rows}"
        " of 4 rows"
    )


@in_general("lesson-44")
def attention_is_differentiable(_: Given) -> Cases:
    """Attention is differentiable from its output back to the tokens."""
    x = tokens()
    module = layer(6, 4, 3)
    upstream = normals(5, 3, seed=3)

    def loss(x: Floats) -> Floats:
        return np.asarray((module(x) * upstream).sum())

    of = attention_gradients(x @ module.W_Q, x @ module.W_K, x @ module.W_V, upstream)
    through_q = of.q @ module.W_Q.T
    through_k = of.k @ module.W_K.T
    through_v = of.v @ module.W_V.T
    gradient = through_q + through_k + through_v
    moves = np.eye(x.size).reshape(-1, *x.shape)
    differences = [central_difference(loss, x, move) for move in moves]
    agree = np.allclose(differences, gradient.ravel(), atol=1e-8)
    return {"finite differences agree with the chain rule": agree}, ""


count(
    "lesson-45",
    "Attention is three matrix products and a softmax.",
    "3",
    FORMULA.count("@"),
    PRODUCTS,
    SLIP,
)
