"""Statements of the textbook chapter."""

from math import prod

from experiments.claims.entry import (
    Cases,
    count,
    digits,
    in_example,
    in_general,
    of_training,
    undecided,
)
from experiments.claims.judge import SLIP
from experiments.claims.laws import expectations, qkv, score_deviation, share_beyond
from experiments.claims.measured import MEDIAN_JACOBIAN, UNTRAINED, Given, spread
from experiments.claims.record.shared import FORMULA, PRODUCTS, multiplications, work
from experiments.claims.training import LIMITS, fails, heads, losses
from experiments.claims.words import between, by_keys, each, shown
from experiments.examples.examples import STRIP
from sdpa import jacobian_norm, scaled_dot_product_attention, softmax, trace_shapes


@undecided("textbook-04 article-151 article-01b notebook-23b")
def scaling_decides(given: Given) -> str:
    """Scaling makes the training of transformers stable."""
    return (
        "In a small decoder it decides how much is learned after 400 steps, and so does the start of"
        f" W_Q and W_K. {losses(given, 512)}. {losses(given, 64)}. {LIMITS}"
    )


@of_training("lesson-22")
def large_widths_fail(given: Given) -> Cases:
    """Without scaling, training of transformers often fails completely at large d_k."""
    cases = fails(given, "unit") | fails(given, "small")
    return cases, (
        "Small decoders learn at both starts, but from q and k of variance 1 no more in 400 steps"
        f" than without selecting. {losses(given, 512)}. {LIMITS}"
    )


_DEVIATION = score_deviation(64)
digits(
    "textbook-10",
    "At d_k = 64 scores swing by 8 or more.",
    "8.0",
    _DEVIATION,
    f"This is the standard deviation at d_k = 64, {UNTRAINED}; the absolute value of a score"
    f" exceeds it with probability {share_beyond(_DEVIATION, 64):.2f}",
)


@in_general("textbook-11")
def swings_make_rows_one_hot(given: Given) -> Cases:
    """The swings of scores at d_k = 64 make softmax nearly one-hot."""
    largest = given.bare("max_weight_exact").loc[64]
    percent = 100 * given.bare("saturated_rows_exact").loc[64]
    return each("the mean largest weight is above 0.9 with {n} keys", largest > given.one_hot), (
        f"Unscaled at d_k = 64, {UNTRAINED}, the mean largest weight and the share of rows with a "
        "weight above 0.99 are exactly "
        f"{by_keys('%.3f and %.0f%%', largest, percent, between='; ')} (phase.csv)"
    )


@undecided("textbook-13")
def saturated_rows_stall(given: Given) -> str:
    """With a saturated softmax learning stalls."""
    before = heads(given, "unscaled", "before", 512)
    of_unit = before.loc[before["initial"] == "unit", "max_weight"]
    return (
        "Unscaled with d_k = 512, from q and k of variance 1, the mean largest weight of a layer is"
        f" {between(of_unit)} before training. Such decoders learn later, and the loss still falls"
        f" after 400 steps; how much of that is attention is not known. {losses(given, 512)}."
        f" {LIMITS}"
    )


@in_general("textbook-15 lesson-23 article-53")
def gradients_are_level(given: Given) -> Cases:
    """With scaling, softmax keeps gradients that do not shrink with d_k."""
    root = "jacobian_norm_exact"
    query = "query_gradient_norm_exact"
    of_root = given.scaled(root)
    of_query = given.scaled(query)
    large = given.large
    of_few = given.phase("d_k^1/2", query)[4096][2]
    level = "is level from d_k = 64 to 4096 with {n} keys"
    return {
        **each(f"the median of |J|_F {level}", spread(given.scaled(MEDIAN_JACOBIAN)) < given.level),
        **each(f"the root mean square of |J|_F {level}", spread(of_root) < given.level),
        **each(f"the root mean square of |dL/dq| {level}", spread(of_query) < given.level),
    }, (
        f"Under d_k^1/2 at d_k = {large:g}, {UNTRAINED} (phase.csv), the median of |J|_F is"
        f" {by_keys('%s', given.medians().loc[large])}; its root mean square is exactly"
        f" {by_keys('%.3g', of_root.loc[large])}, and that of |dL/dq| is exactly"
        f" {by_keys('%.3g', of_query.loc[large])}. All three are level in d_k from 64 on, but fall"
        " with the number of keys. Below that d_k, norms also fall with d_k if there are many"
        " keys: with 4096 keys, the root mean square of |dL/dq| falls from"
        f" {of_few:.3g} at d_k = 2 to {of_query[4096][64]:.3g} at 64"
    )


count(
    "textbook-20",
    "Attention is two matrix products and a softmax.",
    "2",
    FORMULA.count("@"),
    PRODUCTS,
    SLIP,
)


@in_general("textbook-21")
def outputs_average_values(_: Given) -> Cases:
    """Each output averages all values by its weights."""
    q, k, v = qkv(7, 4, 3)
    output, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    inside = (output >= v.min(axis=0)) & (output <= v.max(axis=0))
    return {
        "every weight is positive": (weights > 0).all(),
        "every output lies between the smallest and the largest value": inside.all(),
    }, ""


count(
    "textbook-22",
    "For n = 100 and d_k = 64, Q K^T costs n^2 d_k multiplications.",
    "640000",
    multiplications(100, 64, 100),
)
count(
    "textbook-23",
    "For n = 100, the score matrix has n^2 elements.",
    "10000",
    prod(trace_shapes(*qkv(100, 64, 64))["Q K^T"]),
)


@in_general("textbook-24")
def work_is_quadratic(_: Given) -> Cases:
    """The work of attention is proportional to n^2 and to the widths."""
    found = multiplications(9, 4, 9) + multiplications(9, 9, 3)
    return {"there are n^2 (d_k + d_v) multiplications": found == 9**2 * (4 + 3)}, (
        f"There are {found} multiplications for n = 9, d_k = 4 and d_v = 3"
    )


def _stored(n: int) -> int:
    return prod(trace_shapes(*qkv(n, 5, 5))["weights"])


digits(
    "textbook-25 article-143 article-152",
    "Twice the tokens take four times the work and the memory.",
    "4.00 4.00",
    [work(24) / work(12), _stored(24) / _stored(12)],
)


@in_example("textbook-28")
def the_unscaled_strip_is_one_hot(given: Given) -> Cases:
    """Unscaled, a row of the strip of weights puts almost all weight on one key."""
    largest = softmax(STRIP).max()
    at_64, at_512 = (expectations(d_k, 8, 1.0).max_weight for d_k in (64, 512))
    return {
        "the largest weight is above 0.9 in our strip": largest > given.one_hot,
        "the largest weight is above 0.9 on average at d_k = 64": at_64 > given.one_hot,
        "the largest weight is above 0.9 on average at d_k = 512": at_512 > given.one_hot,
    }, (
        f"The largest of 8 weights at d_k = 64 is {largest:.3f} in our strip and {at_64:.3f} on"
        f" average; at d_k = 512 it is {at_512:.3f} on average (exact, {UNTRAINED})"
    )


@in_example("textbook-29")
def the_scaled_strip_is_spread(given: Given) -> Cases:
    """At 1/sqrt(d_k) the same row spreads its weights."""
    weights = softmax(STRIP / 8)
    on_average = expectations(64, 8, 8.0).max_weight
    return {
        "the largest weight is below one half in our strip": weights.max() < given.dominant,
        "the largest weight is below one half on average": on_average < given.dominant,
    }, (
        f"With 8 keys at d_k = 64, the weights of our strip are {shown(weights, 2)}; the largest"
        f" weight is {on_average:.3f} on average (exact, {UNTRAINED})"
    )


@in_example("textbook-30")
def the_unscaled_gradient_is_dead(given: Given) -> Cases:
    """Unscaled, the gradient of the row is dead; at 1/sqrt(d_k) it flows."""
    bare = jacobian_norm(softmax(STRIP))
    scaled = jacobian_norm(softmax(STRIP / 8))
    median = given.ratio(MEDIAN_JACOBIAN).loc[512]
    root = given.ratio("jacobian_norm_exact").loc[512]
    below = "is below a tenth of the scaled one"
    return {
        f"|J|_F {below} in our strip": bare < given.tenth * scaled,
        **each(
            f"the median of |J|_F {below} at d_k = 512 with {{n}} keys",
            median < given.tenth,
        ),
        f"the root mean square of |J|_F {below} at d_k = 512 with any of these numbers of keys": (
            (root < given.tenth).any()
        ),
    }, (
        f"In our strip (8 keys, d_k = 64), |J|_F is {bare:.3g} unscaled and {scaled:.3g} scaled."
        f" At d_k = 512, {UNTRAINED} (phase.csv), the unscaled median over the scaled one is"
        f" {by_keys('%s', given.ratios_of_medians().loc[512])}; for root mean squares, the ratio is"
        f" exactly {by_keys('%.3g', root)}"
    )
