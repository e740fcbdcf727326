"""Statements that several sources share: the variance of scores, saturation, gradients, shapes, cost, symmetry."""

import ast
import inspect
import math
import textwrap
from typing import Any

import numpy as np
import pandas as pd
from scipy import integrate, special, stats

from experiments.record.answers import Answer, Tables, cases, numbers, quantity, shown
from sdpa import (
    ScaledDotProductAttention,
    attention,
    attention_gradients,
    scaled_dot_product_attention,
    softmax,
    softmax_jacobian,
    theory,
)

_CERTAIN = 4.5  # standard errors; chance goes so far once in 150,000


def example(*shape: int, seed: int = 0) -> Any:
    """Standard normal numbers for a check."""
    return np.random.default_rng(seed).standard_normal(shape)


def rows_of(table: pd.DataFrame, scaling: str, **axes: float) -> pd.DataFrame:
    """The rows of a table of one scaling, at these values of axes."""
    chosen = table[table["scaling"] == scaling]
    for name, value in axes.items():
        chosen = chosen[chosen[name] == value]
    return chosen.set_index("d_k", drop=False)


def agree(rows: pd.DataFrame, metric: str, expected: Any) -> bool:
    """Whether a metric is what is expected, in every row, as far as its error says."""
    return bool((abs(rows[metric] - expected) < _CERTAIN * rows[f"{metric}_se"]).all())


# The law of scores


@quantity
def score_is_a_sum(_: Tables) -> Answer:
    """A score from its d_k products, one by one, against one matrix product for all."""
    q, k = example(5, 7), example(6, 7, seed=1)
    loop = [[sum(q[i, m] * k[j, m] for m in range(7)) for j in range(6)] for i in range(5)]
    return cases({"loop equals matrix product": np.allclose(q @ k.T, loop, rtol=0, atol=1e-13)})


@quantity
def product_of_two_normals(_: Tables) -> Answer:
    """Mean and variance of the product of two entries, integrated over its density K_0(|z|) / pi."""

    def moment(power: int) -> float:
        half = float(integrate.quad(lambda z: z**power * special.k0(z) / math.pi, 0, np.inf)[0])
        return half * (2 if power % 2 == 0 else 0)

    return numbers(moment(1), moment(2))


@quantity
def product_density(tables: Tables) -> Answer:
    """The density K_0(|z|) / pi: it integrates to 1, and two million measured products follow it."""
    mass = 2 * integrate.quad(lambda z: special.k0(z) / math.pi, 0, np.inf)[0]
    measured = tables["distribution-tests"].set_index("d_k").loc[1]
    note = f"distribution-tests.csv, d_k = 1: Kolmogorov-Smirnov p = {measured['p_value']:.2f}"
    return cases(
        {"integral is 1": abs(mass - 1) < 1e-8, "measured products follow it": measured["p_value"] > 0.001}, note
    )


@quantity
def terms_are_independent(_: Tables) -> Answer:
    """Terms of one score: the sizes of two are uncorrelated, and they have one law."""
    q, k = example(2, 100_000), example(2, 100_000, seed=1)
    terms = q * k
    correlation = np.corrcoef(np.abs(terms))[0, 1]
    same_law = stats.ks_2samp(terms[0], terms[1]).pvalue
    return cases({"uncorrelated sizes": abs(correlation) < 4.5 / math.sqrt(100_000), "one law": same_law > 1e-3})


@quantity
def product_variance_needs_mean_0(_: Tables) -> Answer:
    """Var(q k) of one pair of entries: 1 for mean 0, 3 for mean 1."""
    centred = theory.correlated_score_moments(1)[1]
    shifted = theory.correlated_score_moments(1, q_mean=1, k_mean=1)[1]
    return cases(
        {"mean 0": centred == 1, "mean 1": shifted == 1}, f"variance {centred:g} at mean 0, {shifted:g} at mean 1"
    )


@quantity
def mean_score(tables: Tables) -> Answer:
    """The mean score, measured at every d_k."""
    rows = rows_of(tables["scaling"], "unscaled")
    return cases({"is 0 at every d_k": agree(rows, "score_mean", 0)}, "scaling.csv, unscaled, score_mean")


@quantity
def variance_is_d_k(tables: Tables) -> Answer:
    """The measured variance of unscaled scores against d_k."""
    rows = rows_of(tables["scaling"], "unscaled")
    note = f"scaling.csv, unscaled: {rows['score_variance'].loc[512]:.1f} at d_k = 512"
    return cases({"at every d_k from 4 to 512": agree(rows, "score_variance", rows["d_k"])}, note)


@quantity
def variance_is_d_k_and_1(tables: Tables) -> Answer:
    """The measured variance of scores before and after scaling."""
    scaled = rows_of(tables["scaling"], "d_k^1/2")
    unscaled = rows_of(tables["scaling"], "unscaled")
    return cases(
        {
            "d_k before": agree(unscaled, "score_variance", unscaled["d_k"]),
            "one after": agree(scaled, "score_variance", 1),
        },
        "scaling.csv, unscaled and d_k^1/2",
    )


@quantity
def scaled_variance_is_1(tables: Tables) -> Answer:
    """The measured variance of scores over sqrt(d_k)."""
    rows = rows_of(tables["scaling"], "d_k^1/2")
    note = f"scaling.csv, d_k^1/2: {rows['score_variance'].min():.4f} to {rows['score_variance'].max():.4f}"
    return cases({"at every d_k from 4 to 512": agree(rows, "score_variance", 1)}, note)


def _slope(tables: Tables, scaling: str) -> Answer:
    slopes = tables["scaling-slopes"].set_index("scaling").loc[scaling]
    interval = f"{slopes['slope_low']:.4f} to {slopes['slope_high']:.4f}"
    return numbers(
        slopes["slope"], note=f"slope of ln variance on ln d_k, scaling-slopes.csv; 99.9% interval {interval}"
    )


@quantity
def slope_unscaled(tables: Tables) -> Answer:
    """How fast the variance grows with d_k, unscaled."""
    return _slope(tables, "unscaled")


@quantity
def slope_third(tables: Tables) -> Answer:
    """How fast the variance grows with d_k under d_k^1/3."""
    return _slope(tables, "d_k^1/3")


@quantity
def slope_two_thirds(tables: Tables) -> Answer:
    """How fast the variance falls with d_k under d_k^2/3."""
    return _slope(tables, "d_k^2/3")


@quantity
def only_the_square_root(tables: Tables) -> Answer:
    """The variance at d_k = 64 and 512 under powers from 0 to 1: equal under 1/2 alone."""
    by_exponent = tables["powers"].pivot_table(
        index="exponent", columns="d_k", values=["score_variance", "score_variance_se"]
    )
    apart = by_exponent["score_variance"][512] - by_exponent["score_variance"][64]
    error = np.hypot(by_exponent["score_variance_se"][512], by_exponent["score_variance_se"][64])
    different = abs(apart) > _CERTAIN * error
    half = np.isclose(by_exponent.index, 0.5)
    return cases(
        {"one half keeps it": not different[half].any(), "twelve others do not": different[~half].all()}, "powers.csv"
    )


@quantity
def dividing_divides_variance(_: Tables) -> Answer:
    """Var(x / c) c^2 / Var(x)."""
    x = example(1000)
    return cases({"ratio is 1": math.isclose(np.var(x / 3) * 9 / np.var(x), 1, rel_tol=1e-12)})


@quantity
def unit_variance_of_projections(_: Tables) -> Answer:
    """Exact variance of scaled scores of unit-variance entries, and of queries and keys that a projection made."""
    xavier = 2 * 32 / (32 + 16)
    small = 8 * 0.1**2
    note = (
        f"unit-variance tokens give queries of variance {xavier:.3f} through Xavier projections"
        f" 32 to 16, so scaled scores of"
        f" variance {xavier**2:.3f}; {small:.2f} and {small**2:.4f} through 0.1 times normal weights from 8"
    )
    return cases(
        {
            "entries of variance 1": theory.score_variance(16, 4.0) == 1,
            "square Xavier projections": 2 * 32 / (32 + 32) == 1,
            "Xavier projections 32 to 16": xavier == 1,
            "projections of 0.1 times normal": small == 1,
        },
        note,
    )


@quantity
def xavier_keeps_variance(_: Tables) -> Answer:
    """The variance of projected unit-variance tokens, d_in 2 / (d_in + d_out)."""
    gain = 2 * 32 / (32 + 16)
    return cases({"where d_in is d_out": 2 * 32 / 64 == 1, "for 32 to 16": gain == 1}, f"gain {gain:.3f} for 32 to 16")


# Softmax and saturation


@quantity
def rows_are_distributions(_: Tables) -> Answer:
    """Weights of a softmax row: none negative, their sum 1."""
    weights = softmax(5 * example(50, 9))
    return cases(
        {"none negative": (weights >= 0).all(), "sums are 1": np.allclose(weights.sum(-1), 1, rtol=0, atol=1e-14)}
    )


@quantity
def open_interval(_: Tables) -> Answer:
    """Weights strictly between 0 and 1: as real numbers, and as doubles."""
    apart = softmax([0.0, -800.0])
    note = f"the softmax of [0, -800] in double precision is {shown(apart)}"
    return cases({"as real numbers": math.exp(-700) > 0, "as doubles": apart[1] > 0 and apart[0] < 1}, note)


@quantity
def monotone(_: Tables) -> Answer:
    """Order of scores and weights, and d w_i / d s_i = w_i (1 - w_i)."""
    scores = example(40, 6)
    weights = softmax(scores)
    return cases(
        {
            "order is kept": (np.argsort(scores) == np.argsort(weights)).all(),
            "derivative is positive": all((np.diag(softmax_jacobian(row)) > 0).all() for row in weights),
        }
    )


@quantity
def softmax_is_differentiable(_: Tables) -> Answer:
    """Central differences of the softmax against diag(w) - w w^T."""
    scores, step = example(6), 1e-6
    differences = [(softmax(scores + step * e) - softmax(scores - step * e)) / (2 * step) for e in np.eye(6)]
    return cases(
        {"differences meet the Jacobian": np.allclose(differences, softmax_jacobian(softmax(scores)), atol=1e-9)}
    )


@quantity
def attention_is_differentiable(_: Tables) -> Answer:
    """Central differences through a whole module, from its output back to its tokens, against the chain rule."""
    module, tokens, step = ScaledDotProductAttention(6, 4, 3, np.random.default_rng(99)), example(5, 6), 1e-6
    upstream = example(5, 3, seed=3)
    q, k, v = tokens @ module.W_Q, tokens @ module.W_K, tokens @ module.W_V
    gradients = attention_gradients(q, k, v, upstream)
    chain = gradients.q @ module.W_Q.T + gradients.k @ module.W_K.T + gradients.v @ module.W_V.T
    differences = np.empty_like(tokens)
    for place in np.ndindex(tokens.shape):
        moved = np.zeros_like(tokens)
        moved[place] = step
        differences[place] = ((module(tokens + moved) - module(tokens - moved)) * upstream).sum() / (2 * step)
    return cases({"differences meet the chain rule": np.allclose(differences, chain, atol=1e-8)})


def _largest(tables: Tables, scaling: str, d_k: int) -> float:
    return float(rows_of(tables["scaling"], scaling)["max_weight"].loc[d_k])


@quantity
def unscaled_is_peaked(tables: Tables) -> Answer:
    """The mean largest of 64 weights, unscaled, as d_k grows."""
    rows = rows_of(tables["scaling"], "unscaled")
    note = (
        f"scaling.csv, unscaled, max_weight: {rows['max_weight'].loc[4]:.2f} at d_k = 4,"
        f" {_largest(tables, 'unscaled', 512):.2f} at 512"
    )
    return cases(
        {
            "grows with d_k": rows["max_weight"].is_monotonic_increasing,
            "above 0.9 at d_k = 512": rows["max_weight"].loc[512] > 0.9,
        },
        note,
    )


@quantity
def one_hot_at_64(tables: Tables) -> Answer:
    """The mean largest of 64 weights at d_k = 64 and 512."""
    small, large = (_largest(tables, "unscaled", d_k) for d_k in (64, 512))
    share = rows_of(tables["scaling"], "unscaled")["saturated_rows"].loc[64]
    note = (
        f"scaling.csv, unscaled, max_weight {small:.2f} at d_k = 64 ({share:.0%} of rows above"
        f" 0.99), {large:.2f} at 512"
    )
    return cases({"near one hot at d_k = 512": large > 0.9, "near one hot at d_k = 64": small > 0.9}, note)


@quantity
def always_saturated(tables: Tables) -> Answer:
    """The share of rows whose largest weight exceeds 0.99 at d_k = 512, unscaled."""
    share = rows_of(tables["scaling"], "unscaled")["saturated_rows"].loc[512]
    note = f"scaling.csv, unscaled, saturated_rows at d_k = 512: {share:.1%} of rows have a weight above 0.99"
    return cases({"for most rows": share > 0.5, "for every row": share > 0.999}, note)


@quantity
def scaled_is_soft(tables: Tables) -> Answer:
    """The mean largest of 64 weights under d_k^1/2, as d_k grows."""
    rows = rows_of(tables["scaling"], "d_k^1/2")["max_weight"]
    note = (
        f"scaling.csv, d_k^1/2, max_weight {rows.min():.3f} to {rows.max():.3f}, unscaled"
        f" {_largest(tables, 'unscaled', 512):.3f} at d_k = 512"
    )
    return cases(
        {"largest weight below one eighth": rows.max() < 0.125, "level in d_k": rows.max() < 1.1 * rows.min()}, note
    )


@quantity
def gradients_vanish(tables: Tables) -> Answer:
    """Norms of the Jacobian and of dL/dq at d_k = 512, unscaled against d_k^1/2: median and root mean square."""
    unscaled, scaled = (rows_of(tables["scaling"], name) for name in ("unscaled", "d_k^1/2"))
    median = unscaled["jacobian_norm_median"] / scaled["jacobian_norm_median"]
    mean = unscaled["jacobian_norm"] / scaled["jacobian_norm"]
    gradient = unscaled["query_gradient_norm"] / scaled["query_gradient_norm"]
    first = int(median.index[median < 0.5].min())
    note = (
        f"scaling.csv, unscaled over d_k^1/2 at d_k = 512: |J| {median.loc[512]:.1e} in the"
        f" median (below one half from d_k ="
        f" {first}), {mean.loc[512]:.2f} in the root mean square; |dL/dq|"
        f" {gradient.loc[512]:.1f} in the root mean square; what that does to training is open"
    )
    return cases(
        {
            "the typical row has a tenth or less": median.loc[512] < 0.1,
            "the root mean square has a tenth or less": mean.loc[512] < 0.1,
            "the root mean square of the gradient at the query has": gradient.loc[512] < 0.1,
        },
        note,
    )


@quantity
def scaled_gradients_are_healthy(tables: Tables) -> Answer:
    """Norms of the Jacobian under d_k^1/2, as d_k grows."""
    rows = rows_of(tables["scaling"], "d_k^1/2")
    median, mean = rows["jacobian_norm_median"], rows["jacobian_norm"]
    note = (
        f"scaling.csv, d_k^1/2: |J| median {median.min():.3f} to {median.max():.3f}, r.m.s."
        f" {mean.min():.3f} to {mean.max():.3f}"
    )
    return cases(
        {"median level in d_k": median.max() < 1.1 * median.min(), "mean level in d_k": mean.max() < 1.1 * mean.min()},
        note,
    )


@quantity
def numerical_stability(_: Tables) -> Answer:
    """Softmax of scores of 10^4 with and without subtracting the maximum; and how likely a score overflows exp."""
    subtracted = softmax([1e4, 0.0, -1e4])
    overflow = float(theory.score_survival(math.log(np.finfo(np.float32).max), 512))
    note = (
        f"with the maximum subtracted any scores are stable: {shown(subtracted)}; without, exp"
        f" overflows single precision"
        f" beyond 88.7, which unscaled scores of d_k = 512 pass with probability {overflow:.1g}"
    )
    return cases(
        {
            "a softmax that does not subtract the maximum": overflow > 0,
            "a softmax that does": not np.isfinite(subtracted).all(),
        },
        note,
    )


@quantity
def stable_softmax(_: Tables) -> Answer:
    """Softmax of scores of 10^4."""
    return cases({"finite at scores of 10000": np.isfinite(softmax([1e4, 0.0, -1e4])).all()})


@quantity
def effective_number(_: Tables) -> Answer:
    """e^entropy, the effective number of tokens attended to, of a one-hot row and of a uniform one."""
    return cases(
        {
            "one of a one hot row": math.isclose(math.exp(stats.entropy([1.0, 0, 0, 0])), 1),
            "all of a uniform row": math.isclose(math.exp(stats.entropy([0.25] * 4)), 4),
        }
    )


# Attention as a whole


@quantity
def matrix_is_loop(_: Tables) -> Answer:
    """The formula for a whole sequence against one token and one value at a time."""
    q, k, v = example(6, 5), example(6, 5, seed=1), example(6, 3, seed=2)
    loop = np.zeros((6, 3))
    for i in range(6):
        exponentials = [math.exp(sum(q[i] * k[j]) / math.sqrt(5)) for j in range(6)]
        for j in range(6):
            loop[i] += exponentials[j] / sum(exponentials) * v[j]
    return cases({"equal to rounding": np.allclose(scaled_dot_product_attention(q, k, v), loop, rtol=0, atol=1e-14)})


@quantity
def weighted_average(_: Tables) -> Answer:
    """Every weight is positive, and outputs lie between the smallest and the largest value."""
    v = example(7, 3, seed=2)
    output, weights = scaled_dot_product_attention(example(7, 4), example(7, 4, seed=1), v, return_weights=True)
    inside = ((output >= v.min(0)) & (output <= v.max(0))).all()
    return cases({"every weight is positive": (weights > 0).all(), "outputs within the values": inside})


def trace_shapes(n: int, d_k: int, d_v: int) -> dict[str, tuple[int, ...]]:
    """The shapes that arrays have on their way through attention, of arrays that went it."""
    q, k, v = example(n, d_k), example(n, d_k, seed=1), example(n, d_v, seed=2)
    output, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    stages = {"Q": q, "K": k, "V": v, "K^T": k.T, "QK^T": q @ k.T, "weights": weights, "output": output}
    return {name: array.shape for name, array in stages.items()}


@quantity
def shapes_hold(_: Tables) -> Answer:
    """Shapes on the way through attention, for n = 7, d_k = 5, d_v = 3."""
    shapes = trace_shapes(7, 5, 3)
    expected = {
        "Q": (7, 5),
        "K": (7, 5),
        "V": (7, 3),
        "K^T": (5, 7),
        "QK^T": (7, 7),
        "weights": (7, 7),
        "output": (7, 3),
    }
    return cases({"as stated": shapes == expected})


@quantity
def shapes_of_the_lesson(_: Tables) -> Answer:
    """Shapes for 4 tokens of 8 dimensions."""
    shapes = trace_shapes(4, 8, 8)
    return cases({"four by four scores": shapes["QK^T"] == (4, 4), "four by eight output": shapes["output"] == (4, 8)})


@quantity
def output_has_the_shape_of_the_input(_: Tables) -> Answer:
    """Whether Q, K, V and the output have the shape of X."""
    square, other = (ScaledDotProductAttention(6, d, d, np.random.default_rng(99))(example(5, 6)).shape for d in (6, 4))
    return cases(
        {"where d_k and d_v are d_model": square == (5, 6), "elsewhere": other == (5, 6)},
        f"for d_model = 6 and d_k = d_v = 4 it is {other}: d_model only comes back through a further projection",
    )


@quantity
def projections(_: Tables) -> Answer:
    """Q, K and V of a module are products of X with its three matrices."""
    module, tokens = ScaledDotProductAttention(6, 4, 3, np.random.default_rng(99)), example(5, 6)
    expected = scaled_dot_product_attention(tokens @ module.W_Q, tokens @ module.W_K, tokens @ module.W_V)
    return cases({"the module is attention of X W": np.allclose(module(tokens), expected, rtol=0, atol=1e-14)})


@quantity
def widths_must_agree(_: Tables) -> Answer:
    """Queries of width 3 against keys of width 4."""
    try:
        scaled_dot_product_attention(example(2, 3), example(2, 4), example(2, 2))
    except ValueError:
        return cases({"other widths are refused": True})
    return cases({"other widths are refused": False})


@quantity
def communication(_: Tables) -> Answer:
    """How the output of token 0 moves with token 1: not before attention, but after."""
    module, tokens, step = ScaledDotProductAttention(6, 4, 3, np.random.default_rng(99)), example(5, 6), 1e-6
    moved = tokens.copy()
    moved[1, 0] += step
    change = np.linalg.norm(module(moved)[0] - module(tokens)[0]) / step
    return cases(
        {
            "a projection of its own does not move": np.array_equal((moved @ module.W_V)[0], (tokens @ module.W_V)[0]),
            "its output does": change > 1e-3,
        },
        f"|d output_0 / d x_1| = {change:.3f} in one direction",
    )


@quantity
def alignment(_: Tables) -> Answer:
    """Scores of a vector with itself, a perpendicular one and its opposite."""
    u, across = np.array([3.0, 4.0]), np.array([-4.0, 3.0])
    return cases({"positive aligned": u @ u == 25, "zero across": u @ across == 0, "negative opposed": u @ -u == -25})


@quantity
def permutation(_: Tables) -> Answer:
    """Outputs of permuted tokens are the permuted outputs."""
    module, tokens, order = (
        ScaledDotProductAttention(32, 16, 16, np.random.default_rng(99)),
        example(8, 32),
        [3, 1, 7, 0, 2, 6, 5, 4],
    )
    return cases(
        {"outputs permute alike": np.allclose(module(tokens[order]), module(tokens)[order], rtol=0, atol=1e-13)}
    )


@quantity
def word_order(_: Tables) -> Answer:
    """dog bites man against man bites dog, without positions: each word's output, and their mean."""
    module, words = ScaledDotProductAttention(32, 16, 16, np.random.default_rng(99)), example(3, 32)
    one, other = module(words), module(words[::-1])
    return cases(
        {
            "each word has the same output": np.allclose(one, other[::-1], rtol=0, atol=1e-13),
            "so has their mean": np.allclose(one.mean(0), other.mean(0), rtol=0, atol=1e-13),
        }
    )


@quantity
def sharp_and_soft(_: Tables) -> Answer:
    """The mean largest of 8 weights of a scaled module whose W_Q is a tenth, as it is, and ten times as large."""
    module, tokens, largest = ScaledDotProductAttention(32, 16, 16, np.random.default_rng(99)), example(8, 32), []
    for factor in (0.1, 1.0, 10.0):
        q, k = factor * tokens @ module.W_Q, tokens @ module.W_K
        largest.append(softmax(q @ k.T / 4).max(-1).mean())
    return cases(
        {"soft": largest[0] < 0.25, "sharp": largest[2] > 0.8}, f"mean largest of 8 weights {shown(largest, 3)}"
    )


# Cost


class _Counted:
    """A number that counts the multiplications it takes part in."""

    multiplications = 0

    def __mul__(self, _: Any) -> "_Counted":
        _Counted.multiplications += 1
        return self

    def __add__(self, _: Any) -> "_Counted":
        return self


def multiplications(n: int, width: int, columns: int) -> int:
    """Multiplications of a product (n, width) @ (width, columns), counted as NumPy does them."""
    one, other = np.full((n, width), _Counted(), object), np.full((width, columns), _Counted(), object)
    _Counted.multiplications = 0
    one @ other
    return _Counted.multiplications


@quantity
def products_of_scores(_: Tables) -> Answer:
    """Multiplications of Q K^T for n = 100, d_k = 64, counted as they are done."""
    return numbers(multiplications(100, 64, 100))


@quantity
def elements_of_scores(_: Tables) -> Answer:
    """Elements of the score matrix for n = 100."""
    return numbers(trace_shapes(100, 64, 64)["QK^T"][0] * trace_shapes(100, 64, 64)["QK^T"][1])


@quantity
def quadratic_in_n(_: Tables) -> Answer:
    """Multiplications and elements at n = 24 over those at 12, d_k = d_v = 5."""
    work = [multiplications(n, 5, n) + multiplications(n, n, 5) for n in (12, 24)]
    elements = [math.prod(trace_shapes(n, 5, 5)["weights"]) for n in (12, 24)]
    return numbers(work[1] / work[0], elements[1] / elements[0])


@quantity
def linear_in_d(_: Tables) -> Answer:
    """Multiplications are n^2 (d_k + d_v)."""
    counted = multiplications(9, 4, 9) + multiplications(9, 9, 3)
    return cases({"n squared times both widths": counted == 81 * 7}, f"{counted} for n = 9, d_k = 4, d_v = 3")


@quantity
def scaling_keeps_the_cost(_: Tables) -> Answer:
    """Multiplications and divisions at n = 24 over those at 12: dividing adds n^2 divisions."""
    work = [multiplications(n, 5, n) + multiplications(n, n, 5) + n * n for n in (12, 24)]
    return cases(
        {"twice the tokens still take four times the work": work[1] == 4 * work[0]}, f"{12 * 12} divisions at n = 12"
    )


@quantity
def squares(_: Tables) -> Answer:
    """Scores of sequences of 100, 10,000, 4,000 and 8,000 tokens."""
    return numbers(*(n * n for n in (100, 10_000, 4_000, 8_000)))


def matrix_products(*functions: Any) -> int:
    """Matrix products in the source of functions."""
    trees = [ast.parse(textwrap.dedent(inspect.getsource(function))) for function in functions]
    return sum(isinstance(node, ast.MatMult) for tree in trees for node in ast.walk(tree))


FORMULA = (attention.attention_weights, attention.scaled_dot_product_attention)


@quantity
def two_products(_: Tables) -> Answer:
    """Matrix products in softmax(Q K^T / sqrt(d_k)) V, counted in the source, and with the three projections."""
    formula = matrix_products(*FORMULA)
    whole = formula + matrix_products(ScaledDotProductAttention.__call__)
    return numbers(formula, note=f"{formula} in the formula, {whole} with the projections of Q, K and V")


@quantity
def no_loop(_: Tables) -> Answer:
    """Matrix products and loops in the source of attention."""
    trees = [ast.parse(inspect.getsource(function)) for function in (attention.attention_weights, softmax)]
    loops = sum(isinstance(node, ast.For | ast.While) for tree in trees for node in ast.walk(tree))
    return cases({"two matrix products": matrix_products(*FORMULA) == 2, "no loop": loops == 0})
