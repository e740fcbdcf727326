"""Attention at initialisation along the width of the model: spread of the scaled scores, and largest weight.

A column for each of the first three scalings, a line for each scheme of weights. Schemes with weights of fixed variance
spread their scores more in wider models; the others, but for muP, do not under the rule that they are meant for.
"""

import itertools

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.analysis.crossings import SCALED
from experiments.figures.axes import by_scaling, first_axis, first_combination, fixed, other_axes, plain, under
from experiments.figures.caption_text import exactly, listed, measured
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.keeping import stays
from experiments.figures.metric_lines import legend, plot_exact, plot_measured, reading, scale_x, scale_y
from experiments.figures.style import INK, note, panels, token_colours
from experiments.figures.title_text import parts, quantified, shared
from experiments.harness.figures import Default

_COLUMNS = 3
# Two schemes may coincide, such as the second and the sixth, so dashes of one leave gaps for those of the other.
_DASHES = ("-", (0, (4, 4)), "-", (0, (4, 4)), "-", (4, (4, 4)))
_ROWS = ("score_variance", "max_weight")
_OWN_RULES = {"t5": "unscaled", "mup": "d_k^1"}  # of the schemes that are not meant for d_k^1/2
_TITLES = {"score_variance": "variance of scaled scores", "max_weight": "largest weight of a row"}


def _shown(tables: Tables) -> tuple[pd.DataFrame, str, str]:
    """The rows of the first combination of the other axes, its name in words, and the axis of the lines."""
    x, *others = _axes(tables["measured"])
    return *first_combination(tables["measured"], x, *others), x


def _axes(table: pd.DataFrame) -> list[str]:
    """The axis of the lines; the axes along which the rows of a column may differ too."""
    x = first_axis(table.drop(columns="scheme"))
    # Heads of one width: n_heads varies with d_model.
    widths = table[x].nunique()
    determined = [name for name in other_axes(table, x, "scheme") if len(table[[x, name]].drop_duplicates()) == widths]
    return [x, "scheme", *determined]


def plot(tables: Tables) -> Drawing:
    """Above, the variance of the scaled scores; below, the largest weight; one column per scaling."""
    table, _, x = _shown(tables)
    groups = list(by_scaling(table, x).items())[:_COLUMNS]
    figure, rows = panels(len(_ROWS), len(groups), (3.2 * len(groups) + 0.4, 6.4), sharey="row")
    for axes, metric in zip(rows, _ROWS, strict=True):
        for ax, (scaling, of_scaling) in zip(axes, groups, strict=True):
            _plot_schemes(ax, of_scaling, x, metric)
            ax.set_title(f"{_TITLES[metric]}, {under(scaling)}", fontsize=10)
            scale_x(ax, table, x, log=x == "d_model")
            scale_y(ax, table, metric)
    legend(rows[0][0], list(table["scheme"].unique()))
    note(figure, f"{fixed(table, x)} {reading(table, *_ROWS)} Dotted: a weight of 1/n_keys, that of equal scores.")
    return figure


def _plot_schemes(ax: Axes, table: pd.DataFrame, x: str, metric: str) -> None:
    """A line for each scheme, every second one dashed because some coincide; and equal weights below the largest."""
    looks = zip(table["scheme"].unique(), itertools.cycle(token_colours(6)), itertools.cycle(_DASHES), strict=False)
    for scheme, colour, dashes in looks:
        rows = table[table["scheme"] == scheme].sort_values(x)
        at = rows[x].to_numpy()
        if f"{metric}_exact" in rows:
            plot_exact(ax, at, rows[f"{metric}_exact"], colour)
        look = {"color": colour, "marker": "o", "label": scheme, "linestyle": dashes, "zorder": 2 + (dashes != "-")}
        plot_measured(ax, at, rows[metric].to_numpy(), rows, metric, **look)
    if metric == "max_weight":
        rows = table.drop_duplicates(x).sort_values(x)
        ax.plot(rows[x], 1 / rows["n_keys"], color=INK, linestyle=":", linewidth=1)
    ax.set_xlabel(x)


def caption(tables: Tables) -> str:
    """The variance of the scaled scores of each scheme at both ends of the axis, under the first rule that scales."""
    table, where, x = _shown(tables)
    groups = by_scaling(table, x)
    name = next((name for name in groups if name != "unscaled"), next(iter(groups)))
    ends = {rule: _ends(rows, x) for rule, rows in groups.items()}
    clauses = [f"{scheme} {values}" for scheme, values in ends[name].items()]
    low, high = (plain(value) for value in np.sort(table[x].unique())[[0, -1]])
    span = f"at {x} = {low}" if low == high else f"from {x} = {low} to {high}"
    clauses = [listed(clauses)] + [
        f"{scheme} is meant {under(rule)} and then has {ends[rule][scheme]}"
        for scheme, rule in _OWN_RULES.items()
        if rule != name and scheme in ends.get(rule, {})
    ]
    return f"Variance of the scaled scores {under(name)}{where}, {span}: {'; '.join(clauses)}."


def _ends(table: pd.DataFrame, x: str) -> dict[str, str]:
    """The variance of the scaled scores of each scheme at both ends of the axis, in words."""
    found = {}
    for scheme, rows in exactly(table, "score_variance").sort_values(x).groupby("scheme", sort=False):
        ends = [measured(rows.iloc[place], "score_variance") for place in (0, -1)]
        found[str(scheme)] = " to ".join(dict.fromkeys(ends))
    return found


def title(tables: Tables) -> str:
    """The schemes meant for d_k^1/2 that keep the variance of the scores under it, if they are most."""
    table = tables["measured"]
    x, *others = _axes(table)
    return shared(_steadiest(part) for part in parts(table, x, *others)) if x == "d_model" else ""


def _steadiest(table: pd.DataFrame) -> str:
    """The finding for one combination of the other axes."""
    rows = table[(table["scaling"] == SCALED) & ~table["scheme"].isin(_OWN_RULES)]
    schemes, kept = rows["scheme"].nunique(), sum(stays(each, "score_variance") for _, each in rows.groupby("scheme"))
    if schemes < 2 or 2 * kept <= schemes:
        return ""
    return f"{quantified(kept, schemes, 'schemes')} meant for {SCALED} keep score variance in wider models"


FIGURE = Figure(
    shows="Variance of scaled scores and largest weight by scheme of initial weights",
    of="initialisation",
    tables=("measured",),
    metrics=("score_variance", "max_weight"),
    default=Default(),
    plot=plot,
    caption=caption,
    title=title,
)
