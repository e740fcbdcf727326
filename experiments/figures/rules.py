"""Scaling rules along the number of keys: which one keeps attention the same in longer rows.

Three measures of the same: the entropy as a share of its bound ln n, the largest weight, and the weight of the own key
if it correlates with its query.
"""

import numpy as np
import pandas as pd

from experiments.figures.axes import first_combination, fixed, plain, span, under
from experiments.figures.caption_text import exactly, exactness, listed, number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.keeping import relative_change
from experiments.figures.metric_lines import legend, plot_metric, reading, scale_x, scale_y, series
from experiments.figures.style import note, panels
from experiments.figures.title_text import has_own_name, parts, shared, titled

_SHOWN = ("entropy", "max_weight", "own_weight")
_TITLES = {"entropy": "entropy / ln(n_keys)", "max_weight": "largest weight", "own_weight": "weight of the own key"}


def plot(tables: Tables) -> Drawing:
    """A panel for each measure; the rows of the weakest correlation, and for the own key those of the strongest."""
    table, _ = first_combination(tables["measured"], "n_keys", "correlation")
    figure, [axes] = panels(1, len(_SHOWN), (10, 3.7))
    for ax, metric in zip(axes, _SHOWN, strict=True):
        rows = _rows(table, metric)
        plot_metric(ax, series(rows.drop(columns="correlation"), "n_keys"), "n_keys", metric)
        ax.set_title(f"{_TITLES[metric]}, correlation {plain(rows['correlation'].iloc[0])}")
        scale_x(ax, rows, "n_keys")
        scale_y(ax, rows, metric)
    axes[0].set_ylim(0, 1.02)
    legend(axes[0], [under(name) for name in table["scaling"].unique()])
    note(figure, f"{fixed(table, 'n_keys', 'correlation')} {reading(table, *_SHOWN)}")
    return figure


def _rows(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows of one measure; their entropy is over ln(n_keys)."""
    strengths = sorted(table["correlation"].unique(), key=lambda value: (abs(value), value))
    rows = table[table["correlation"] == strengths[-1 if metric == "own_weight" else 0]]
    columns = [name for name in rows if name == "entropy" or name.startswith("entropy_")]
    return rows.assign(**{name: rows[name] / np.log(rows["n_keys"]) for name in columns})


def caption(tables: Tables) -> str:
    """The factor by which weights change along n_keys under each rule."""
    table, where = first_combination(tables["measured"], "n_keys", "correlation")
    width = "" if where else f" at d_k = {table['d_k'].iloc[0]}"
    clauses = []
    for metric in ("max_weight", "own_weight") if table["correlation"].any() else ("max_weight",):
        rows = exactly(_rows(table, metric), metric)
        strength = plain(rows["correlation"].iloc[0])
        largest = f"largest weight{' of uncorrelated rows' * (strength == '0')}"
        name = {"max_weight": largest, "own_weight": f"weight of a key that correlates {strength}"}[metric]
        remark = exactness(_rows(table, metric), metric)
        clauses.append(f"the {name} changes by a factor of {listed(_factors(rows, metric))}{remark}")
    return f"{span(table, 'n_keys')}{width}{where}, {'; '.join(clauses)}."


def _factors(rows: pd.DataFrame, metric: str) -> list[str]:
    """The largest mean over the smallest of each rule."""
    factors = {str(name): values.max() / values.min() for name, values in rows.groupby("scaling", sort=False)[metric]}
    return [f"{number(factor, 0.02 * factor)} {under(name)}" for name, factor in factors.items()]


def title(tables: Tables) -> str:
    """The rule under which the largest weight changes least along n_keys, if it clearly does."""
    table = tables["measured"]
    steadiest = shared(_steadiest(_rows(part, "max_weight")) for part in parts(table, "n_keys", "correlation"))
    which = "uncorrelated rows" if table["correlation"].any() and not table["correlation"].all() else "rows"
    return f"The largest weight of longer {which} changes least {steadiest}" if steadiest else ""


def _steadiest(rows: pd.DataFrame) -> str:
    """The steadiest rule in words of a title; empty if the two steadiest rules are too close for a claim."""
    groups = rows.groupby("scaling", sort=False)
    changes = {str(name): relative_change(of_rule, "max_weight") for name, of_rule in groups}
    best = min(changes, key=lambda name: changes[name][1])
    is_clear = all(changes[best][1] < low for name, (low, _) in changes.items() if name != best)
    if len(rows["n_keys"].unique()) == 1 or len(changes) == 1 or not is_clear or not has_own_name(best, changes):
        return ""
    return titled(best)


FIGURE = Figure(
    shows="Scaling rules in longer rows: entropy, largest weight and own key's weight",
    of="saturation",
    tables=("measured",),
    metrics=("entropy", "max_weight", "own_weight"),
    plot=plot,
    caption=caption,
    title=title,
)
