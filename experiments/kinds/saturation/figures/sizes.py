"""Figures of gradients, and of rules and maps over d_k and n_keys."""

from collections.abc import Callable

import numpy as np

from experiments.kinds.declarations import (
    GRADIENT,
    READING,
    Figure,
    Finding,
    Lines,
    Panel,
)
from experiments.kinds.support import (
    A_TENTH,
    BOTH,
    MEDIAN_GRADIENT,
    Numbers,
    Tables,
    at_most,
    changes,
    ends,
    is_below,
    is_level,
    rises,
    rows_of,
    significant,
    varies,
    widest,
)
from experiments.measuring.experiment import MEASURED
from sdpa.scaling import SCALED, UNSCALED

_WITH_LN = "d_k^1/2/0.43/ln(n_keys)"
_GRID = {"d_k": (), "n_keys": (), "scaling": BOTH}


def _correlation(tables: Tables) -> Numbers:
    none = rows_of(tables, correlation=0, scaling=SCALED)
    root = rows_of(tables, correlation=0.5, scaling=SCALED)
    width = rows_of(tables, correlation=0.5, scaling="d_k^1")
    holds = is_below(none, root, "own_weight") and changes(root, "own_weight")
    if not (holds and is_level(width, "own_weight")):
        return None
    return {**ends(root, "d_k", "own_weight"), "level": width["own_weight"].median()}


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


def _gradients(tables: Tables) -> Numbers:
    rows = rows_of(tables, scaling=UNSCALED)
    peak = rows.loc[rows[MEDIAN_GRADIENT].idxmax()]
    holds = (
        rises(rows[rows["d_k"] <= peak["d_k"]], "d_k", MEDIAN_GRADIENT)
        and rises(rows[rows["d_k"] >= peak["d_k"]], "d_k", MEDIAN_GRADIENT, falls=True)
        and rises(rows, "d_k", "query_gradient_norm")
    )
    if not holds:
        return None
    last = widest(rows).iloc[0]
    return {
        "peak": peak[MEDIAN_GRADIENT],
        "last": last[MEDIAN_GRADIENT],
        "mean": last["query_gradient_norm_exact"],
    }


def _map(tables: Tables) -> Numbers:
    jacobian, query = (
        rows_of(tables, "crossings", norm=norm, statistic="median", level=1.0)
        for norm in ("jacobian", "query_gradient")
    )
    known = jacobian.dropna(subset="crossing")  # that of four keys lies below the grid
    holds = query["crossing_exact"].notna().all() and all(
        rises(rows, "n_keys", "crossing") for rows in (known, query)
    )
    if not holds:
        return None
    return {end: significant(at, 2) for end, at in ends(query, "n_keys", "crossing_exact").items()}


def _falls(column: str) -> Callable[[Tables], bool]:
    """A condition of tables: some ratio of gradients falls through 1, by this column."""
    return lambda tables: (
        "crossings" in tables
        and bool(rows_of(tables, "crossings", level=1.0)[column].notna().any())
    )


FIGURES = (
    Figure(
        name="correlation",
        shows="Weight of the own key of queries that correlate with it",
        lines=Lines(
            "correlation",
            (Panel("own_weight", floor=0),),
            (4.7, 4),
            by="d_k",
            facet_by="scaling",
        ),
        rules=(SCALED, "d_k^1"),
        note=READING,
        finding=Finding(
            sweep="correlation",
            title="At correlation 0.5, own keys keep their weight under d_k, not d_k^1/2",
            sentence="At a correlation of 0.5 of each query with its own key, the mean weight of this "
            "key among {n_keys.most} rises from {first:.2f} at d_k = {d_k.least} to {last:.2f} at "
            "{d_k.most} under d_k^1/2, and is {level:.3f} at each under d_k.",
            needs={"d_k": (), "correlation": (0, 0.5), "scaling": (SCALED, "d_k^1")},
            numbers=_correlation,
        ),
    ),
    Figure(
        name="phase",
        shows="Where attention gathers on few keys: entropy over d_k and n_keys",
        metrics=("entropy",),
        along=("d_k", "n_keys"),
        cases=12,
        when={"contours: exact where known": varies("d_k", "n_keys")},
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
        shows="Scaling rules: entropy, largest weight and own key's weight",
        lines=Lines(
            "n_keys",
            (
                Panel(
                    "entropy",
                    "entropy / ln(n_keys)",
                    floor=0,
                    over="high",
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
            title=f"Without correlation, of these, {_WITH_LN} changes the largest weight least",
            sentence="From {n_keys.least} to {n_keys.most} keys at d_k = {d_k.most}, the exact "
            "mean largest weight of uncorrelated rows varies by a factor (largest over smallest) of "
            f"{{ln:.2f}} under {_WITH_LN}, {{root:.3g}} under d_k^1/2 and {{plain:.2f}} unscaled, and the "
            f"entropy under {_WITH_LN} falls from {{first:.0%}} to {{last:.0%}} of ln n_keys.",
            needs={"d_k": 64, "n_keys": (), "correlation": (0,), "scaling": (*BOTH, _WITH_LN)},
            numbers=_rules,
        ),
    ),
    Figure(
        name="gradients",
        shows="Gradient norms: medians beside root mean squares",
        lines=Lines(
            "d_k",
            (
                Panel("jacobian_norm_median"),
                Panel("jacobian_norm"),
                Panel(MEDIAN_GRADIENT),
                Panel("query_gradient_norm"),
            ),
            (9, 6),
            columns=2,
            shares=True,
        ),
        note=f"{READING}; {GRADIENT}",
        finding=Finding(
            sweep="dimension",
            title="Unscaled, typical query gradients rise, then fall with d_k; their r.m.s. rises",
            sentence="Unscaled, with {n_keys.most} keys, the median query gradient |dL/dq| rises to {peak:.2f} "
            "and falls to {last:.3f} at d_k = {d_k.most}, where the root mean square is "
            "{mean:.2f}.",
            needs={"d_k": (), "scaling": BOTH},
            numbers=_gradients,
        ),
    ),
    Figure(
        name="map",
        shows="Ratios of unscaled to scaled gradients over d_k and n_keys",
        metrics=("jacobian_norm_median", MEDIAN_GRADIENT, "jacobian_norm", "query_gradient_norm"),
        rules=BOTH,
        along=("d_k", "n_keys"),
        note=GRADIENT,
        when={
            "points: ratio 1, with 95% intervals": _falls("crossing"),
            "strokes: exact": _falls("crossing_exact"),
        },
        finding=Finding(
            sweep="crossing",
            title="Typical unscaled gradients fall below scaled ones at widths growing with n_keys",
            sentence="Unscaled, the median query gradient |dL/dq| falls below that under d_k^1/2 "
            "at d_k = {first:.0f} with {n_keys.least} keys, and at {last:,.0f} with {n_keys.most:,} "
            "(exact).",
            needs=_GRID,
            numbers=_map,
            reads=("crossings",),
        ),
    ),
)
