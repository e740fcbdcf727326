"""Statements of the Q&A."""

import math
from math import sqrt

import numpy as np

from experiments.claims.entry import (
    Cases,
    about,
    digits,
    draw,
    in_general,
    numbers,
    undecided,
)
from experiments.claims.judge import Answer
from experiments.claims.laws import (
    layer,
    moment_of_product,
    normals,
    qkv,
    same,
    score_deviation,
    share_beyond,
    sums_of_products,
)
from experiments.claims.measured import UNTRAINED, Given
from experiments.claims.record.shared import slope, tokens, weights_of
from experiments.claims.words import by_keys, each, shown
from experiments.examples.examples import (
    BITES,
    DOG,
    DOG_PRINTED,
    DOG_VALUES,
    HUNDREDS,
    MAN,
    ONES,
    TENS,
)
from sdpa import scaled_dot_product_attention, softmax, trace_shapes
from sdpa.initialisation import SCHEMES


@in_general("qa-02 notebook-17 notebook-22 lesson-19 article-132a")
def a_large_width_makes_rows_one_hot(given: Given) -> Cases:
    """Without scaling a large d_k makes softmax nearly one-hot."""
    large = given.large
    largest = given.bare("max_weight_exact")
    grows = largest.diff().iloc[1:].ge(0).all()
    at_both = by_keys("%.3f and %.3f", largest.loc[512], largest.loc[large], between="; ")
    return each(
        f"the mean largest weight is above 0.9 at d_k = {large:g} with {{n}} keys",
        (largest.loc[large] > given.one_hot) & grows,
    ), (
        f"The exact mean largest weight at d_k = 512 and {large:g}, {UNTRAINED}, is {at_both}"
        " (phase.csv). It grows from d_k = 64 to 4096 with every number of keys; the required d_k"
        " depends on the number of keys"
    )


weights_of("qa-03", "The softmax of [2, 1, 1].", "0.50 0.25 0.25", ONES)
weights_of("qa-04", "The softmax of [20, 10, 10].", "0.99 0.005 0.005", TENS)
digits("qa-05 qa-08", "The softmax of [200, 100, 100].", "1.00 0.00 0.00", softmax(HUNDREDS))


@in_general("qa-06")
def a_one_hot_row_ignores_the_rest(given: Given) -> Cases:
    """A token that attends to a single other token gathers nothing from the rest."""
    values = normals(3, 4)
    others = normals(3, 4, seed=1)
    others[0] = values[0]
    changes = others - values
    one_hot = abs(softmax(HUNDREDS) @ changes).max()
    spread = abs(softmax(ONES) @ changes).max()
    return {
        "the output of a one-hot row ignores the rest": one_hot < 1e-12,
        "that of a spread row does not": spread > given.tenth,
    }, (
        f"The rest moves the output by {one_hot:.1g} for scores {shown(HUNDREDS)}, and by"
        f" {spread:.2f} for {shown(ONES)}"
    )


def _scores_of_200(_: Given) -> Answer:
    note = (
        f"The absolute value of a score exceeds 200 with probability {share_beyond(200, 512):.1g}"
        f" and 100 with probability {share_beyond(100, 512):.1g}; its standard deviation is"
        f" {score_deviation(512):.1f}, {UNTRAINED}"
    )
    return numbers([score_deviation(512)] * 3, note, p_value=share_beyond(200, 512))


draw(
    "qa-07",
    "Unscaled scores at d_k = 512 are about 200, 100 and 100.",
    "200 100 100",
    _scores_of_200,
)
about("qa-09", "The square root of 512 is about 22.6.", "22.6", sqrt(512))
about(
    "qa-10",
    "[200, 100, 100] over sqrt(512) is about [8.8, 4.4, 4.4].",
    "8.8 4.4 4.4",
    np.divide(HUNDREDS, sqrt(512)),
)
weights_of("qa-11", "The softmax of [8.8, 4.4, 4.4].", "0.90 0.05 0.05", [8.8, 4.4, 4.4])


@in_general("qa-13 notebook-06 textbook-06 textbook-07 lesson-01 article-08 article-14")
def a_score_is_a_sum_of_products(_: Given) -> Cases:
    """A score is the sum of the d_k products of the entries of q and k, and one matrix product
    gives all scores.
    """
    q = normals(5, 7)
    k = normals(6, 7, seed=1)
    return {"the sums equal the matrix product": same(q @ k.T, sums_of_products(q, k), 1e-13)}, ""


digits(
    "qa-14 notebook-08 notebook-09 textbook-08 article-15 article-56",
    "The product of two independent entries of mean 0 and variance 1 has mean 0 and variance 1.",
    "0.000 1.000",
    [moment_of_product(1), moment_of_product(2)],
)


@in_general("qa-15")
def the_mean_is_0(given: Given) -> Cases:
    """The mean of a score is 0."""
    agreement = given.agrees(given.dimension("unscaled"), "score_mean", 0)
    return {"the measured mean agrees with 0 at every d_k": agreement}, (
        f"The mean is measured unscaled from d_k = 4 to 512 with 64 keys, {UNTRAINED}"
        " (dimension.csv)"
    )


@in_general("qa-16 notebook-10 textbook-09 article-17 article-57")
def the_variance_is_the_width(given: Given) -> Cases:
    """The variance of a score is d_k, its standard deviation sqrt(d_k)."""
    rows = given.dimension("unscaled")
    agreement = given.agrees(rows, "score_variance", rows["d_k"])
    return {"the measured variance agrees with d_k at every d_k from 4 to 512": agreement}, (
        f"At d_k = 512 with 64 keys, {UNTRAINED}, the measured variance is"
        f" {rows['score_variance'][512]:.1f} (dimension.csv, unscaled)"
    )


@in_general(
    "qa-17 qa-20 qa-22a notebook-13 notebook-14 notebook-24 textbook-14 lesson-21 article-51"
    " article-55 article-58"
)
def the_scaled_variance_is_1(given: Given) -> Cases:
    """Scores over sqrt(d_k), of independent entries of mean 0 and variance 1, have variance 1 at
    any d_k.
    """
    rows = given.dimension("d_k^1/2")
    variance = rows["score_variance"]
    agreement = given.agrees(rows, "score_variance", 1)
    return {"the measured variance agrees with 1 at every d_k from 4 to 512": agreement}, (
        f"From d_k = 4 to 512 with 64 keys, {UNTRAINED}, the measured variance under d_k^1/2 is"
        f" {variance.min():.4f} to {variance.max():.4f} (dimension.csv)"
    )


digits(
    "qa-18",
    "Under d_k^(1/3) the variance still grows, as d_k^(1/3).",
    "0.333",
    slope("d_k^1/3"),
)
digits(
    "qa-19",
    "Under d_k^(2/3) the variance shrinks, as d_k^(-1/3).",
    "-0.333",
    slope("d_k^2/3"),
)


@in_general("qa-21")
def only_one_half_keeps_the_variance(given: Given) -> Cases:
    """Any power but one half corrects the variance too much or too little."""
    table = given.tables["powers"].pivot(index="exponent", columns="d_k")
    variance = table["score_variance"]
    error = table["score_variance_se"]
    of_difference = np.hypot(error[512], error[64])
    apart = abs(variance[512] - variance[64]) / of_difference
    return {
        "one half keeps the variance": apart[0.5] <= given.certain,
        "twelve others do not": (apart.drop(0.5) > given.certain).all(),
    }, (
        f"The test compares the variances at d_k = 64 and 512 with 64 keys, {UNTRAINED}"
        " (powers.csv)"
    )


@in_general("qa-22b article-16")
def initial_entries_have_variance_1(given: Given) -> Cases:
    """After the usual initialisation the entries of q and k have variance 1."""
    width, d_k = 768, 64  # the sizes of GPT-2
    of_weights = {name: scheme.variances(width, d_k) for name, scheme in SCHEMES.items()}
    of_entries = {name: np.multiply(width, pair) for name, pair in of_weights.items()}
    told = "; ".join(f"{name}, {q:.3g} and {k:.3g}" for name, (q, k) in of_entries.items())
    return {
        f"the entries of q and k have variance 1 under {name}": (abs(pair - 1) < given.about).all()
        for name, pair in of_entries.items()
    }, (
        "For tokens of unit variance, d_model = 768 and d_k = 64, the exact variances of the"
        f" entries of q and k are: {told}. sdpa/initialisation.py names the origin of each scheme"
    )


@in_general("qa-23 textbook-16 lesson-25 article-30 article-62")
def every_row_is_a_distribution(_: Given) -> Cases:
    """Softmax makes every row of scores a distribution: no weight negative, their sum 1."""
    weights = softmax(5 * normals(50, 9))
    return {
        "no weight is negative": (weights >= 0).all(),
        "every sum is 1": same(weights.sum(axis=-1), 1, 1e-14),
    }, ""


weights_of(
    "qa-24 qa-33",
    "The weights of dog, also given as 44, 35 and 21 percent.",
    "0.44 0.35 0.21",
    DOG,
)
weights_of("qa-25", "The weights of bites.", "0.38 0.41 0.21", BITES)
weights_of("qa-26", "The weights of man.", "0.19 0.15 0.66", MAN)
digits(
    "qa-27",
    "Each printed row of weights sums to 1.",
    "1.00 1.00 1.00",
    DOG_PRINTED.sum(axis=-1),
)


@in_general("qa-30 textbook-01 textbook-02 textbook-18 lesson-38 lesson-43 article-60 article-63")
def the_formula_blends_values(_: Given) -> Cases:
    """softmax(Q K^T / sqrt(d_k)) V computes for every token the weighted sum of all values, as one
    token at a time would.
    """
    q, k, v = qkv(6, 5, 3)
    scores = [[sum(row * key) / sqrt(5) for key in k] for row in q]
    weights = [[math.exp(score) for score in row] for row in scores]
    outputs = [np.average(v, axis=0, weights=row) for row in weights]
    equal = same(scaled_dot_product_attention(q, k, v), outputs, 1e-14)
    return {"the formula and the loop agree to rounding": equal}, ""


digits(
    "qa-31",
    "The printed weights of dog blend the values to the printed output.",
    "0.550 0.282 0.050 0.143",
    DOG_PRINTED[0] @ DOG_VALUES,
)
digits(
    "qa-32",
    "The output of dog for the scores shown.",
    "0.550 0.282 0.050 0.143",
    softmax(DOG) @ DOG_VALUES,
    f"The outputs from the scores are dog {shown(softmax(DOG) @ DOG_VALUES, 3)};"
    f" bites {shown(softmax(BITES) @ DOG_VALUES, 3)}; man {shown(softmax(MAN) @ DOG_VALUES, 3)}."
    " The error comes from the weights of dog (qa-24): as printed, they blend to"
    f" {shown(DOG_PRINTED[0] @ DOG_VALUES, 3)}",
)


@in_general("qa-34 qa-41 lesson-42")
def outputs_depend_on_other_tokens(_: Given) -> Cases:
    """Before attention a token holds only itself; its output depends on the other tokens."""
    module = layer(6, 4, 3)
    before = tokens()
    after = tokens(moved=1e-6)
    value_before = (before @ module.W_V)[0]
    value_after = (after @ module.W_V)[0]
    before_attention = same(value_after, value_before, 0)
    change = np.linalg.norm(module(after)[0] - module(before)[0])
    return {
        "its own projection does not change with another token": before_attention,
        "its output does": not same(module(after)[0], module(before)[0], 1e-12),
    }, (
        "For a small change of one entry of token 1, the output of token 0 changes"
        f" {change / 1e-6:.3f} times as much"
    )


@undecided("qa-35")
def words_find_each_other(_: Given) -> str:
    """Trained attention lets a word find the words it refers to."""
    return ""


@in_general("qa-36 qa-38 qa-39 textbook-05 textbook-17 textbook-19 article-04 article-61")
def all_shapes(_: Given) -> Cases:
    """Q and K are n x d_k, V is n x d_v, scores and weights n x n, the output n x d_v."""
    stated = {
        "Q": (7, 5),
        "K": (7, 5),
        "V": (7, 3),
        "K^T": (5, 7),
        "Q K^T": (7, 7),
        "scaled scores": (7, 7),
        "weights": (7, 7),
        "output": (7, 3),
    }
    return {"all shapes are as stated": trace_shapes(*qkv(7, 5, 3)) == stated}, ""


@in_general("qa-37 qa-40")
def shapes_of_a_kept_width(_: Given) -> Cases:
    """Where projections keep the width of the tokens, Q, K, V and the output have the shape of the
    input.
    """
    module = layer(6, 6, 6)
    x = tokens()
    projections = (module.W_Q, module.W_K, module.W_V)
    return {
        "Q, K and V have the shape of the input": all(
            (x @ w).shape == x.shape for w in projections
        ),
        "the output has it too": module(x).shape == x.shape,
    }, (
        "The source chooses such d_k and d_v. For d_model = 6 and d_k = d_v = 4, the output of 5"
        f" tokens has the shape {layer(6, 4, 4)(x).shape}; only a further projection restores"
        " d_model"
    )
