"""The figure of the example strip."""

import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.caption_text import number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.formulas import latex
from experiments.figures.heatmaps import Panel, heatmap
from experiments.figures.style import note, panels, token_colours

_LABELS = {"largest": "largest weight", "entropy": "entropy (nats)", "Jacobian |J|": "Jacobian norm $|J|_F$"}


def plot(tables: Tables) -> Drawing:
    """A stack of strips, and lines of three measures.

    Each strip is the softmax of the same scores under one divisor. The lines show its largest weight, its entropy in
    nats and the norm of its Jacobian.
    """
    weights, measures = (tables[step] for step in ("weights", "measures"))
    figure, [[left, right]] = panels(1, 2, (11, 4.6), width_ratios=(1.35, 1))
    heatmap(left, weights, Panel("weights", "weights of eight keys", (0, 0.85)))
    left.set_aspect("auto")
    _lines(right, measures)
    note(
        figure, "Rows: positions of the slider, from undivided scores to scores divided by d_k = 64. Darker means more."
    )
    return figure


def _lines(ax: Axes, measures: pd.DataFrame) -> None:
    """Each measure of `_LABELS` along the positions of the slider."""
    places = range(len(measures))
    for (name, label), colour, marker in zip(_LABELS.items(), token_colours(3), "osD", strict=True):
        ax.plot(places, measures[name], color=colour, marker=marker, label=label)
    ax.set_xticks(places, [latex(name) for name in measures.index], rotation=45, ha="right")
    ax.set_ylim(bottom=0)
    ax.set_title("measures of the row")
    ax.legend()


def caption(tables: Tables) -> str:
    """The largest weight and the entropy at both ends and at the square root."""
    rows = tables["measures"].loc[["unscaled", "d_k^1/2", "d_k^1"]]
    d_k, n_keys = rows.loc["d_k^1", "divisor"], tables["weights"].shape[1]
    largest, entropy = ([number(value, 0.001) for value in rows[name]] for name in ("largest", "entropy"))
    return (
        f"At d_k = {d_k:.0f}, the largest of {n_keys} weights is {largest[0]} unscaled, {largest[1]} under d_k^1/2 and "
        f"{largest[2]} under d_k^1; the entropy is {entropy[0]}, {entropy[1]} and {entropy[2]} nats."
    )


FIGURE = Figure(
    shows="Eight weights under a slider of the divisor's exponent, with measures",
    of="examples",
    tables=("weights", "measures"),
    plot=plot,
    caption=caption,
)
