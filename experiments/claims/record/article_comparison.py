"""Statements of the article on its comparison, module and limits: article-117 to article-148."""

from functools import cache
from math import sqrt

import numpy as np

from experiments.claims.entry import (
    Cases,
    about,
    digits,
    in_a_word,
    in_example,
    in_general,
    numbers,
    shape,
)
from experiments.claims.judge import Answer
from experiments.claims.laws import (
    expectations,
    layer,
    least_likely,
    normals,
    same,
    score_deviation,
)
from experiments.claims.measured import UNTRAINED, Floats, Given
from experiments.claims.record.shared import are_exactly_1, work
from experiments.claims.words import shown
from experiments.examples.examples import COMPARED, article_draw, drawn_numbers
from sdpa import ScaledDotProductAttention


def _declare_draw(ids: str, d_k: int, claimed: str) -> None:
    def answer(_: Given) -> Answer:
        note = (
            "The computation repeats the article's draw of five queries and five keys with seed 42"
        )
        return numbers(article_draw(d_k), note)

    digits(
        ids,
        f"At d_k = {d_k}: standard deviation of scores unscaled and scaled, mean largest weight"
        " unscaled and scaled.",
        claimed,
        answer,
    )


_declare_draw("article-117", 4, "1.56 0.78 0.6048 0.4355")
_declare_draw("article-118", 16, "3.00 0.75 0.8633 0.4592")
_declare_draw("article-119", 64, "8.66 1.08 0.7493 0.4398")
_declare_draw("article-120", 256, "13.47 0.84 1.0000 0.4961")
_declare_draw("article-121", 512, "20.79 0.92 1.0000 0.4842")


def _columns() -> Floats:
    """Deviation unscaled and scaled, largest weight unscaled and scaled, at each d_k: (4, 5)."""
    return np.transpose([article_draw(d_k) for d_k in COMPARED])


@cache
def _five_drawn(d_k: int) -> Floats:
    return drawn_numbers(d_k, np.random.default_rng(0))


def _chance(column: int) -> float:
    """The probability of the numbers in one of `_columns` to be as far out."""
    p_values = []
    for d_k, own in zip(COMPARED, _columns()[column], strict=True):
        drawn = _five_drawn(d_k)[column]
        below = (drawn <= own).mean()
        above = (drawn >= own).mean()
        p_values.append(2 * min(below, above))
    return least_likely(p_values)


def _and_its_own(given: Given, column: int, words: str, is_true: object, note: str) -> Cases:
    """A case over all draws, and the case that the article's own draws differ by chance from it."""
    chance = _chance(column)
    return {
        words: is_true,
        "the article's own table agrees to sampling error": chance >= given.unlikely,
    }, f"{note}. By chance, draws deviate this much with probability {chance:.1f}"


@in_example("article-122")
def the_deviation_reaches_22(given: Given) -> Cases:
    """In prose: the unscaled standard deviation reaches over 22 at d_k = 512."""
    return _and_its_own(
        given,
        0,
        "over all draws, it is above 22",
        score_deviation(512) > 22,
        f"Over all draws, it is exactly sqrt(512) = {sqrt(512):.2f}; the article's own draw of 25"
        f" scores has {article_draw(512)[0]:.2f}",
    )


@in_general("article-123")
def the_deviation_grows(given: Given) -> Cases:
    """The standard deviation of unscaled scores grows as sqrt(d_k)."""
    rows = given.dimension("unscaled")
    measured = np.sqrt(rows["score_variance"] / rows["d_k"])
    own = _columns()[0] / np.sqrt(COMPARED)
    near = abs(measured - 1) < given.about
    return _and_its_own(
        given,
        0,
        "over many draws, it is within 5% of sqrt(d_k)",
        near.all(),
        f"Divided by sqrt(d_k), it is {measured.min():.3f} to {measured.max():.3f} over many draws"
        f" (dimension.csv, unscaled, d_k = 4 to 512, 64 keys, {UNTRAINED}) and {own.min():.2f} to"
        f" {own.max():.2f} in the article's draws",
    )


@in_example("article-124")
def the_largest_weight_tends_to_1(given: Given) -> Cases:
    """The largest unscaled weight is pushed toward 1."""
    on_average = expectations(512, 5, 1.0).max_weight
    return {"it is above 0.9 on average": on_average > given.one_hot}, (
        f"With five keys at d_k = 512, it is {on_average:.3f} on average (exact, {UNTRAINED}), and"
        " 1.0000 in the article's draw"
    )


@in_example("article-125 article-128 article-129")
def the_scaled_deviation_stays(given: Given) -> Cases:
    """The standard deviation of scaled scores stays around 1.0."""
    measured = np.sqrt(given.dimension("d_k^1/2")["score_variance"])
    own = _columns()[1]
    near = abs(measured - 1) < given.about
    return _and_its_own(
        given,
        0,
        "over many draws, it is within 5% of 1",
        near.all(),
        f"Over all draws, it is exactly 1, {UNTRAINED}. The article's own draws of 25 scores have"
        f" {own.min():.2f} to {own.max():.2f}",
    )


@in_example("article-126")
def scaled_weights_are_moderate(given: Given) -> Cases:
    """The largest scaled weights stay moderate."""
    own = _columns()[3]
    exact = expectations(512, 5, sqrt(512)).max_weight
    return {"they are below one half": max(own.max(), exact) < given.dominant}, (
        f"They are {own.min():.3f} to {own.max():.3f} in the article's table; the exact mean at"
        f" d_k = 512 is {exact:.3f}"
    )


@in_example("article-127")
def the_deviation_grows_from_2_to_22(given: Given) -> Cases:
    """The unscaled standard deviation grows from 2 to 22."""
    ratios = [score_deviation(4) / 2, score_deviation(512) / 22]
    return _and_its_own(
        given,
        0,
        "over all draws, it is within 5% of 2 at d_k = 4 and of 22 at d_k = 512",
        same(ratios, 1, given.about),
        f"Over all draws, it is exactly 2 and {sqrt(512):.2f}; the article's own draws of 25 scores"
        f" have {article_draw(4)[0]:.2f} and {article_draw(512)[0]:.2f}",
    )


def _mean_of_the_column(_: Given) -> Answer:
    exact = expectations(512, 5, sqrt(512)).max_weight
    note = (
        "This is the mean of the article's own column; the exact mean for five keys at d_k = 512"
        f" is {exact:.3f}"
    )
    return numbers(_columns()[3].mean(), note)


about(
    "article-130",
    "The largest scaled weight stays around 0.4.",
    "0.4",
    _mean_of_the_column,
)


@in_example("article-131")
def unscaled_rows_get_peaked(given: Given) -> Cases:
    """Unscaled attention becomes increasingly peaked as d_k grows."""
    exact = [expectations(d_k, 5, 1.0).max_weight for d_k in COMPARED]
    return _and_its_own(
        given,
        2,
        "the mean largest weight grows with d_k",
        (np.diff(exact) > 0).all(),
        f"At d_k = 4, 16, 64, 256, 512 with five keys, {UNTRAINED}, the largest weight is"
        f" {shown(exact, 3)} on average (exact), and {shown(_columns()[2], 3)} in the article's"
        " draws",
    )


@cache
def _projected_variances() -> list[float]:
    """The variance of queries of unit-variance tokens, of width 32 and 16: to about 1%."""
    found = []
    for width in (32, 16):
        rng = np.random.default_rng(0)
        modules = [ScaledDotProductAttention(32, width, 1, rng=rng) for _ in range(300)]
        variances = [(module.W_Q**2).sum(axis=0).mean() for module in modules]
        found.append(float(np.mean(variances)))
    return found


@in_general("article-135")
def xavier_keeps_variance(given: Given) -> Cases:
    """Xavier initialisation keeps variance through the projections."""
    same_width, half_width = _projected_variances()
    keeps = "keeps the variance"
    return {
        f"a projection from width 32 to 32 {keeps}": abs(same_width - 1) < given.about,
        f"a projection from width 32 to 16 {keeps}": abs(half_width - 1) < given.about,
    }, (
        f"From width 32 to 32, a projection multiplies the variance by {same_width:.2f}; from width"
        f" 32 to 16, by {half_width:.2f}"
    )


_RNG = np.random.RandomState(42)  # of the article's module, then of its tokens
_MODULE = ScaledDotProductAttention(32, 16, 16, rng=_RNG)
_TOKENS = _RNG.standard_normal((8, 32))
_OUTPUT, _WEIGHTS = _MODULE(_TOKENS, return_weights=True)
_SUMS = _WEIGHTS.sum(axis=1)
shape(
    "article-137",
    "Shapes of the module's input, output and weights.",
    "8 32 8 16 8 8",
    [_TOKENS.shape, _OUTPUT.shape, _WEIGHTS.shape],
)
digits(
    "article-138",
    "Row sums of the module's weights.",
    "1.0000000 1.0000000 1.0000000 1.0000000 1.0000000 1.0000000 1.0000000 1.0000000",
    _SUMS,
)


@in_a_word("article-139")
def rows_of_the_module_sum_to_1(_: Given) -> Cases:
    """Each row of the module's weights sums to exactly 1.0."""
    return are_exactly_1(_SUMS)


shape(
    "article-140",
    "The module takes 8 tokens of width 32 to 8 of width 16.",
    "8 32 8 16",
    [_TOKENS.shape, _OUTPUT.shape],
)


@in_general("article-144")
def scaling_costs_n_squared(_: Given) -> Cases:
    """Scaling does not reduce the quadratic cost."""
    once = work(12) + 12 * 12
    twice = work(24) + 24 * 24
    return {"with scaling, twice the tokens still take four times the work": twice == 4 * once}, (
        f"Scaling adds {12 * 12} divisions at n = 12"
    )


@in_general("article-147")
def the_order_of_words_is_lost(_: Given) -> Cases:
    """Without positions, 'dog bites man' cannot be told from 'man bites dog'."""
    module = layer(32, 16, 16)
    words = normals(3, 32)
    forward = module(words)
    backward = module(words[::-1])
    return {
        "each word has the same output in both orders": same(forward, backward[::-1], 1e-13),
        "the mean of all words is the same too": same(forward.mean(0), backward.mean(0), 1e-13),
    }, ""


@in_general("article-148")
def shuffled_tokens_give_shuffled_outputs(_: Given) -> Cases:
    """Attention is permutation-equivariant: shuffled tokens give shuffled outputs."""
    module = layer(32, 16, 16)
    found = normals(8, 32)
    order = [3, 1, 7, 0, 2, 6, 5, 4]
    equal = same(module(found[order]), module(found)[order], 1e-13)
    return {"the outputs of shuffled tokens are the shuffled outputs": equal}, ""
