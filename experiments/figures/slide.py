"""A slide: the largest weight against d_k, without and with sqrt(d_k), to be read from the back row.

A single panel with large letters, names beside the lines and no notes.
"""

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import by_scaling, first_combination, of_keys, span, under
from experiments.figures.caption_text import course, exactness, listed, turns
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.keeping import change, stays
from experiments.figures.metric_lines import Series, plot_metric, scale_x, series
from experiments.figures.style import panels
from experiments.figures.title_text import parts, shared
from experiments.harness.figures import Default

_METRIC = "max_weight"
_ROOT = "d_k^1/2"
_NAMES = {"unscaled": "without sqrt(d_k)", _ROOT: "with sqrt(d_k)"}
_LARGE = {
    "font.size": 17,
    "axes.titlesize": 17,
    "axes.labelsize": 17,
    "axes.linewidth": 1.2,
    "lines.linewidth": 2.5,
    "lines.markersize": 9,
}
_INCHES = 10, 5.07  # with the title above it, 16:9
_CLOSE = 0.12  # lines that end closer than this have names above and below


def plot(tables: Tables) -> Drawing:
    """The mean largest weight of the first combination of the other axes; all rules if the sweep has neither."""
    table, _ = _shown(tables)
    with mpl.rc_context(_LARGE):
        figure, [[ax]] = panels(1, 1, _INCHES)
        lines = series(table.drop(columns=f"{_METRIC}_exact", errors="ignore"), "d_k")  # a slide has no notes on bands
        plot_metric(ax, lines, "d_k", _METRIC)
        scale_x(ax, table, "d_k")
        ax.set_ylim(0, 1)
        ax.set_title(f"mean largest of{of_keys(table)} weights", pad=14)
        ax.set_xlabel("width of queries and keys, d_k")
        _name(ax, lines)
        figure.get_layout_engine().set(w_pad=0.2)  # projectors crop
    return figure


def _shown(tables: Tables) -> tuple[pd.DataFrame, str]:
    """The rows of the slide, and the name of their combination of other axes in words."""
    table, where = first_combination(tables["measured"], "d_k")
    chosen = table[table["scaling"].isin(_NAMES)]
    return (chosen if len(chosen) else table), where


def _name(ax: Axes, lines: list[Series]) -> None:
    """The name of each line behind its end, above the upper and below the lower one where two ends are close."""
    ends = [float(line.rows[_METRIC].iloc[-1]) for line in lines]
    are_close = max(ends) - min(ends) < _CLOSE
    for line, end in zip(lines, ends, strict=True):
        align = "center" if not are_close else "bottom" if end == max(ends) else "top"
        place = (line.rows["d_k"].iloc[-1], end)
        look = {"xytext": (14, 0), "textcoords": "offset points", "va": align, "color": line.colour}
        ax.annotate(_NAMES.get(line.scaling, under(line.scaling)), place, **look)


def caption(tables: Tables) -> str:
    """The course of the largest weight of each line."""
    table, where = _shown(tables)
    clauses = [f"{course(rows, 'd_k', _METRIC)} {under(name)}" for name, rows in by_scaling(table, "d_k").items()]
    what = f"the mean largest of{of_keys(table)} weights{where}"
    return f"{span(table, 'd_k')}, {what} {listed(clauses)}{exactness(table, _METRIC)}."


def title(tables: Tables) -> str:
    """The growth of the largest weight with d_k, without sqrt(d_k) alone or also with it."""
    return shared(_finding(part) for part in parts(tables["measured"], "d_k"))


def _finding(table: pd.DataFrame) -> str:
    """The finding for one combination of the other axes; empty unless the unscaled weight rises by a tenth or more."""
    rules = by_scaling(table, "d_k")
    if not (set(_NAMES) <= set(rules) and _rises(rules["unscaled"])):
        return ""
    if stays(rules[_ROOT], _METRIC) or turns(rules[_ROOT], _METRIC) == ("falls",):
        return "Without sqrt(d_k), wider queries and keys sharpen attention"
    return "Wider queries and keys sharpen attention even with sqrt(d_k)" if _rises(rules[_ROOT]) else ""


def _rises(rows: pd.DataFrame) -> bool:
    """True if the largest weight rises along d_k, and by more than a tenth."""
    return turns(rows, _METRIC) == ("rises",) and change(rows, _METRIC) == "large"


FIGURE = Figure(
    shows="Largest attention weight against d_k, with and without sqrt(d_k)",
    of="saturation",
    tables=("measured",),
    metrics=("max_weight",),
    default=Default(varied=("d_k",), rules=("unscaled", "d_k^1/2")),
    is_slide=True,
    plot=plot,
    caption=caption,
    title=title,
)
