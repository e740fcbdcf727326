"""The picture of an example: a heat map for each step that it draws, or lines over d_k."""

import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import plain_numbers
from experiments.figures.formulas import latex
from experiments.figures.panels import spans_widely
from experiments.figures.picture import Picture, Words
from experiments.figures.style import DIVERGING, RULE_COLOURS, SEQUENTIAL, Drawing, subplots
from experiments.studies.examples.steps import Example

_MAX_LETTERS = 32  # of names side by side
_TITLES = {
    "undivided_weights": "weights without the divisor",
    "printed": "printed by the Q&A",
    "sample": "variance of the scores",
    "deviation": "standard deviation of the scores",
    "largest": "largest weight",
}
_MAPS = "Maps: a number in each cell; white is 0."
_LINES = "Points: drawn. Lines: exact."


def picture_of(example: Example, path: Path) -> Picture:
    """The picture of an example."""
    note = _LINES if ":" in example.draws else _MAPS
    words = Words(example.title, f"From {example.source}. {note}")
    return Picture(path, words, partial(_draw, example))


def _draw(example: Example) -> Drawing:
    """Those steps that an example draws (see `Example`)."""
    tables = {step.name: step.table for step in example.steps()}
    wanted = [word.partition(":") for word in example.draws.split()]
    shown = [(name, quantity) for name, _, quantity in wanted if name in tables]
    columns = min(len(shown), 2)
    rows = math.ceil(len(shown) / columns)
    figure, axes = subplots(len(shown), columns, (8.8, 0.6 + 3.6 * rows))
    for ax, (name, quantity) in zip(axes, shown, strict=True):
        title = quantity or name
        plain = title.replace("_", " ")
        ax.set_title(_TITLES.get(title, plain))
        if quantity:
            _lines(ax, quantity, tables[name], tables.get("exact"))
        else:
            heat_map(ax, name, tables[name])
    return figure


def heat_map(ax: Axes, name: str, table: pd.DataFrame) -> None:
    """A matrix as colours, with numbers in its cells; weights reach to 1, and a hidden key, whose
    score is -inf, is white.
    """
    import seaborn as sns  # takes a second to load

    shades = table.where(np.isfinite(table), 0.0)
    if name.endswith(("weights", "printed")):
        look = {"cmap": SEQUENTIAL, "vmin": 0, "vmax": 1}
    else:
        largest = shades.abs().max(axis=None) or 1.0
        look = {"cmap": DIVERGING, "vmin": -largest, "vmax": largest}
    sns.heatmap(shades, annot=table.map(_number), fmt="", cbar=False, ax=ax, **look)
    ax.tick_params(length=0, rotation=0)
    if sum(map(len, table.columns)) > _MAX_LETTERS:
        ax.tick_params(axis="x", rotation=90)


def _number(value: float) -> str:
    """Three significant digits."""
    return f"{value:z.3g}".replace("-", "−").replace("inf", "∞")


def _lines(ax: Axes, quantity: str, table: pd.DataFrame, exact: pd.DataFrame | None) -> None:
    """The columns of a quantity over d_k, beside exact values: of another table, or of a column."""
    at = table.index.astype(float)
    columns = [name for name in table if re.fullmatch(rf"{quantity}( \S+)?", name)]
    for column in columns:
        rule = column.split()[-1]
        colour = RULE_COLOURS.get(rule, RULE_COLOURS["unscaled"])
        line = table["exact"] if exact is None else exact[column]
        ax.plot(at, line, color=colour)
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
