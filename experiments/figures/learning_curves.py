"""One case of training, step by step: loss, weights, gradient to the scores and largest score, a line for each rule.

The case is the first task of the sweep at its largest d_k. All rules have the same learning rate, the best one of
d_k^1/2 (of another rule if the sweep lacks it).
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.analysis.bands import BEST_RATE
from experiments.figures.axes import fixed, plain, under
from experiments.figures.caption_text import measured
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import note, panels
from experiments.figures.training_rows import (
    LARGEST_LOSS,
    at_main_rules,
    colours,
    few_ticks,
    largest_cases,
    main_rules,
    of_case,
    rows_at_best,
    rule_legend,
    setting,
    shown_bands,
    shown_rows,
    solving_rates,
    unshown,
)
from experiments.harness.discovery import axes_of
from experiments.harness.figures import Default

_TITLES = {
    "loss": "loss (nats)",
    "max_weight": "largest weight of a row (dashed: weight asked for)",
    "score_gradient": r"gradient to the scores, $|\partial L/\partial s|$",
    "largest_score": "largest |scaled score|",
}
_ASKED = "asked_weight"
_CHOSEN_BY = "d_k^1/2"
_LOGARITHMIC = ("score_gradient", "largest_score")
_GRADIENTS = 10_000  # the largest gradient over the smallest one on the axis


def plot(tables: Tables) -> Drawing:
    """A panel for each quantity; pale bands are one standard error wide on either side."""
    rows, _ = _case(tables)
    curves = _curves(tables)
    figure, grid = panels(2, 2, (9.5, 5.8), sharex=True)
    for ax, name in zip([ax for row in grid for ax in row], _TITLES, strict=True):
        _plot_curves(ax, curves, colours(rows), name)
        _scale(ax, curves[name], name)
        ax.set_title(_TITLES[name])
    _scale_steps(grid[0][0], int(curves["step"].max()))
    for ax in grid[-1]:
        ax.set_xlabel("step (square-root axis)")
    rule_legend(grid[0][0], rows)
    note(
        figure,
        f"{fixed(curves)} {unshown(tables)}Means over runs; pale: ± one standard error. Losses above "
        f"{LARGEST_LOSS:.2g} stand at the top; gradients, which contain a factor 1/divisor, below 1/{_GRADIENTS} of "
        "the largest are left out.",
    )
    return figure


def _case(tables: Tables) -> tuple[pd.DataFrame, str]:
    """The measured rows of the case, and the rule that chooses the learning rate."""
    rows = rows_at_best(tables)
    rows = of_case(rows, largest_cases(rows)[0])
    return rows, _CHOSEN_BY if _CHOSEN_BY in set(rows["scaling"]) else main_rules(rows)[-1]


def _curves(tables: Tables) -> pd.DataFrame:
    """The rows of `learning_curves` for the case at the learning rate."""
    rows, rule = _case(tables)
    chosen = rows[rows["scaling"] == rule].rename(columns={BEST_RATE: "learning_rate"})
    curves = tables["learning_curves"]
    return curves.merge(chosen[axes_of(curves)], on=axes_of(curves)).sort_values("step", kind="stable")


def _plot_curves(ax: Axes, curves: pd.DataFrame, rules: Mapping[str, Any], name: str) -> None:
    """A quantity along the steps, with the weight of the tokens asked for beside the largest weight."""
    for rule, colour in rules.items():
        rows = curves[curves["scaling"] == rule]
        largest = LARGEST_LOSS if name == "loss" else math.inf
        steps, values, errors = rows["step"], rows[name], rows[f"{name}_se"]
        if name not in _LOGARITHMIC:
            low, high = ((values + end * errors).clip(upper=largest) for end in (-1, 1))
            ax.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
        ax.plot(steps, values.clip(upper=largest), color=colour)
        if name == "max_weight":
            ax.plot(steps, rows[_ASKED], color=colour, linestyle="--", linewidth=1.1)


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


def _scale_steps(ax: Axes, last: int) -> None:
    """An axis of square roots, as runs record at such steps; with five ticks."""
    ax.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))
    ax.set_xlim(0, last)
    ax.set_xticks(sorted({round(last * (i / 4) ** 2) for i in range(5)}))


def caption(tables: Tables) -> str:
    """The largest weight of the main rules at the start, and their loss and the weight asked for at the end."""
    rows, rule = _case(tables)
    curves = _curves(tables)
    start, end = (curves[curves["step"] == step] for step in (curves["step"].min(), curves["step"].max()))
    case = largest_cases(rows)[0]
    rates = of_case(shown_rows(tables), case)["learning_rate"].unique()
    best = f" (the best {under(rule)})" if len(rates) > 1 else ""
    bands = shown_bands(tables)
    solving = ""
    if not bands.empty:
        solving = f" At least half of them solve it at {at_main_rules(of_case(bands, case), solving_rates)}."
    return (
        f"{case.task.capitalize()} at d_k = {case.d_k} with {setting(rows)}, at the learning rate "
        f"{plain(float(curves['learning_rate'].iloc[0]))}{best}: largest weight of a row at the start "
        f"{at_main_rules(start, lambda row: measured(row, 'max_weight'))}; loss at the end "
        f"{at_main_rules(end, lambda row: measured(row, 'loss'))}; weight of the tokens asked for at the end "
        f"{at_main_rules(end, lambda row: measured(row, _ASKED))} (means over {end['trials'].min()} runs).{solving}"
    )


FIGURE = Figure(
    shows="Training step by step: loss, weights, gradients and largest score",
    of="training",
    tables=("measured", "bands", "learning_curves"),
    metrics=("final_loss", "max_weight_after", "asked_weight_after", "largest_score_after"),
    default=Default(),
    plot=plot,
    caption=caption,
)
