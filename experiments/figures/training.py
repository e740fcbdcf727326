"""The picture of trained decoders: their loss over the learning rate."""

import pandas as pd
from matplotlib.axes import Axes

from experiments.analysis.results import Results
from experiments.figures.lines import case_panels, legend, plot_measured, scale_x
from experiments.figures.style import Drawing, scaling_colours
from experiments.figures.words import under, values_of
from sdpa.scaling import UNSCALED

_RATE = "learning_rate"
_LOSS = "final_loss"
_HIGHEST = 4.0  # loss of an axis, in nats; a guess has 4.6
_STARTS = {"unit": "q and k start with variance 1", "small": "$W_Q$, $W_K$ from N(0, 0.02²)"}


def losses(results: Results) -> Drawing:
    """The median loss over the learning rate: a panel for each case, a colour for each rule."""
    table = results.measured
    figure, cases = case_panels(table, results.axes.among(table, _RATE), 3.6)
    varied = results.axes.varied(table, _RATE)
    for ax, rows in cases:
        _plot(ax, rows, scaling_colours(table["scaling"]))
        ax.set_title(_case(rows.iloc[0], varied))
        scale_x(ax, rows, _RATE, log=True)
        ax.set_xlabel("learning rate" if ax.get_subplotspec().is_last_row() else "")
    first, _ = cases[0]
    first.set_ylabel("loss after training (nats)")
    legend(first)
    return figure


def _plot(ax: Axes, table: pd.DataFrame, colours: dict[str, str]) -> None:
    """A line for each rule, with crosses where most runs diverge."""
    ends = [_LOSS, f"{_LOSS}_low", f"{_LOSS}_high"]
    for rule, rows in table.sort_values(_RATE).groupby("scaling", sort=False):
        shown = rows.assign(**rows[ends].clip(upper=_HIGHEST))
        plot_measured(
            ax,
            shown,
            _RATE,
            _LOSS,
            color=colours[rule],
            label=under(rule),
            marker="o",
        )
        diverging = shown[shown["diverged"] > 1 / 2]
        ax.plot(diverging[_RATE], diverging[_LOSS], "x", color=colours[rule], zorder=5)


def _case(row: "pd.Series[str]", varied: list[str]) -> str:
    """The start of a case and its other varied axes, in words."""
    others = [name for name in varied if name not in ("initial", "initial_divisor")]
    start = ""
    if others != varied:
        start = _STARTS[row["initial"]]
        if row["initial_divisor"] != UNSCALED:
            start += f", over {row['initial_divisor']}"
    return "\n".join(filter(None, [start, values_of(row, others)]))
