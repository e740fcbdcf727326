"""Gradient norms along d_k.

Unscaled and at large d_k, a few unsaturated rows carry the root mean square, while the median is the norm of the
typical row. So the figure shows both for each norm.
"""

from experiments.figures.axes import by_scaling, first_combination, fixed, of_keys, span, under
from experiments.figures.caption_text import course, exactness, turns
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.metric_lines import label_lines, plot_metric, reading, scale_x, scale_y, series
from experiments.figures.style import note, panels
from experiments.harness.figures import Default

NORMS = ("jacobian_norm", "query_gradient_norm")


def plot(tables: Tables) -> Drawing:
    """One row per norm, with a common scale for its root mean square (left) and its median (right)."""
    table = tables["measured"]
    figure, grid = panels(2, 2, (9, 6.2), sharey="row")
    lines = series(table, "d_k")
    for axes, norm in zip(grid, NORMS, strict=True):
        metrics = (norm, f"{norm}_median")
        for ax, metric in zip(axes, metrics, strict=True):
            plot_metric(ax, lines, "d_k", metric)
            scale_x(ax, table, "d_k")
            scale_y(ax, table, *metrics)
        label_lines(axes[1], lines, "d_k", metrics[1])
    drawn = [*NORMS, *(f"{norm}_median" for norm in NORMS)]
    note(figure, f"{fixed(table, 'd_k')} {reading(table, *drawn)} Left and right panels share a scale.")
    return figure


def caption(tables: Tables) -> str:
    """The courses of median and r.m.s. of |dL/dq| under the first scaling, and under others where the two differ."""
    table, where = first_combination(tables["measured"], "d_k")
    clauses: list[str] = []
    for name, rows in by_scaling(table, "d_k").items():
        mean, median = course(rows, "d_k", "query_gradient_norm"), course(rows, "d_k", "query_gradient_norm_median")
        if not clauses or turns(rows, "query_gradient_norm") != turns(rows, "query_gradient_norm_median"):
            remark = exactness(rows, "query_gradient_norm")
            clauses.append(
                f"{under(name)}, the measured median of |dL/dq| {median}, while the root mean square {mean}{remark}"
            )
    keys = f" with{of_keys(table)} keys" if of_keys(table) and "n_keys" not in where else ""
    return f"{span(table, 'd_k')}{keys}{where}, {'; '.join(clauses)}."


FIGURE = Figure(
    title="Gradient norms against d_k: root mean square and median side by side",
    of="saturation",
    tables=("measured",),
    metrics=("jacobian_norm_median", "jacobian_norm", "query_gradient_norm_median", "query_gradient_norm"),
    default=Default(varied=("d_k",)),
    corrects=("notebook-18", "textbook-30"),
    plot=plot,
    caption=caption,
)
