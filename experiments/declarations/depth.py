"""Figures of attention layers in sequence."""

import numpy as np

from experiments.declarations.figure import Default, Figure, Finding
from experiments.declarations.tables import (
    BOTH,
    PLAIN,
    Numbers,
    Table,
    Tables,
    is_below,
    rows_of,
)
from experiments.measuring.experiment import MEASURED


def _first_layer(tables: Tables) -> Numbers:
    exact = rows_of(tables, "first_layer", ratio=1.0).sort_values("n_keys")["collision"]
    below = _nearest_below(tables)
    holds = (
        (below["collision_low"] > 0.05).all()
        and (below["cosine_high"] < 0.9).all()
        and exact.min() > 0.2
    )
    return {"first": exact.iloc[0], "last": exact.iloc[-1]} if holds else None


def _nearest_below(tables: Tables) -> Table:
    """The measured first layer with the widest scores below the freezing spread, for each n_keys in
    order.
    """
    rows = rows_of(tables, residual=0.0)
    variance = rows["d_k"] * (1 - rows["token_cosine"]) / (2 * np.log(rows["n_keys"]))
    rows = rows.assign(ratio=np.sqrt(variance) / rows["divisor"]).query("ratio < 1")
    return rows.sort_values(["n_keys", "ratio"]).groupby("n_keys").tail(1)


def _propagation(tables: Tables) -> Numbers:
    for _, rows in tables[MEASURED].groupby(["n_keys", "residual"]):
        plain, root = (rows[rows["scaling"] == rule] for rule in BOTH)
        if not is_below(plain, root, "cosine"):
            return None
    layers = tables["propagation"].query("layers > 1").set_index(["n_keys", "residual", "layer"])
    plain, root = (layers[layers["scaling"] == rule] for rule in BOTH)
    low, high = (plain["cosine"] + errors * plain["cosine_se"] for errors in (-3, 3))
    apart = high < root["cosine"] - 3 * root["cosine_se"]
    layer = plain.index.get_level_values("layer")
    if not (apart[layer <= 4].all() and (low[plain["layers"] == layer] > 0.9).all()):
        return None
    alone, stream = (64, 0.0), (64, 1.0)  # 64 tokens without and with a residual stream
    return {
        "root": root.loc[(*alone, 1), "cosine"],
        "plain": plain.loc[(*alone, 1), "cosine"],
        "late": plain.loc[(*alone, 4), "cosine"],
        "stream": plain.loc[(*stream, 4), "cosine"],
    }


FIGURES = (
    Figure(
        name="first_layer",
        shows="Squared weights and cosine of tokens after one layer, and their limit",
        of="depth",
        metrics=("collision", "cosine"),
        default=Default(),
        note="Points: measured, each a rule. Lines, for d_k to infinity: left exact, right to "
        "second order in the spread of the lengths of tokens. Dashed: the limit of Giorlandino and "
        "Goldt (arXiv 2505.24333) for n_keys to infinity, right as the mean product of two tokens "
        "over their mean square. β / β_c = σ / sqrt(2 ln n_keys), with σ the spread of the scaled "
        "scores within a row.",
        finding=Finding(
            sweep="depth",
            title="At the limit's critical spread, rows of real lengths are already concentrated",
            sentence="At β_c, the exact sum of squared weights is {first:.2f} with {n_keys.least} "
            "keys and {last:.2f} with {n_keys.most}, where the limit for many keys has 0.",
            needs={"n_keys": (), "token_cosine": (), "scaling": (PLAIN,)},
            numbers=_first_layer,
        ),
    ),
    Figure(
        name="propagation",
        shows="Cosine of two tokens, layer by layer",
        of="depth",
        metrics=("cosine",),
        default=Default(),
        note="Points: mean of measured cosines, ± two standard errors. Lines: iterated map of the "
        "exact C / S for wide layers in which all pairs of tokens have one cosine. Each layer has "
        "weights of its own. At most nine cases have panels.",
        finding=Finding(
            sweep="collapse",
            title="Without a residual stream, unscaled tokens still become alike, but later",
            sentence="With 64 tokens of cosine {token_cosine.most} and no residual stream, the "
            "mean cosine after one layer is {root:.2f} under d_k^1/2 and {plain:.2f} unscaled; "
            "after four layers, it is {late:.2f} unscaled, and {stream:.2f} with a residual "
            "stream.",
            needs={
                "n_keys": (64,),
                "token_cosine": (),
                "layers": (),
                "residual": (0, 1),
                "scaling": BOTH,
            },
            numbers=_propagation,
        ),
    ),
)
