"""Metrics along the exponent of the divisor.

Only rules d_k^p appear, at their exponent p; 0 is `unscaled`. Where the lines of two d_k meet, a metric does not depend
on d_k.
"""

import math

import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import first_combination, fixed, of_keys, under
from experiments.figures.caption_text import differ, exactly, exactness, listed, measured, turns
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.keeping import keeps
from experiments.figures.metric_lines import DECLARED, legend, plot_exact, plot_measured, reading, scale_y
from experiments.figures.style import INK, note, ordered_colours, panels
from experiments.figures.title_text import parts

_PANELS = ("score_variance", "max_weight", "entropy", "jacobian_norm", "query_gradient_norm_median", "saturated_rows")
MARKED = {0: "0", 1 / 3: "1/3", 1 / 2: "1/2", 2 / 3: "2/3", 1: "1"}

_MAX_IN_PANEL = 3
_NOTHING = "This sweep has no rule that is a power of d_k."


def plot(tables: Tables) -> Drawing:
    """One panel per metric, one line per d_k."""
    table, _ = _of_powers(tables)
    figure, grid = panels(2, 3, (9, 5.4), sharex=True)
    if table.empty:
        for ax in (ax for axes in grid for ax in axes):
            ax.set_axis_off()
        grid[0][0].text(0, 0.5, _NOTHING, transform=grid[0][0].transAxes)
        return figure
    for ax, metric in zip((ax for axes in grid for ax in axes), _PANELS, strict=True):
        _plot_metric(ax, table, metric)
    for ax in grid[1]:
        ax.set_xlabel("exponent p of the divisor d_k^p")
    d_ks = [f"d_k = {d_k}" for d_k in sorted(table["d_k"].unique())]
    if len(d_ks) > _MAX_IN_PANEL:
        legend(grid[0][0], d_ks)
    else:
        grid[0][0].legend(fontsize=9, handlelength=1.2)
    note(figure, f"{fixed(table, 'd_k')} {reading(table, *_PANELS)}")
    return figure


def _plot_metric(ax: Axes, table: pd.DataFrame, metric: str) -> None:
    """One panel: a line per d_k along the exponent, with marks at 1/3, 1/2 and 2/3."""
    groups = [(d_k, rows.sort_values("exponent")) for d_k, rows in table.groupby("d_k")]
    for (d_k, rows), colour in zip(groups, ordered_colours(len(groups)), strict=True):
        p = rows["exponent"]
        if f"{metric}_exact" in rows:
            plot_exact(ax, p, rows[f"{metric}_exact"], colour)
        plot_measured(ax, p, rows[metric], rows, metric, color=colour, marker="o", label=f"d_k = {d_k}")
    ax.set_title(DECLARED[metric].title)
    if table["exponent"].min() >= 0 and table["exponent"].max() <= 1:
        ax.set_xticks([*MARKED], MARKED.values())
    for exponent in (1 / 3, 1 / 2, 2 / 3):
        ax.axvline(exponent, color=INK, linestyle=":", linewidth=0.8, zorder=0)
    scale_y(ax, table, metric)


def caption(tables: Tables) -> str:
    """The power under which the largest weight changes least from the smallest to the largest d_k, with its values."""
    measured_table, where = _of_powers(tables)
    if measured_table.empty:
        return _NOTHING
    table, remark = exactly(measured_table, "max_weight"), exactness(measured_table, "max_weight")
    small, large = (table[table["d_k"] == d_k].set_index("exponent") for d_k in (min(table["d_k"]), max(table["d_k"])))
    exponents = sorted(small.index)
    ends = dict.fromkeys((exponents[0], exponents[-1]))
    if small["d_k"].iloc[0] == large["d_k"].iloc[0]:
        values = [f"{measured(small.loc[p], 'max_weight')} {under(small.loc[p, 'scaling'])}" for p in ends]
        weights = f"the mean largest of {table['n_keys'].iloc[0]} weights{where}"
        return f"At d_k = {table['d_k'].iloc[0]}, {weights} is {listed(values)}{remark}."
    pairs = {p: f"{measured(small.loc[p], 'max_weight')} and {measured(large.loc[p], 'max_weight')}" for p in exponents}
    opening = f"The mean largest of{of_keys(table)} weights"
    course = f"from d_k = {small['d_k'].iloc[0]} to {large['d_k'].iloc[0]}{where}"
    named = {p: f"{pairs[p]} {under(small.loc[p, 'scaling'])}" for p in exponents}
    if not any(differ(small.loc[p], large.loc[p], "max_weight") for p in exponents):
        return f"{opening} does not change beyond its errors {course}: {listed([named[p] for p in ends])}{remark}."
    apart = {p: abs(math.log(small.loc[p, "max_weight"] / large.loc[p, "max_weight"])) for p in exponents}
    best = min(exponents, key=apart.__getitem__)
    others = [named[p] for p in ends if p != best]
    against = f", against {listed(others)}" if others else ""
    return f"{opening} changes least {course} {under(small.loc[best, 'scaling'])}: {pairs[best]}{against}{remark}."


def _of_powers(tables: Tables) -> tuple[pd.DataFrame, str]:
    """The first combination of the other axes, under rules that are powers of d_k, and its name in words."""
    table, where = first_combination(tables["measured"], "d_k")
    return table[table["exponent"].notna()], where


def title(tables: Tables) -> str:
    """The powers under which the largest weight does not depend on d_k, or else its course along the exponents."""
    table = tables["measured"]
    table = table[table["exponent"].notna()]
    if table.empty:
        return "No rule of this sweep is a power of d_k"
    if finding := keeps(table, "d_k", "max_weight", "the largest weight {}equal", _at(table)):
        return finding
    widths = [rows.sort_values("exponent") for part in parts(table, "d_k") for _, rows in part.groupby("d_k")]
    if all(turns(rows, "max_weight") == ("falls",) for rows in widths):
        return "Larger exponents make attention less sharp"
    return ""


def _at(table: pd.DataFrame) -> str:
    """The widths of a table in words."""
    return "at both widths" if len(table["d_k"].unique()) == 2 else "at every width"


FIGURE = Figure(
    shows="Metrics against the exponent p of the divisor d_k^p",
    of="saturation",
    tables=("measured",),
    metrics=("max_weight", "score_variance", "entropy", "jacobian_norm"),
    plot=plot,
    caption=caption,
    title=title,
)
