"""Figures of the largest weight and the entropy of rows: how far attention saturates."""

from experiments.kinds.declarations import (
    GRADIENT,
    READING,
    Figure,
    Finding,
    Lines,
    Panel,
)
from experiments.kinds.support import (
    BOTH,
    MEDIAN_GRADIENT,
    POWER_RULES,
    Numbers,
    Tables,
    alone_is_level,
    changes,
    ends,
    is_below,
    is_level,
    rises,
    rows_of,
)
from experiments.measuring.experiment import MEASURED
from sdpa.scaling import SCALED, UNSCALED

_POWERS = (
    "score_variance",
    "max_weight",
    "entropy",
    "jacobian_norm",
    MEDIAN_GRADIENT,
    "query_gradient_norm",
)


def _causal(tables: Tables) -> Numbers:
    lengths = tables[MEASURED]["n_keys"].agg(["min", "max"])
    short, long = ([rows_of(tables, n_keys=n, scaling=rule) for rule in BOTH] for n in lengths)
    exact = rows_of(tables, scaling=SCALED).pivot_table(
        index="n_keys", columns="mask", values="max_weight_exact"
    )
    holds = (
        all(
            is_below(rows.query("mask == 'none'"), rows.query("mask != 'none'"), "max_weight")
            for rows in short
        )
        and changes(short[1], "max_weight")
        and all(is_level(rows, "max_weight") for rows in long)
        and (exact["causal"] > exact["none"]).all()
    )
    if not holds:
        return None
    longest = long[1].iloc[0]
    return {
        **exact.iloc[0],
        "more": exact["causal"].iloc[-1] / exact["none"].iloc[-1] - 1,
        "visible": longest["n_keys"] - longest["n_queries"] + 1,
    }


def _length(tables: Tables) -> Numbers:
    holds = all(
        rises(rows, "n_keys", "entropy") and rises(rows, "n_keys", "max_weight", falls=True)
        for _, rows in tables[MEASURED].groupby("scaling")
    )
    if not holds:
        return None
    plain, root = (
        ends(rows_of(tables, scaling=rule), "n_keys", "max_weight_exact") for rule in BOTH
    )
    return {**plain, "scaled": root["last"]}


def _level_under_the_root_alone(tables: Tables) -> Numbers:
    if not alone_is_level(tables[MEASURED], "max_weight"):
        return None
    return ends(rows_of(tables, scaling=UNSCALED), "d_k", "max_weight_exact")


def _alike_under_the_root_alone(tables: Tables) -> Numbers:
    of_root = rows_of(tables, scaling=SCALED)
    alike = all(is_level(of_root, metric) for metric in _POWERS)
    return _level_under_the_root_alone(tables) if alike else None


FIGURES = (
    Figure(
        name="causal",
        shows="Attention under each mask",
        lines=Lines(
            "n_keys",
            (Panel("max_weight"), Panel("entropy"), Panel(MEDIAN_GRADIENT)),
            (10, 3.7),
        ),
        note=f"{READING}; {GRADIENT}",
        finding=Finding(
            sweep="causal",
            title="Under d_k^1/2, a causal mask sharpens short rows and hardly long ones",
            sentence="Under d_k^1/2, the mask raises the exact mean largest weight from "
            "{none:.2f} to {causal:.2f} in rows of up to {n_keys.least} keys, and by {more:.0%} "
            "in rows of {visible} to {n_keys.most}.",
            needs={"n_keys": (), "mask": ("none", "causal"), "scaling": BOTH},
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
            title="Longer rows spread attention over more keys under every rule here",
            sentence="From {n_keys.least} to {n_keys.most} keys at d_k = {d_k.most}, the mean "
            "largest weight falls from {first:.2f} to {last:.2f} unscaled, and to {scaled:.3f} "
            "under d_k^1/2.",
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
        note=f"{READING}; {GRADIENT}",
        finding=Finding(
            sweep="powers",
            title="Only d_k^1/2 makes these widths nearly alike in every panel",
            sentence="The mean largest of {n_keys.most} weights is {first:.2f} at d_k = "
            "{d_k.least} and {last:.2f} at {d_k.most} unscaled; of these powers, only under "
            "d_k^1/2 it agrees within 10%.",
            needs={"d_k": (), "scaling": POWER_RULES},
            numbers=_alike_under_the_root_alone,
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
            title="In short rows, of these only d_k^1/2 keeps the largest weight level",
            sentence="For independent standard normal q and k from d_k = {d_k.least} to {d_k.most}, the "
            "mean largest of {n_keys.most} weights rises from {first:.3f} to {last:.3f} unscaled "
            "(exact), and stays within a tenth under d_k^1/2.",
            needs={"d_k": (), "scaling": BOTH},
            numbers=_level_under_the_root_alone,
        ),
    ),
)
