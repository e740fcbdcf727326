"""The metrics against the exponent p of the divisor d_k^p: why 1/2, and what 1/3 and 2/3 do."""

import math
from fractions import Fraction

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures import Tables
from experiments.figures.lines import BANDS, BARS, TITLES, half_width, scale_y
from experiments.figures.style import INK, note, ordered_colours, panels
from experiments.figures.words import first_combination, listed, measured

METRICS = ("score_variance", "max_weight", "entropy", "jacobian_norm", "query_gradient_norm_median", "saturated_rows")
MARKED = {0: "0", 1 / 3: "1/3", 1 / 2: "1/2", 2 / 3: "2/3", 1: "1"}


def draw(tables: Tables) -> Figure:
    """One panel per metric, one line per d_k."""
    table, _ = first_combination(tables["rows"], "d_k")
    figure, grid = panels(2, 3, (9, 5.4), sharex=True)
    for ax, metric in zip((ax for axes in grid for ax in axes), METRICS, strict=True):
        _draw_metric(ax, table, metric)
    for ax in grid[1]:
        ax.set_xlabel("exponent p of the divisor d_k^p")
    grid[0][0].legend(fontsize=9, handlelength=1.2)
    note(figure, f"{BARS} {BANDS}")
    return figure


def _draw_metric(ax: Axes, table: pd.DataFrame, metric: str) -> None:
    groups = [(d_k, rows.sort_values("exponent")) for d_k, rows in table.groupby("d_k")]
    for (d_k, rows), colour in zip(groups, ordered_colours(len(groups)), strict=True):
        p, errors = rows["exponent"], half_width(rows, metric)
        if f"{metric}_exact" in rows:
            ax.plot(p, rows[f"{metric}_exact"], color=colour, alpha=0.3, linewidth=5)
        ax.errorbar(p, rows[metric], errors, color=colour, marker="o", capsize=2, elinewidth=1, label=f"d_k = {d_k}")
    ax.set_title(TITLES[metric])
    for exponent in MARKED:
        ax.axvline(exponent, color=INK, linestyle=":", linewidth=0.8, zorder=0)
    ax.set_xticks([*MARKED], MARKED.values())
    scale_y(ax, table, metric)


def caption(tables: Tables) -> str:
    """At which power the largest weights of the smallest and the largest d_k are closest, and what they are."""
    table, where = first_combination(tables["rows"], "d_k")
    small, large = (table[table["d_k"] == d_k].set_index("exponent") for d_k in (min(table["d_k"]), max(table["d_k"])))
    exponents = sorted(small.index)
    ends = dict.fromkeys((exponents[0], exponents[-1]))
    if small["d_k"].iloc[0] == large["d_k"].iloc[0]:
        values = [f"{measured(small.loc[p], 'max_weight')} at p = {_name(p)}" for p in ends]
        n_keys = table["n_keys"].iloc[0]
        return f"At d_k = {table['d_k'].iloc[0]} the largest of {n_keys} weights{where} is {listed(values)}."
    apart = {p: abs(math.log(small.loc[p, "max_weight"] / large.loc[p, "max_weight"])) for p in exponents}
    best = min(exponents, key=apart.__getitem__)
    pairs = {p: f"{measured(small.loc[p], 'max_weight')} and {measured(large.loc[p], 'max_weight')}" for p in exponents}
    others = [f"{pairs[p]} at p = {_name(p)}" for p in ends if p != best]
    against = f", against {', and '.join(others)}" if others else ""
    return (
        f"The largest weights at d_k = {small['d_k'].iloc[0]} and {large['d_k'].iloc[0]}{where} are closest"
        f" for the divisor d_k^{_name(best)}: {pairs[best]}{against}."
    )


def _name(exponent: float) -> str:
    return str(Fraction(exponent).limit_denominator(1000))
