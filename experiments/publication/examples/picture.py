"""The picture of an example: heat maps, lines or arrows, with one quantity in each panel."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import plain_numbers
from experiments.figures.lines import plot_exact
from experiments.figures.maps import ink_on
from experiments.figures.panels import spans_widely
from experiments.figures.rendering import render
from experiments.figures.style import (
    INK,
    RULE_COLOURS,
    SEQUENTIAL,
    UNORDERED_COLOURS,
    Drawing,
    panels,
)
from experiments.figures.words import latex
from experiments.publication.examples.steps import Example, Step

_WIDE = 6  # columns with room for three decimals
_MAX_LETTERS = 32  # of names side by side
_TITLES = {
    "q": "queries and keys",
    "undivided_weights": "weights without the divisor",
    "sample": "variance of the scores",
    "deviation": "standard deviation of the scores",
    "largest": "largest weight",
}

Tables = dict[str, pd.DataFrame]


def draw(example: Example, steps: list[Step]) -> dict[str, bytes]:
    """The picture of those steps that an example draws (see `Example`) and its texts, by suffix."""
    tables = {each.name: each.table for each in steps}
    wanted = [each.partition(":") for each in example.draws.split()]
    shown = [(name, quantity) for name, _, quantity in wanted if name in tables]

    def plot() -> Drawing:
        columns = 2 if len(shown) == 4 else len(shown)
        width = max(7.0, 4.4 * columns)
        height = 0.6 + 3.6 * (len(shown) // columns)
        figure, axes = panels(len(shown), columns, (width, height))
        for ax, (name, quantity) in zip(axes, shown, strict=True):
            title = quantity or name
            ax.set_title(_TITLES.get(title, title.replace("_", " ")))
            if quantity:
                _lines(ax, name, quantity, tables)
            elif name == "q":
                _arrows(ax, tables)
            else:
                _heatmap(ax, name, tables[name])
        return figure

    notes = [f"From {example.source}."]
    if example.draws.startswith("q "):
        notes.append("Arrows: queries solid, keys dashed.")
    if ":" in example.draws:
        notes.append("Points: drawn. Lines: exact.")
    else:
        notes.append("Maps: queries in rows, keys or values in columns; darker means more.")
    if "low" in tables:
        notes.append("Pale areas: 90% of draws.")
    return render(plot, example.title, " ".join(notes))


def _heatmap(ax: Axes, name: str, table: pd.DataFrame) -> None:
    """A matrix as colours, with numbers in its cells."""
    values = table.to_numpy()
    finite = values[np.isfinite(values)]
    is_weights = name.endswith(("weights", "printed"))
    low, high = (0.0, 1.0) if is_weights else (finite.min(), finite.max())
    shades = table.clip(lower=low)  # a hidden key, -inf, gets the lightest colour
    image = ax.imshow(shades, cmap=SEQUENTIAL, vmin=low, vmax=high, aspect="auto")
    digits = 3 if table.shape[1] <= _WIDE else 2
    for (i, j), value in np.ndenumerate(values):
        colour = ink_on(image, shades.iloc[i, j])
        ax.annotate(_number(value, digits), (j, i), ha="center", va="center", color=colour)
    ax.set_xticks(range(table.shape[1]), map(latex, table.columns))
    ax.set_yticks(range(len(table)), map(latex, table.index))
    if sum(map(len, table.columns)) > _MAX_LETTERS:
        ax.tick_params(axis="x", rotation=90)
    ax.tick_params(length=0)


def _number(value: float, digits: int) -> str:
    """A number in a cell. Halves are rounded up, as on paper."""
    rounded = f"{value * (1 + 1e-9):z.{digits}f}"
    return rounded.replace("-", "−").replace("inf", "∞")


def _lines(ax: Axes, step: str, quantity: str, tables: Tables) -> None:
    """The columns of a quantity over d_k, with exact values and quantiles, if any.

    A quantity that spans widely has a logarithmic axis, so that a power law is straight; others
    start at 0.
    """
    # A row for each d_k, if there is a column for each.
    over = {name: table.T if step == "drawn" else table for name, table in tables.items()}
    table = over[step]
    at = table.index.astype(float)
    of_rules = [column for column in table if column.split()[0] == quantity]
    columns = [quantity] if quantity in table else of_rules
    for column in columns:
        rule = column.split()[-1]
        colour = RULE_COLOURS.get(rule, INK)
        exact = over["exact"][column] if "exact" in over else table["exact"]
        plot_exact(ax, at, exact, colour)
        if "low" in over:
            ends = over["low"][column], over["high"][column]
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


def _arrows(ax: Axes, tables: Tables) -> None:
    """Queries and keys of two dimensions as arrows from the origin."""
    for name, style in (("q", "-"), ("k", "--")):
        tips = tables[name].iterrows()
        for (token, tip), colour in zip(tips, UNORDERED_COLOURS, strict=False):
            look = {"linestyle": style, "color": colour, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", tuple(tip), (0, 0), arrowprops={"arrowstyle": "->"} | look)
            label = f"{name} {token}"
            beside = (3, 3)
            ax.annotate(label, tip, beside, textcoords="offset points", color=colour)
    ax.set(xlim=(0, 1.2), ylim=(0, 1.2), xlabel="x", ylabel="y", aspect="equal")
