"""Large d_k: saturation, gradients and stability with and without scaling, by the number of keys."""

import math

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
    grid,
    level,
    measured_by_keys,
    median_errors,
    plane,
    ratio,
    ratio_errors,
)
from experiments.statements.shared import Floats, normals
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
        f"above 0.9 at d_k = {LARGE} with {n:,} keys": exact[n][LARGE] > ONE_HOT and exact[n].is_monotonic_increasing
        for n in exact
    }
    far = "; ".join(f"{exact[n][512]:.3f} and {exact[n][LARGE]:.3f} with {n:,} keys" for n in exact)
    note = (
        f"plane.csv, {UNTRAINED}, mean largest weight at d_k = 512 and {LARGE}, exactly: {far}. It grows"
        f" {_from_to(exact)} with every number of keys; the required d_k depends on the number of keys"
    )
    return cases(conditions, note)


@statement(
    "textbook-11", says="The swings of scores at d_k = 64 make softmax nearly one-hot.", severity="conceptual error"
)
def one_hot_at_64(tables: Tables) -> Answer:
    """The mean largest weight at d_k = 64 and the share of saturated rows, exactly, for each number of keys."""
    means, share = (plane(tables, "unscaled", f"{name}_exact").loc[64] for name in ("max_weight", "saturated_rows"))
    listed = "; ".join(f"{mean:.3f} and {share[n]:.0%} with {n:,} keys" for n, mean in means.items())
    note = (
        f"plane.csv, {UNTRAINED}, unscaled, d_k = 64: mean largest weight, and share of rows with a weight above 0.99,"
        f" exactly: {listed}"
    )
    return cases({f"with {n:,} keys": mean > ONE_HOT for n, mean in means.items()}, note)


@statement(
    "article-50",
    says="Without scaling, scores of high dimension always saturate the softmax.",
    severity="conceptual error",
)
def always_saturated(tables: Tables) -> Answer:
    """The share of rows with a weight above 0.99 at d_k = 512 and 4096, unscaled, exactly, for each number of keys."""
    share = plane(tables, "unscaled", "saturated_rows_exact")
    note = (
        f"plane.csv, unscaled, {UNTRAINED}: rows with a weight above 0.99 are, exactly, at d_k = 512"
        f" {by_keys(share.loc[512], '.0%')}; at d_k = {LARGE} {by_keys(share.loc[LARGE], '.0%')}"
    )
    conditions = {f"every row at d_k = {LARGE} with {n:,} keys": part == 1 for n, part in share.loc[LARGE].items()}
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
    narrow = theory.attention_expectations(2, 4, math.sqrt(2)).saturated_rows
    conditions = {f"fewer than 1% of rows of {n:,} weights have one above 0.99": rows[n].max() < RARE for n in rows}
    conditions |= {
        f"the mean largest of {n:,} is below {ONE_HOT} and level {_from_to(largest)}": largest[n].max() < ONE_HOT
        and level(largest[n])
        for n in largest
    }
    unlikely = softmax(np.divide(HUNDREDS, math.sqrt(D_K))).max()
    most = _in_a_million(rows.max(axis=None))
    note = (
        f"plane.csv, 4 to 4096 keys, {UNTRAINED}, exactly: {_from_to(rows)} rows with a weight above 0.99 are at most"
        f" {most} under d_k^1/2 (with 4 keys; {_in_a_million(narrow)} at d_k = 2), {unscaled.min(axis=None):.0%} to"
        f" {unscaled.max(axis=None):.0%} unscaled; the mean largest weight under d_k^1/2 at d_k = {LARGE} is"
        f" {by_keys(largest.loc[LARGE])}. Scaled, the Q&A's scores {shown(HUNDREDS)} at d_k = {D_K} still"
        f" give a weight of {unlikely:.3f}, but random scores do not get that large (qa-07)"
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
    conditions = {f"the median |J| is below a tenth {at} with {n:,} keys": median[n][LARGE] < TENTH for n in median}
    for name, values in {"|J|": mean, "|dL/dq|": query}.items():
        below = f"the root mean square of {name} is below a tenth {at}"
        conditions |= {f"{below} with {n:,} keys": values[n][LARGE] < TENTH for n in values}
    note = (
        f"plane.csv, unscaled over d_k^1/2, {UNTRAINED}: median |J| {grid(median, ratio_errors(tables))}. The more"
        f" keys, the larger d_k has to be. Exactly, {at} the root mean square of |J| is {by_keys(mean.loc[LARGE])}, and"
        f" that of |dL/dq| {by_keys(query.loc[LARGE])}; that of |J| with 4 keys falls to a tenth at d_k ="
        f" {d_k_of_a_tenth(4):,.0f}. The effect on training is open"
    )
    return cases(conditions, note)


def d_k_of_a_tenth(n_keys: int) -> float:
    """The d_k at which the root mean square of |J|, unscaled over that under d_k^1/2, is a tenth."""

    def excess(log_d_k: float) -> float:
        d_k = math.exp(log_d_k)
        bare, scaled = (theory.attention_expectations(d_k, n_keys, c).jacobian_norm for c in (1.0, math.sqrt(d_k)))
        return bare / scaled - TENTH

    return math.exp(optimize.brentq(excess, math.log(64), math.log(1e6), xtol=1e-4))


@statement(
    "textbook-15 lesson-23 article-53",
    says="With scaling, softmax keeps gradients that do not shrink with d_k.",
    severity="conceptual error",
)
def scaled_gradients_are_healthy(tables: Tables) -> Answer:
    """Norms of the Jacobian and of dL/dq under d_k^1/2, as d_k grows, for each number of keys."""
    found = {
        "median |J|": plane(tables, "d_k^1/2", MEDIAN),
        "root mean square of |J|": plane(tables, "d_k^1/2", ROOT_MEAN_SQUARES[0]),
        "root mean square of |dL/dq|": plane(tables, "d_k^1/2", ROOT_MEAN_SQUARES[1]),
    }
    median, mean, query = found.values()
    conditions = {
        f"the {name} is level {_from_to(values)} with {n:,} keys": level(values[n])
        for name, values in found.items()
        for n in values
    }
    narrow, most = 2, query.columns.max()
    below = theory.attention_expectations(narrow, int(most), math.sqrt(narrow)).query_gradient_norm
    typical = measured_by_keys(median.loc[LARGE], median_errors(tables, "d_k^1/2").loc[LARGE])
    note = (
        f"plane.csv, d_k^1/2, d_k = {LARGE}, {UNTRAINED}: median |J| {typical}; root mean square, exactly,"
        f" {by_keys(mean.loc[LARGE])}; that of |dL/dq| {by_keys(query.loc[LARGE])}. They are level in d_k from"
        f" {query.index.min()} on, but fall with the number of keys. Below that d_k, norms fall with d_k if there are"
        f" many keys: that of |dL/dq| with {most:,} keys from {below:.3g} at d_k = {narrow} to"
        f" {query[most].iloc[0]:.3g} at {query.index.min()}"
    )
    return cases(conditions, note)


@statement(
    "notebook-15 article-02", says="It is scaling that keeps softmax numerically stable.", severity="conceptual error"
)
def numerical_stability() -> Answer:
    """Rows that a softmax in single precision cannot compute, with and without scaling and subtracting the maximum."""
    d_k, n_keys, others = 512, 4096, (64, 512, 65_536)
    bare, scaled = (overflowing_rows(d_k, n_keys, divisor) for divisor in (1.0, math.sqrt(d_k)))
    scores = normals(64, d_k) @ normals(n_keys, d_k, seed=1).T
    subtracted = [_lost(softmax((scores / divisor).astype(np.float32))) for divisor in (1.0, math.sqrt(d_k))]
    shown = f"{scaled:.1%}"
    of_scaled = "fewer than 0.05%" if shown == "0.0%" else shown
    listed = ", ".join(f"{overflowing_rows(d_k, n, 1.0):.1%} with {n:,} keys" for n in others)
    note = (
        f"in single precision, at d_k = {d_k} with {n_keys:,} keys, {UNTRAINED}: without subtracting the maximum an"
        f" exponential overflows in {bare:.1%} of unscaled rows and in {of_scaled} of those divided by sqrt(d_k),"
        f" exactly ({listed}, unscaled); with the maximum subtracted none can"
    )
    conditions = {
        "scaling saves rows of a softmax that does not subtract the maximum": bare > scaled,
        "scaling saves rows of a softmax that subtracts it": subtracted[0] > subtracted[1],
    }
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
