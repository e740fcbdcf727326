"""Queries that correlate with their own keys: the weight of the own key, and the power of d_k that keeps rows steady.

The score of a key that correlates with its query grows as d_k, and that of an independent key as sqrt(d_k). So the
power of the divisor that keeps the largest weight the same at every d_k moves from 1/2 to 1, if the correlation is
positive: at smaller correlations the larger d_k is, and the fewer keys there are.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import first_combination, fixed, of_keys, plain
from experiments.figures.caption_text import listed
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.metric_lines import legend, plot_exact, plot_metric, reading, series
from experiments.figures.style import INK, note, ordered_colours, panels
from experiments.figures.title_text import parts, shared

_SHOWN = ("d_k^1/2", "d_k^1")  # rules of the left panel, if the sweep has them
_VISIBLE = 0.05  # a difference between powers that matters


def plot(tables: Tables) -> Drawing:
    """Left: the weight of the own key. Right: the power that keeps the largest weight, for neighbouring d_k."""
    table, _ = first_combination(tables["measured"], "correlation", "d_k")
    figure, [[left, right]] = panels(1, 2, (9.5, 4))
    chosen = table[table["scaling"].isin(_SHOWN)]
    lines = series(chosen if len(chosen) else table, "correlation")
    plot_metric(left, lines, "correlation", "own_weight")
    left.set_ylim(0, 1.02)
    _plot_powers(right, _steady(tables))
    legend(left, [line.label for line in lines])
    note(figure, f"{fixed(table, 'correlation', 'd_k')} {reading(table, 'own_weight')}")
    return figure


def _steady(tables: Tables) -> pd.DataFrame:
    """The powers of the first combination of the other axes; empty if the sweep has too few powers or d_k."""
    if "steady" not in tables:
        return pd.DataFrame(columns=["from_d_k", "to_d_k", "power"])
    rows, _ = first_combination(tables["steady"], "correlation")
    return rows


def _plot_powers(ax: Axes, steady: pd.DataFrame) -> None:
    """A line for each pair of neighbouring d_k; an interval that leaves the sweep's powers has no end there."""
    pairs = list(dict.fromkeys(zip(steady["from_d_k"], steady["to_d_k"], strict=True)))
    for (small, large), colour in zip(pairs, ordered_colours(len(pairs)), strict=True):
        rows = steady[(steady["from_d_k"] == small) & (steady["to_d_k"] == large)].sort_values("correlation")
        at, power = rows["correlation"], rows["power"]
        plot_exact(ax, at, rows["power_exact"], colour)
        reach = np.nan_to_num(np.stack([power - rows["power_low"], rows["power_high"] - power]).clip(0))
        ax.errorbar(at, power, reach, color=colour, marker="o", capsize=2, elinewidth=1, label=f"{small} to {large}")
    for power, name in ((1 / 2, "1/2"), (1, "1")):
        ax.axhline(power, color=INK, linestyle=":", linewidth=0.8, zorder=0)
        ax.text(1.01, power, name, transform=ax.get_yaxis_transform(), va="center", fontsize=9)
    ax.set_xlabel("correlation")
    ax.set_title("power of d_k that keeps the largest weight")
    if pairs:
        ax.legend(title="d_k", fontsize=9, loc="center right")


def caption(tables: Tables) -> str:
    """The power between the two largest d_k, by correlation: exact where it is known, else measured."""
    steady = _steady(tables)
    if steady.empty:
        return "The power of d_k that keeps the largest weight needs two d_k and four rules that are powers of d_k."
    known = steady.assign(power=steady["power_exact"].fillna(steady["power"]))
    small, large = known[["from_d_k", "to_d_k"]].max()
    rows = known[known["from_d_k"] == small].dropna(subset=["power"]).sort_values("correlation")
    if rows.empty:
        return "The power of d_k that keeps the largest weight lies outside the powers of this sweep."
    powers, strengths = [f"{power:.2f}" for power in rows["power"]], [plain(value) for value in rows["correlation"]]
    what = f"The power of d_k at which the mean largest of{of_keys(tables['measured'])} weights is equal"
    values = f"{listed(powers)} for a correlation of {listed(strengths)}{_exactness(rows)}"
    return f"{what} at d_k = {small} and {large} is {values}."


def _exactness(rows: pd.DataFrame) -> str:
    """A remark on exact powers and the intervals of measured ones; empty unless all are known."""
    if rows["power_exact"].isna().any():
        return ""
    low, high = rows["power_low"].fillna(-np.inf), rows["power_high"].fillna(np.inf)
    inside = ((low <= rows["power_exact"]) & (rows["power_exact"] <= high)).sum()
    return f" (interpolated exact values; {inside} of {len(rows)} measured 95% intervals contain them)"


def title(tables: Tables) -> str:
    """The higher power that keeps the largest weight, if every positive correlation needs it for every pair of d_k."""
    if "steady" not in tables:
        return ""
    each = parts(tables["steady"], "correlation")
    return shared(_need(pair) for part in each for _, pair in part.groupby(["from_d_k", "to_d_k"]))


def _need(pair: pd.DataFrame) -> str:
    """The finding for two d_k, from the powers without and with a positive correlation; empty if some may be equal."""
    rows = pair[pair["correlation"] >= 0].sort_values("correlation")
    if rows["power_exact"].notna().all():
        rows = rows.assign(power_low=rows["power_exact"], power_high=rows["power_exact"])
    if len(rows) < 2 or rows["correlation"].iloc[0] > 0:
        return ""
    without, low = rows["power_high"].iloc[0], rows["power_low"].to_numpy()[1:]
    is_higher = low.min() > without and low[-1] > without + _VISIBLE
    return "Positively correlated queries and keys need a higher power of d_k here" if is_higher else ""


FIGURE = Figure(
    shows="Queries that correlate with their keys: own weight and power of d_k",
    of="saturation",
    tables=("measured", "steady"),
    metrics=("own_weight", "max_weight"),
    plot=plot,
    caption=caption,
    title=title,
)
