"""Figures of whole networks at their start, with their findings."""

import math

from experiments.kinds.declarations import CASES, Figure, Finding, Lines, Panel, When
from experiments.kinds.support import (
    BOTH,
    MEDIAN_GRADIENT,
    Numbers,
    Table,
    Tables,
    has_values,
    rows_of,
    significant,
)

_DEEP = 48  # layers of the deep stack
_ERRORS = 3  # standard errors, beyond chance
_ALIKE = 0.9  # the least cosine of tokens that are alike
_COSINE = "cosine of two tokens"
_BARS = "bars: two standard errors"
_BY_LAYER = "by_layer"  # the kind of the table
_LAW: When = {
    "lines: law of many heads": has_values(_BY_LAYER, "cosine_law"),
    "lines without a law join points": (
        lambda tables: bool(tables[_BY_LAYER]["cosine_law"].isna().any())
    ),
}


def _growth(tables: Tables) -> Numbers:
    """None unless the gradient grows a hundred times as much without a divisor."""
    plain, root = (rows_of(tables, layers=_DEEP, scaling=rule).iloc[0] for rule in BOTH)
    growth = "stream_gradient_growth"
    if plain[f"{growth}_low"] < 100 * root[f"{growth}_high"]:
        return None
    return {"plain": significant(plain[growth], 2), "root": root[growth]}


def _propagation(tables: Tables) -> Numbers:
    """None unless tokens without a residual stream become alike in fewer layers after division."""
    rows = rows_of(tables, _BY_LAYER, residual=0)
    rows = rows[rows["layers"] == rows["layers"].max()]
    plain, root = (_layers_until_alike(rows[rows["scaling"] == rule]) for rule in BOTH)
    return {"alike": _ALIKE, "plain": plain, "root": root} if root < plain else None


def _layers_until_alike(rows: Table) -> float:
    """The layer after which tokens are alike; NaN if there is none, or if errors do not decide."""
    reach = _ERRORS * rows["cosine_se"]
    is_alike = rows["cosine"] - reach > _ALIKE
    is_other = rows["cosine"] + reach < _ALIKE
    return rows.loc[is_alike, "layer"].min() - 1 if (is_alike | is_other).all() else math.nan


SUMMARY_COLUMNS = "stream_gradient_growth", f"first_{MEDIAN_GRADIENT}", "cosine"
FIGURES = (
    Figure(
        name="growth",
        shows="Gradient to the stream, and cosine of tokens, layer by layer",
        metrics=("stream_gradient_growth", f"first_{MEDIAN_GRADIENT}"),
        lines=Lines(
            "layer",
            (
                Panel(
                    "stream_gradient",
                    "gradient to the stream, r.m.s., over that above the last layer",
                    root=True,
                    only=("layers", max),
                ),
                Panel("cosine", _COSINE, floor=-0.03, only=("layers", max)),
            ),
            (5, 4.4),
            facet_by=CASES,
            columns=2,
            table=_BY_LAYER,
        ),
        note=f"a random gradient runs from right to left; {_BARS}",
        when=_LAW,
        finding=Finding(
            sweep="network",
            title="Without division, gradients explode towards the first layer",
            sentence="Back through the deep stack, the root mean square gradient grows {plain:,.0f}-fold "
            "without division, and {root:,.1f}-fold after division by d_k^1/2.",
            needs={"d_k": 64, "n_keys": 64, "layers": (_DEEP,), "scaling": BOTH},
            numbers=_growth,
        ),
    ),
    Figure(
        name="propagation",
        shows="Cosine of two tokens, layer by layer",
        metrics=("cosine",),
        lines=Lines(
            "layer",
            (Panel("cosine", _COSINE, floor=-0.03),),
            (3.8, 3.8),
            facet_by=CASES,
            columns=3,
            table=_BY_LAYER,
        ),
        note=_BARS,
        when=_LAW,
        finding=Finding(
            sweep="collapse",
            title="Without a residual stream, d_k^1/2 makes tokens alike in fewer layers",
            sentence="Without a residual stream, tokens of cosine {token_cosine.most} reach {alike} in "
            "layer {root} after division by d_k^1/2, and in layer {plain} without division.",
            needs={
                "n_heads": 8,
                "token_cosine": 0.3,
                "layers": (),
                "residual": (0,),
                "scaling": BOTH,
            },
            numbers=_propagation,
            reads=(_BY_LAYER,),
        ),
    ),
)
