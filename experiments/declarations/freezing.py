"""Figures of where rows freeze, so that few keys get all weight, and of rules against it."""

import numpy as np

from experiments.declarations.figure import READING, Figure, Finding, Lines, Own, Panel
from experiments.declarations.tables import (
    A_TENTH,
    BOTH,
    TEXTBOOK,
    Numbers,
    Tables,
    at_most,
    ends,
    is_below,
    knows,
    rows_of,
    varies,
    widest,
)
from experiments.measuring.experiment import MEASURED
from sdpa.scaling import SCALED, UNSCALED

_WITH_LN = "d_k^1/2/0.43/ln(n_keys)"
_IS_MAP = varies("d_k", "n_keys")
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
    uncorrelated = rows_of(tables, correlation=0)
    shares = uncorrelated["entropy_exact"] / np.log(uncorrelated["n_keys"])
    rows = uncorrelated.assign(share=shares).groupby("scaling")
    least = rows["max_weight_low"].max() / rows["max_weight_high"].min()
    most = rows["max_weight_high"].max() / rows["max_weight_low"].min()
    others = least.drop([_WITH_LN, UNSCALED])
    falls = rows["share"].max() - rows["share"].min()
    if not (
        least[UNSCALED] > A_TENTH and (others > most[_WITH_LN]).all() and falls.idxmax() == _WITH_LN
    ):
        return None
    factors = rows["max_weight_exact"].max() / rows["max_weight_exact"].min()
    return {
        "ln": factors[_WITH_LN],
        "root": factors[SCALED],
        "plain": factors[UNSCALED],
        **ends(rows.get_group(_WITH_LN), "n_keys", "share"),
    }


def _freezes(tables: Tables) -> bool:
    """True if some Gaussian rows freeze at a known d_k."""
    return bool((rows_of(tables, **TEXTBOOK)["exponent"] < 1 / 2).any())


FIGURES = (
    Figure(
        name="correlation",
        shows="Queries that correlate with their keys: own weight and power of d_k",
        metrics=("own_weight",),
        own=Own(("correlation", "d_k"), rules=(SCALED,), cases=1),
        note=READING,
        when={
            "Right: the power of d_k, interpolated between all powers of the sweep, under which the "
            "largest weight is equal at two neighbouring d_k.": knows("steady", "power")
        },
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
        own=Own(("d_k", "n_keys"), cases=12),
        note="Colour: measured.",
        when={
            "Contours: exact values, or measured ones where these are unknown.": _IS_MAP,
            "Dashed: where rows of many keys freeze, σ = sqrt(2 ln n_keys), which is d_k = 2 ln "
            "n_keys for unscaled rows; σ is the standard deviation of their scores.": (
                lambda tables: _IS_MAP(tables) and _freezes(tables)
            ),
        },
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
            title=f"{_WITH_LN} changes the largest weight least, the entropy over ln n_keys most",
            sentence="From {n_keys.least} to {n_keys.most} keys at d_k = {d_k.most}, the exact "
            "mean largest weight of uncorrelated rows changes by a factor of {ln:.2f} under "
            f"{_WITH_LN}, {{root:.3g}} under d_k^1/2 and {{plain:.2f}} without a divisor, and the "
            f"entropy under {_WITH_LN} falls from {{first:.0%}} to {{last:.0%}} of ln n_keys.",
            needs={"n_keys": (), "correlation": (0,), "scaling": (*BOTH, _WITH_LN)},
            numbers=_rules,
        ),
    ),
)
