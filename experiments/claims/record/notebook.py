"""Statements of the notebook."""

import math
from functools import cache
from math import sqrt

import numpy as np
import pandas as pd
from scipy import optimize

from experiments.claims.entry import Cases, digits, in_example, in_general, undecided
from experiments.claims.laws import moment_of_product, normals
from experiments.claims.measured import KEYS, MEDIAN_JACOBIAN, UNTRAINED, Floats, Given
from experiments.claims.record.shared import slope
from experiments.claims.training import LIMITS, losses
from experiments.claims.words import by_keys, each, shown
from experiments.examples.examples import NOTEBOOK
from sdpa import attention_weights, entropy, softmax, theory


@in_general("notebook-07")
def products_are_product_normal(given: Given) -> Cases:
    """The product of two standard normal numbers follows the product-normal law."""
    tests = given.tables["dot_products/tests"].set_index("d_k")
    p_value = tests["p_value"][1]
    return {
        "its density integrates to 1": abs(moment_of_product(0) - 1) < 1e-8,
        "measured products follow it": p_value >= given.unlikely,
    }, (
        f"The Kolmogorov-Smirnov test gives p = {p_value:.2f} (derived/dot_products/tests.csv, d_k"
        " = 1)"
    )


_DRAWS = 100_000


def _correlation(terms: Floats) -> float:
    """Pearson's correlation of two rows."""
    return float(np.asarray(np.corrcoef(terms))[0, 1])


def _dependence(q: Floats, k: Floats) -> float:
    """The correlation of two terms or of their absolute values, whichever is further from 0."""
    terms = q * k
    return max(abs(_correlation(each)) for each in (terms, abs(terms)))


@in_general("notebook-11")
def terms_are_independent(given: Given) -> Cases:
    """Because Q and K, with rows drawn from N(0, I_d), are independent, the terms of a score are
    independent and identically distributed.
    """
    from scipy import stats  # takes half a second to load

    q = normals(2, _DRAWS)
    k = normals(2, _DRAWS, seed=1)
    independent = _dependence(q, k)
    dependent = _dependence(q, np.stack([q[1], k[1]]))
    limit = given.certain / sqrt(_DRAWS)
    alike = stats.ks_2samp(*(q * k)).pvalue >= given.unlikely
    # A part that all entries of a row share gives any two of them the correlation 0.5.
    shared_q = (q + normals(1, _DRAWS, seed=2)) / sqrt(2)
    shared_k = (k + normals(1, _DRAWS, seed=3)) / sqrt(2)
    correlation = _correlation(shared_q * shared_k)
    return {
        "the terms are independent and identically distributed if Q and K are independent": (
            independent < limit and alike
        ),
        "they depend on each other if Q and K do": dependent >= limit,
    }, (
        "In 100,000 draws, the correlation of two terms, or of their absolute values if that is"
        f" larger, is {independent:.3f} if Q and K are independent, and {dependent:.2f} if they are"
        " not (k_1 = q_2). The law N(0, I_d), which the source states earlier, is also required:"
        " if the entries of a row have a correlation of 0.5, the terms have a correlation of"
        f" {correlation:.3f}"
    )


digits(
    "notebook-12 notebook-16 lesson-12 article-24",
    "The variance of scores grows in proportion to d_k: with slope 1 in logarithms.",
    "1.000",
    slope("unscaled"),
)


@cache
def _overflowing(divisor: float) -> "pd.Series[float]":
    """P(a scaled score of a row at d_k = 512 exceeds ln of the largest single-precision number)."""
    largest = divisor * math.log(np.finfo(np.float32).max)
    keys = [*KEYS, 65_536]
    beyond = [theory.largest_score_survival(largest, 512, n) for n in keys]
    return pd.Series(beyond, keys)


@cache
def _lost(divisor: float) -> float:
    """The share of rows of 4096 keys with a weight that single precision cannot compute."""
    scores = normals(64, 512) @ normals(4096, 512, seed=1).T
    weights = softmax((scores / divisor).astype(np.float32))
    return float((~np.isfinite(weights)).any(axis=-1).mean())


@in_general("notebook-15 article-02")
def scaling_keeps_softmax_stable(given: Given) -> Cases:
    """It is scaling that keeps softmax numerically stable."""
    bare = _overflowing(1.0)
    scaled = _overflowing(sqrt(512))
    keeps = "scaling at d_k = 512 keeps overflow from more than 1% of the rows of a softmax that"
    plain = each(
        f"{keeps} does not subtract the maximum with {{n}} keys",
        (bare > given.rare) & (given.rare > scaled),
    )
    shifted = {
        f"{keeps} subtracts the maximum with 4096 keys": (
            _lost(1.0) > given.rare > _lost(sqrt(512))
        )
    }
    return plain | shifted, (
        "In single precision at d_k = 512, a softmax that does not subtract the maximum overflows"
        f" in these shares of unscaled rows: {by_keys('%.1f%%', 100 * bare)};"
        f" and in {scaled.max():.1%} of the rows divided by sqrt(d_k). These shares are exact,"
        f" {UNTRAINED}. The softmax of both sources subtracts the maximum, and never overflows"
    )


@cache
def _width_of_a_tenth() -> float:
    """The d_k at which the root mean square of |J| of 4 keys is a tenth of the scaled one."""

    def excess(log_d_k: float) -> float:
        d_k = math.exp(log_d_k)
        bare = theory.attention_expectations(d_k, 4, 1.0)
        scaled = theory.attention_expectations(d_k, 4, sqrt(d_k))
        return bare.jacobian_norm / scaled.jacobian_norm - 0.1

    log_d_k = optimize.brentq(excess, math.log(64), math.log(1e6), xtol=1e-4)
    return math.exp(log_d_k)


@in_general("notebook-18 lesson-20b notebook-23a")
def gradients_vanish(given: Given) -> Cases:
    """Without scaling gradients vanish at large d_k, so that they no longer flow."""
    large = given.large
    root = given.ratio("jacobian_norm_exact").loc[large]
    query = given.ratio("query_gradient_norm_exact").loc[large]
    median = given.ratio(MEDIAN_JACOBIAN).loc[large]
    below = f"is below a tenth of the scaled one at d_k = {large:g} with {{n}} keys"
    medians = by_keys("%s, %s, %s, %s, %s", given.ratios_of_medians().T, between="; ")
    return {
        **each(f"the median of |J|_F {below}", median < given.tenth),
        **each(f"the root mean square of |J|_F {below}", root < given.tenth),
        **each(f"the root mean square of |dL/dq| {below}", query < given.tenth),
    }, (
        f"All numbers here are ratios of unscaled values to those under d_k^1/2, {UNTRAINED}"
        f" (phase.csv). The median of |J|_F is {medians}, each at d_k = 64, 128, 256, 512, 4096."
        f" With more keys, it falls only at larger d_k. At d_k = {large:g}, the exact root mean"
        f" square of |J|_F is {by_keys('%.3g', root)}, and that of |dL/dq| is"
        f" {by_keys('%.3g', query)}. With 4 keys, that of |J|_F falls to a tenth at d_k ="
        f" {_width_of_a_tenth():,.0f}. The effect on training is the subject of textbook-13"
    )


@undecided("notebook-19b")
def learning_improves(given: Given) -> str:
    """With scaling learning improves."""
    return (
        "With Adam it does here at both widths and from both starts, most from the first. With"
        " momentum, the small start and d_k = 64, three runs end lower without the scale"
        f" (docs/training.md). {losses(given, 64)}. {losses(given, 512)}. {LIMITS}"
    )


@in_example("notebook-20")
def scaling_smooths_the_example(_: Given) -> Cases:
    """In the example scaling makes the weights smoother."""
    before = attention_weights(*NOTEBOOK, scaling="unscaled")
    after = attention_weights(*NOTEBOOK)
    largest_before = before.max(axis=-1)
    largest_after = after.max(axis=-1)
    return {
        "every largest weight falls": (largest_after < largest_before).all(),
        "every entropy rises": (entropy(after) > entropy(before)).all(),
    }, (
        f"The largest weights are {shown(largest_before, 3)} before and {shown(largest_after, 3)}"
        " after"
    )
