"""Gradient norms along d_k.

Unscaled and at large d_k, a few unsaturated rows carry the root mean square, while the median is the norm of the
typical row. So the figure shows both in one panel for each norm.
"""

import pandas as pd

from experiments.figures.axes import by_scaling, first_combination, fixed, of_keys, span, under
from experiments.figures.caption_text import course, exactness, turns
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.keeping import change, keeps
from experiments.figures.metric_lines import label_lines, plot_metric, reading, scale_x, scale_y, series
from experiments.figures.style import note, panels
from experiments.figures.title_text import fitting, has_own_name, opening
from experiments.harness.figures import Default

NORMS = {"jacobian_norm": "|J|_F", "query_gradient_norm": "|dL/dq|"}
MEAN, MEDIAN = "query_gradient_norm", "query_gradient_norm_median"


def plot(tables: Tables) -> Drawing:
    """One panel per norm, with its median as solid and its root mean square as dashed lines."""
    table = tables["measured"]
    figure, [axes] = panels(1, len(NORMS), (10, 4.4))
    lines = series(table, "d_k")
    for ax, (norm, name) in zip(axes, NORMS.items(), strict=True):
        metrics = (f"{norm}_median", norm)
        for metric, style in zip(metrics, ("-", "--"), strict=True):
            plot_metric(ax, lines, "d_k", metric, style)
        ax.set_title(f"{name}: median (solid), r.m.s. (dashed)")
        scale_x(ax, table, "d_k")
        scale_y(ax, table, *metrics)
        label_lines(ax, lines, "d_k", metrics[0])
    drawn = [*NORMS, *(f"{norm}_median" for norm in NORMS)]
    note(figure, f"{fixed(table, 'd_k')} {reading(table, *drawn)}")
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


def title(tables: Tables) -> str:
    """The first scaling under which median and r.m.s. of |dL/dq| part, or else those that keep the median."""
    table = tables["measured"]
    lines = series(table, "d_k")
    scalings = dict.fromkeys(line.scaling for line in lines)
    for scaling in (name for name in scalings if has_own_name(name, scalings)):
        found = {_parting(line.rows) for line in lines if line.scaling == scaling}
        parting = found.pop()
        if parting and not found:
            return fitting(
                f"{opening(scaling)}, {parting}", f"{opening(scaling)}, typical and r.m.s. |dL/dq| part as d_k grows"
            )
    return keeps(table, "d_k", MEDIAN, "the typical |dL/dq| {}level", "at every width")


def _parting(rows: pd.DataFrame) -> str:
    """The courses of median and r.m.s. of |dL/dq| in words; empty unless they differ and the median changes clearly."""
    median, mean = turns(rows, MEDIAN), turns(rows, MEAN)
    if change(rows, MEDIAN) != "large" or not mean or mean == median:
        return ""
    return f"the typical |dL/dq| {', then '.join(median)} with d_k; its r.m.s. {', then '.join(mean)}"


FIGURE = Figure(
    shows="Gradient norms against d_k: medians beside root mean squares",
    of="saturation",
    tables=("measured",),
    metrics=("jacobian_norm_median", "jacobian_norm", "query_gradient_norm_median", "query_gradient_norm"),
    default=Default(varied=("d_k",)),
    corrects=("notebook-18", "textbook-30"),
    plot=plot,
    caption=caption,
    title=title,
)
