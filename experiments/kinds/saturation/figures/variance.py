"""Figures of the variance of scores, and of what changes it."""

from experiments.kinds.declarations import (
    HOLLOW,
    READING,
    Figure,
    Finding,
    Lines,
    Panel,
)
from experiments.kinds.support import (
    BOTH,
    LARGER_BY_A_TENTH,
    MEDIAN_GRADIENT,
    Numbers,
    Tables,
    ends,
    exact_or_measured,
    factor,
    has_few,
    has_values,
    is_alone_level,
    is_level,
    least_factor_of_others,
    rises,
    rounded_down,
    rounded_up,
    rows_of,
    varies,
)
from experiments.measuring.experiment import MEASURED
from sdpa.scaling import SCALED

_VARIANCE = "score_variance"
_LEVEL = (_VARIANCE, "max_weight", "entropy")
_CHANGED = ("score_variance", "row_variance", "max_weight", MEDIAN_GRADIENT)
_TEXTBOOK = {
    "inputs": "gaussian",
    "query_mean": 0,
    "key_mean": 0,
    "query_std": 1,
    "key_std": 1,
    "correlation": 0,
    "spectrum": 0,
    "normalize": "none",
}


def _variance(tables: Tables) -> Numbers:
    plain, root = (rows_of(tables, scaling=rule) for rule in BOTH)
    if not (is_alone_level(tables[MEASURED], _VARIANCE) and rises(plain, "d_k", _VARIANCE)):
        return None
    return {**ends(plain, "d_k", _VARIANCE), "level": exact_or_measured(root, _VARIANCE).median()}


def _metrics(tables: Tables) -> Numbers:
    root = rows_of(tables, scaling=SCALED)
    is_alone = all(is_alone_level(tables[MEASURED], name) for name in (_VARIANCE, "max_weight"))
    if not (is_alone and is_level(root, "entropy")):
        return None
    return {
        "within": rounded_up(max(factor(root, name) for name in _LEVEL) - 1, 3),
        "others": rounded_down(least_factor_of_others(tables), 1),
    }


def _assumptions(tables: Tables) -> Numbers:
    """None unless the first row is the textbook case, and each other one has one other assumption."""
    rows = rows_of(tables, scaling=SCALED)
    changed = sum((rows[name] != usual).astype(int) for name, usual in _TEXTBOOK.items())
    first, others = rows.iloc[0], rows.iloc[1:]
    sharper = others["max_weight_low"].max() > LARGER_BY_A_TENTH * first["max_weight_high"]
    flatter = first["max_weight_low"] > LARGER_BY_A_TENTH * others["max_weight_high"].min()
    if not (changed.iloc[0] == 0 and (changed.iloc[1:] == 1).all() and sharper and flatter):
        return None
    weights = exact_or_measured(rows, "max_weight")
    ratios = weights.iloc[1:] / weights.iloc[0]
    return {"least": ratios.min(), "most": ratios.max()}


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
        note=READING,
        finding=Finding(
            sweep="dimension",
            title="Only d_k^1/2 keeps attention equally sharp over width",
            sentence="With {n_keys.most:,} random keys, dividing by d_k^1/2 keeps variance, "
            "largest weight and entropy within {within:.1%} from d_k = {d_k.least} to "
            "{d_k.most:,}; other rules change the largest weight at least {others:.1f}-fold.",
            needs={"d_k": (), "scaling": BOTH},
            numbers=_metrics,
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
            title="Only d_k^1/2 gives scores the same variance at every width",
            sentence="Without division, the variance of a textbook score rises from {first:,.4g} at "
            "d_k = {d_k.least} to {last:,.4g} at d_k = {d_k.most:,}; dividing by d_k^1/2 keeps it "
            "at {level:.3g}.",
            needs={"d_k": (), "scaling": BOTH},
            numbers=_variance,
        ),
    ),
    Figure(
        name="assumptions",
        shows="Metrics under changed assumptions, over their value in the first row",
        metrics=_CHANGED,
        note=f"{READING}; arrow: a smaller ratio",
        when={
            "strokes: exact, where it is known": has_values(MEASURED, "max_weight_exact"),
            HOLLOW: lambda tables: any(has_few(metric)(tables) for metric in _CHANGED),
        },
        finding=Finding(
            sweep="assumptions",
            title="Some inputs sharpen or flatten attention after division by d_k^1/2",
            sentence="Changing one assumption of textbook rows of {n_keys.most:,} keys at d_k = "
            "{d_k.most:,} multiplies the mean largest weight by {least:.2f} to {most:.2f}, after "
            "division by d_k^1/2.",
            needs={**dict.fromkeys(_TEXTBOOK, ()), "scaling": (SCALED,)},
            numbers=_assumptions,
        ),
    ),
)
