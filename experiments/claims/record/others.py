"""Statements of repositories, preprints, a thread and a question."""

from functools import cache
from math import log, sqrt

import numpy as np
import pandas as pd
from scipy import optimize, special

from experiments.claims.entry import (
    Cases,
    digits,
    draw,
    in_example,
    in_general,
    numbers,
)
from experiments.claims.judge import Answer
from experiments.claims.laws import (
    deviation_p_value,
    expectations,
    least_likely,
    normals,
    variance_of_unit_vectors,
)
from experiments.claims.measured import Floats, Given
from experiments.claims.words import each, listed, shown
from sdpa import scaled_dot_product_attention, softmax, theory


@cache
def _ten_by_ten(seed: int, trials: int, widths: tuple[int, ...]) -> dict[int, list[float]]:
    """Mean largest weight and entropy, unscaled then scaled, of 10 queries and 10 keys at each d.

    One generator for all: at each d in order, for each trial q and then k.
    """
    rng = np.random.default_rng(seed)
    found: dict[int, list[float]] = {}
    for d in widths:
        q, k = rng.standard_normal((trials, 2, 10, d)).swapaxes(0, 1)
        scores = q @ k.mT
        found[d] = []
        for weights in (softmax(scores), softmax(scores / sqrt(d))):
            largest = weights.max(axis=-1)
            entropies = special.entr(weights).sum(axis=-1)
            found[d] += [largest.mean(), entropies.mean()]
    return found


def _declare_table(d: int, claimed: str) -> None:
    def answer(_: Given) -> Answer:
        exact = [expectations(d, 10, divisor) for divisor in (1.0, sqrt(d))]
        values = [value for each in exact for value in (each.max_weight, each.entropy)]
        note = (
            "The computed numbers follow the source's recipe; 2,000 draws of ours give"
            f" {shown(_ten_by_ten(0, 2000, (d,))[d], 4)}, and the exact values are"
            f" {shown(values, 6)}"
        )
        by_width = _ten_by_ten(42, 500, (8, 16, 32, 64, 128, 256))
        return numbers(by_width[d], note)

    digits(
        f"cv8-{d}",
        f"Largest weight and entropy of 10 queries and keys at d = {d}, unscaled and scaled.",
        claimed,
        answer,
    )


_declare_table(64, "0.869572 0.337576 0.322761 1.919830")
_declare_table(256, "0.933568 0.165728 0.318936 1.926463")


def _deviation_of_outputs(_: Given) -> Answer:
    drawn = scaled_dot_product_attention(*normals(3, 20, 256, 64)).std()
    note = (
        f"This is the exact value; twenty draws of ours give {drawn:.4f}, and the log-normal"
        f" prediction sqrt(e / n) is {sqrt(np.e / 256):.4f}"
    )
    return numbers(sqrt(1 - expectations(64, 256, 8.0).jacobian_trace), note)


digits(
    "usc-1",
    "The standard deviation of outputs at n = 256, d = 64 under 1/sqrt(d).",
    "0.102",
    _deviation_of_outputs,
)

_DEVIATIONS = {16: 4.027, 64: 7.991, 256: 16.124, 1024: 31.824}
_QUERIES = 4000


def _deviations_of_eight_keys(_: Given) -> Answer:
    printed = _DEVIATIONS.items()
    shared = [deviation_p_value(d, own, _QUERIES, shared=True) for d, own in printed]
    apart = [deviation_p_value(d, own, _QUERIES, shared=False) for d, own in printed]
    note = (
        f"The p-values are {shown(shared, 2)} if all queries share eight keys, and"
        f" {shown(apart, 2)} if each query has its own eight keys. The source does not say which;"
        " the verdict rests on the smallest"
    )
    p_value = min(least_likely(shared), least_likely(apart))
    return numbers([4, 8, 16, 32], note, p_value)


draw(
    "hello-840a",
    "Standard deviations of scores of 4000 queries and 8 keys at d = 16, 64, 256 and 1024.",
    " ".join(map(str, _DEVIATIONS.values())),
    _deviations_of_eight_keys,
)


@cache
def _errors_of_largest() -> tuple[float, float]:
    """The standard error of the mean largest weight at d = 16, of shared keys and of own ones."""
    rng = np.random.default_rng(0)
    means = []
    for _ in range(200):
        q = rng.standard_normal((_QUERIES, 16))
        k = rng.standard_normal((8, 16))
        largest = softmax(q @ k.T).max(axis=-1)
        means.append(largest.mean())
    q = rng.standard_normal((20_000, 1, 16))
    k = rng.standard_normal((20_000, 8, 16))
    scores = (q * k).sum(axis=-1)
    largest = softmax(scores).max(axis=-1)
    of_shared = float(np.std(means, ddof=1))
    of_own = float(largest.std() / sqrt(_QUERIES))
    return of_shared, of_own


def _largest_of_eight_keys(_: Given) -> Answer:
    exact = expectations(16, 8, 1.0).max_weight
    errors = _errors_of_largest()
    distance = abs(0.755 - exact)
    p_values = [2 * special.stdtr(199, -distance / error) for error in errors]
    note = (
        "The computed number is the exact mean. The standard error of a sample mean is"
        f" {errors[0]:.3f} (p = {p_values[0]:.2f}) if all queries share eight keys, and"
        f" {errors[1]:.4f} (p = {p_values[1]:.2f}) if each query has its own eight keys. The source"
        " does not say which; the verdict rests on the smaller p"
    )
    return numbers(exact, note, min(p_values))


draw(
    "hello-840b",
    "The mean largest weight of 4000 queries and 8 keys at d = 16, unscaled.",
    "0.755",
    _largest_of_eight_keys,
)


@in_general("infw-1")
def limits_of_infinite_width(given: Given) -> Cases:
    """As the width d grows, scores tend to a standard normal distribution under 1/sqrt(d) and to 0
    under 1/d.
    """
    kurtosis = theory.score_kurtosis(256)
    of_root = theory.score_variance(256, 16.0)
    of_width = theory.score_variance(256, 256.0)
    return {
        "at width 256, scores are nearly standard normal under 1/sqrt(d)": (
            of_root == 1 and kurtosis < given.tenth
        ),
        "they are nearly 0 under 1/d": of_width < given.tenth,
    }, (
        f"At width 256, scores have variance {of_root:g} and excess kurtosis {kurtosis:.3f} under"
        f" 1/sqrt(d), and variance {of_width:.4f} under 1/d"
    )


def _leading_weight(n: int, factor: float) -> float:
    """The weight of one score of +3 among n - 1 of -2, times a factor."""
    scores = np.full(n, -2.0)
    scores[0] = 3.0
    return float(softmax(factor * scores)[0])


@in_example("ssmax-1")
def scalable_softmax_keeps_the_largest(given: Given) -> Cases:
    """Scalable softmax keeps the weight of one large score close to 1 at any number of keys."""
    keys = [2, 5, *(10**power for power in range(1, 7))]
    plain = [_leading_weight(n, 1.0) for n in keys]
    weights = [_leading_weight(n, 0.43 * log(n)) for n in keys]
    scalable = pd.Series(weights, keys)
    below = scalable.index[scalable <= given.one_hot]
    return each("the weight is above 0.9 with {n} keys", scalable > given.one_hot), (
        f"With {listed(keys)} keys, scalable softmax gives the weight {shown(scalable, 3)}, and the"
        f" plain softmax {shown(plain, 2)}. Scalable softmax gives 0.9 or less with {listed(below)}"
        " keys"
    )


_VARIANCE = variance_of_unit_vectors(64)
digits(
    "ngpt-1",
    "Unit queries and keys have products of variance 1/d_k, so that the scale is sqrt(d_k), here"
    " at d_k = 64.",
    "0.015625 8.000",
    [_VARIANCE, 1 / sqrt(_VARIANCE)],
)
digits(
    "mup-1",
    "The attention scale 8/d equals 1/sqrt(d) at d = 64.",
    "64.00",
    optimize.brentq(lambda d: 8 / d - 1 / sqrt(d), 1, 4096),
)


@cache
def _variances_of_four() -> Floats:
    """The variances of the four scores of each of 100,000 products of 2 x 2 Gaussian matrices."""
    q, k = np.random.default_rng(0).standard_normal((2, 100_000, 2, 2))
    scores = (q @ k.mT).reshape(-1, 4)
    return np.asarray(scores.var(axis=1))


def _variance_of_four_scores(_: Given) -> Answer:
    drawn = _variances_of_four()
    low, high = np.quantile(drawn, (0.05, 0.95))
    note = (
        "The variance of four dependent scores, with the divisor 4, is"
        f" {drawn.mean():.2f} on average ({4 * drawn.mean() / 3:.2f} with the divisor 3), and from"
        f" {low:.2f} to {high:.1f} in 90% of draws. One draw is no evidence"
    )
    below = (drawn <= 1.6).mean()
    above = (drawn > 1.6).mean()
    p_value = 2 * min(below, above)
    exact = theory.score_variance(2, 1.0) * (1 - 1 / 4)
    return numbers(exact, note, p_value)


draw(
    "se-1",
    "One product of 2 x 2 Gaussian matrices has a variance of 1.6, stated beside the expected 2.",
    "1.6",
    _variance_of_four_scores,
)
