"""Numbers published elsewhere, with the recipe of their source where it gives one, beside the exact values."""

import math
from functools import cache

import numpy as np
from scipy import integrate, stats

from experiments.record.answers import Answer, Tables, cases, numbers, quantity, shown
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


@quantity
def deviations_of_eight_keys(_: Tables) -> Answer:
    """Standard deviations of scores of 4000 queries and 8 keys, and how likely the stated ones are by the exact law."""
    queries, keys, claimed = 4000, 8, {16: 4.027, 64: 7.991, 256: 16.124, 1024: 31.824}
    p_values = []
    for d, deviation in claimed.items():
        # The variance of a mean of squares of scores that share queries and keys, from E|q|^4 = d^2 + 2 d.
        spread = (2 * d * d + 6 * d + 2 * d * (queries - 1) + 2 * d * (keys - 1)) / (queries * keys)
        p_values.append(2 * stats.norm.sf(abs(deviation**2 - d) / math.sqrt(spread)))
    exact = [math.sqrt(d) for d in claimed]
    return Answer(
        numbers=tuple(exact), p_value=min(1.0, len(p_values) * min(p_values)), note=f"p-values {shown(p_values, 2)}"
    )


@quantity
def largest_of_eight_keys(_: Tables) -> Answer:
    """The mean largest weight of 4000 queries and 8 keys at d = 16: exact, and the spread between sets of keys."""
    exact = theory.attention_expectations(16, 8, 1.0).max_weight
    rng = np.random.default_rng(0)
    means = [
        softmax(rng.standard_normal((1000, 16)) @ rng.standard_normal((8, 16)).T).max(-1).mean() for _ in range(200)
    ]
    p_value = float(2 * stats.t.sf(abs(0.755 - exact) / np.std(means, ddof=1), 199))
    return Answer(
        numbers=(exact,), p_value=p_value, note=f"exact mean; sets of eight keys spread by {np.std(means):.3f}"
    )


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
            "nearly standard normal under the root": root == 1 and kurtosis < 0.05,
            "nearly a point under 1 over d": linear < 0.01,
        },
        note,
    )


@quantity
def scalable_softmax(_: Tables) -> Answer:
    """The weight of a score of +3 among -2, multiplied by 0.43 ln n, from 10 to a million keys; and plainly."""
    keys = [10, 100, 1000, 10**4, 10**5, 10**6]
    scalable = [1 / (1 + (n - 1) * math.exp(-5 * 0.43 * math.log(n))) for n in keys]
    plain = [1 / (1 + (n - 1) * math.exp(-5)) for n in keys]
    note = f"at {keys[0]} to {keys[-1]} keys {shown(scalable, 3)}; the plain softmax {shown(plain, 2)}"
    return cases(
        {"close to 1 from 10 keys to a million": min(scalable) > 0.9, "the plain softmax loses it": plain[-1] < 0.01},
        note,
    )


@quantity
def unit_queries(_: Tables) -> Answer:
    """The variance of q.k of unit vectors of dimension 64, integrated over the law of the cosine; the scale for 1."""
    mass, square = (integrate.quad(lambda t, p=p: t**p * (1 - t * t) ** 30.5, -1, 1)[0] for p in (0, 2))
    variance = square / mass
    return numbers(variance, 1 / math.sqrt(variance))


@quantity
def scale_of_8_over_d(_: Tables) -> Answer:
    """8 / d and 1 / sqrt(d) at d = 64."""
    return cases({"equal at 64": 1 / math.sqrt(64) == 8 / 64, "unequal at 128": 1 / math.sqrt(128) != 8 / 128})


@quantity
def one_product_of_two_by_two(_: Tables) -> Answer:
    """The variance of the four scores of one 2 x 2 product: its mean over draws, and how likely 1.6 is."""
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 100_000, 2, 2))
    found = (q @ k.swapaxes(-1, -2)).reshape(-1, 4).var(axis=1)
    below = float((found <= 1.6).mean())
    note = (
        f"four dependent scores, squares over four: mean {found.mean():.2f} (over three:"
        f" {4 * found.mean() / 3:.2f}), 90% of draws from"
        f" {np.quantile(found, 0.05):.2f} to {np.quantile(found, 0.95):.1f}: no evidence"
    )
    return Answer(numbers=(1.5,), p_value=2 * min(below, 1 - below), note=note)
