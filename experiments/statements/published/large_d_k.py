"""Large d_k: saturation, gradients and stability with and without scaling, by the number of keys."""

import math
from functools import cache

import numpy as np
import pandas as pd
from scipy import optimize

from experiments.examples.triples import D_K, HUNDREDS
from experiments.statements.answer import Answer, cases, shown
from experiments.statements.cutoffs import LARGE, ONE_HOT, RARE, TENTH
from experiments.statements.declare import statement
from experiments.statements.measured import (
    MEDIAN,
    ROOT_MEAN_SQUARES,
    UNTRAINED,
    Tables,
    by_keys,
    count,
    grid,
    level,
    measured_by_keys,
    median_errors,
    plane,
    ratio,
    ratio_errors,
)
from experiments.statements.shared import Floats, expectations, normals
from sdpa import softmax, theory


@statement(
    "qa-02 notebook-17 notebook-22 lesson-19 article-132a",
    says="Without scaling a large d_k makes softmax nearly one-hot.",
    severity="conceptual error",
)
def unscaled_is_peaked(tables: Tables) -> Answer:
    """The mean largest weight, unscaled, as d_k grows, for each number of keys, exactly."""
    exact = plane(tables, "unscaled", "max_weight_exact")
    conditions = {
        f"the mean largest weight is above 0.9 at d_k = {LARGE} with {n} keys": exact[n][LARGE.value] > ONE_HOT.value
        and exact[n].is_monotonic_increasing
        for n in exact
    }
    far = "; ".join(f"{exact[n][512]:.3f} and {exact[n][LARGE.value]:.3f} with {count(n)} keys" for n in exact)
    note = (
        f"The exact mean largest weight at d_k = 512 and {LARGE}, {UNTRAINED}, is {far} (plane.csv). It grows"
        f" {_from_to(exact)} with every number of keys; the required d_k depends on the number of keys"
    )
    return cases(conditions, note)


@statement(
    "textbook-11", says="The swings of scores at d_k = 64 make softmax nearly one-hot.", severity="conceptual error"
)
def one_hot_at_64(tables: Tables) -> Answer:
    """The mean largest weight at d_k = 64 and the share of saturated rows, exactly, for each number of keys."""
    means, share = (plane(tables, "unscaled", f"{name}_exact").loc[64] for name in ("max_weight", "saturated_rows"))
    listed = "; ".join(f"{mean:.3f} and {share[n]:.0%} with {count(n)} keys" for n, mean in means.items())
    note = (
        f"Unscaled at d_k = 64, {UNTRAINED}, the mean largest weight and the share of rows with a weight above 0.99 are"
        f" exactly {listed} (plane.csv)"
    )
    return cases(
        {f"the mean largest weight is above 0.9 with {n} keys": mean > ONE_HOT.value for n, mean in means.items()}, note
    )


@statement(
    "article-50",
    says="Without scaling, scores of high dimension always saturate the softmax.",
    severity="conceptual error",
)
def always_saturated(tables: Tables) -> Answer:
    """The share of rows with a weight above 0.99 at d_k = 512 and 4096, unscaled, exactly, for each number of keys."""
    share = plane(tables, "unscaled", "saturated_rows_exact")
    at_large = share.loc[LARGE.value]
    note = (
        f"At d_k = 512, {UNTRAINED}, the exact share of unscaled rows with a weight above 0.99 is"
        f" {by_keys(share.loc[512], '.0%')}; at d_k = {LARGE}, it is {by_keys(at_large, '.0%')} (plane.csv)"
    )
    conditions = {
        f"more than 99% of rows have a weight above 0.99 at d_k = {LARGE} with {n} keys": part > 1 - RARE.value
        for n, part in at_large.items()
    }
    return cases(conditions, note)


@statement(
    "article-01a notebook-19a qa-12",
    says="Scaling keeps softmax from saturating, so that it is smooth.",
    severity="conceptual error",
)
def scaled_is_soft(tables: Tables) -> Answer:
    """The share of saturated rows and the mean largest weight under d_k^1/2, exactly, by d_k and number of keys."""
    rows, largest = (plane(tables, "d_k^1/2", f"{name}_exact") for name in ("saturated_rows", "max_weight"))
    unscaled = plane(tables, "unscaled", "saturated_rows_exact")
    narrow = expectations(2, 4, math.sqrt(2)).saturated_rows
    conditions = {
        f"fewer than 1% of rows have a weight above 0.99 with {n} keys": rows[n].max() < RARE.value for n in rows
    }
    conditions |= {
        f"the mean largest weight is below {ONE_HOT} and level {_from_to(largest)} with {n} keys": (
            largest[n].max() < ONE_HOT.value and level(largest[n])
        )
        for n in largest
    }
    unlikely = softmax(np.divide(HUNDREDS, math.sqrt(D_K))).max()
    most = _in_a_million(rows.max(axis=None))
    note = (
        f"{_from_to(rows).capitalize()} with 4 to 4096 keys, {UNTRAINED}, at most {most} rows have a weight above 0.99"
        f" under d_k^1/2, and {unscaled.min(axis=None):.0%} to {unscaled.max(axis=None):.0%} of rows unscaled"
        f" (exact, plane.csv). At d_k = 2 with 4 keys, {_in_a_million(narrow)} rows do under d_k^1/2. At d_k = {LARGE},"
        f" the mean largest weight under d_k^1/2 is {by_keys(largest.loc[LARGE.value])}. Scaled, the Q&A's scores"
        f" {shown(HUNDREDS)} at d_k = {D_K} still give a weight of {unlikely:.3f},"
        " but random scores do not get that large (qa-07)"
    )
    return cases(conditions, note)


@statement(
    "notebook-18 lesson-20b notebook-23a",
    says="Without scaling gradients vanish at large d_k, so that they no longer flow.",
    severity="conceptual error",
)
def gradients_vanish(tables: Tables) -> Answer:
    """Norms of the Jacobian and of dL/dq, unscaled over d_k^1/2, over d_k and the number of keys."""
    median, mean, query = (ratio(tables, metric) for metric in (MEDIAN, *ROOT_MEAN_SQUARES))
    at = f"at d_k = {LARGE}"
    conditions: dict[str, bool] = {}
    norms = {"median of |J|_F": median, "root mean square of |J|_F": mean, "root mean square of |dL/dq|": query}
    for name, values in norms.items():
        below = f"the {name} is below a tenth of the scaled one {at}"
        conditions |= {f"{below} with {n} keys": values[n][LARGE.value] < TENTH.value for n in values}
    note = (
        f"All numbers here are ratios of unscaled values to those under d_k^1/2, {UNTRAINED} (plane.csv). The median of"
        f" |J|_F is {grid(median, ratio_errors(tables))}. With more keys, it falls only at larger d_k."
        f" {at.capitalize()}, the exact root mean square of |J|_F is {by_keys(mean.loc[LARGE.value])}, and that of"
        f" |dL/dq| is {by_keys(query.loc[LARGE.value])}. With 4 keys, that of |J|_F falls to a tenth at d_k ="
        f" {d_k_of_a_tenth(4):,.0f}."
        " The effect on training is the subject of textbook-13"
    )
    return cases(conditions, note)


@cache
def d_k_of_a_tenth(n_keys: int) -> float:
    """The d_k at which the root mean square of |J|, unscaled over that under d_k^1/2, is a tenth."""

    def excess(log_d_k: float) -> float:
        d_k = math.exp(log_d_k)
        bare, scaled = (theory.attention_expectations(d_k, n_keys, c).jacobian_norm for c in (1.0, math.sqrt(d_k)))
        return bare / scaled - 0.1

    return math.exp(optimize.brentq(excess, math.log(64), math.log(1e6), xtol=1e-4))


@statement(
    "textbook-15 lesson-23 article-53",
    says="With scaling, softmax keeps gradients that do not shrink with d_k.",
    severity="conceptual error",
)
def scaled_gradients_are_healthy(tables: Tables) -> Answer:
    """Norms of the Jacobian and of dL/dq under d_k^1/2, as d_k grows, for each number of keys."""
    found = {
        "median of |J|_F": plane(tables, "d_k^1/2", MEDIAN),
        "root mean square of |J|_F": plane(tables, "d_k^1/2", ROOT_MEAN_SQUARES[0]),
        "root mean square of |dL/dq|": plane(tables, "d_k^1/2", ROOT_MEAN_SQUARES[1]),
    }
    median, mean, query = found.values()
    conditions = {
        f"the {name} is level {_from_to(values)} with {n} keys": level(values[n])
        for name, values in found.items()
        for n in values
    }
    narrow, most = 2, query.columns.max()
    below = expectations(narrow, int(most), math.sqrt(narrow)).query_gradient_norm
    typical = measured_by_keys(median.loc[LARGE.value], median_errors(tables, "d_k^1/2").loc[LARGE.value])
    note = (
        f"Under d_k^1/2 at d_k = {LARGE}, {UNTRAINED} (plane.csv), the median of |J|_F is {typical}; its root mean"
        f" square is exactly {by_keys(mean.loc[LARGE.value])}, and that of |dL/dq| is exactly"
        f" {by_keys(query.loc[LARGE.value])}. All three are level in d_k from {query.index.min()} on, but fall with the"
        " number of keys. Below that d_k,"
        f" norms also fall with d_k if there are many keys: with {most} keys, the root mean square of |dL/dq| falls"
        f" from {below:.3g} at d_k = {narrow} to {query[most].iloc[0]:.3g} at {query.index.min()}"
    )
    return cases(conditions, note)


@statement(
    "notebook-15 article-02", says="It is scaling that keeps softmax numerically stable.", severity="conceptual error"
)
def numerical_stability() -> Answer:
    """Rows that a softmax in single precision cannot compute, with and without scaling and subtracting the maximum."""
    d_k, sizes, root = 512, (4, 64, 1024, 4096, 65_536), math.sqrt(512)
    bare, scaled = ({n: overflowing_rows(d_k, n, divisor) for n in sizes} for divisor in (1.0, root))
    scores = normals(64, d_k) @ normals(4096, d_k, seed=1).T
    lost_bare, lost_scaled = (_lost(softmax((scores / divisor).astype(np.float32))) for divisor in (1.0, root))
    shares = ", ".join(f"{share:.1%} with {count(n)} keys" for n, share in bare.items())
    note = (
        f"In single precision at d_k = {d_k}, a softmax that does not subtract the maximum overflows in these shares of"
        f" unscaled rows: {shares}; and in {max(scaled.values()):.1%} of the rows divided by sqrt(d_k). These"
        f" shares are exact, {UNTRAINED}. The softmax of both sources subtracts the maximum, and never overflows"
    )
    prevents = f"scaling at d_k = {d_k} keeps overflow from more than 1% of the rows of a softmax that"
    conditions = {
        f"{prevents} does not subtract the maximum with {count(n)} keys": bare[n] > RARE.value > scaled[n]
        for n in sizes
    }
    conditions[f"{prevents} subtracts the maximum with 4096 keys"] = lost_bare > RARE.value > lost_scaled
    return cases(conditions, note)


def overflowing_rows(d_k: int, n_keys: int, divisor: float) -> float:
    """P(a scaled score of a row exceeds ln of the largest number in single precision)."""
    largest = math.log(np.finfo(np.float32).max)
    return float(theory.largest_score_survival(largest * divisor, d_k, n_keys))


def _lost(weights: Floats) -> float:
    """The share of rows with a NaN weight."""
    return float((~np.isfinite(weights)).any(axis=-1).mean())


def _from_to(values: pd.DataFrame) -> str:
    """The range of d_k of a plane, in words."""
    return f"from d_k = {values.index.min()} to {values.index.max()}"


def _in_a_million(share: float) -> str:
    """A share of rows that are few, in words."""
    return f"{1e6 * share:.0f} in a million"
