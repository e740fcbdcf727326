"""Variance of the scores within a row over that of independent entries, before and after training, by task and d_k."""

import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import fixed
from experiments.figures.caption_text import measured
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import INK, note, panels
from experiments.figures.title_text import parts
from experiments.figures.training_rows import (
    FEWEST_RUNS,
    HOW_CHOSEN,
    INTERVALS,
    CaseAxis,
    at_cases,
    colours,
    few_ticks,
    largest_cases,
    of_rates,
    plot_points,
    rows_at_best,
    rule_legend,
    setting,
    smallest_cases,
    unshown,
)
from experiments.harness.figures import Default

_BEFORE, _AFTER = "variance_ratio_before", "variance_ratio_after"


def plot(tables: Tables) -> Drawing:
    """The ratio of each rule at its best learning rate: hollow before training, full after it."""
    rows = rows_at_best(tables)
    figure, [[ax]] = panels(1, 1, (8.5, 4.2))
    _plot_ratios(ax, rows)
    rule_legend(ax, rows)
    note(
        figure,
        f"{fixed(rows, 'task', 'd_k')} {unshown(tables)}At {of_rates(tables)}. {HOW_CHOSEN} Hollow: before training, "
        f"mean; full: after it, median. Bars: {INTERVALS}. Dotted: independent entries.",
    )
    return figure


def _plot_ratios(ax: Axes, rows: pd.DataFrame) -> None:
    """Both ratios of each rule."""
    places = CaseAxis(rows)
    ax.axhline(1, color=INK, linestyle=":", linewidth=0.8, zorder=0)
    for rule, colour in colours(rows).items():
        for at, group in places.lines(rows, rule):
            plot_points(ax, at, group, _BEFORE, colour, markerfacecolor="white")
            plot_points(ax, at, group, _AFTER, colour)
    ax.set_yscale("log")
    few_ticks(ax.yaxis)
    places.label(ax, "variance within rows over that of independent entries of $q$ and $k$")


def caption(tables: Tables) -> str:
    """The ratio of the main rules after training, at the smallest and the largest d_k of each task; all before it."""
    rows = rows_at_best(tables)
    after = at_cases(rows, [*smallest_cases(rows), *largest_cases(rows)], _after)
    ends = rows[_BEFORE].min(), rows[_BEFORE].max()
    before = " to ".join(dict.fromkeys(f"{ratio:.2f}" for ratio in ends))
    return (
        "Variance of the scores within rows over that of independent entries of q and k, after training with "
        f"{setting(rows)}, at {of_rates(tables)}: {after}. Before training: {before}."
    )


def _after(row: pd.Series) -> str:
    return measured(row, _AFTER)


def title(tables: Tables) -> str:
    """The growth of the ratio beyond 1 and beyond its value before training, if it is clear for every rule and case."""
    measured_rows = tables["measured"]
    each = [rows_at_best({**tables, "measured": part}) for part in parts(measured_rows, "task", "d_k", "learning_rate")]
    rows = pd.concat(each)
    grows = rows[f"{_AFTER}_low"] > rows[f"{_BEFORE}_high"].clip(lower=1)
    if rows["trials"].min() < FEWEST_RUNS or not grows.all():
        return ""
    return "Training spreads scores beyond those of independent entries"


FIGURE = Figure(
    shows="Variance within rows over that of independent entries, before and after training",
    of="training",
    tables=("measured", "bands"),
    metrics=("variance_ratio_after", "variance_ratio_before"),
    default=Default(),
    plot=plot,
    caption=caption,
    title=title,
)
