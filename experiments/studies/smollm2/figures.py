"""The figures of the pretrained language model, which `make model` draws, and the sentences on what
they show.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from experiments.figures.picture import Picture, Words, supported
from experiments.figures.style import INK, RULE_COLOURS, Colour, Drawing, subplots
from experiments.kinds.declarations import Finding
from experiments.kinds.support import BOTH, Numbers, Tables, rows_of
from experiments.studies.smollm2.model import DIVISOR, SEQUENCES, model_path

# Half the width of a 95% interval over the standard error, between as many sequences.
REACH = float(stats.t.isf(0.025, SEQUENCES - 1))
_STAGES = {"initial": "at the start", "trained": "after training"}
_UNSCALED, _USED = (RULE_COLOURS[rule] for rule in BOTH)


def read_model(folder: Path) -> dict[str, pd.DataFrame]:
    """The shipped tables of the model by name."""
    return {path.stem: pd.read_csv(path) for path in model_path(folder, "").glob("*.csv")}


def _divisor_numbers(tables: Tables) -> Numbers:
    """None unless intervals put the smallest loss of prose within 15% of sqrt(d_k), and the gradient
    without a scale above ten times that with it, and unless shuffled tokens lose least beyond 10;
    nor if the divisor 2 costs more loss than 32, or has no larger gradients.
    """
    smallest = tables["smallest-loss"].set_index("text")
    prose = smallest.loc["prose"]
    reach = REACH * prose["divisor_se"]
    is_near = abs(prose["divisor"] - DIVISOR) + reach < 0.15 * DIVISOR

    shuffled = rows_of(tables, "by-text", text="shuffled", divisor=10).iloc[0]
    falls = shuffled["change"] + REACH * shuffled["change_se"] < 0
    is_beyond = falls and np.isnan(smallest.loc["shuffled", "divisor"])

    runs = rows_of(tables, "by-divisor", weights="trained")
    ratio, _ = _ratios(runs, "query_gradient")
    runs = runs.set_index("divisor")
    cost = runs["change"]
    gradients = runs[["query_gradient", "stream_gradient"]]
    is_control = cost[2] < cost[32] and (gradients.loc[2] > 10 * gradients.loc[32]).all()
    if not (is_near and is_beyond and is_control and ratio > 10):
        return None
    return {"divisor": prose["divisor"], "reach": reach, "ratio": _power_of_ten(ratio)}


def _layer_numbers(tables: Tables) -> Numbers:
    """None unless intervals put the ratio of the gradients at the embedding, without a scale to with
    it, above 10 at the start and higher after training.
    """
    initial, after = (rows_of(tables, "by-divisor", weights=weights) for weights in _STAGES)
    low, high = _ratios(initial, "stream_gradient")
    trained, _ = _ratios(after, "stream_gradient")
    if not 10 < low < high < trained:
        return None
    return {"low": low, "high": high, "trained": _power_of_ten(trained)}


def _ratios(runs: pd.DataFrame, name: str) -> tuple[float, float]:
    """Bounds of a gradient without a scale over that with sqrt(d_k), from the ends of intervals."""
    low, high = _interval(runs.set_index("divisor"), name)
    return low[1] / high[DIVISOR], high[1] / low[DIVISOR]


def _interval(rows: pd.DataFrame, name: str) -> tuple["pd.Series[float]", "pd.Series[float]"]:
    """The ends of the 95% intervals of geometric means."""
    factor = np.exp(REACH * rows[f"{name}_se"] / rows[name])
    return rows[name] / factor, rows[name] * factor


def _power_of_ten(number: float) -> int:
    """The largest power of ten up to a number of 1 or more."""
    return int(10 ** np.floor(np.log10(number)))


def _draw_divisors(tables: Tables) -> Drawing:
    """Left the loss over the divisor, with intervals of its change; right the gradient to a query."""
    runs = rows_of(tables, "by-divisor", weights="trained")
    near = rows_of(tables, "by-text", text="prose")
    losses = pd.concat([runs, near]).drop_duplicates("divisor")
    losses = losses.sort_values("divisor")
    figure, [left, right] = subplots(2, 2, (14, 6))
    reach = REACH * losses["change_se"]
    left.errorbar(losses["divisor"], losses["loss"], reach, fmt="o-", color=INK)
    left.set_title("loss per token (nats), no weight changed")
    over_divisor = partial(_plot_gradient, right, runs, "divisor")
    over_divisor("query_gradient", "r.m.s. over tokens and heads", _UNSCALED)
    over_divisor("query_gradient_median", "median token of the median head", _USED)
    right.set_title("gradient to a query, |dL/dq|")
    right.legend(frameon=True, framealpha=1, edgecolor="white")
    for ax in (left, right):
        ax.axvline(DIVISOR, color=INK, linestyle=":", linewidth=1.5)
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlabel("divisor of the scores; dotted: √d_k")
    return figure


def _draw_layers(tables: Tables) -> Drawing:
    """The gradient to the stream before each layer, at the start and after training."""
    lines = [(1, "unscaled", _UNSCALED), (DIVISOR, "√d_k", _USED)]
    figure, axes = subplots(2, 2, (14, 6), sharey=True)
    for ax, (weights, title) in zip(axes, _STAGES.items(), strict=True):
        for divisor, label, colour in lines:
            layers = rows_of(tables, "by-divisor-layer", weights=weights, divisor=divisor)
            _plot_gradient(ax, layers, "layer", "stream_gradient", label, colour)
        ax.set_title(title)
        ax.set_xlabel("layer")
    axes[0].set_ylabel("gradient to the stream before a layer")
    axes[0].legend()
    return figure


def _plot_gradient(
    ax: Axes, rows: pd.DataFrame, x: str, name: str, label: str, colour: Colour
) -> None:
    """A gradient over x with 95% intervals, on a logarithmic axis."""
    low, high = _interval(rows, name)
    reach = [rows[name] - low, high - rows[name]]
    ax.errorbar(rows[x], rows[name], reach, fmt="o-", color=colour, label=label)
    ax.set_yscale("log")


class ModelFigure(NamedTuple):
    """A figure of the tables of the model, under a title that they must support."""

    draw: Callable[[Tables], Drawing]
    finding: Finding


def model_picture(folder: Path, name: str) -> Picture:
    """A picture of the shipped tables; `Problem` if they do not support its title."""
    plot, finding = MODEL_FIGURES[name]
    tables = read_model(folder)
    numbers = finding.numbers(tables)
    title = supported(finding.title, numbers is not None)
    words = Words(title, f"{finding.sentence.format(**numbers or {})}\n{_ABOUT}")
    return Picture(model_path(folder, f"{name}.png"), words, partial(plot, tables))


_ABOUT = (
    "SmolLM2-135M-Instruct, 8 sequences of 256 tokens of prose; bars: 95% intervals, of losses "
    "those of the change from √d_k"
)
MODEL_FIGURES = {
    "divisors": ModelFigure(
        _draw_divisors,
        Finding(
            title="SmolLM2 loses least near its own divisor, √d_k",
            sentence="SmolLM2 was trained with the divisor 8. On prose, it loses least at {divisor:.2f} "
            "± {reach:.2f}. Without division, its r.m.s. gradient at a query is more than {ratio:,} "
            "times as large.",
            numbers=_divisor_numbers,
        ),
    ),
    "layers": ModelFigure(
        _draw_layers,
        Finding(
            title="Without its division, SmolLM2's gradients explode; trained weights make it worse",
            sentence="Without division, the gradient at the embedding is {low:.0f} to {high:.0f} times "
            "that with √d_k for one draw of random weights, and more than {trained:,} times for trained ones.",
            numbers=_layer_numbers,
        ),
    ),
}
