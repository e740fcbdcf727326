"""Numbers published elsewhere, with the recipe of their source where it gives one, beside the exact values."""

import math
from functools import cache

import numpy as np
from scipy import integrate, optimize, stats

from experiments.statements.answers import Answer, Tables, cases, numbers, quantity, shown
from experiments.statements.checks import least_likely
from experiments.statements.cutoffs import ONE_HOT, TENTH
from sdpa import scaled_dot_product_attention, softmax, theory


@cache
def ten_by_ten(seed: int, trials: int, dimensions: tuple[int, ...]) -> dict[int, tuple[float, ...]]:
    """Mean largest weight and entropy, unscaled then scaled, of trials of 10 queries and 10 keys at each d.

    One generator for all: at each d in order, for each trial q and then k.
    """
    rng = np.random.default_rng(seed)
    found = {}
    for d in dimensions:
        rows = []
        for _ in range(trials):
            q, k = rng.standard_normal((10, d)), rng.standard_normal((10, d))
            both = [softmax(q @ k.T / divisor) for divisor in (1.0, math.sqrt(d))]
            rows.append([x for w in both for x in (w.max(-1).mean(), stats.entropy(w, axis=-1).mean())])
        found[d] = tuple(np.mean(rows, axis=0).tolist())
    return found


def _ten_by_ten(d: int) -> Answer:
    theirs = ten_by_ten(42, 500, (8, 16, 32, 64, 128, 256))[d]
    ours = shown(ten_by_ten(0, 2000, (d,))[d], 4)
    exact = [theory.attention_expectations(d, 10, divisor) for divisor in (1.0, math.sqrt(d))]
    values = shown([x for e in exact for x in (e.max_weight, e.entropy)], 6)
    return numbers(theirs, note=f"with the source's recipe; 2,000 draws of ours {ours}; exactly {values}")


@quantity
def ten_by_ten_at_64(_: Tables) -> Answer:
    """Largest weight and entropy at d = 64, unscaled and scaled."""
    return _ten_by_ten(64)


@quantity
def ten_by_ten_at_256(_: Tables) -> Answer:
    """Largest weight and entropy at d = 256, unscaled and scaled."""
    return _ten_by_ten(256)


@quantity
def output_deviation(_: Tables) -> Answer:
    """The standard deviation of outputs of Gaussian values, sqrt(E sum w^2), at n = 256, d = 64, scaled."""
    exact = math.sqrt(1 - theory.attention_expectations(64, 256, 8.0).jacobian_trace)
    q, k, v = np.random.default_rng(0).standard_normal((3, 20, 256, 64))
    ours = scaled_dot_product_attention(q, k, v).std()
    prediction = f"the log-normal prediction sqrt(e / n) is {math.sqrt(math.e / 256):.4f}"
    return numbers(exact, note=f"exact; {ours:.4f} in twenty draws of ours; {prediction}")


QUERIES, KEYS = 4000, 8
DEVIATIONS = {16: 4.027, 64: 7.991, 256: 16.124, 1024: 31.824}


@quantity
def deviations_of_eight_keys(_: Tables) -> Answer:
    """Standard deviations of scores of 4000 queries and 8 keys, and how likely the stated ones are by the exact law."""
    readings = {shared: _chance_of_deviations(QUERIES if shared else 1) for shared in (True, False)}
    note = (
        f"p-values {shown(readings[True], 2)} if all queries share eight keys, {shown(readings[False], 2)} if each"
        " query has eight of its own; the source does not say which; the verdict rests on the smallest"
    )
    least = min(map(least_likely, readings.values()))
    return Answer(numbers=tuple(map(math.sqrt, DEVIATIONS)), p_value=least, note=note)


def _chance_of_deviations(queries_of_a_key: int) -> list[float]:
    """How likely a deviation is as far from sqrt(d) as the one stated, for each d, if so many queries share a key."""
    p_values = []
    for d, deviation in DEVIATIONS.items():
        # The variance of a mean of squares of scores that share queries and keys, from E|q|^4 = d^2 + 2 d.
        spread = (2 * d * d + 6 * d + 2 * d * (queries_of_a_key - 1) + 2 * d * (KEYS - 1)) / (QUERIES * KEYS)
        p_values.append(2 * float(stats.norm.sf(abs(deviation**2 - d) / math.sqrt(spread))))
    return p_values


@quantity
def largest_of_eight_keys(_: Tables) -> Answer:
    """The mean largest of 8 weights over 4000 queries at d = 16: exact, and its spread with shared and own keys."""
    exact = theory.attention_expectations(16, 8, 1.0).max_weight
    rng = np.random.default_rng(0)
    means = [
        softmax(rng.standard_normal((1000, 16)) @ rng.standard_normal((KEYS, 16)).T).max(-1).mean() for _ in range(200)
    ]
    q, k = rng.standard_normal((20_000, 1, 16)), rng.standard_normal((20_000, KEYS, 16))
    own = softmax((q * k).sum(-1)).max(-1).std() / math.sqrt(QUERIES)
    shared = float(np.std(means, ddof=1))
    p_values = [float(2 * stats.t.sf(abs(0.755 - exact) / spread, 199)) for spread in (shared, own)]
    note = (
        f"exact mean; it spreads by {shared:.3f} (p = {p_values[0]:.2f}) if all queries share eight keys, by {own:.4f}"
        f" (p = {p_values[1]:.2f}) if each query has eight of its own; the source does not say which; the verdict rests"
        " on the smaller p"
    )
    return Answer(numbers=(exact,), p_value=min(p_values), note=note)


@quantity
def limits_of_scores(_: Tables) -> Answer:
    """Variance and excess kurtosis of scores of width 256 under 1/sqrt(d) and under 1/d."""
    root, linear = theory.score_variance(256, 16.0), theory.score_variance(256, 256.0)
    kurtosis = theory.score_kurtosis(256)
    note = (
        f"at width 256: variance {root:g} and excess kurtosis {kurtosis:.3f} under 1/sqrt(d),"
        f" variance {linear:.4f} under 1/d"
    )
    return cases(
        {
            "nearly standard normal under the root": root == 1 and kurtosis < TENTH,
            "nearly a point under 1 over d": linear < TENTH,
        },
        note,
    )


@quantity
def scalable_softmax(_: Tables) -> Answer:
    """The weight of a score of +3 among -2, multiplied by 0.43 ln n, from 2 to a million keys; and plainly."""
    keys = (2, 5, *(10**power for power in range(1, 7)))
    scalable = {n: _leading_weight(n, 0.43 * math.log(n)) for n in keys}
    plain = [_leading_weight(n, 1.0) for n in keys]
    low = " and ".join(str(n) for n in keys if scalable[n] <= ONE_HOT)
    note = (
        f"at {', '.join(f'{n:,}' for n in keys)} keys {shown(list(scalable.values()), 3)}; the plain softmax"
        f" {shown(plain, 2)}; 0.9 or less with {low or 'none'} of them"
    )
    return cases({f"with {n:,} keys": weight > ONE_HOT for n, weight in scalable.items()}, note)


def _leading_weight(n: int, factor: float) -> float:
    """The weight of one score of +3 among n - 1 of -2, all multiplied by a factor."""
    return float(softmax(factor * np.array([3.0] + [-2.0] * (n - 1)))[0])


@quantity
def unit_queries(_: Tables) -> Answer:
    """The variance of q.k of unit vectors of dimension 64, integrated over the law of the cosine; the scale for 1."""
    mass, square = (integrate.quad(lambda t, p=p: t**p * (1 - t * t) ** 30.5, -1, 1)[0] for p in (0, 2))
    variance = square / mass
    return numbers(variance, 1 / math.sqrt(variance))


@quantity
def scale_of_8_over_d(_: Tables) -> Answer:
    """The d at which 8 / d meets 1 / sqrt(d)."""
    return numbers(optimize.brentq(lambda d: 8 / d - 1 / math.sqrt(d), 1, 4096))


@quantity
def one_product_of_two_by_two(_: Tables) -> Answer:
    """The variance of the four scores of one 2 x 2 product: its mean over draws, and how likely 1.6 is."""
    claimed, width = 1.6, 2
    exact = theory.score_variance(width, 1.0) * (1 - 1 / width**2)  # squares over four: a quarter goes to their mean
    q, k = np.random.default_rng(0).standard_normal((2, 100_000, width, width))
    found = (q @ k.swapaxes(-1, -2)).reshape(-1, width**2).var(axis=1)
    below = float((found <= claimed).mean())
    note = (
        f"four dependent scores, squares over four: mean {found.mean():.2f} (over three:"
        f" {4 * found.mean() / 3:.2f}), 90% of draws from"
        f" {np.quantile(found, 0.05):.2f} to {np.quantile(found, 0.95):.1f}: no evidence"
    )
    return Answer(numbers=(exact,), p_value=2 * min(below, 1 - below), note=note)
