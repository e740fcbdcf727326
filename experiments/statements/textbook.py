"""A textbook page: swings at d_k = 64, and a strip of weights that a slider smooths."""

import math

from experiments.examples.strip import D_K, KEYS, strip
from experiments.statements.answers import Answer, Tables, cases, numbers, quantity, shown
from experiments.statements.checks import UNTRAINED
from experiments.statements.cutoffs import DOMINANT, ONE_HOT, TENTH
from experiments.statements.plane import MEDIAN, ROOT_MEAN_SQUARES, by_keys, measured_by_keys, ratio, ratio_errors
from sdpa import jacobian_norm, softmax, theory


@quantity
def swing_at_64(_: Tables) -> Answer:
    """The standard deviation of a score at d_k = 64, and how likely it is beyond."""
    beyond = 2 * float(theory.score_survival(8.0, 64))
    return numbers(
        math.sqrt(theory.score_variance(64, 1.0)),
        note=f"standard deviation at d_k = 64, {UNTRAINED}; beyond it with probability {beyond:.2f}",
    )


@quantity
def strip_is_spiky(_: Tables) -> Answer:
    """The largest weight of the strip at raw scale, and its exact mean, at d_k = 64 and 512."""
    largest = softmax(strip()).max()
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


@quantity
def strip_smooths(_: Tables) -> Answer:
    """The weights of the strip at 1/sqrt(d_k), and their exact mean maximum."""
    weights = softmax(strip() / math.sqrt(D_K))
    mean = theory.attention_expectations(D_K, KEYS, math.sqrt(D_K)).max_weight
    note = f"{KEYS} keys, d_k = {D_K}: weights {shown(weights, 2)}; largest {mean:.3f} on average (exact, {UNTRAINED})"
    return cases({"in this strip": weights.max() < DOMINANT, "on average": mean < DOMINANT}, note)


@quantity
def strip_gradient(tables: Tables) -> Answer:
    """|J|_F at raw scale over that at 1/sqrt(d_k): of the strip, and at d_k = 512 for each number of keys."""
    before, after = (float(jacobian_norm(softmax(strip() / divisor))) for divisor in (1.0, math.sqrt(D_K)))
    median, mean = (ratio(tables, metric).loc[512] for metric in (MEDIAN, ROOT_MEAN_SQUARES[0]))
    typical = measured_by_keys(median, ratio_errors(tables).loc[512])
    note = (
        f"|J| of the strip ({KEYS} keys, d_k = {D_K}) {before:.3g}, then {after:.3g}; plane.csv, unscaled over d_k^1/2"
        f" at d_k = 512, {UNTRAINED}: median {typical}; root mean square, exactly, {by_keys(mean)}"
    )
    conditions = {"in this strip": before < TENTH * after}
    conditions |= {f"in the median row at d_k = 512 with {n:,} keys": share < TENTH for n, share in median.items()}
    conditions |= {"in the root mean square at d_k = 512, with any of these": (mean < TENTH).any()}
    return cases(conditions, note)
