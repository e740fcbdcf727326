"""Pictures of training: tasks and widths side by side, each rule at its best learning rate from the table `bands`.

Each function draws the figure of its name, declared in `experiments.figures.declared`. A case is a task with a d_k; its
other axes are those of the first row of the sweep.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import NullLocator

from experiments.analysis.bands import BEST_RATE, at_best_rates
from experiments.figures.figure import Drawing, Tables
from experiments.figures.lines import legend, plain_numbers
from experiments.figures.style import INK, panels, scaling_colours
from experiments.figures.words import by_scaling, first_combination, plain
from experiments.harness.discovery import axes_of
from sdpa.training import N_CLASSES, loss_levels

LARGEST_LOSS = 3 * math.log(N_CLASSES)  # on an axis: three times that of a guess
_CASE = ["task", "d_k"]
_MOST_WIDTHS = 4
_MARKS: dict[str, dict[str, Any]] = {
    "full": {"marker": "o", "markersize": 5},
    "hollow": {"marker": "o", "markersize": 5, "markerfacecolor": "white"},
    "cross": {"marker": "x", "markersize": 6, "markeredgewidth": 1.6},
}
_CURVES = {
    "loss": "loss (nats)",
    "max_weight": "largest weight of a row (dashed: weight asked for)",
    "score_gradient": r"gradient to the scores, $|\partial L/\partial s|$",
    "largest_score": "largest |scaled score|",
}
_LOGARITHMIC = ("score_gradient", "largest_score")
_GRADIENTS = 10_000  # the largest gradient over the smallest one on the axis


def shown_rows(tables: Tables) -> pd.DataFrame:
    """The measured rows of the first combination of all axes but task, d_k and learning rate, by task and d_k."""
    table = first_combination(tables["measured"], *_CASE, "learning_rate")
    tasks = list(table["task"].unique())
    return table.sort_values(_CASE, key=lambda of: of.map(tasks.index) if of.name == "task" else of, kind="stable")


def at_best(tables: Tables) -> pd.DataFrame:
    """The measured rows at the best learning rate of each rule, with its band if the sweep has several rates."""
    bands = tables.get("bands", pd.DataFrame())
    rows = at_best_rates(tables["measured"], bands)
    same = [*axes_of(bands), "scaling"]
    widths = [f"band_decades{end}" for end in ("", "_low", "_high")]
    return rows if bands.empty else rows.merge(bands[[*same, *widths]], how="left", on=same)


def colours(rows: pd.DataFrame) -> dict[str, Any]:
    """The colour of each rule of the table, in its order."""
    every = scaling_colours(dict(zip(rows["scaling"], rows["exponent"], strict=True)))
    return {name: every[name] for name in rows["scaling"].unique()}


def learning_rates(tables: Tables) -> Drawing:
    """The median loss over runs against the learning rate: a panel for each task and d_k, a line for each rule."""
    table = shown_rows(tables)
    widths = {task: spread(rows["d_k"].unique(), _MOST_WIDTHS) for task, rows in table.groupby("task", sort=False)}
    cases = [(task, d_k) for task in widths for d_k in widths[task]]
    columns = len(cases) if len(cases) <= 3 else min((3, 2), key=lambda count: -len(cases) % count)
    n_rows = -(-len(cases) // columns)
    figure, axes = panels(len(cases), columns, (max(3.2 * columns + 1.4, 6.0), 2.7 * n_rows + 0.9), sharex=True)
    for place, (ax, (task, d_k)) in enumerate(zip(axes, cases, strict=True)):
        of_task = table[table["task"] == task]
        _plot_losses(ax, of_task[of_task["d_k"] == d_k], colours(table))
        levels = {name: level for name, level in loss_levels(task).items() if level > 0}
        lowest = min(loss for loss in (LARGEST_LOSS / 10, *of_task["final_loss"], *levels.values()) if loss > 0)
        ax.set_ylim(lowest / 1.4, 1.3 * LARGEST_LOSS)
        ax.set_yscale("log")
        few_ticks(ax.yaxis)
        for name, level in levels.items():
            ax.axhline(level, color=INK, linestyle=":", linewidth=0.8, zorder=0)
            ax.text(1.01, level, name, transform=ax.get_yaxis_transform(), va="center", fontsize=8)
        ax.set_title(f"{task}, d_k = {d_k}")
        if place + columns >= len(cases):
            ax.set_xlabel("learning rate")
            ax.tick_params(labelbottom=True)
    axes[0].set_xscale("log")
    rates = spread(sorted(table["learning_rate"].unique()), 4)
    axes[0].set_xticks(rates, [plain(float(rate)) for rate in rates])
    axes[0].xaxis.set_minor_locator(NullLocator())
    for ax in axes[::columns]:
        ax.set_ylabel("loss (nats)")
    rule_legend(axes[0], table)
    return figure


def _plot_losses(ax: Axes, table: pd.DataFrame, rules: dict[str, Any]) -> None:
    """A line for each rule; full points where it solves the task, crosses where it diverges."""
    for rule, rows in by_scaling(table, "learning_rate").items():
        rates = rows["learning_rate"].to_numpy()
        names = [f"final_loss{end}" for end in ("", "_low", "_high")]
        loss, low, high = rows[names].clip(upper=LARGEST_LOSS).to_numpy().T
        ax.fill_between(rates, low, high, color=rules[rule], alpha=0.13, linewidth=0)
        ax.plot(rates, loss, color=rules[rule])
        solves, diverges = ((rows[share] >= 0.5).to_numpy() for share in ("solved", "diverged"))
        marks = {"full": solves, "hollow": ~solves & ~diverges, "cross": diverges & ~solves}
        for mark, where in marks.items():
            ax.plot(rates[where], loss[where], color=rules[rule], linestyle="", **_MARKS[mark])


def learning_curves(tables: Tables) -> Drawing:
    """The first task at its largest d_k, step by step, at the best rate of d_k^1/2 (of the last rule without it)."""
    rows = first_combination(at_best(tables), *_CASE)
    rows = rows[rows["task"] == rows["task"].iloc[0]]
    rows = rows[rows["d_k"] == rows["d_k"].max()]
    rule = "d_k^1/2" if "d_k^1/2" in set(rows["scaling"]) else rows["scaling"].iloc[-1]
    curves, axes_of_curves = tables["learning_curves"], axes_of(tables["learning_curves"])
    chosen = rows[rows["scaling"] == rule].rename(columns={BEST_RATE: "learning_rate"})
    curves = curves.merge(chosen[axes_of_curves], on=axes_of_curves).sort_values("step", kind="stable")
    figure, axes = panels(4, 2, (9.5, 5.8), sharex=True)
    for ax, (name, title) in zip(axes, _CURVES.items(), strict=True):
        for scaling, colour in colours(rows).items():
            _plot_curve(ax, curves[curves["scaling"] == scaling], name, colour)
        _scale(ax, curves[name], name)
        ax.set_title(title)
    first, last = axes[0], int(curves["step"].max())
    first.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))  # as runs record
    first.set_xlim(0, last)
    first.set_xticks(sorted({round(last * (i / 4) ** 2) for i in range(5)}))
    for ax in axes[2:]:
        ax.set_xlabel("step (square-root axis)")
    rule_legend(first, rows)
    return figure


def _plot_curve(ax: Axes, rows: pd.DataFrame, name: str, colour: Any) -> None:
    """A quantity along the steps, with the weight of the tokens asked for beside the largest weight."""
    largest = LARGEST_LOSS if name == "loss" else math.inf
    steps, values, errors = rows["step"], rows[name], rows[f"{name}_se"]
    if name not in _LOGARITHMIC:
        low, high = ((values + end * errors).clip(upper=largest) for end in (-1, 1))
        ax.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
    ax.plot(steps, values.clip(upper=largest), color=colour)
    if name == "max_weight":
        ax.plot(steps, rows["asked_weight"], color=colour, linestyle="--", linewidth=1.1)


def _scale(ax: Axes, values: pd.Series, name: str) -> None:
    """A logarithmic axis for gradients and scores; one from 0 for weights and losses."""
    largest = float(values.max())
    if name not in _LOGARITHMIC:
        top = min(largest, LARGEST_LOSS) if name == "loss" else 1.0
        ax.set_ylim(-0.02 * top, 1.04 * top)
        return
    ax.set_yscale("log")
    if largest > 0:
        smallest = float(values[values > 0].min()) / 1.6
        ax.set_ylim(max(smallest, largest / _GRADIENTS) if name == "score_gradient" else smallest, 1.6 * largest)
    few_ticks(ax.yaxis)


def rule_legend(ax: Axes, rows: pd.DataFrame) -> None:
    """The legend of the rules above all axes, whatever the axes show of them."""
    for rule, colour in colours(rows).items():
        ax.plot([], [], color=colour, marker="o", label=rule)
    legend(ax)


def few_ticks(axis: Axis) -> None:
    """Labelled ticks of a logarithmic axis alone, plain numbers if it spans few decades."""
    plain_numbers(axis)
    axis.set_minor_locator(NullLocator())


def spread(values: Sequence[Any], most: int) -> list[Any]:
    """At most that many of the values, the first and the last among them, evenly spaced.

    >>> spread([4, 8, 16, 32, 64], 3), spread([4, 8], 3)
    ([4, 16, 64], [4, 8])
    """
    if len(values) <= most:
        return list(values)
    return [values[round(i)] for i in np.linspace(0, len(values) - 1, most)]


_OWN = (learning_rates, learning_curves)
OWN: dict[str, Any] = {draw.__name__: draw for draw in _OWN}
