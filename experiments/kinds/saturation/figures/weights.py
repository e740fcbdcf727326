"""Figures of the largest weight and the entropy of rows: how far attention saturates."""

import operator

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
    is_alone_level,
    is_level,
    least_factor_of_others,
    rises,
    rounded_down,
    rounded_up,
    rows_of,
)
from experiments.measuring.experiment import MEASURED
from sdpa.scaling import SCALED

_POWERS = (
    "score_variance",
    "max_weight",
    "entropy",
    "jacobian_norm",
    MEDIAN_GRADIENT,
    "query_gradient_norm",
)


def _causal(tables: Tables) -> Numbers:
    """None unless the mask sharpens the shortest rows, and the longest ones less."""
    rows = rows_of(tables, scaling=SCALED).sort_values("n_keys")
    none, masked = (rows[rows["mask"] == mask].set_index("n_keys") for mask in ("none", "causal"))
    least = masked["max_weight_low"] / none["max_weight_high"]
    most = masked["max_weight_high"] / none["max_weight_low"]
    if not 1 < most.iloc[-1] < least.iloc[0]:
        return None
    weights = (exact_or_measured(table, "max_weight") for table in (masked, none))
    more = operator.truediv(*weights) - 1
    shortest = masked.index - masked["n_queries"] + 1  # rows of the first query
    return {
        "short": more.iloc[0],
        "long": more.iloc[-1],
        "shortest": shortest.iloc[0],
        "longest": shortest.iloc[-1],
    }


def _length(tables: Tables) -> Numbers:
    holds = all(
        rises(rows, "n_keys", "max_weight", falls=True)
        for _, rows in tables[MEASURED].groupby("scaling")
    )
    if not holds:
        return None
    plain, root = (ends(rows_of(tables, scaling=rule), "n_keys", "max_weight") for rule in BOTH)
    return {"plain": plain["last"], "root": root["last"]}


def _saturation(tables: Tables) -> Numbers:
    plain, root = (rows_of(tables, scaling=rule) for rule in BOTH)
    is_alone = is_alone_level(tables[MEASURED], "max_weight")
    if not (is_alone and rises(plain, "d_k", "max_weight")):
        return None
    level = exact_or_measured(root, "max_weight").median()
    return {**ends(plain, "d_k", "max_weight"), "level": level}


def _powers(tables: Tables) -> Numbers:
    root = rows_of(tables, scaling=SCALED)
    is_alike = all(is_level(root, metric) for metric in _POWERS)
    if not (is_alike and is_alone_level(tables[MEASURED], "max_weight")):
        return None
    return {
        "within": rounded_up(factor(root, "max_weight") - 1, 3),
        "others": rounded_down(least_factor_of_others(tables) - 1, 2),
    }


FIGURES = (
    Figure(
        name="causal",
        shows="Attention under each mask",
        lines=Lines(
            "n_keys",
            (Panel("max_weight"), Panel("entropy"), Panel(MEDIAN_GRADIENT)),
            (10, 3.7),
        ),
        note=READING,
        finding=Finding(
            sweep="causal",
            title="A causal mask sharpens attention, less so in longer rows",
            sentence="After division by d_k^1/2, the mask raises the mean largest weight by "
            "{short:.0%} in rows of {shortest:,} to {n_keys.least:,} keys, and by {long:.0%} in "
            "rows of {longest:,} to {n_keys.most:,}.",
            needs={"n_keys": (), "mask": ("none", "causal"), "scaling": (SCALED,)},
            numbers=_causal,
        ),
    ),
    Figure(
        name="length",
        shows="Entropy and largest weight",
        metrics=("max_weight", "entropy"),
        lines=Lines(
            "n_keys",
            (Panel("entropy", equal="high"), Panel("max_weight", equal="low")),
            (9, 4),
        ),
        note=READING,
        finding=Finding(
            sweep="length",
            title="The largest weight shrinks as rows grow longer",
            sentence="From {n_keys.least:,} to {n_keys.most:,} keys at d_k = {d_k.most:,}, the mean "
            "largest weight falls to {plain:.2g} without division, and to {root:.2g} after "
            "division by d_k^1/2.",
            needs={"n_keys": (), "scaling": BOTH},
            numbers=_length,
        ),
    ),
    Figure(
        name="powers",
        shows="Metrics against the exponent p of the divisor d_k^p",
        metrics=("max_weight", "score_variance", "entropy", "jacobian_norm"),
        lines=Lines(
            "exponent",
            tuple(map(Panel, _POWERS)),
            (9, 5.4),
            by="d_k",
            columns=3,
        ),
        note=READING,
        finding=Finding(
            sweep="powers",
            title="Only the power 1/2 makes narrow and wide heads alike",
            sentence="From d_k = {d_k.least} to {d_k.most:,}, the mean largest of {n_keys.most:,} "
            "textbook weights varies by {within:.1%} after division by d_k^1/2, and by at least "
            "{others:.0%} with other rules.",
            needs={"d_k": (), "scaling": BOTH},
            numbers=_powers,
        ),
    ),
    Figure(
        name="saturation",
        shows="Largest weight, entropy and share of saturated rows",
        lines=Lines(
            "d_k",
            (
                Panel("max_weight", floor=0),
                Panel("entropy", floor=0, equal="high"),
                Panel("saturated_rows", floor=0),
            ),
            (11, 3.6),
        ),
        note=READING,
        finding=Finding(
            sweep="dimension",
            title="Only d_k^1/2 gives about the same largest weight at every width",
            sentence="From d_k = {d_k.least} to {d_k.most:,}, the mean largest of {n_keys.most:,} "
            "textbook weights rises from {first:.3g} to {last:.3g} without division; dividing by "
            "d_k^1/2 keeps it near {level:.2g}.",
            needs={"d_k": (), "scaling": BOTH},
            numbers=_saturation,
        ),
    ),
)
