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
from experiments.statements.shared import share_beyond
from sdpa import jacobian_norm, softmax, theory


@statement(
    "textbook-10", says="At d_k = 64 scores swing by 8 or more.", claimed="8.0", rule="digits", severity="wrong number"
)
def swing_at_64() -> Answer:
    """The standard deviation of a score, and how likely a score is beyond it."""
    deviation = math.sqrt(theory.score_variance(D_K, 1.0))
    beyond = share_beyond(deviation, D_K)
    note = f"the standard deviation at d_k = {D_K}, {UNTRAINED}; a score is beyond it with probability {beyond:.2f}"
    return numbers(deviation, note=note)


@statement(
    "textbook-28", says="At raw scale a row of the strip puts almost all weight on one key.", severity="wrong number"
)
def strip_is_spiky() -> Answer:
    """The largest weight of the strip at raw scale, and its exact mean, at d_k = 64 and 512."""
    largest = softmax(strip_scores()).max()
    mean, wide = (theory.attention_expectations(d_k, KEYS, 1.0).max_weight for d_k in (D_K, 512))
    note = (
        f"largest of {KEYS} weights at d_k = {D_K}: {largest:.3f} in the strip, {mean:.3f} on average; {wide:.3f} at"
        f" d_k = 512 (exact, {UNTRAINED})"
    )
    conditions = {
        "in this strip": largest > ONE_HOT,
        "on average at d_k = 64": mean > ONE_HOT,
        "on average at d_k = 512": wide > ONE_HOT,
    }
    return cases(conditions, note)


@statement("textbook-29", says="At 1/sqrt(d_k) the same row spreads its weights.", severity="wrong number")
def strip_smooths() -> Answer:
    """The weights of the strip at 1/sqrt(d_k), and their exact mean maximum."""
    weights = softmax(strip_scores() / math.sqrt(D_K))
    mean = theory.attention_expectations(D_K, KEYS, math.sqrt(D_K)).max_weight
    note = f"{KEYS} keys, d_k = {D_K}: weights {shown(weights, 2)}; largest {mean:.3f} on average (exact, {UNTRAINED})"
    return cases({"in this strip": weights.max() < DOMINANT, "on average": mean < DOMINANT}, note)


@statement(
    "textbook-30",
    says="At raw scale the gradient of the row is dead; at 1/sqrt(d_k) it flows.",
    severity="conceptual error",
)
def strip_gradient(tables: Tables) -> Answer:
    """|J|_F at raw scale over that at 1/sqrt(d_k): of the strip, and at d_k = 512 for each number of keys."""
    before, after = (float(jacobian_norm(softmax(strip_scores() / divisor))) for divisor in (1.0, math.sqrt(D_K)))
    median, mean = (ratio(tables, metric).loc[512] for metric in (MEDIAN, ROOT_MEAN_SQUARES[0]))
    typical = measured_by_keys(median, ratio_errors(tables).loc[512])
    note = (
        f"|J| of the strip ({KEYS} keys, d_k = {D_K}) is {before:.3g} unscaled and {after:.3g} scaled; plane.csv,"
        f" unscaled over d_k^1/2 at d_k = 512, {UNTRAINED}: median {typical}; root mean square, exactly,"
        f" {by_keys(mean)}"
    )
    conditions = {"in this strip": before < TENTH * after}
    conditions |= {f"in the median row at d_k = 512 with {n:,} keys": share < TENTH for n, share in median.items()}
    conditions |= {"in the root mean square at d_k = 512, with any of these": (mean < TENTH).any()}
    return cases(conditions, note)
