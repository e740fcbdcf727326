"""Numbers of repositories, preprints and threads, with the recipe of their source where it gives one."""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy import optimize, stats

from experiments.figures.caption_text import listed
from experiments.statements.answer import Answer, Claimed, cases, numbers, shown, values
from experiments.statements.cutoffs import ONE_HOT, TENTH
from experiments.statements.declare import statement
from experiments.statements.measured import count
from experiments.statements.shared import expectations, least_likely, variance_of_unit_vectors
from sdpa import scaled_dot_product_attention, softmax, theory


@cache
def ten_by_ten(seed: int, trials: int, dimensions: tuple[int, ...]) -> dict[int, tuple[float, ...]]:
    """Mean largest weight and entropy, unscaled then scaled, of trials of 10 queries and 10 keys at each d.

    One generator for all: at each d in order, for each trial q and then k.
    """
    rng = np.random.default_rng(seed)
    found = {}
    for d in dimensions:
        q, k = rng.standard_normal((trials, 2, 10, d)).swapaxes(0, 1)
        both = [softmax(q @ k.swapaxes(-1, -2) / divisor) for divisor in (1.0, math.sqrt(d))]
        found[d] = tuple(float(x) for w in both for x in (w.max(-1).mean(), stats.entropy(w, axis=-1).mean()))
    return found


@statement(
    "cv8-64",
    says="Largest weight and entropy of 10 queries and keys at d = 64, unscaled and scaled.",
    claimed="0.869572 0.337576 0.322761 1.919830",
    rule="digits",
    severity="wrong number",
    given={"d": 64},
)
@statement(
    "cv8-256",
    says="Largest weight and entropy of 10 queries and keys at d = 256, unscaled and scaled.",
    claimed="0.933568 0.165728 0.318936 1.926463",
    rule="digits",
    severity="wrong number",
    given={"d": 256},
)
def weights_of_ten_keys(d: int) -> Answer:
    """By the source's recipe; in the note by draws of ours, and exactly."""
    theirs = ten_by_ten(42, 500, (8, 16, 32, 64, 128, 256))[d]
    ours = shown(ten_by_ten(0, 2000, (d,))[d], 4)
    expected = [expectations(d, 10, divisor) for divisor in (1.0, math.sqrt(d))]
    exact = shown([x for e in expected for x in (e.max_weight, e.entropy)], 6)
    note = (
        f"The computed numbers follow the source's recipe; 2,000 draws of ours give {ours}, and the exact values are"
        f" {exact}"
    )
    return numbers(theirs, note=note)


@statement(
    "usc-1",
    says="The standard deviation of outputs at n = 256, d = 64 under 1/sqrt(d).",
    claimed="0.102",
    rule="digits",
    severity="wrong number",
)
def output_deviation() -> Answer:
    """The standard deviation of outputs of Gaussian values, sqrt(E sum w^2)."""
    exact = math.sqrt(1 - expectations(64, 256, 8.0).jacobian_trace)
    q, k, v = np.random.default_rng(0).standard_normal((3, 20, 256, 64))
    ours = scaled_dot_product_attention(q, k, v).std()
    prediction = f"the log-normal prediction sqrt(e / n) is {math.sqrt(math.e / 256):.4f}"
    return numbers(exact, note=f"This is the exact value; twenty draws of ours give {ours:.4f}, and {prediction}")


_QUERIES, _KEYS = 4000, 8
_WIDTHS = (16, 64, 256, 1024)


@statement(
    "hello-840a",
    says="Standard deviations of scores of 4000 queries and 8 keys at d = 16, 64, 256 and 1024.",
    claimed="4.027 7.991 16.124 31.824",
    rule="draw",
    severity="wrong number",
)
def deviations_of_eight_keys(claimed: Sequence[Claimed]) -> Answer:
    """The exact standard deviations, and the probability of draws as far from them as the claimed ones."""
    draws = list(zip(_WIDTHS, values(claimed), strict=True))
    shared, own = ([deviation_p_value(*draw, _QUERIES, shared=shared) for draw in draws] for shared in (True, False))
    note = (
        f"The p-values are {shown(shared, 2)} if all queries share eight keys, and {shown(own, 2)} if each query has"
        " its own eight keys. The source does not say which; the verdict rests on the smallest"
    )
    return numbers(np.sqrt(_WIDTHS), p_value=min(least_likely(shared), least_likely(own)), note=note)


def deviation_p_value(d: int, deviation: float, queries: int, *, shared: bool) -> float:
    """P(the standard deviation of scores is as far from sqrt(d)), for queries that share eight keys or have their own.

    The variance of a mean of squares of scores that share queries and keys follows from E|q|^4 = d^2 + 2 d.
    """
    queries_of_a_key = queries if shared else 1
    spread = (2 * d * d + 6 * d + 2 * d * (queries_of_a_key - 1) + 2 * d * (_KEYS - 1)) / (queries * _KEYS)
    return 2 * float(stats.norm.sf(abs(deviation**2 - d) / math.sqrt(spread)))


@statement(
    "hello-840b",
    says="The mean largest weight of 4000 queries and 8 keys at d = 16, unscaled.",
    claimed="0.755",
    rule="draw",
    severity="wrong number",
)
def largest_of_eight_keys(claimed: Sequence[Claimed]) -> Answer:
    """The exact mean, and its spread over draws with shared keys and with keys of each query's own."""
    exact = expectations(16, 8, 1.0).max_weight
    rng = np.random.default_rng(0)
    means = [
        softmax(rng.standard_normal((1000, 16)) @ rng.standard_normal((_KEYS, 16)).T).max(-1).mean() for _ in range(200)
    ]
    q, k = rng.standard_normal((20_000, 1, 16)), rng.standard_normal((20_000, _KEYS, 16))
    own = softmax((q * k).sum(-1)).max(-1).std() / math.sqrt(_QUERIES)
    shared = float(np.std(means, ddof=1))
    away = abs(claimed[0].value - exact)
    p_values = [float(2 * stats.t.sf(away / spread, 199)) for spread in (shared, own)]
    note = (
        f"The computed number is the exact mean. The standard error of a sample mean is {shared:.3f}"
        f" (p = {p_values[0]:.2f}) if all queries share eight keys, and {own:.4f} (p = {p_values[1]:.2f}) if each query"
        " has its own eight keys. The source does not say which; the verdict rests on the smaller p"
    )
    return numbers(exact, p_value=min(p_values), note=note)


@statement(
    "infw-1",
    says="As the width d grows, scores tend to a standard normal distribution under 1/sqrt(d) and to 0 under 1/d.",
    severity="conceptual error",
)
def limits_of_scores() -> Answer:
    """Variance and excess kurtosis of scores of width 256 under 1/sqrt(d) and under 1/d."""
    root, linear = theory.score_variance(256, 16.0), theory.score_variance(256, 256.0)
    kurtosis = theory.score_kurtosis(256)
    note = (
        f"At width 256, scores have variance {root:g} and excess kurtosis {kurtosis:.3f} under 1/sqrt(d), and"
        f" variance {linear:.4f} under 1/d"
    )
    return cases(
        {
            "at width 256, scores are nearly standard normal under 1/sqrt(d)": root == 1 and kurtosis < TENTH.value,
            "they are nearly 0 under 1/d": linear < TENTH.value,
        },
        note,
    )


@statement(
    "ssmax-1",
    says="Scalable softmax keeps the weight of one large score close to 1 at any number of keys.",
    severity="wrong number",
)
def scalable_softmax() -> Answer:
    """The weight of a score of +3 among -2, multiplied by 0.43 ln n, from 2 to a million keys; and plainly."""
    keys = (2, 5, *(10**power for power in range(1, 7)))
    scalable = {n: leading_weight(n, 0.43 * math.log(n)) for n in keys}
    plain = [leading_weight(n, 1.0) for n in keys]
    low = " and ".join(str(n) for n in keys if scalable[n] <= ONE_HOT.value)
    note = (
        f"With {listed([count(n) for n in keys])} keys, scalable softmax gives the weight"
        f" {shown(list(scalable.values()), 3)}, and the plain softmax {shown(plain, 2)}. Scalable softmax gives 0.9 or"
        f" less with {low or 'none of these numbers of'} keys"
    )
    return cases(
        {f"the weight is above 0.9 with {count(n)} keys": weight > ONE_HOT.value for n, weight in scalable.items()},
        note,
    )


def leading_weight(n: int, factor: float) -> float:
    """The weight of one score of +3 among n - 1 of -2, all multiplied by a factor."""
    return float(softmax(factor * np.array([3.0] + [-2.0] * (n - 1)))[0])


@statement(
    "ngpt-1",
    says="Unit queries and keys have products of variance 1/d_k, so that the scale is sqrt(d_k), here at d_k = 64.",
    claimed="0.015625 8.000",
    rule="digits",
    severity="wrong number",
)
def unit_queries() -> Answer:
    """The variance of q.k, and the scale that makes it 1."""
    variance = variance_of_unit_vectors(64)
    return numbers(variance, 1 / math.sqrt(variance))


@statement(
    "mup-1",
    says="The attention scale 8/d equals 1/sqrt(d) at d = 64.",
    claimed="64.00",
    rule="digits",
    severity="wrong number",
)
def scale_of_8_over_d() -> Answer:
    """The d at which 8 / d meets 1 / sqrt(d)."""
    return numbers(optimize.brentq(lambda d: 8 / d - 1 / math.sqrt(d), 1, 4096))


@statement(
    "se-1",
    says="One product of 2 x 2 Gaussian matrices has a variance of 1.6, stated beside the expected 2.",
    claimed="1.6",
    rule="draw",
    severity="wrong number",
)
def one_product_of_two_by_two(claimed: Sequence[Claimed]) -> Answer:
    """The variance of the four scores of one 2 x 2 product: its mean over draws, and how likely the claimed one is."""
    width = 2
    exact = theory.score_variance(width, 1.0) * (1 - 1 / width**2)  # squares over four: a quarter goes to their mean
    q, k = np.random.default_rng(0).standard_normal((2, 100_000, width, width))
    found = (q @ k.swapaxes(-1, -2)).reshape(-1, width**2).var(axis=1)
    below = float((found <= claimed[0].value).mean())
    note = (
        f"The variance of four dependent scores, with the divisor 4, is {found.mean():.2f} on average"
        f" ({4 * found.mean() / 3:.2f} with the divisor 3), and from {np.quantile(found, 0.05):.2f} to"
        f" {np.quantile(found, 0.95):.1f} in 90% of draws. One draw is no evidence"
    )
    return numbers(exact, p_value=2 * min(below, 1 - below), note=note)
