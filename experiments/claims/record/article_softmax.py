"""Statements of the article up to softmax and saturation: article-01 to article-54."""

from math import sqrt

import numpy as np
import pandas as pd
from scipy import special

from experiments.claims.entry import (
    Cases,
    about,
    digits,
    in_example,
    in_general,
    numbers,
    of_training,
    shape,
)
from experiments.claims.laws import (
    least_likely,
    normals,
    same,
    share_beyond,
    sums_of_products,
)
from experiments.claims.measured import UNTRAINED, Given, spread
from experiments.claims.training import LIMITS, heads
from experiments.claims.words import by_keys, each, shown
from experiments.examples.examples import (
    HUNDREDS,
    LARGE_SCORES,
    SESSION,
    SESSION_TOKENS,
    SMALL,
    SWEPT,
    variances,
)
from sdpa import entropy, jacobian_norm, softmax, theory


@in_general("article-01a notebook-19a qa-12")
def scaling_prevents_saturation(given: Given) -> Cases:
    """Scaling keeps softmax from saturating, so that it is smooth."""
    share = given.scaled("saturated_rows_exact")
    bare = given.bare("saturated_rows_exact")
    largest = given.scaled("max_weight_exact")
    of_two = given.phase("d_k^1/2", "saturated_rows_exact")[4][2]
    of_qa = softmax(np.divide(HUNDREDS, sqrt(512))).max()
    small = (largest.max() < given.one_hot) & (spread(largest) < given.level)
    return {
        **each(
            "fewer than 1% of rows have a weight above 0.99 with {n} keys",
            share.max() < given.rare,
        ),
        **each(
            f"the mean largest weight is below {given.one_hot:g} and level from d_k = 64 to 4096"
            f" with {{n}} keys",
            small,
        ),
    }, (
        f"From d_k = 64 to 4096 with 4 to 4096 keys, {UNTRAINED}, at most "
        f"{1e6 * share.max(axis=None):.0f} in a million rows have a weight above 0.99 under "
        f"d_k^1/2, and {bare.min(axis=None):.0%} to {bare.max(axis=None):.0%} of rows unscaled "
        f"(exact, phase.csv). At d_k = 2 with 4 keys, {1e6 * of_two:.0f} in a million rows do "
        f"under d_k^1/2. At d_k = {given.large:g}, the mean largest weight under d_k^1/2 is "
        f"{by_keys('%.3g', largest.loc[given.large])}. Scaled, the Q&A's scores {shown(HUNDREDS)} "
        f"at d_k = 512 still give a weight of {of_qa:.3f}, but random scores do not get that large "
        "(qa-07)"
    )


@in_general("article-05")
def widths_must_be_equal(_: Given) -> Cases:
    """Queries and keys need the same width."""
    words = "queries of width 3 and keys of width 4 have no matrix product"
    try:
        normals(2, 3) @ normals(2, 4).T
    except ValueError:
        return {words: True}, ""
    return {words: False}, ""


shape(
    "article-07",
    "Shapes of X, Q, K and V.",
    "4 8 4 6 4 6 4 6",
    [SESSION_TOKENS.shape, SESSION.q.shape, SESSION.k.shape, np.asarray(SESSION.v).shape],
)


@in_example("article-10")
def one_product_replaces_many(_: Given) -> Cases:
    """One matrix product replaces n^2 dot products."""
    equal = same(SESSION.scores, sums_of_products(SESSION.q, SESSION.k), 1e-15)
    return {"the product equals the dot products": equal}, (
        f"There are {SESSION.scores.size} dot products"
    )


shape("article-11", "The score matrix is 4 x 4.", "4 4", SESSION.scores.shape)
digits(
    "article-12",
    "The sixteen raw scores.",
    "0.045 -0.237 -0.014 0.061 -0.053 0.492 0.015 -0.134 -0.147 0.173 0.044 0.191 -0.114 0.163"
    " 0.109 -0.301",
    SESSION.scores,
)


@in_example("article-13")
def scores_have_both_signs(_: Given) -> Cases:
    """Some raw scores are positive, others negative."""
    positive = (SESSION.scores > 0).sum()
    negative = (SESSION.scores < 0).sum()
    return {
        "some are positive": positive,
        "some are negative": negative,
    }, f"{positive} are positive and {negative} negative"


about(
    "article-18 article-19 article-20 article-21 article-22 article-23",
    "In the sweep, the variances at d_k = 8, 32, 64, 128, 256 and 512 are near d_k.",
    "8 32 64 128 256 512",
    lambda _: numbers(
        variances(),
        "These are the article's own draws, which it shows as a figure",
    ),
)
about(
    "article-25",
    "In the sweep, scores at d_k = 512 have a variance of about 512.",
    "512",
    lambda _: numbers(
        variances()[-1],
        "This is the article's own draw; the exact variance is 512",
    ),
)


@in_example("article-26")
def scores_lie_within_50(given: Given) -> Cases:
    """At d_k = 512 scores typically lie between -50 and 50."""
    share = 1 - share_beyond(50, 512)
    return {"more than 19 in 20 scores do": share > given.typical}, (
        f"{share:.1%} of scores lie between -50 and 50, {UNTRAINED}"
    )


@in_example("article-27")
def the_sweep_grows_as_predicted(given: Given) -> Cases:
    """The variances of the sweep grow exactly as predicted, to approximately 512 at d_k = 512."""
    away = abs(variances() / SWEPT - 1)
    errors = away / np.sqrt((2 + 6 / SWEPT) / 10_000)
    p_value = least_likely(2 * special.ndtr(-errors))
    return {
        "the exact variance is d_k": all(theory.score_variance(d, 1.0) == d for d in SWEPT),
        "the samples agree to sampling error": p_value >= given.unlikely,
    }, (
        f"The exact variance is d_k. The samples of 10,000 scores are up to {away.max():.1%} and"
        f" {errors.max():.1f} standard errors off; by chance, samples deviate this much with"
        f" probability {p_value:.2f}"
    )


about("article-28", "The square root of 512 is about 23.", "23", sqrt(512))


@in_example("article-29")
def scores_reach_30(given: Given) -> Cases:
    """At d_k = 512 scores easily reach 30."""
    share = share_beyond(30, 512)
    return {"more than 1 in 10 scores do": share > given.tenth}, (
        f"{share:.1%} of scores are above 30 or below -30, {UNTRAINED}"
    )


_LARGEST, _OTHER, *_ = softmax([10, 1, 1, 1])
about(
    "article-31",
    "The largest weight of [10, 1, 1, 1] is about 0.9999.",
    "0.9999",
    _LARGEST,
    f"The printed weight is {(0.9999 - _LARGEST) / 1e-4:.1f} units of its last digit too large. It"
    f" leaves {1 - 0.9999:.4f} to the other three weights, whose sum is {1 - _LARGEST:.5f}",
)
about("article-32", "The other weights of [10, 1, 1, 1] are about 0.0001.", "0.0001", _OTHER)

_SMALL = softmax(SMALL)
_LARGE = softmax(LARGE_SCORES)


@in_general("article-33 textbook-12 lesson-20a")
def saturated_gradients_are_zero(given: Given) -> Cases:
    """Where softmax saturates its gradient is about zero."""
    small = jacobian_norm(_SMALL)
    large = jacobian_norm(_LARGE)
    weights = softmax(30 * normals(20_000, 16))
    saturated = jacobian_norm(weights[weights.max(axis=-1) > given.saturated])
    tenth = given.tenth * small
    return {
        "|J|_F is below a tenth of that of the small scores in the example": large < tenth,
        "the same holds in every row with a weight above 0.99": saturated.max() < tenth,
    }, (
        f"For the small scores |J|_F is {small:.3f}, for the large ones {large:.3f}, and in"
        f" {saturated.size:,} rows with a weight above 0.99 at most {saturated.max():.3f}. How many"
        " rows are saturated is another question"
    )


@in_general("article-34")
def saturated_rows_are_not_soft(given: Given) -> Cases:
    """A saturated softmax cannot express soft attention."""
    small = entropy(_SMALL)
    large = entropy(_LARGE)
    return {"less than a tenth of the entropy is left": large < given.tenth * small}, (
        f"The entropy is {small:.3f} nats for the small scores and {large:.3f} nats for the large"
        " ones"
    )


@in_general("article-35")
def subtracting_the_maximum_is_stable(_: Given) -> Cases:
    """Softmax with the maximum subtracted is numerically stable."""
    weights = softmax([1e4, 0.0, -1e4])
    return {"the weights of scores of 10,000 are finite": np.isfinite(weights).all()}, ""


digits("article-36", "Weights of the small scores.", "0.3479 0.2848 0.2110 0.1563", _SMALL)
digits("article-37", "Largest weight of the small scores.", "0.3479", _SMALL.max())
digits("article-38", "Entropy of the small scores.", "1.3434", entropy(_SMALL))
digits(
    "article-39",
    "The large scores are 20 times the small ones.",
    "20.0 16.0 10.0 4.0",
    LARGE_SCORES,
)
digits(
    "article-40",
    "Weights of the large scores, rounded to six decimals.",
    "9.8197e-01 1.7985e-02 4.5000e-05 0.0000e+00",
    np.round(_LARGE, 6),
)
digits("article-41", "Largest weight of the large scores.", "0.981970", _LARGE.max())
digits("article-42", "Entropy of the large scores.", "0.0906", entropy(_LARGE))
about(
    "article-43",
    "The small scores' largest weight is around 0.41.",
    "0.41",
    _SMALL.max(),
    "The article itself prints 0.3479",
)
about(
    "article-44",
    "The small scores' entropy is around 1.26.",
    "1.26",
    entropy(_SMALL),
    "The article itself prints 1.3434",
)


@in_example("article-45 article-48 article-49")
def large_scores_attend_to_the_first(given: Given) -> Cases:
    """Large scores put nearly all attention on the first position, with an entropy of nearly 0."""
    first, *others = _LARGE
    return {
        "the first weight is above 0.9": first > given.one_hot,
        "every other weight is below a tenth": max(others) < given.tenth,
        "the entropy is below a tenth": entropy(_LARGE) < given.tenth,
    }, f"The weights are {shown(_LARGE, 3)} and the entropy is {entropy(_LARGE):.3f} nats"


about(
    "article-46",
    "The small scores' largest weight is around 0.4.",
    "0.4",
    _SMALL.max(),
    "The article itself prints 0.3479",
)


@in_example("article-47")
def small_scores_attend_to_all(given: Given) -> Cases:
    """Small scores give every position a meaningful weight."""
    return {"every weight is above a tenth": _SMALL.min() > given.tenth}, (
        f"The smallest weight is {_SMALL.min():.3f}"
    )


@in_general("article-50")
def large_widths_always_saturate(given: Given) -> Cases:
    """Without scaling, scores of high dimension always saturate the softmax."""
    share = given.bare("saturated_rows_exact")
    widest = 2**22
    of_widest = pd.Series(
        {n: theory.attention_expectations(widest, n, 1.0).saturated_rows for n in share.columns}
    )
    large = given.large
    saturate = "more than 99% of rows have a weight above 0.99 at d_k = {:g} with {{n}} keys"
    return {
        **each(saturate.format(large), share.loc[large] > 1 - given.rare),
        **each(saturate.format(widest), of_widest > 1 - given.rare),
    }, (
        f"At d_k = 512, {UNTRAINED}, the exact share of unscaled rows with a weight above 0.99 is"
        f" {by_keys('%.0f%%', 100 * share.loc[512])}; at d_k = {large:g}, it is"
        f" {by_keys('%.0f%%', 100 * share.loc[large])} (phase.csv), and at d_k = {widest:,}"
        f" {by_keys('%.1f%%', 100 * of_widest)}"
    )


@in_general("article-52")
def division_squares(_: Given) -> Cases:
    """Dividing a random number by c divides its variance by c squared."""
    drawn = normals(1000)
    of_third = np.var(drawn / 3)
    equal = np.isclose(of_third * 9, np.var(drawn), rtol=1e-12, atol=0)
    return {"the variance of x / 3 is a ninth of that of x": equal}, ""


@of_training("article-54 article-132b")
def scaled_models_learn_both(given: Given) -> Cases:
    """With scaling a model can learn sharp and soft attention."""
    trained = heads(given, "d_k^1/2", "after")
    largest = trained.groupby("initial", sort=False)["max_weight"]
    is_both = (largest.max() > given.dominant) & (largest.min() < given.dominant)
    return {
        "in a decoder of `language` under d_k^1/2, a layer ends with a mean largest weight above one"
        " half, and another below": is_both.any()
    }, (
        "Mean largest weights of the heads of four layers after training, from q and k of variance 1"
        f" and from small matrices: {shown(trained['max_weight'], 2)}. {LIMITS}"
    )
