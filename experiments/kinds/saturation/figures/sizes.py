"""Figures of gradients, and of rules and maps over d_k and n_keys."""

from collections.abc import Callable

import numpy as np

from experiments.kinds.declarations import (
    READING,
    Figure,
    Finding,
    Lines,
    Panel,
)
from experiments.kinds.support import (
    BOTH,
    MEDIAN_GRADIENT,
    Numbers,
    Tables,
    ends,
    exact_or_measured,
    factor,
    is_level,
    rises,
    rounded_down,
    rounded_up,
    rows_of,
    significant,
    varies,
    widest,
)
from experiments.measuring.experiment import MEASURED
from sdpa.scaling import SCALED, UNSCALED

_WIDTH, _WITH_LN = "d_k^1", "d_k^1/2/0.43/ln(n_keys)"
_KEPT = 1.5  # the most change of a weight that is kept
_GRID = {"d_k": (), "n_keys": (), "scaling": BOTH}


def _correlation(tables: Tables) -> Numbers:
    rows = rows_of(tables, correlation=0.5)
    root, width = (rows[rows["scaling"] == rule] for rule in (SCALED, _WIDTH))
    if not (rises(root, "d_k", "own_weight") and is_level(width, "own_weight")):
        return None
    level = exact_or_measured(width, "own_weight").median()
    return {**ends(root, "d_k", "own_weight"), "level": level}


def _phase(tables: Tables) -> Numbers:
    rows = widest(tables[MEASURED])
    entropies = rows[["entropy_low", "entropy_high"]]
    entropies = entropies.assign(known=exact_or_measured(rows, "entropy"))
    shares = entropies.div(np.log(rows["n_keys"]), axis=0)
    plain, root = (shares[rows["scaling"] == rule] for rule in BOTH)
    if len(root) < 2 or not (plain["entropy_high"].max() < 0.1 and root["entropy_low"].min() > 0.5):
        return None
    return {
        "few": rounded_up(plain["known"].max(), 2),
        "many": rounded_down(root["known"].min(), 2),
    }


def _rules(tables: Tables) -> Numbers:
    """None unless the largest weight falls with d_k^1/2, and varies little with the logarithm."""
    root, with_ln = (rows_of(tables, correlation=0, scaling=rule) for rule in (SCALED, _WITH_LN))
    most = with_ln["max_weight_high"].max() / with_ln["max_weight_low"].min()
    if not (rises(root, "n_keys", "max_weight", falls=True) and most < _KEPT):
        return None
    return {"root": factor(root, "max_weight"), "ln": factor(with_ln, "max_weight") - 1}


def _gradients(tables: Tables) -> Numbers:
    rows = rows_of(tables, scaling=UNSCALED)
    peak = rows.loc[rows[MEDIAN_GRADIENT].idxmax(), "d_k"]
    before, after = rows[rows["d_k"] <= peak], rows[rows["d_k"] >= peak]
    holds = rises(before, "d_k", MEDIAN_GRADIENT) and rises(
        after, "d_k", MEDIAN_GRADIENT, falls=True
    )
    return {"peak": peak, **ends(after, "d_k", MEDIAN_GRADIENT)} if holds else None


def _map(tables: Tables) -> Numbers:
    equal = {"norm": "query_gradient", "statistic": "median", "level": 1.0}
    rows = rows_of(tables, "crossings", **equal)
    if not (rows["crossing_exact"].notna().all() and rises(rows, "n_keys", "crossing")):
        return None
    return {end: significant(at, 2) for end, at in ends(rows, "n_keys", "crossing").items()}


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
            title="If queries match keys, d_k^1/2 does not remove the effect of width",
            sentence="At correlation 0.5, the own key's mean weight rises from {first:.2f} at d_k = "
            "{d_k.least} to {last:.2f} at {d_k.most:,} after division by d_k^1/2; dividing by d_k "
            "keeps it near {level:.2g}.",
            needs={"d_k": (), "correlation": (0.5,), "scaling": (SCALED, _WIDTH)},
            numbers=_correlation,
        ),
    ),
    Figure(
        name="phase",
        shows="Where attention gathers on few keys: entropy over d_k and n_keys",
        metrics=("entropy",),
        along=("d_k", "n_keys"),
        cases=12,
        when={"contours: exact values, where theory has them": varies("d_k", "n_keys")},
        finding=Finding(
            sweep="phase",
            title="Division by d_k^1/2 keeps wide heads from attending to few keys",
            sentence="At d_k = {d_k.most:,} with {n_keys.least:,} to {n_keys.most:,} keys, the mean "
            "entropy is at most {few:.0%} of ln n_keys without division, and at least {many:.0%} "
            "after division by d_k^1/2.",
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
            title="A logarithm in the divisor keeps the largest weight in longer rows",
            sentence="In textbook rows from {n_keys.least:,} to {n_keys.most:,} keys at d_k = "
            "{d_k.most:,}, d_k^1/2 lets the mean largest weight fall {root:.3g}-fold; "
            f"{_WITH_LN} lets it vary by {{ln:.0%}}.",
            needs={"n_keys": (), "correlation": (0,), "scaling": (SCALED, _WITH_LN)},
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
        note=READING,
        finding=Finding(
            sweep="dimension",
            title="Without division, the median gradient rises with width, then falls",
            sentence="In textbook rows of {n_keys.most:,} keys without division, the median gradient "
            "at a query rises to {first:.2g} at d_k = {peak:,}, then falls to {last:.2g} at "
            "{d_k.most:,}.",
            needs={"d_k": (), "scaling": (UNSCALED,)},
            numbers=_gradients,
        ),
    ),
    Figure(
        name="map",
        shows="Ratios of unscaled to scaled gradients over d_k and n_keys",
        metrics=("jacobian_norm_median", MEDIAN_GRADIENT, "jacobian_norm", "query_gradient_norm"),
        rules=BOTH,
        along=("d_k", "n_keys"),
        when={
            "points: ratio 1, with 95% intervals": _falls("crossing"),
            "strokes: exact": _falls("crossing_exact"),
        },
        finding=Finding(
            sweep="crossing",
            title="Without division, typical gradients are larger, except in wide heads",
            sentence="In textbook rows, the median gradient at a query is larger without division up "
            "to d_k = {first:,.0f} with {n_keys.least:,} keys, and up to {last:,.0f} with "
            "{n_keys.most:,}.",
            needs=_GRID,
            numbers=_map,
            reads=("crossings",),
        ),
    ),
)
