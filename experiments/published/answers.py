"""Laws, draws and computations by other ways, as names in the expressions that answer published statements."""

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal, localcontext
from functools import cache
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import integrate, optimize, special, stats

from experiments.published.examples import COMPARED, SWEPT, article_draw, variances
from experiments.published.quantities import KEYS, Floats
from sdpa import (
    ScaledDotProductAttention,
    attention_gradients,
    jacobian_norm,
    scaled_dot_product_attention,
    softmax,
    theory,
)
from sdpa.initialisation import SCHEMES

FORMULA = "softmax(Q @ K.T / d_k**0.5) @ V"
PROJECTIONS = "X @ W_Q, X @ W_K, X @ W_V"
EIGHT_KEYS = {16: 4.027, 64: 7.991, 256: 16.124, 1024: 31.824}  # standard deviations by width, as hello-840a prints

attention = scaled_dot_product_attention
expectations = cache(theory.attention_expectations)  # integrals of seconds


# Laws of scores and of rows of scores.


def share_beyond(bound: float, d_k: int) -> float:
    """P(|q.k| > bound) of standard normal q and k."""
    return 2 * float(theory.score_survival(bound, d_k))


def variance_of_unit_vectors(d: int) -> float:
    """The variance of the product of two independent unit vectors, integrated over the law of the cosine.

    The cosine t of two independent uniform directions in d dimensions has a density proportional to
    (1 - t^2)^((d - 3) / 2), with mean 0 and variance 1/d.

    >>> round(variance_of_unit_vectors(64) * 64, 9)
    1.0
    """
    mass, square = (
        integrate.quad(lambda t, p=p: t**p * (1 - t * t) ** ((d - 3) / 2), -1, 1, points=[0])[0] for p in (0, 2)
    )
    return float(square / mass)


def moment_of_product(power: int) -> float:
    """E z^power of the product z of two standard normal entries, integrated over its density K_0(|z|) / pi."""
    half = float(integrate.quad(lambda z: z**power * special.k0(z) / math.pi, 0, np.inf)[0])
    return 0.0 if power % 2 else 2 * half


def median_ratio(d_k: int, divisor: float) -> float:
    """The median of e^(larger - smaller) of two scores over a divisor: q.(k - k') is a score times sqrt(2)."""
    beyond = optimize.brentq(lambda x: float(theory.score_survival(x, d_k)) - 1 / 4, 0, 2 * sqrt(d_k))
    return math.exp(sqrt(2) * beyond / divisor)


@cache
def d_k_of_a_tenth(n_keys: int) -> float:
    """The d_k at which the root mean square of |J|, unscaled over that under d_k^1/2, is a tenth."""

    def excess(log_d_k: float) -> float:
        d_k = math.exp(log_d_k)
        bare, scaled = (theory.attention_expectations(d_k, n_keys, c).jacobian_norm for c in (1.0, sqrt(d_k)))
        return bare / scaled - 0.1

    return math.exp(optimize.brentq(excess, math.log(64), math.log(1e6), xtol=1e-4))


@cache
def overflowing(d_k: int, divisor: float) -> "pd.Series[float]":
    """P(a scaled score of a row exceeds ln of the largest number in single precision), by the number of keys."""
    largest = divisor * math.log(np.finfo(np.float32).max)
    return pd.Series({n: float(theory.largest_score_survival(largest, d_k, n)) for n in (*KEYS, 65_536)})


def lost(divisor: float) -> float:
    """The share of rows of 4096 keys at d_k = 512 with a weight that single precision cannot compute."""
    scores = normals(64, 512) @ normals(4096, 512, seed=1).T
    return float((~np.isfinite(softmax((scores / divisor).astype(np.float32)))).any(axis=-1).mean())


def scheme_variances(width: int = 768, d_k: int = 64) -> pd.DataFrame:
    """The exact variances of entries of q and k of unit-variance tokens under each scheme, at the sizes of GPT-2."""
    found = {name: [width * float(v) for v in scheme.variances(width, d_k)] for name, scheme in SCHEMES.items()}
    return pd.DataFrame(found, index=["q", "k"]).T


def told_schemes() -> str:
    """The variances of the entries of q and k under each scheme, in words."""
    return "; ".join(f"{name}, {q:.3g} and {k:.3g}" for name, (q, k) in scheme_variances().T.items())


@cache
def projected_variance(d_in: int, d_out: int) -> float:
    """The variance of queries of unit-variance tokens, from the weights of 300 modules: to about 1%."""
    rng = np.random.default_rng(0)
    modules = [ScaledDotProductAttention(d_in, d_out, 1, rng=rng) for _ in range(300)]
    return float(np.mean([(module.W_Q**2).sum(axis=0).mean() for module in modules]))


def leading_weights(*, scalable: bool) -> "pd.Series[float]":
    """The weight of one score of +3 among n - 1 of -2, by n; scalable softmax multiplies scores by 0.43 ln n."""
    keys = (2, 5, *(10**power for power in range(1, 7)))
    factors = {n: 0.43 * math.log(n) if scalable else 1.0 for n in keys}
    return pd.Series({n: float(softmax(c * np.array([3.0] + [-2.0] * (n - 1)))[0]) for n, c in factors.items()})


# Draws, and how far chance goes.


def normals(*shape: int, seed: int = 0) -> Any:
    """Standard normal numbers of that shape, of NumPy's default generator with that seed."""
    return np.random.default_rng(seed).standard_normal(shape)


def qkv(n: int, d_k: int, d_v: int) -> tuple[Floats, Floats, Floats]:
    """Standard normal queries, keys and values of n tokens."""
    return normals(n, d_k), normals(n, d_k, seed=1), normals(n, d_v, seed=2)


def least_likely(p_values: Iterable[float]) -> float:
    """The probability that one of several p-values is this small: the smallest one, times their number (Bonferroni).

    >>> least_likely([0.02, 0.5, 0.9])
    0.06
    """
    found = list(p_values)
    return min(1.0, len(found) * min(found))


def sweep_errors() -> Floats:
    """The distances of the sweep's variances from d_k in standard errors, d_k sqrt(2 + 6 / d_k) / 100."""
    return np.asarray(abs(variances() / SWEPT - 1) / np.sqrt((2 + 6 / SWEPT) / 10_000))


@cache
def _five_drawn(d_k: int) -> tuple[Floats, Floats]:
    """Deviation of scores and mean largest weight, unscaled, of each of 2,000 draws of five queries and keys."""
    q, k = np.random.default_rng(0).standard_normal((2, 2000, 5, d_k))
    scores = q @ k.swapaxes(-1, -2)
    return scores.std(axis=(-1, -2)), softmax(scores).max(-1).mean(-1)


def compared(column: int) -> Floats:
    """A column of the article's comparison: deviation unscaled and scaled, largest weight unscaled and scaled."""
    return np.array([article_draw(d_k)[column] for d_k in COMPARED])


def chance_of_comparison(column: int) -> float:
    """The probability of a column as far out as the article's: 0 for deviations, 2 for unscaled largest weights."""
    pairs = [(_five_drawn(d_k)[column // 2], own) for d_k, own in zip(COMPARED, compared(column), strict=True)]
    return least_likely(2 * float(min((drawn <= own).mean(), (drawn >= own).mean())) for drawn, own in pairs)


@cache
def saturated_norms(bound: float) -> Floats:
    """|J|_F of those of 20,000 rows of 16 keys that have a weight above a bound."""
    weights = softmax(30 * normals(20_000, 16))
    return np.asarray(jacobian_norm(weights[weights.max(-1) > bound]))


@cache
def ten_by_ten(seed: int, trials: int, dimensions: tuple[int, ...]) -> dict[int, tuple[float, ...]]:
    """Mean largest weight and entropy, unscaled then scaled, of trials of 10 queries and 10 keys at each d.

    One generator for all: at each d in order, for each trial q and then k.
    """
    rng = np.random.default_rng(seed)
    found = {}
    for d in dimensions:
        q, k = rng.standard_normal((trials, 2, 10, d)).swapaxes(0, 1)
        both = [softmax(q @ k.swapaxes(-1, -2) / divisor) for divisor in (1.0, sqrt(d))]
        found[d] = tuple(float(x) for w in both for x in (w.max(-1).mean(), stats.entropy(w, axis=-1).mean()))
    return found


def deviation_p_value(d: int, measured: float, queries: int, *, shared: bool, keys: int = 8) -> float:
    """P(the standard deviation of scores is as far from sqrt(d)), for queries that share eight keys or have their own.

    The variance of a mean of squares of scores that share queries and keys follows from E|q|^4 = d^2 + 2 d.
    """
    queries_of_a_key = queries if shared else 1
    variance = (2 * d * d + 6 * d + 2 * d * (queries_of_a_key - 1) + 2 * d * (keys - 1)) / (queries * keys)
    return 2 * float(stats.norm.sf(abs(measured**2 - d) / sqrt(variance)))


def eight_keys(*, shared: bool) -> list[float]:
    """The p-values of the four standard deviations of scores of 4000 queries and eight keys."""
    return [deviation_p_value(d, measured, 4000, shared=shared) for d, measured in EIGHT_KEYS.items()]


@cache
def errors_of_largest(queries: int = 4000, keys: int = 8, d: int = 16) -> tuple[float, float]:
    """The standard error of the mean largest weight if all queries share eight keys, and if each has its own."""
    rng = np.random.default_rng(0)
    means = [
        softmax(rng.standard_normal((queries, d)) @ rng.standard_normal((keys, d)).T).max(-1).mean() for _ in range(200)
    ]
    q, k = rng.standard_normal((20_000, 1, d)), rng.standard_normal((20_000, keys, d))
    return float(np.std(means, ddof=1)), float(softmax((q * k).sum(-1)).max(-1).std() / sqrt(queries))


def p_values_of_largest(claimed: float) -> list[float]:
    """The p-values of a mean largest weight under either standard error."""
    away = abs(claimed - expectations(16, 8, 1.0).max_weight)
    return [float(2 * stats.t.sf(away / error, 199)) for error in errors_of_largest()]


@cache
def two_by_two() -> Floats:
    """The variances of the four scores of each of 100,000 products of 2 x 2 Gaussian matrices."""
    q, k = np.random.default_rng(0).standard_normal((2, 100_000, 2, 2))
    return np.asarray((q @ k.swapaxes(-1, -2)).reshape(-1, 4).var(axis=1))


def two_terms(case: str, n: int = 100_000) -> Floats:
    """Two terms of a score, (2, n), of rows drawn from N(0, I): Q and K independent, or k_1 = q_2, or `correlated`.

    In the last case, a part that all entries of a row share gives any two of them the correlation 0.5.
    """
    q, k = normals(2, n), normals(2, n, seed=1)
    if case == "correlated":
        q, k = ((own + normals(1, n, seed=seed)) / sqrt(2) for own, seed in ((q, 2), (k, 3)))
    if case == "k_1 = q_2":
        k = np.stack([q[1], k[1]])
    return np.asarray(q * k)


def dependence(two: Floats) -> float:
    """The correlation of two samples or of their absolute values, whichever is further from 0."""
    return max(abs(float(np.corrcoef(*each)[0, 1])) for each in (two, np.abs(two)))


# Attention, one number at a time, and other ways to compute the same.


def same(one: npt.ArrayLike, other: npt.ArrayLike, tolerance: float) -> bool:
    """True if two arrays agree to an absolute tolerance."""
    return np.allclose(one, other, rtol=0, atol=tolerance)


def sums_of_products(q: Floats, k: Floats) -> list[list[float]]:
    """All scores, each from its d_k products one by one."""
    return [[sum(a * b for a, b in zip(one, other, strict=True)) for other in k] for one in q]


def attention_by_loop(q: Floats, k: Floats, v: Floats) -> Floats:
    """Attention of one token and one value at a time."""
    output = np.zeros((len(q), v.shape[1]))
    for i, row in enumerate(q):
        exponentials = [math.exp(sum(row * key) / sqrt(len(row))) for key in k]
        for weight, value in zip(exponentials, v, strict=True):
            output[i] += weight / sum(exponentials) * value
    return output


def multiplies(one: Floats, other: Floats) -> bool:
    """True if two matrices have a product."""
    try:
        one @ other
    except ValueError:
        return False
    return True


@cache
def layer(d_model: int, d_k: int, d_v: int) -> ScaledDotProductAttention:
    """A module of attention, of one seed."""
    return ScaledDotProductAttention(d_model, d_k, d_v, seed=99)


def tokens(moved: float = 0.0) -> Floats:
    """Five tokens of width 6, with the first entry of token 1 moved."""
    found = normals(5, 6)
    found[1, 0] += moved
    return np.asarray(found)


def gradient_by_the_chain_rule(upstream: Floats) -> Floats:
    """The gradient of the five tokens through a module, from its output."""
    x, module = tokens(), layer(6, 4, 3)
    gradients = attention_gradients(x @ module.W_Q, x @ module.W_K, x @ module.W_V, upstream)
    return np.asarray(gradients.q @ module.W_Q.T + gradients.k @ module.W_K.T + gradients.v @ module.W_V.T)


def differences(function: Any, at: Floats, step: float = 1e-6) -> Floats:
    """Central differences of a function of an array, one entry of the array at a time, on the first axes."""
    moves = step * np.eye(at.size).reshape(-1, *at.shape)
    found = np.array([(function(at + move) - function(at - move)) / (2 * step) for move in moves])
    return found.reshape(*at.shape, *found.shape[1:])


def real_softmax(*scores: float) -> list[Decimal]:
    """The softmax as a function of real numbers, to 1,000 digits: e^-800 has 347 zeros after the point."""
    with localcontext() as context:
        context.prec = 1000
        exponentials = [Decimal(score).exp() for score in scores]
        return [x / sum(exponentials) for x in exponentials]


def moved_by_the_rest(scores: Sequence[float]) -> float:
    """The change of an output with the values of all tokens but the first."""
    values, others = normals(3, 4), normals(3, 4, seed=1)
    others[0] = values[0]
    return float(abs(softmax(scores) @ (others - values)).max())


@cache
def module_of_the_article() -> tuple[Floats, Floats, Floats]:
    """Tokens, output and weights of the module of seed 42, with the tokens from the same stream."""
    rng = np.random.RandomState(42)
    module = ScaledDotProductAttention(32, 16, 16, rng=rng)
    found = rng.standard_normal((8, 32))
    return found, *module(found, return_weights=True)


def cosines(q: Floats, k: Floats) -> Floats:
    """Cosines of the angles between queries and keys."""
    return np.asarray(q @ k.T / np.linalg.norm(q, axis=1)[:, None] / np.linalg.norm(k, axis=1))


def largest_over(rows: Floats, place: int) -> Floats:
    """The largest of each row over the one at a place in falling order."""
    ordered = np.sort(rows)[:, ::-1]
    return np.asarray(ordered[:, 0] / ordered[:, place])


def multiplications(n: int, width: int, columns: int) -> int:
    """Multiplications of a product (n, width) @ (width, columns): one for each pair of entries that meet."""
    return np.broadcast(np.empty((n, width, 1)), np.empty((1, width, columns))).size


def work(n: int) -> int:
    """Multiplications of attention of n tokens with d_k = d_v = 5."""
    return multiplications(n, 5, n) + multiplications(n, n, 5)
