"""Figures of where rows freeze, so that few keys get all weight, and of rules against it."""

import numpy as np

from experiments.declarations.figure import READING, Figure, Finding, Lines, Panel
from experiments.declarations.tables import (
    A_TENTH,
    BOTH,
    Numbers,
    Tables,
    at_most,
    is_below,
    rows_of,
    widest,
)
from experiments.measuring.experiment import MEASURED
from sdpa.scaling import SCALED, UNSCALED

_WITH_LN = "d_k^1/2/0.43/ln(n_keys)"
_GRID = {"d_k": (), "n_keys": (), "scaling": BOTH}


def _correlation(tables: Tables) -> Numbers:
    steady = tables["steady"]
    none, strong = steady.query("correlation == 0"), steady.query("correlation >= 0.2")
    if not is_below(none, strong, "power"):
        return None
    powers = rows_of(tables, "steady", from_d_k=256).set_index("correlation")["power"]
    found = {"none": powers.loc[0], "some": powers.loc[0.1], "half": powers.loc[0.5]}
    return None if any(map(np.isnan, found.values())) else found


def _freezing(tables: Tables) -> Numbers:
    curves = tables["curves"]
    apart = (curves["entropy_share"] - curves["entropy_share_limit"]).abs()
    largest = apart.groupby(curves["n_keys"]).max()
    holds = (largest.diff().dropna() < -0.01).all()
    first, last = (at_most(largest.iloc[end], 3) for end in (0, -1))
    return {"first": first, "last": last} if holds else None


def _phase(tables: Tables) -> Numbers:
    rows = widest(tables[MEASURED])
    entropies = rows[["entropy", "entropy_low", "entropy_high"]]
    shares = entropies.div(np.log(rows["n_keys"]), axis=0)
    plain, root = (shares[rows["scaling"] == rule] for rule in BOTH)
    holds = plain["entropy_high"].max() < 0.1 and root["entropy_low"].min() > 0.5
    few = at_most(plain["entropy"].max(), 3)
    return {"few": few, "many": root["entropy"].min()} if holds else None


def _rules(tables: Tables) -> Numbers:
    rows = rows_of(tables, correlation=0).groupby("scaling")
    least = rows["max_weight_low"].max() / rows["max_weight_high"].min()
    most = rows["max_weight_high"].max() / rows["max_weight_low"].min()
    others = least.drop([_WITH_LN, UNSCALED])
    if not (least[UNSCALED] > A_TENTH and (others > most[_WITH_LN]).all()):
        return None
    factors = rows["max_weight_exact"].max() / rows["max_weight_exact"].min()
    return {"ln": factors[_WITH_LN], "root": factors[SCALED], "plain": factors[UNSCALED]}


FIGURES = (
    Figure(
        name="correlation",
        shows="Queries that correlate with their keys: own weight and power of d_k",
        metrics=("own_weight", "max_weight"),
        note=f"{READING} Right: the power of d_k under which the largest weight is equal at two "
        "neighbouring d_k.",
        finding=Finding(
            sweep="correlation",
            title="Strongly correlated queries and keys need a higher power of d_k here",
            sentence="The power of d_k that keeps the largest of {n_keys.most} weights from d_k = "
            "256 to 1024 is {none:.2f} without correlation, {some:.2f} at a correlation of 0.1, "
            "and {half:.2f} at 0.5.",
            needs={"d_k": (256, 1024), "correlation": (0, 0.1, 0.5), "scaling": (SCALED,)},
            numbers=_correlation,
            reads=("steady",),
        ),
    ),
    Figure(
        name="freezing",
        shows="Entropy and sum of squared weights against the spread of scores",
        metrics=("entropy", "jacobian_trace"),
        note="Points: measured, each a cell of the sweep under one rule. Lines: exact for Gaussian "
        "rows of one spread σ; dashed: their limit for many keys. Rows of many keys freeze, so "
        "that few keys get all weight, where σ exceeds σ_c = sqrt(2 ln n_keys). σ = |q| / divisor "
        "is the spread of the scaled scores of a row, for points with the root mean square of |q|. "
        "Points at small d_k lie off the lines, because |q| varies a lot there.",
        finding=Finding(
            sweep="phase",
            title="The longer the rows, the more sharply they freeze",
            sentence="The exact entropy of a row, divided by ln n_keys, lies at most {first:.3f} "
            "above its limit for many keys with {n_keys.least} keys, and at most {last:.3f} with "
            "{n_keys.most} keys.",
            needs=_GRID,
            numbers=_freezing,
            reads=("curves",),
        ),
    ),
    Figure(
        name="phase",
        shows="Where attention gathers on few keys: entropy over d_k and n_keys",
        metrics=("entropy",),
        note="Colour: measured. Contours: exact values, or measured ones if these are unknown. "
        "Dashed, for Gaussian inputs: where rows of many keys freeze, σ = sqrt(2 ln n_keys), which "
        "is d_k = 2 ln n_keys for unscaled rows; σ is the standard deviation of their scores.",
        finding=Finding(
            sweep="phase",
            title="Unscaled, wide heads attend to few keys; under d_k^1/2, to many",
            sentence="At d_k = {d_k.most}, the mean entropy of rows of {n_keys.least} to "
            "{n_keys.most} keys is at most {few:.1%} of ln n_keys unscaled, and about {many:.0%} "
            "or more under d_k^1/2.",
            needs=_GRID,
            numbers=_phase,
        ),
    ),
    Figure(
        name="rules",
        shows="Scaling rules in longer rows: entropy, largest weight and own key's weight",
        lines=Lines(
            "n_keys",
            (
                Panel(
                    "entropy",
                    "entropy / ln(n_keys)",
                    floor=0,
                    over="ln n_keys",
                    only=("correlation", min),
                ),
                Panel("max_weight", "largest weight", only=("correlation", min)),
                Panel("own_weight", "weight of the own key", only=("correlation", max)),
            ),
            (10, 3.7),
        ),
        note=READING,
        finding=Finding(
            sweep="rules",
            title=f"Of these divisors, {_WITH_LN} changes the largest weight least",
            sentence="From {n_keys.least} to {n_keys.most} keys at d_k = {d_k.most}, the exact "
            "mean largest weight of uncorrelated rows changes by a factor of {ln:.2f} under "
            f"{_WITH_LN} and {{root:.3g}} under d_k^1/2; without a divisor, by {{plain:.2f}}.",
            needs={"n_keys": (), "correlation": (0,), "scaling": (*BOTH, _WITH_LN)},
            numbers=_rules,
        ),
    ),
)
