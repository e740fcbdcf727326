"""Loss after training against the learning rate: a panel for each task and d_k, a line for each rule.

A wide valley is a wide band of learning rates that solve the task; the rates at which a rule diverges end it.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from experiments.figures.axes import by_scaling, fixed, plain
from experiments.figures.caption_text import listed, measured
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import INK, note, panels
from experiments.figures.training_rows import (
    INTERVALS,
    LARGEST_LOSS,
    Case,
    at_cases,
    cases,
    colours,
    comparison,
    few_ticks,
    largest_cases,
    of_case,
    of_rates,
    rule_legend,
    setting,
    shown_bands,
    shown_rows,
    solving_rates,
    spread,
    unshown,
)
from experiments.harness.figures import Default
from sdpa.training import Task, loss_levels

_MOST_WIDTHS = 4  # of d_k, for each task
_MOST_COLUMNS = 3
_MOST_LABELS = 4  # of learning rates
_HALF = 0.5  # of the runs
_MARKS: dict[str, dict[str, Any]] = {
    "full": {"marker": "o", "markersize": 5},
    "hollow": {"marker": "o", "markersize": 5, "markerfacecolor": "white"},
    "cross": {"marker": "x", "markersize": 6, "markeredgewidth": 1.6},
}


def plot(tables: Tables) -> Drawing:
    """The median loss over runs, with its interval as a pale band; larger losses stand at the upper edge."""
    table = shown_rows(tables)
    shown = _shown_cases(table)
    columns = _columns(len(shown))
    rows = -(-len(shown) // columns)
    figure, grid = panels(rows, columns, (max(3.2 * columns + 1.4, 6.0), 2.7 * rows + 0.9), sharex=True)
    axes = [ax for row in grid for ax in row]
    for place, (ax, case) in enumerate(zip(axes, shown, strict=False)):
        _plot_case(ax, of_case(table, case), colours(table))
        _scale(ax, table[table["task"] == case.task])
        _mark_levels(ax, case.task)
        ax.set_title(f"{case.task}, d_k = {case.d_k}")
        if place + columns >= len(shown):
            ax.set_xlabel("learning rate")
            ax.tick_params(labelbottom=True)
    axes[0].set_xscale("log")
    rates = spread(sorted(table["learning_rate"].unique()), _MOST_LABELS)
    axes[0].set_xticks(rates, [plain(rate) for rate in rates])
    axes[0].xaxis.set_minor_locator(NullLocator())
    for ax in axes[len(shown) :]:
        ax.axis("off")
    for row in grid:
        row[0].set_ylabel("loss (nats)")
    rule_legend(axes[0], table)
    omitted = sorted({case.d_k for case in cases(table)} - {case.d_k for case in shown})
    without = f" Without panels: d_k = {listed([str(d_k) for d_k in omitted])}." if omitted else ""
    note(
        figure,
        f"{fixed(table, 'task', 'd_k', 'learning_rate')} {unshown(tables)}Median loss over runs; pale: {INTERVALS}. "
        "Full points: at least half of the runs solve the task; crosses: diverge. Losses above "
        f"{LARGEST_LOSS:.2g} stand at the top. Dotted: least loss of the best rows, of one-hot rows and of a guess."
        f"{without}",
    )
    return figure


def _shown_cases(table: pd.DataFrame) -> list[Case]:
    """The cases with panels: at most four d_k for each task."""
    by_task = [[case for case in cases(table) if case.task == task] for task in table["task"].unique()]
    return [case for of_task in by_task for case in spread(of_task, _MOST_WIDTHS)]


def _columns(count: int) -> int:
    """Number of columns, two or three from four panels on: the one that leaves fewer places empty.

    >>> [_columns(count) for count in (1, 2, 3, 4, 6, 8)]
    [1, 2, 3, 2, 3, 2]
    """
    return count if count <= _MOST_COLUMNS else min((3, 2), key=lambda columns: -count % columns)


def _plot_case(ax: Axes, table: pd.DataFrame, rules: Mapping[str, Any]) -> None:
    """A line for each rule; full points where it solves the task, crosses where it diverges."""
    for rule, rows in by_scaling(table, "learning_rate").items():
        colour = rules[rule]
        rates = rows["learning_rate"].to_numpy()
        loss, low, high = (
            rows[f"final_loss{end}"].clip(upper=LARGEST_LOSS).to_numpy() for end in ("", "_low", "_high")
        )
        ax.fill_between(rates, low, high, color=colour, alpha=0.13, linewidth=0)
        ax.plot(rates, loss, color=colour)
        solves, diverges = ((rows[share] >= _HALF).to_numpy() for share in ("solved", "diverged"))
        marks = {"full": solves, "hollow": ~solves & ~diverges, "cross": diverges & ~solves}
        for mark, where in marks.items():
            ax.plot(rates[where], loss[where], color=colour, linestyle="", **_MARKS[mark])


def _scale(ax: Axes, table: pd.DataFrame) -> None:
    """A logarithmic axis of losses, a decade or more, for the panels of a task with these rows."""
    losses = [*table["final_loss"], *(level for task in table["task"].unique() for level in loss_levels(task).values())]
    ax.set_ylim(min([LARGEST_LOSS / 10, *(loss for loss in losses if loss > 0)]) / 1.4, 1.3 * LARGEST_LOSS)
    ax.set_yscale("log")
    few_ticks(ax.yaxis)


def _mark_levels(ax: Axes, task: Task) -> None:
    """A dotted line at each level of the loss above 0, with its name to the right."""
    for name, level in loss_levels(task).items():
        if level > 0:
            ax.axhline(level, color=INK, linestyle=":", linewidth=0.8, zorder=0)
            ax.text(1.01, level, name, transform=ax.get_yaxis_transform(), va="center", fontsize=8)


def caption(tables: Tables) -> str:
    """The learning rates that solve each task at its largest d_k, under the main rules; losses if there is one rate."""
    table = shown_rows(tables)
    bands = shown_bands(tables)
    if bands.empty:
        told = at_cases(table, largest_cases(table), lambda row: measured(row, "final_loss"))
        return f"Median loss after training at {of_rates(tables)}, with {setting(table)}: {told}."
    told = at_cases(bands, largest_cases(bands), solving_rates)
    runs = f"at least half of {table['trials'].min()} runs"
    return f"Smallest and largest learning rate at which {runs} solve a task, with {setting(table)}: {told}."


def title(tables: Tables) -> str:
    """The one of the two main rules with the wider band of learning rates at the largest d_k, if one clearly has it."""
    return comparison(tables, shown_bands, _is_wider, "accept more learning rates")


def _is_wider(one: pd.Series, other: pd.Series) -> bool:
    """True if the interval of a band's width lies above that of another."""
    return bool(one["band_decades_low"] > other["band_decades_high"])


FIGURE = Figure(
    shows="Learning rates that train one attention layer, by scaling rule",
    of="training",
    tables=("measured", "bands"),
    metrics=("solved", "final_loss", "diverged"),
    default=Default(varied=("learning_rate",)),
    plot=plot,
    caption=caption,
    title=title,
)
