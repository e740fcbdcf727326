"""Every metric against the first axis, one line per scaling: what a sweep gets that asks for no figure."""

from matplotlib.figure import Figure

from experiments.figures import Tables
from experiments.figures.lines import READING, TITLES, legend, plot_metric, scale_x, scale_y, series
from experiments.figures.style import note, panels
from experiments.figures.words import by_scaling, course, first_axis, first_combination, fixed, listed, span, under

_COLUMNS = 3


def draw(tables: Tables) -> Figure:
    """One panel per metric."""
    table = tables["measured"]
    x = first_axis(table)
    figure, grid = panels(-(-len(TITLES) // _COLUMNS), _COLUMNS, (9, 11))
    lines = series(table, x)
    axes = [ax for row in grid for ax in row]
    for ax, metric in zip(axes, TITLES, strict=False):
        plot_metric(ax, lines, x, metric)
        scale_x(ax, table, x)
        scale_y(ax, table, metric)
    for ax in axes[len(TITLES) :]:
        ax.axis("off")
    legend(axes[0], [line.label for line in lines])
    note(figure, f"{fixed(table, x)} {READING}")
    return figure


def caption(tables: Tables) -> str:
    """What the largest weight does along the first axis."""
    x = first_axis(tables["measured"])
    table, where = first_combination(tables["measured"], x)
    clauses = [f"{course(rows, x, 'max_weight')} {under(name)}" for name, rows in by_scaling(table, x).items()]
    return f"{span(table, x)} the largest weight of a row{where} {listed(clauses)}."
