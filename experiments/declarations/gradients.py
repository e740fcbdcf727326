"""Figures of the norms of Jacobians and gradients."""

from experiments.declarations.figure import (
    GRADIENT,
    JACOBIAN,
    READING,
    Default,
    Figure,
    Finding,
    Lines,
    Own,
    Panel,
)
from experiments.declarations.tables import (
    BOTH,
    MEDIAN_GRADIENT,
    Numbers,
    Tables,
    ends,
    knows,
    rises,
    rows_of,
    widest,
)
from sdpa.scaling import UNSCALED


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
    medians = rows_of(tables, "crossings", statistic="median", level=1.0)
    jacobian, query = (medians[medians["norm"] == norm] for norm in ("jacobian", "query_gradient"))
    known = jacobian.dropna(subset="crossing")  # that of four keys lies below the grid
    holds = query["crossing_exact"].notna().all() and all(
        rises(rows, "n_keys", "crossing") for rows in (known, query)
    )
    return ends(query, "n_keys", "crossing_exact") if holds else None


FIGURES = (
    Figure(
        name="gradients",
        shows="Gradient norms against d_k: medians beside root mean squares",
        default=Default(varied=("d_k",)),
        lines=Lines(
            "d_k",
            (
                Panel(
                    "jacobian_norm_median", "softmax Jacobian |J|_F, median", like="jacobian_norm"
                ),
                Panel(
                    "jacobian_norm",
                    "softmax Jacobian |J|_F, root mean square",
                    like="jacobian_norm_median",
                ),
                Panel(
                    MEDIAN_GRADIENT, "query gradient |dL/dq|, median", like="query_gradient_norm"
                ),
                Panel(
                    "query_gradient_norm",
                    "query gradient |dL/dq|, root mean square",
                    like=MEDIAN_GRADIENT,
                ),
            ),
            (9, 6),
            columns=2,
        ),
        note=f"{JACOBIAN} {GRADIENT} {READING}",
        finding=Finding(
            sweep="dimension",
            title="Unscaled, typical query gradients rise, then fall with d_k; their r.m.s. rises",
            sentence="Unscaled, with {n_keys.most} keys, the median of |dL/dq| rises to {peak:.2f} "
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
        default=Default(varied=("d_k", "n_keys"), rules=BOTH),
        own=Own(("d_k", "n_keys"), rules=BOTH),
        note=f"{JACOBIAN} {GRADIENT} divisor\u00a0·\u00a0|dL/dq| lacks the factor 1/divisor of the "
        "chain rule.",
        when={
            "Colour and number: the unscaled norm over that under d_k^1/2; red: unscaled is "
            "larger.": knows("ratios", "ratio"),
            "Points: where this ratio falls through 1, with 95% intervals up to the edge of the "
            "grid.": knows("crossings", "crossing"),
            "Dashed: the same of exact values.": knows("crossings", "crossing_exact"),
        },
        finding=Finding(
            sweep="crossing",
            title="Typical unscaled gradients fall below scaled ones at widths growing with n_keys",
            sentence="Unscaled, the median of |dL/dq| falls below that under d_k^1/2 at d_k = "
            "{first:.0f} with {n_keys.least} keys, and at {last:.0f} with {n_keys.most} (exact "
            "values, interpolated).",
            needs={"d_k": (), "n_keys": (), "scaling": BOTH},
            numbers=_map,
            reads=("crossings",),
        ),
    ),
)
