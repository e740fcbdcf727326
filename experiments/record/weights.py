"""Softmax weights: distributions, saturation, gradients, stability."""

import math

import numpy as np
from scipy import stats

from experiments.record.answers import Answer, Tables, cases, quantity, shown
from experiments.record.checks import example, rows_of
from sdpa import (
    ScaledDotProductAttention,
    attention_gradients,
    softmax,
    softmax_jacobian,
    theory,
)


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
    module, tokens, step = ScaledDotProductAttention(6, 4, 3, seed=99), example(5, 6), 1e-6
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
        f"with the maximum subtracted the softmax of 10000, 0, -10000 is {shown(subtracted)}, and as stable of any"
        " scores; without, exp overflows single precision beyond 88.7, which at d_k = 512 one unscaled score in"
        f" {float(f'{1 / overflow:.2g}'):,.0f} passes"
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
