"""A textbook page: swings at d_k = 64, and a strip of weights that a slider smooths."""

import math

from experiments.examples.strip import D_K, KEYS, strip
from experiments.record.answers import Answer, Tables, cases, numbers, quantity, shown
from sdpa import jacobian_norm, softmax, theory

NORMS = ("jacobian_norm_median", "jacobian_norm")


@quantity
def swing_at_64(_: Tables) -> Answer:
    """The standard deviation of a score at d_k = 64, and how likely it is beyond."""
    beyond = 2 * float(theory.score_survival(8.0, 64))
    return numbers(
        math.sqrt(theory.score_variance(64, 1.0)), note=f"standard deviation; beyond it with probability {beyond:.2f}"
    )


@quantity
def strip_is_spiky(_: Tables) -> Answer:
    """The largest weight of the strip at raw scale, and its exact mean, at d_k = 64 and 512."""
    largest = softmax(strip()).max()
    mean, wide = (theory.attention_expectations(d_k, KEYS, 1.0).max_weight for d_k in (D_K, 512))
    note = (
        f"largest of {KEYS} weights at d_k = {D_K}: {largest:.3f} in the strip, {mean:.3f} on average (exact);"
        f" {wide:.3f} at d_k = 512"
    )
    conditions = {
        "in this strip": largest > 0.9,
        "on average at d_k = 64": mean > 0.9,
        "on average at d_k = 512": wide > 0.9,
    }
    return cases(conditions, note)


@quantity
def strip_smooths(_: Tables) -> Answer:
    """The weights of the strip at 1/sqrt(d_k), and their exact mean maximum."""
    weights = softmax(strip() / math.sqrt(D_K))
    mean = theory.attention_expectations(D_K, KEYS, math.sqrt(D_K)).max_weight
    note = f"weights {shown(weights, 2)}; largest {mean:.3f} on average (exact)"
    return cases({"in this strip": weights.max() < 0.5, "on average": mean < 0.5}, note)


@quantity
def strip_gradient(tables: Tables) -> Answer:
    """|J|_F at raw scale over that at 1/sqrt(d_k): of the strip, and of many rows at d_k = 64 and 512."""
    before, after = (float(jacobian_norm(softmax(strip() / divisor))) for divisor in (1.0, math.sqrt(D_K)))
    rows = tables["scaling"].set_index(["scaling", "d_k"])
    median, mean = (rows.loc[("unscaled", 512)][name] / rows.loc[("d_k^1/2", 512)][name] for name in NORMS)
    note = (
        f"|J| of the strip {before:.3g}, then {after:.3g}; scaling.csv, unscaled over d_k^1/2 at d_k = 512: median"
        f" {median:.2g}, root mean square {mean:.2g}"
    )
    conditions = {
        "in this strip": before < 0.1 * after,
        "in the median row at d_k = 512": median < 0.1,
        "in the root mean square at d_k = 512": mean < 0.1,
    }
    return cases(conditions, note)
