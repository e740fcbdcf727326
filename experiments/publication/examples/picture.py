"""The picture of an example: maps, bars, lines or arrows, with one quantity in each panel."""

from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import plain_numbers
from experiments.figures.lines import plot_exact
from experiments.figures.maps import ink_on
from experiments.figures.panels import spans_widely
from experiments.figures.rendering import render
from experiments.figures.style import (
    DIVERGING,
    INK,
    RULE_COLOURS,
    SEQUENTIAL,
    UNORDERED_COLOURS,
    Drawing,
    panels,
)
from experiments.figures.words import latex
from experiments.publication.examples.steps import Example, Step

_MAX_LETTERS = 32  # of names side by side
_TITLES = {
    "q": "queries and keys",
    "undivided_weights": "weights without the divisor",
    "printed": "printed by the Q&A",
    "sample": "variance of the scores",
    "deviation": "standard deviation of the scores",
    "largest": "largest weight",
}

Tables = dict[str, pd.DataFrame]


def draw(example: Example, steps: list[Step]) -> dict[str, bytes]:
    """The picture of those steps that an example draws (see `Example`) and its texts, by suffix."""
    tables = {each.name: each.table for each in steps}
    wanted = [each.partition(":") for each in example.draws.split()]
    shown = [(name, look or "map") for name, _, look in wanted if name in tables]
    drawings = [LOOKS.get(look, (partial(_sweep, look), _SWEPT)) for _, look in shown]

    def plot() -> Drawing:
        columns = min(len(shown), 2)
        size = 8.8, 0.6 + 3.6 * -(-len(shown) // columns)
        figure, axes = panels(len(shown), columns, size)
        for ax, (name, look), (drawing, _) in zip(axes, shown, drawings, strict=True):
            title = name if look in LOOKS else look
            ax.set_title(_TITLES.get(title, title.replace("_", " ")))
            drawing(ax, name, tables)
        return figure

    notes = dict.fromkeys(note for _, note in drawings)
    pale = " Pale areas: 90% of draws." if "low" in tables else ""
    return render(plot, example.title, f"From {example.source}. {' '.join(notes)}{pale}")


def _map(ax: Axes, name: str, tables: Tables) -> None:
    """A matrix as colours, with numbers in its cells: white is 0, weights reach to 1, and scores
    share their largest size with scaled scores.
    """
    table = tables[name]
    if name.endswith(("weights", "printed")):
        look = {"cmap": SEQUENTIAL, "vmin": 0, "vmax": 1}
    else:
        kind = name.split("_")[-1]
        alike = pd.concat([tables[other] for other in tables if other.endswith(kind)])
        largest = alike.where(np.isfinite(alike)).abs().max(axis=None) or 1.0
        look = {"cmap": DIVERGING, "vmin": -largest, "vmax": largest}
    shades = table.where(np.isfinite(table), 0.0)  # a hidden key, -inf, is white
    image = ax.imshow(shades, aspect="auto", **look)
    for (i, j), value in np.ndenumerate(table.to_numpy()):
        colour = ink_on(image, shades.iloc[i, j])
        ax.annotate(_number(value), (j, i), ha="center", va="center", color=colour)
    ax.set_xticks(range(table.shape[1]), map(latex, table.columns))
    ax.set_yticks(range(len(table)), map(latex, table.index))
    if sum(map(len, table.columns)) > _MAX_LETTERS:
        ax.tick_params(axis="x", rotation=90)
    ax.tick_params(length=0)


def _marked_map(ax: Axes, name: str, tables: Tables) -> None:
    """A map of weights with names for its hub and its most uniform row, and a marked diagonal."""
    hub, uniform = tables["columns"].idxmax(axis=1).iloc[0], tables["rows"].index[0]
    names = {"columns": {hub: f"{hub}: hub"}, "index": {uniform: f"{uniform}:\nmost\nuniform"}}
    _map(ax, name, tables | {name: tables[name].rename(**names)})
    diagonal = range(len(tables[name]))
    ax.plot(diagonal, diagonal, "o", color=INK, fillstyle="none", markersize=40)


def _number(value: float) -> str:
    """Three significant digits."""
    return f"{value:z.3g}".replace("-", "−").replace("inf", "∞")


def _bars(ax: Axes, name: str, tables: Tables) -> None:
    """A group of bars for each row, with their numbers."""
    tables[name].plot.bar(ax=ax, color=UNORDERED_COLOURS, width=0.85, rot=0, fontsize=9)
    for bars in ax.containers:
        ax.bar_label(bars, map(_number, bars.datavalues), rotation=90, padding=3, fontsize=8)
    ax.margins(y=0.25)  # room for the numbers
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=6, fontsize=8, columnspacing=1)


def _lines(ax: Axes, name: str, tables: Tables) -> None:
    """A line for each row, over the columns."""
    over = tables[name].T
    over.plot(ax=ax, style="o-", color=UNORDERED_COLOURS, ylim=(0, 1), xticks=range(len(over)))


def _sweep(quantity: str, ax: Axes, step: str, tables: Tables) -> None:
    """The columns of a quantity over d_k, with exact values and quantiles, if any.

    A quantity that spans widely has a logarithmic axis, so that a power law is straight; others
    start at 0.
    """
    table = tables[step]
    at = table.index.astype(float)
    of_rules = [column for column in table if column.split()[0] == quantity]
    columns = [quantity] if quantity in table else of_rules
    for column in columns:
        rule = column.split()[-1]
        colour = RULE_COLOURS.get(rule, INK)
        exact = tables["exact"][column] if "exact" in tables else table["exact"]
        plot_exact(ax, at, exact, colour)
        if "low" in tables:
            ends = tables["low"][column], tables["high"][column]
            ax.fill_between(at, *ends, color=colour, alpha=0.12, linewidth=0)
        ax.plot(at, table[column], "o", color=colour, label=latex(rule))
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_xlabel(latex("d_k"))
    if spans_widely(table[columns].to_numpy()):
        ax.set_yscale("log")
        plain_numbers(ax.yaxis)
    else:
        ax.set_ylim(bottom=0)
    if len(columns) > 1:
        ax.legend()


def _arrows(ax: Axes, _name: str, tables: Tables) -> None:
    """Queries and keys of two dimensions as arrows from the origin."""
    for name, style in (("q", "-"), ("k", "--")):
        tips = tables[name].iterrows()
        for (token, tip), colour in zip(tips, UNORDERED_COLOURS, strict=False):
            look = {"arrowstyle": "->", "linestyle": style, "color": colour, "shrinkB": 0}
            ax.annotate("", tuple(tip), (0, 0), arrowprops=look)
            ax.annotate(f"{name} {token}", tip, (3, 3), textcoords="offset points", color=colour)
    ax.set(xlim=(0, 1.2), ylim=(0, 1.2), xlabel="x", ylabel="y", aspect="equal")


_SWEPT = "Points: drawn. Lines: exact."
_KEYS = "White is 0; weights: darker means more; others: red above 0, blue below."
LOOKS = {
    "arrows": (_arrows, "Arrows: queries solid, keys dashed."),
    "bars": (_bars, "Bars: a group for each query, a colour for each key or entry of the output."),
    "lines": (_lines, "Lines: a query each, over the keys."),
    "map": (_map, f"Maps: queries in rows, keys in columns. {_KEYS}"),
    "marked": (_marked_map, "Circles: the weight of each word for itself."),
}
