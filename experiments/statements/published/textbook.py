"""A textbook page: swings at d_k = 64, and a strip of weights that a slider smooths."""

import math

from experiments.examples.weight_strip import D_K, KEYS, strip_scores
from experiments.statements.answer import Answer, cases, numbers, shown
from experiments.statements.cutoffs import DOMINANT, ONE_HOT, TENTH
from experiments.statements.declare import statement
from experiments.statements.measured import (
    MEDIAN,
    ROOT_MEAN_SQUARES,
    UNTRAINED,
    Tables,
    by_keys,
    measured_by_keys,
    ratio,
    ratio_errors,
)
from experiments.statements.shared import expectations, share_beyond
from sdpa import jacobian_norm, softmax, theory


@statement(
    "textbook-10", says="At d_k = 64 scores swing by 8 or more.", claimed="8.0", rule="digits", severity="wrong number"
)
def swing_at_64() -> Answer:
    """The standard deviation of a score, and how likely a score is beyond it."""
    deviation = math.sqrt(theory.score_variance(D_K, 1.0))
    beyond = share_beyond(deviation, D_K)
    note = (
        f"This is the standard deviation at d_k = {D_K}, {UNTRAINED}; the absolute value of a score exceeds it with"
        f" probability {beyond:.2f}"
    )
    return numbers(deviation, note=note)


@statement(
    "textbook-28",
    says="Unscaled, a row of the strip of weights puts almost all weight on one key.",
    severity="wrong number",
)
def strip_is_spiky() -> Answer:
    """The largest weight of the strip at raw scale, and its exact mean, at d_k = 64 and 512."""
    largest = softmax(strip_scores()).max()
    mean, wide = (expectations(d_k, KEYS, 1.0).max_weight for d_k in (D_K, 512))
    note = (
        f"The largest of {KEYS} weights at d_k = {D_K} is {largest:.3f} in our strip and {mean:.3f} on average; at"
        f" d_k = 512 it is {wide:.3f} on average (exact, {UNTRAINED})"
    )
    conditions = {
        "the largest weight is above 0.9 in our strip": largest > ONE_HOT.value,
        "the largest weight is above 0.9 on average at d_k = 64": mean > ONE_HOT.value,
        "the largest weight is above 0.9 on average at d_k = 512": wide > ONE_HOT.value,
    }
    return cases(conditions, note)


@statement("textbook-29", says="At 1/sqrt(d_k) the same row spreads its weights.", severity="wrong number")
def strip_smooths() -> Answer:
    """The weights of the strip at 1/sqrt(d_k), and their exact mean maximum."""
    weights = softmax(strip_scores() / math.sqrt(D_K))
    mean = expectations(D_K, KEYS, math.sqrt(D_K)).max_weight
    note = (
        f"With {KEYS} keys at d_k = {D_K}, the weights of our strip are {shown(weights, 2)}; the largest weight is"
        f" {mean:.3f} on average (exact, {UNTRAINED})"
    )
    conditions = {
        "the largest weight is below one half in our strip": weights.max() < DOMINANT.value,
        "the largest weight is below one half on average": mean < DOMINANT.value,
    }
    return cases(conditions, note)


@statement(
    "textbook-30",
    says="Unscaled, the gradient of the row is dead; at 1/sqrt(d_k) it flows.",
    severity="wrong number",
)
def strip_gradient(tables: Tables) -> Answer:
    """|J|_F at raw scale over that at 1/sqrt(d_k): of the strip, and at d_k = 512 for each number of keys."""
    before, after = (float(jacobian_norm(softmax(strip_scores() / divisor))) for divisor in (1.0, math.sqrt(D_K)))
    median, mean = (ratio(tables, metric).loc[512] for metric in (MEDIAN, ROOT_MEAN_SQUARES[0]))
    typical = measured_by_keys(median, ratio_errors(tables).loc[512])
    note = (
        f"In our strip ({KEYS} keys, d_k = {D_K}), |J|_F is {before:.3g} unscaled and {after:.3g} scaled. At d_k = 512,"
        f" {UNTRAINED} (plane.csv), the unscaled median over the scaled one is {typical}; for root mean squares, the"
        f" ratio is exactly {by_keys(mean)}"
    )
    below = "|J|_F is below a tenth of the scaled one at d_k = 512"
    conditions = {"|J|_F is below a tenth of the scaled one in our strip": before < TENTH.value * after}
    conditions |= {f"the median of {below} with {n} keys": share < TENTH.value for n, share in median.items()}
    conditions |= {f"the root mean square of {below} with any of these numbers of keys": (mean < TENTH.value).any()}
    return cases(conditions, note)
