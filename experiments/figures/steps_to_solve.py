"""The speed of each rule at its best learning rate, and the width of its band of learning rates, for tasks and d_k."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import fixed
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import INK, note, panels
from experiments.figures.training_rows import (
    HOW_CHOSEN,
    INTERVALS,
    CaseAxis,
    at_cases,
    colours,
    comparison,
    few_ticks,
    largest_cases,
    of_rates,
    plot_points,
    rows_at_best,
    rule_legend,
    setting,
    shown_bands,
    unshown,
)
from experiments.harness.figures import Default
from experiments.training_metrics import SOLVED_ACCURACY

_HEADROOM = 1.3  # above the last step, the place of the crosses


def plot(tables: Tables) -> Drawing:
    """Left: the steps at the best rate. Right: the decades of rates, unless the sweep has a single rate."""
    rows = rows_at_best(tables)
    bands = shown_bands(tables)
    figure, [[left, *right]] = panels(1, 1 if bands.empty else 2, (6.0 if bands.empty else 9.5, 3.9))
    _plot_steps(left, rows)
    for ax in right:
        _plot_widths(ax, bands, colours(rows))
    rule_legend(left, rows)
    note(
        figure,
        f"{fixed(rows, 'task', 'd_k')} {unshown(tables)}At {of_rates(tables)}: median of the steps to an accuracy of "
        f"{SOLVED_ACCURACY:.0%}; crosses: more than all steps (dotted). {HOW_CHOSEN} Bars: {INTERVALS}.",
    )
    return figure


def _plot_steps(ax: Axes, rows: pd.DataFrame) -> None:
    """The median steps of each rule; a cross at the last step for a larger median."""
    places, last = CaseAxis(rows), int(rows["steps"].max())
    rows = rows.assign(steps_to_solve_high=rows["steps_to_solve_high"].fillna(last))
    for rule, colour in colours(rows).items():
        for at, group in places.lines(rows, rule):
            plot_points(ax, at, group, "steps_to_solve", colour)
            never = group["steps_to_solve"].isna()
            ax.plot(at[never], group["steps"][never], color=colour, marker="x", markersize=6, linestyle="")
    ax.set_yscale("log")
    lowest = rows[["steps_to_solve", "steps_to_solve_low"]].min().min()
    ax.set_ylim(min(lowest, last / 2) / _HEADROOM if lowest > 0 else last / 10, last * _HEADROOM)
    few_ticks(ax.yaxis)
    ax.axhline(last, color=INK, linestyle=":", linewidth=0.8, zorder=0)
    places.label(ax, "steps to solve the task")


def _plot_widths(ax: Axes, bands: pd.DataFrame, rules: Mapping[str, Any]) -> None:
    """The decades of learning rates at which each rule solves the task."""
    places = CaseAxis(bands)
    for rule in bands["scaling"].unique():
        for at, group in places.lines(bands, rule):
            plot_points(ax, at, group, "band_decades", rules[rule])
    places.label(ax, "decades of learning rates that solve it")


def caption(tables: Tables) -> str:
    """The steps of the main rules at the largest d_k of each task."""
    rows = rows_at_best(tables)
    steps = at_cases(rows, largest_cases(rows), _steps)
    return (
        f"Median steps to an accuracy of {SOLVED_ACCURACY:.0%}, with {setting(rows)}, at {of_rates(tables)}: {steps}."
    )


def _steps(row: pd.Series) -> str:
    return f"more than {row['steps']}" if pd.isna(row["steps_to_solve"]) else f"{row['steps_to_solve']:g}"


def title(tables: Tables) -> str:
    """The one of the two main rules that needs more steps at the largest d_k, if one clearly does."""
    return comparison(tables, rows_at_best, _is_slower, "need more steps")


def _is_slower(one: pd.Series, other: pd.Series) -> bool:
    """True if the interval of a rule lies above that of another; a rule that never solves lies above its last step."""
    low = one["steps_to_solve_low"]
    if pd.isna(one["steps_to_solve"]) and pd.isna(low):
        low = one["steps"]
    return bool(low > other["steps_to_solve_high"])


FIGURE = Figure(
    shows="Steps to solve a task, and the band of learning rates",
    of="training",
    tables=("measured", "bands"),
    metrics=("steps_to_solve", "solved"),
    default=Default(varied=("learning_rate",)),
    plot=plot,
    caption=caption,
    title=title,
)
