"""The picture of an example: heat maps, lines, grouped bars or arrows, with one quantity in each panel."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.examples.steps import Step
from experiments.figures.figure import Drawing
from experiments.figures.lines import plain_numbers, plot_exact, spans_widely
from experiments.figures.maps import ink_on
from experiments.figures.rendering import render
from experiments.figures.style import INK, SEQUENTIAL, UNORDERED_COLOURS, panels, scaling_colours
from experiments.figures.words import latex

_WIDE = 6  # columns with room for three decimals
_MAX_WITH_NUMBERS = 12  # rows and columns
_MAX_NAMES = 16
_TITLES = {
    "undivided_weights": "weights without the divisor",
    "sample": "variance of the scores",
    "deviation": "standard deviation of the scores",
    "largest": "largest weight",
    "entropy": "entropy (nats)",
    "Jacobian": "norm of the softmax Jacobian, |J|",
}


def draw(title: str, source: str, steps: list[Step], draws: str) -> dict[str, bytes]:
    """The picture of the steps in `draws` (see `Example`) and its texts, by suffix."""
    tables = {each.name: each.table for each in steps}
    # A panel: its kind, step and quantity; a heat map has only a step.
    wanted = [[*(("map:" * (":" not in each)) + each).split(":"), ""][:3] for each in draws.split()]
    shown = [each for each in wanted if each[1] in tables]

    def plot() -> Drawing:
        columns = 2 if len(shown) == 4 else len(shown)
        size = max(7.0, 4.4 * columns), 0.6 + 3.6 * (len(shown) // columns)
        figure, axes = panels(len(shown), columns, size)
        for ax, (kind, name, quantity) in zip(axes, shown, strict=True):
            ax.set_title(_TITLES.get(quantity or name, name.replace("_", " ")))
            if kind == "lines":
                _lines(ax, tables, name, quantity)
            elif kind == "arrows":
                _arrows(ax, tables)
            else:
                {"map": _heatmap, "rows": _rows, "bars": _bars}[kind](ax, name, tables[name])
        return figure

    reads = {
        "map": "Maps: queries in rows, keys or values in columns; darker means more.",
        "lines": "Points: drawn. Pale lines: exact." * bool({"exact"} & {*tables, *tables[shown[0][1]]}),
        "arrows": "Arrows: queries solid, keys dashed.",
    }
    notes = [reads.get(kind, "") for kind in dict.fromkeys(kind for kind, *_ in shown)]
    notes.append("Pale areas: 90% of draws." * ("low" in tables))
    return render(plot, title, " ".join(filter(None, [f"From {source}.", *notes])))


def _heatmap(ax: Axes, name: str, table: pd.DataFrame) -> None:
    """A matrix with numbers in its cells, or with a colour scale beside it if it has more than 12 rows or columns."""
    finite = table.to_numpy()[np.isfinite(table.to_numpy())]
    low, high = (0.0, 1.0) if name.endswith(("weights", "printed")) else (finite.min(), finite.max())
    shades = table.clip(lower=low)  # a hidden key, -inf, gets the lightest colour
    image = ax.imshow(shades, cmap=SEQUENTIAL, vmin=low, vmax=high, aspect="auto")
    if max(table.shape) <= _MAX_WITH_NUMBERS:
        digits = 3 if table.shape[1] <= _WIDE else 2
        for (i, j), value in np.ndenumerate(table.to_numpy()):
            # Halves are rounded up, as on paper.
            text = "−∞" if value == -np.inf else f"{value * (1 + 1e-9):z.{digits}f}".replace("-", "−")
            ax.annotate(text, (j, i), ha="center", va="center", color=ink_on(image, shades.iloc[i, j]))
    else:
        ax.figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02)
    for set_ticks, names in ((ax.set_xticks, table.columns), (ax.set_yticks, table.index)):
        every = -(-len(names) // _MAX_NAMES)
        set_ticks(range(0, len(names), every), [latex(name) for name in names[::every]])
    if max(map(len, table.columns)) * len(table.columns) > _MAX_NAMES * 2:
        ax.tick_params(axis="x", rotation=90)
    ax.tick_params(length=0)


def _lines(ax: Axes, tables: dict[str, pd.DataFrame], name: str, quantity: str) -> None:
    """The columns of a quantity over d_k or the divisor, with the exact values and quantiles that the example has.

    A quantity that spans widely has a logarithmic axis, so that a power law is straight; others start at 0.
    """
    over = {key: table.T if table.columns[0].isdecimal() else table for key, table in tables.items()}
    table, is_width = over[name], tables[name].columns[0].isdecimal() or tables[name].index[0].isdecimal()
    at = table.index.astype(float) if is_width else table["divisor"]
    columns = [quantity] if quantity in table else [each for each in table if each.startswith(quantity)]
    for column in columns:
        rule = column.split()[-1]
        colour = scaling_colours([]).get(rule, INK)
        if "exact" in (*over, *table):
            plot_exact(ax, at, over["exact"][column] if "exact" in over else table["exact"], colour)
        if "low" in over:
            ax.fill_between(at, over["low"][column], over["high"][column], color=colour, alpha=0.12, linewidth=0)
        ax.plot(at, table[column], "o-", color=colour, label=latex(rule))
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_xlabel(latex("d_k" if is_width else "divisor"))
    if spans_widely(table[columns].to_numpy()):
        ax.set_yscale("log")
        plain_numbers(ax.yaxis)
    else:
        ax.set_ylim(bottom=0)
    if len(columns) > 1:
        ax.legend()


def _rows(ax: Axes, _name: str, table: pd.DataFrame) -> None:
    """Each row of weights as a line over the keys."""
    for (name, row), colour in zip(table.iterrows(), UNORDERED_COLOURS, strict=False):
        ax.plot(row.index, row, "o-", color=colour, label=name)
    ax.set_ylim(0, 1)
    ax.legend(title="query")


def _bars(ax: Axes, name: str, table: pd.DataFrame) -> None:
    """A group of bars for each row, with a bar for each column."""
    for j, (column, colour) in enumerate(zip(table, UNORDERED_COLOURS, strict=False)):
        places = np.arange(len(table)) + (j - (table.shape[1] - 1) / 2) * 0.8 / table.shape[1]
        bars = ax.bar(places, table[column], 0.8 / table.shape[1], color=colour, label=column)
        ax.bar_label(bars, fmt="%.3f", fontsize=8)
    ax.set_xticks(range(len(table)), table.index)
    ax.legend(loc="upper left", title="value" if name == "output" else "key", ncols=table.shape[1])
    ax.margins(y=0.25)


def _arrows(ax: Axes, tables: dict[str, pd.DataFrame]) -> None:
    """Queries and keys of two dimensions as arrows from the origin."""
    for name, style in (("q", "-"), ("k", "--")):
        for (token, (x, y)), colour in zip(tables[name].iterrows(), UNORDERED_COLOURS, strict=False):
            look = {"arrowstyle": "->", "linestyle": style, "color": colour, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", (x, y), (0, 0), arrowprops=look)
            ax.annotate(f"{name} {token}", (x, y), (3, 3), textcoords="offset points", color=colour)
    ax.set(xlim=(0, 1.2), ylim=(0, 1.2), xlabel="x", ylabel="y", aspect="equal", title="queries and keys")
