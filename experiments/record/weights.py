"""Softmax weights: distributions, saturation, gradients, stability."""

from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt

from experiments.examples.triples import HUNDREDS, ONES
from experiments.record.answers import Answer, Tables, cases, quantity, shown
from experiments.record.checks import UNTRAINED, example
from experiments.record.cutoffs import ONE_HOT, TENTH
from experiments.record.plane import NORMS, by_keys, grid, level, plane, ratio
from sdpa import (
    ScaledDotProductAttention,
    attention_gradients,
    softmax,
    softmax_jacobian,
    theory,
)

Floats = npt.NDArray[np.floating]


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
    scores = [0.0, -800.0]
    apart = softmax(scores)
    with localcontext() as context:
        context.prec = 1000  # digits: e^-800 has 347 zeros after the point
        exponentials = [Decimal(score).exp() for score in scores]
        real = [x / sum(exponentials) for x in exponentials]
        inside = all(0 < weight < 1 for weight in real)
    note = f"the softmax of [0, -800] in double precision is {shown(apart)}; the second weight is {real[1]:.1e}"
    return cases({"as real numbers": inside, "as doubles": ((apart > 0) & (apart < 1)).all()}, note)


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


@quantity
def unscaled_is_peaked(tables: Tables) -> Answer:
    """The mean largest weight, unscaled, as d_k grows, for each number of keys: measured to 512, exactly at 4096."""
    measured = plane(tables, "unscaled", "max_weight")
    exact = {n: [theory.attention_expectations(d_k, n, 1.0).max_weight for d_k in (512, 4096)] for n in measured}
    conditions = {
        f"above 0.9 at d_k = 4096 with {n:,} keys": wide > ONE_HOT and measured[n].is_monotonic_increasing
        for n, (_, wide) in exact.items()
    }
    far = "; ".join(f"{at:.3f} and {wide:.3f} with {n:,} keys" for n, (at, wide) in exact.items())
    note = (
        f"{UNTRAINED}, mean largest weight at d_k = 512 and 4096, exactly: {far}. It grows from d_k = 64 to 512 with"
        " every number of keys in plane.csv; how large d_k has to be depends on the number of keys"
    )
    return cases(conditions, note)


@quantity
def one_hot_at_64(tables: Tables) -> Answer:
    """The mean largest weight at d_k = 64, exactly, and the share of saturated rows, for each number of keys."""
    means = {n: theory.attention_expectations(64, n, 1.0).max_weight for n in plane(tables, "unscaled", "max_weight")}
    share = plane(tables, "unscaled", "saturated_rows").loc[64]
    listed = "; ".join(f"{mean:.3f} and {share[n]:.0%} with {n:,} keys" for n, mean in means.items())
    note = (
        f"{UNTRAINED}, unscaled, d_k = 64: mean largest weight, exactly, and share of rows with a weight above 0.99"
        f" (plane.csv): {listed}"
    )
    return cases({f"with {n:,} keys": mean > ONE_HOT for n, mean in means.items()}, note)


@quantity
def always_saturated(tables: Tables) -> Answer:
    """The share of rows with a weight above 0.99 at d_k = 512, unscaled, for each number of keys."""
    share = plane(tables, "unscaled", "saturated_rows").loc[512]
    note = f"plane.csv, unscaled, d_k = 512, {UNTRAINED}: rows with a weight above 0.99 are {by_keys(share, '.0%')}"
    return cases({f"every row with {n:,} keys": part == 1 for n, part in share.items()}, note)


@quantity
def scaled_is_soft(tables: Tables) -> Answer:
    """The share of saturated rows and the mean largest weight under d_k^1/2, as d_k grows, for each number of keys."""
    rows, largest = (plane(tables, "d_k^1/2", metric) for metric in ("saturated_rows", "max_weight"))
    unscaled = plane(tables, "unscaled", "saturated_rows")
    conditions = {f"no row of {n:,} weights has one above 0.99": rows[n].max() == 0 for n in rows}
    conditions |= {f"the largest of {n:,} is level in d_k": level(largest[n]) for n in largest}
    note = (
        f"plane.csv, d_k = 64 to 512, 4 to 4096 keys, {UNTRAINED}: rows with a weight above 0.99 are"
        f" {rows.max(axis=None):.0%} under d_k^1/2, {unscaled.min(axis=None):.0%} to {unscaled.max(axis=None):.0%}"
        f" unscaled; the mean largest weight under d_k^1/2 is {by_keys(largest.mean())}"
    )
    return cases(conditions, note)


@quantity
def gradients_vanish(tables: Tables) -> Answer:
    """Norms of the Jacobian and of dL/dq, unscaled over d_k^1/2, over d_k and the number of keys."""
    median, mean, query = (ratio(tables, metric) for metric in NORMS)
    conditions = {
        f"the median |J| falls to a tenth by d_k = 512 with {n:,} keys": median.loc[512, n] < TENTH for n in median
    }
    conditions |= {"its root mean square does, with any of these": (mean.loc[512] < TENTH).any()}
    conditions |= {"the root mean square of |dL/dq| does, with any of these": (query.loc[512] < TENTH).any()}
    note = (
        f"plane.csv, unscaled over d_k^1/2, {UNTRAINED}: median |J| {grid(median)}. At d_k = 512 the root mean square"
        f" of |J| is {by_keys(mean.loc[512])}, that of |dL/dq| {by_keys(query.loc[512])}. What that does to training is"
        " open"
    )
    return cases(conditions, note)


@quantity
def scaled_gradients_are_healthy(tables: Tables) -> Answer:
    """Norms of the Jacobian under d_k^1/2, as d_k grows, for each number of keys."""
    median, mean = (plane(tables, "d_k^1/2", metric) for metric in NORMS[:2])
    note = (
        f"plane.csv, d_k^1/2, d_k = 64 to 512, {UNTRAINED}: median |J| {by_keys(median.mean())}, root mean square"
        f" {by_keys(mean.mean())}; level in d_k, but smaller the more keys there are"
    )
    conditions = {f"the median with {n:,} keys": level(median[n]) for n in median}
    conditions |= {f"the root mean square with {n:,} keys": level(mean[n]) for n in mean}
    return cases(conditions, note)


@quantity
def numerical_stability(_: Tables) -> Answer:
    """Rows that a softmax in single precision cannot compute, with and without scaling and subtracting the maximum."""
    d_k, n_keys = 512, 4096
    scores = example(64, d_k) @ example(n_keys, d_k, seed=1).T
    both = [(scores / divisor).astype(np.float32) for divisor in (1.0, np.sqrt(d_k))]
    plain = [_lost(_plain_softmax(row)) for row in both]
    subtracted = [_lost(softmax(row)) for row in both]
    note = (
        f"in single precision, at d_k = {d_k} with {n_keys:,} keys, {UNTRAINED}: without subtracting the maximum"
        f" {plain[0]:.0%} of unscaled rows overflow and {plain[1]:.0%} of those divided by sqrt(d_k); with the maximum"
        f" subtracted, {subtracted[0]:.0%} and {subtracted[1]:.0%}"
    )
    conditions = {
        "scaling saves rows of a softmax that does not subtract the maximum": plain[0] > plain[1],
        "it saves rows of a softmax that does": subtracted[0] > subtracted[1],
    }
    return cases(conditions, note)


def _plain_softmax(scores: Floats) -> Floats:
    """The softmax as its formula says, without subtracting the maximum."""
    with np.errstate(over="ignore", invalid="ignore"):
        exponentials = np.exp(scores)
        return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))


def _lost(weights: Floats) -> float:
    """The share of rows with a weight that is no number."""
    return float((~np.isfinite(weights)).any(axis=-1).mean())


@quantity
def stable_softmax(_: Tables) -> Answer:
    """Softmax of scores of 10^4."""
    return cases({"finite at scores of 10000": np.isfinite(softmax([1e4, 0.0, -1e4])).all()})


@quantity
def effective_number(_: Tables) -> Answer:
    """How far outputs move with the values of all tokens but the first: of a one-hot row and of a spread one."""
    values, others = example(3, 4), example(3, 4, seed=1)
    others[0] = values[0]
    moved = {name: abs(softmax(row) @ (others - values)).max() for name, row in {"one": HUNDREDS, "all": ONES}.items()}
    return cases(
        {"a one-hot row takes nothing of them": moved["one"] < 1e-12, "a spread row does": moved["all"] > TENTH},
        f"the output moves by {moved['one']:.1g} for scores {shown(HUNDREDS)}, by {moved['all']:.2f} for {shown(ONES)}",
    )
