"""The picture of an example: heat maps, lines or arrows, with one quantity in each panel."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.lines import plain_numbers, plot_exact, spans_widely
from experiments.figures.maps import ink_on
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
from experiments.publication.examples.steps import Step

_WIDE = 6  # columns with room for three decimals
_MAX_WITH_NUMBERS = 12  # rows and columns
_MAX_NAMES = 16
_TITLES = {
    "undivided_weights": "weights without the divisor",
    "sample": "variance of the scores",
    "deviation": "standard deviation of the scores",
    "largest": "largest weight",
}
_READS = {
    "map": "Maps: queries in rows, keys or values in columns; darker means more.",
    "arrows": "Arrows: queries solid, keys dashed.",
    "lines": "Points: drawn. Pale lines: exact.",
}

Tables = dict[str, pd.DataFrame]


class _Panel(NamedTuple):
    kind: str
    step: str
    quantity: str = ""

    @property
    def title(self) -> str:
        name = self.quantity or self.step
        return _TITLES.get(name, name.replace("_", " "))


def draw(title: str, source: str, steps: list[Step], draws: str) -> dict[str, bytes]:
    """The picture of the steps in `draws` (see `Example`) and its texts, by suffix."""
    tables = {each.name: each.table for each in steps}
    wanted = [each if ":" in each else f"map:{each}" for each in draws.split()]
    all_panels = [_Panel(*each.split(":")) for each in wanted]
    shown = [panel for panel in all_panels if panel.step in tables]

    def plot() -> Drawing:
        columns = 2 if len(shown) == 4 else len(shown)
        width = max(7.0, 4.4 * columns)
        height = 0.6 + 3.6 * (len(shown) // columns)
        figure, axes = panels(len(shown), columns, (width, height))
        for ax, panel in zip(axes, shown, strict=True):
            ax.set_title(panel.title)
            _KINDS[panel.kind](ax, panel, tables)
        return figure

    notes = [f"From {source}."]
    kinds = dict.fromkeys(panel.kind for panel in shown)
    notes += [_READS[kind] for kind in kinds if kind in _READS]
    if "low" in tables:
        notes.append("Pale areas: 90% of draws.")
    return render(plot, title, " ".join(notes))


def _heatmap(ax: Axes, panel: _Panel, tables: Tables) -> None:
    """A matrix with numbers in its cells; with a colour scale if it is larger than 12 x 12."""
    table = tables[panel.step]
    values = table.to_numpy()
    finite = values[np.isfinite(values)]
    low = finite.min()
    high = finite.max()
    if panel.step.endswith(("weights", "printed")):
        low = 0.0
        high = 1.0
    shades = table.clip(lower=low)  # a hidden key, -inf, gets the lightest colour
    image = ax.imshow(shades, cmap=SEQUENTIAL, vmin=low, vmax=high, aspect="auto")
    if max(table.shape) <= _MAX_WITH_NUMBERS:
        digits = 3 if table.shape[1] <= _WIDE else 2
        for (i, j), value in np.ndenumerate(values):
            colour = ink_on(image, shades.iloc[i, j])
            ax.annotate(_number(value, digits), (j, i), ha="center", va="center", color=colour)
    else:
        ax.figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02)
    sides = ((ax.set_xticks, table.columns), (ax.set_yticks, table.index))
    for set_ticks, names in sides:
        every = -(-len(names) // _MAX_NAMES)
        set_ticks(range(0, len(names), every), [latex(name) for name in names[::every]])
    if max(map(len, table.columns)) * len(table.columns) > _MAX_NAMES * 2:
        ax.tick_params(axis="x", rotation=90)
    ax.tick_params(length=0)


def _number(value: float, digits: int) -> str:
    """A number in a cell. Halves are rounded up, as on paper."""
    if value == -np.inf:
        return "−∞"
    return f"{value * (1 + 1e-9):z.{digits}f}".replace("-", "−")


def _lines(ax: Axes, panel: _Panel, tables: Tables) -> None:
    """The columns of a quantity over d_k, with exact values and quantiles, if any.

    A quantity that spans widely has a logarithmic axis, so that a power law is straight; others
    start at 0.
    """
    # A row for each d_k, if there is a column for each.
    over = {name: table.T if panel.step == "drawn" else table for name, table in tables.items()}
    table = over[panel.step]
    at = table.index.astype(float)
    of_rules = [column for column in table if column.split()[0] == panel.quantity]
    columns = [panel.quantity] if panel.quantity in table else of_rules
    exact = over.get("exact", table.get(["exact"]))
    for column in columns:
        rule = column.split()[-1]
        colour = RULE_COLOURS.get(rule, INK)
        plot_exact(ax, at, exact.get(column, exact.iloc[:, 0]), colour)
        if "low" in over:
            ends = over["low"][column], over["high"][column]
            ax.fill_between(at, *ends, color=colour, alpha=0.12, linewidth=0)
        ax.plot(at, table[column], "o-", color=colour, label=latex(rule))
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


def _arrows(ax: Axes, _: _Panel, tables: Tables) -> None:
    """Queries and keys of two dimensions as arrows from the origin."""
    for name, style in (("q", "-"), ("k", "--")):
        tips = tables[name].iterrows()
        for (token, tip), colour in zip(tips, UNORDERED_COLOURS, strict=False):
            arrow = {"arrowstyle": "->", "linestyle": style, "color": colour}
            ax.annotate("", tuple(tip), (0, 0), arrowprops=arrow | {"shrinkA": 0, "shrinkB": 0})
            place = {"xytext": (3, 3), "textcoords": "offset points"}
            ax.annotate(f"{name} {token}", tuple(tip), color=colour, **place)
    ax.set(xlim=(0, 1.2), ylim=(0, 1.2), xlabel="x", ylabel="y", aspect="equal")
    ax.set_title("queries and keys")


_KINDS = {"map": _heatmap, "lines": _lines, "arrows": _arrows}
