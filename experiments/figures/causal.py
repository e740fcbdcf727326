"""Attention with and without a causal mask, along the number of keys.

The queries are the last n_queries of n_keys positions. With as many queries as keys, rows have 1 to n_keys weights;
with far fewer, almost all of them, as when a model continues a long text.
"""

import pandas as pd

from experiments.figures.axes import first_combination, fixed, under
from experiments.figures.caption_text import exactly, exactness, measured, turns
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.keeping import change, stays
from experiments.figures.metric_lines import legend, plot_metric, reading, scale_x, scale_y, series
from experiments.figures.style import note, panels
from experiments.figures.title_text import parts, shared

_SHOWN = ("max_weight", "entropy", "query_gradient_norm_median")


def plot(tables: Tables) -> Drawing:
    """A panel for each metric; a line for each rule and mask."""
    table, _ = first_combination(tables["measured"], "n_keys", "mask")
    figure, [axes] = panels(1, len(_SHOWN), (10, 3.7))
    lines = series(table, "n_keys")
    for ax, metric in zip(axes, _SHOWN, strict=True):
        plot_metric(ax, lines, "n_keys", metric)
        scale_x(ax, table, "n_keys")
        scale_y(ax, table, metric)
    legend(axes[0], [line.label for line in lines])
    note(figure, f"{fixed(table, 'n_keys')} {reading(table, *_SHOWN)}")
    return figure


def caption(tables: Tables) -> str:
    """The largest weight with and without the mask, at both ends of n_keys, under the last rule."""
    table, where = first_combination(tables["measured"], "n_keys", "mask")
    rows = table[table["scaling"] == table["scaling"].iloc[-1]]
    known, remark = exactly(rows, "max_weight"), exactness(rows, "max_weight")
    lengths = dict.fromkeys((known["n_keys"].min(), known["n_keys"].max()))
    clauses = [_values(known[known["n_keys"] == n_keys]) for n_keys in lengths]
    rule = str(rows["scaling"].iloc[0])
    return f"The mean largest weight {under(rule)}{where} is {', and '.join(clauses)}{remark}."


def _values(rows: pd.DataFrame) -> str:
    """The largest weight of each mask at one n_keys, and the lengths of the masked rows."""
    n_keys, n_queries = rows[["n_keys", "n_queries"]].iloc[0]
    shown = f"{n_keys - n_queries + 1} to {n_keys}"
    named = {"none": f"for rows of {n_keys} keys", "causal": f"under a causal mask, for rows of {shown} keys"}
    return " and ".join(f"{measured(row, 'max_weight')} {named[row['mask']]}" for _, row in rows.iterrows())


def title(tables: Tables) -> str:
    """The effect of the mask on the largest weight in the shortest and in the longest rows, in every combination."""
    table = tables["measured"]
    if set(table["mask"]) != {"none", "causal"}:
        return "Attention along the number of keys"
    return shared(map(_effect, parts(table, "n_keys", "mask")))


def _effect(table: pd.DataFrame) -> str:
    """The finding for one combination of the other axes; empty without a clear one."""
    short, long = (
        _pairs(table[table["n_keys"] == n_keys]) for n_keys in (table["n_keys"].min(), table["n_keys"].max())
    )
    if _are_sharper(short) and all(stays(pair, "max_weight") for pair in long):
        return "A causal mask sharpens short rows and hardly changes long ones"
    return "A causal mask sharpens attention" if _are_sharper(short) and _are_sharper(long) else ""


def _pairs(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows without and with the mask, in this order, of each rule."""
    return [pair.sort_values("mask", ascending=False) for _, pair in rows.groupby("scaling")]


def _are_sharper(pairs: list[pd.DataFrame]) -> bool:
    """True if the largest weight rises in every pair, and in some by more than a tenth: saturated rows have no room."""
    rise = all(turns(pair, "max_weight") == ("rises",) for pair in pairs)
    return rise and any(change(pair, "max_weight") == "large" for pair in pairs)


FIGURE = Figure(
    shows="Attention with and without a causal mask",
    of="saturation",
    tables=("measured",),
    metrics=("max_weight", "entropy", "query_gradient_norm_median"),
    plot=plot,
    caption=caption,
    title=title,
)
