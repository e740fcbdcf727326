"""Figures of the variance of scores, and of what changes it."""

from experiments.kinds.declarations import (
    GRADIENT,
    HOLLOW,
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
    POWER_RULES,
    Numbers,
    Tables,
    alone_is_level,
    has_few,
    is_below,
    is_level,
    knows,
    only_crossing,
    rows_of,
    significant,
    varies,
    widest,
)
from experiments.measuring.experiment import MEASURED
from sdpa.scaling import SCALED, UNSCALED

_FROM = 8  # d_k; in narrower heads, the length of dL/dq varies as that of few numbers
_CHANGED = ("max_weight", "score_variance", "row_variance", MEDIAN_GRADIENT)
_ASSUMPTIONS = (
    "inputs",
    "query_mean",
    "key_mean",
    "query_std",
    "key_std",
    "correlation",
    "spectrum",
    "normalize",
)


def _variance(tables: Tables) -> Numbers:
    slopes = tables["slopes"].set_index("scaling")["slope"]
    holds = (
        alone_is_level(tables[MEASURED], "score_variance")
        and slopes[UNSCALED] > slopes["d_k^1/3"] > 0 > slopes["d_k^2/3"]
    )
    return dict(slopes) if holds else None


def _metrics(tables: Tables) -> Numbers:
    plain, root = (rows_of(tables, scaling=rule) for rule in BOTH)
    narrow, wide = plain.iloc[[0]], widest(plain)
    measured = tables[MEASURED]
    not_narrow = measured[measured["d_k"] >= _FROM]
    alone = (
        alone_is_level(measured, "score_variance")
        and alone_is_level(measured, "max_weight")
        and alone_is_level(not_narrow, MEDIAN_GRADIENT)
    )
    falls_late = is_below(root, narrow, MEDIAN_GRADIENT) and is_below(wide, root, MEDIAN_GRADIENT)
    at = only_crossing(tables, "query_gradient", "median")
    holds = is_level(root, "entropy") and alone and falls_late
    return {"at": significant(at, 2)} if at and holds else None


def _assumptions(tables: Tables) -> Numbers:
    rows = rows_of(tables, scaling=SCALED)
    first, others = rows.iloc[0], rows.iloc[1:]
    sharper = others["max_weight_low"].max() > A_TENTH * first["max_weight_high"]
    flatter = first["max_weight_low"] > A_TENTH * others["max_weight_high"].min()
    ratios = others["max_weight"] / first["max_weight"]
    return {"least": ratios.min(), "most": ratios.max()} if sharper and flatter else None


FIGURES = (
    Figure(
        name="metrics",
        shows="Variance of scores, largest weight, entropy and query gradient",
        lines=Lines(
            "",
            (
                Panel("score_variance"),
                Panel("max_weight"),
                Panel("entropy"),
                Panel(MEDIAN_GRADIENT),
            ),
            (7.5, 4.1),
            columns=2,
        ),
        note=f"{READING}; {GRADIENT}",
        finding=Finding(
            sweep="dimension",
            title="Of these divisors, only d_k^1/2 makes all widths nearly alike",
            sentence="Of independent standard normal q and k, with {n_keys.most} keys and no mask, the "
            "median query gradient |dL/dq| is larger unscaled than under d_k^1/2 up to d_k = {at:.0f} "
            "(exact), and smaller at {d_k.most}.",
            needs={"d_k": (), "scaling": POWER_RULES},
            numbers=_metrics,
            reads=("crossings",),
        ),
    ),
    Figure(
        name="variance",
        shows="Score variance, and its ratio to the exact value",
        lines=Lines(
            "d_k",
            (
                Panel("score_variance"),
                Panel("score_variance", "the same over its exact value", over="exact"),
            ),
            (9, 4),
        ),
        note=READING,
        when={"right: alike for every rule": varies("scaling")},
        finding=Finding(
            sweep="dimension",
            title="Of these divisors, only d_k^1/2 keeps the variance of scores level",
            sentence="The variance of the scores goes with d_k to the power {unscaled:.2f} "
            "unscaled, {d_k^1/3:.2f} under d_k^1/3 and {d_k^2/3:.2f} under d_k^2/3, and stays "
            "level under d_k^1/2.",
            needs={"d_k": (), "scaling": POWER_RULES},
            numbers=_variance,
            reads=("slopes",),
        ),
    ),
    Figure(
        name="assumptions",
        shows="Metrics under changed assumptions, over their value in the first row",
        metrics=_CHANGED,
        note=f"{READING}; arrow: a smaller ratio; {GRADIENT}",
        when={
            "strokes: exact": knows(MEASURED, "max_weight_exact"),
            HOLLOW: lambda tables: any(has_few(metric)(tables) for metric in _CHANGED),
        },
        finding=Finding(
            sweep="assumptions",
            title="Some changed assumptions sharpen attention under d_k^1/2, others flatten it",
            sentence="At d_k = {d_k.most} with {n_keys.most} keys, the mean largest weight under "
            "d_k^1/2 is {least:.2f} to {most:.2f} times that of the textbook case, independent "
            "standard normal entries, if one assumption changes at a time.",
            needs={**dict.fromkeys(_ASSUMPTIONS, ()), "scaling": (UNSCALED, SCALED)},
            numbers=_assumptions,
        ),
    ),
)
