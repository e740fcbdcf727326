"""Every metric along the first axis.

The figure is the default of sweeps that vary neither d_k nor n_keys, for example of a sweep over inputs.
"""

import pandas as pd

from experiments.figures.axes import by_scaling, first_axis, first_combination, fixed, span, under
from experiments.figures.caption_text import course, exactness, listed
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.keeping import keeps
from experiments.figures.metric_lines import DECLARED, legend, plot_metric, reading, scale_x, scale_y, series
from experiments.figures.style import note, panels
from experiments.harness.figures import Default

_COLUMNS, _ROW_INCHES = 3, 2.75


def plot(tables: Tables) -> Drawing:
    """One panel per metric, except metrics that are 0 in every row."""
    table = tables["measured"]
    x = first_axis(table)
    metrics = [metric for metric in DECLARED if not is_zero(table, metric)]
    rows = -(-len(metrics) // _COLUMNS)
    figure, grid = panels(rows, _COLUMNS, (9, _ROW_INCHES * rows))
    lines = series(table, x)
    axes = [ax for row in grid for ax in row]
    for ax, metric in zip(axes, metrics, strict=False):
        plot_metric(ax, lines, x, metric)
        scale_x(ax, table, x)
        scale_y(ax, table, metric)
    for ax in axes[len(metrics) :]:
        ax.axis("off")
    legend(axes[0], [line.label for line in lines])
    note(figure, f"{fixed(table, x)} {reading(table, *metrics)}")
    return figure


def is_zero(table: pd.DataFrame, metric: str) -> bool:
    """True for a metric with exact value 0 in every row, such as the mean score, or with only zero values."""
    values = table.get(f"{metric}_exact", table[metric])
    return bool((values == 0).all() or (table[metric] == 0).all())


def caption(tables: Tables) -> str:
    """The course of the largest weight along the first axis."""
    x = first_axis(tables["measured"])
    table, where = first_combination(tables["measured"], x)
    clauses = [f"{course(rows, x, 'max_weight')} {under(name)}" for name, rows in by_scaling(table, x).items()]
    return f"{span(table, x)}, the mean largest weight{where} {listed(clauses)}{exactness(table, 'max_weight')}."


def title(tables: Tables) -> str:
    """The scalings under which the largest weight does not depend on the first axis."""
    table = tables["measured"]
    x = first_axis(table)
    return keeps(table, x, "max_weight", "attention {}equally sharp", f"whatever the {x}")


FIGURE = Figure(
    shows="Metrics that are not zero, along the first varied axis",
    of="saturation",
    tables=("measured",),
    metrics=("score_variance", "max_weight", "entropy", "jacobian_norm", "query_gradient_norm"),
    default=Default(single=("d_k", "n_keys")),
    plot=plot,
    caption=caption,
    title=title,
)
