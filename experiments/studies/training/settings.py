"""The settings in which decoders were trained, from several sweeps of config.full.yaml, and a
figure of what dividing scores by √d_k changes in their losses and gradients.
"""

from collections.abc import Collection

import pandas as pd

from experiments.config.paths import figure_path
from experiments.figures.axes import legend
from experiments.figures.lines import error_lengths, plot_measured
from experiments.figures.picture import Picture, Words, supported
from experiments.figures.style import INK, UNORDERED_COLOURS, Drawing, subplots
from experiments.figures.words import values_of
from experiments.kinds.support import BOTH
from experiments.measuring.columns import axis_names
from experiments.running.files import write_atomically
from experiments.tables.all_results import AllResults

_ENDS = (("", ""), ("_low", "_high"), ("_high", "_low"))
_LOSS, _GRADIENT = "final_loss", "query_gradient_median_after"
_COLOURS = UNORDERED_COLOURS[2:4]  # of no rule in the figure beside it
_USUAL = (
    "steps == 400 and width == 64 and normalize == 'none' and softcap == 0 and "
    "normalizer == 'softmax' and rate_divisor == 'unscaled' and initial_divisor == 'unscaled'"
)
_LEAST = 1e-10  # ratio on the axis
VANISHED = 0.1  # of the gradient with the division, by the plans
_TITLE = "The loss is mostly higher without the division, whether gradients vanish or not"
_CAPTION = (
    "Each point is a small decoder: its loss without the division minus that with it, over the ratio of "
    "their typical gradients after training.\n"
    "stream of 64, 400 steps, each rule at its best rate; left of the dotted line: median ratio below a tenth; "
    "bars: from end to end of both intervals; smaller ratios stand at 10⁻¹⁰"
)


def runs_of(
    full: AllResults, group: str, axes: Collection[str], where: str = "trials > 0"
) -> pd.DataFrame:
    """The runs of the sweeps of `language` called `group` or `group_...`, of which a query holds.

    Raises:
        TableError: no such sweep has tables, or those of one are not sound.
        ValueError: the runs differ in an axis that is not among these.
    """
    sweeps = full.require_all(
        lambda sweep: sweep.experiment.name == "language" and sweep.name.split("_")[0] == group
    )
    runs = pd.concat(results.measured for results in sweeps).query(where).reset_index(drop=True)
    others = {*axis_names(sweeps[0].experiment.cell)}.difference(axes)
    if mixed := [name for name in sorted(others) if len(runs[name].unique()) > 1]:
        raise ValueError(f"expected runs that differ in {[*axes]} alone, got several {mixed}")
    return runs


def settings(full: AllResults) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Decoders without and with the division, each at its best rate, of most runs, by setting."""
    axes = ["d_k", "layers", "n_heads", "warmup", "clip", "initial", "optimizer"]
    runs = runs_of(full, "language", [*axes, "scaling", "learning_rate"], _USUAL)
    best = runs.sort_values(["trials", "final_loss"], ascending=[False, True])
    best = best.drop_duplicates([*axes, "scaling"]).set_index(axes)
    without, scaled = (best[best["scaling"] == rule] for rule in BOTH)
    both = without.index.intersection(scaled.index)
    return without.loc[both], scaled.loc[both]


def write_settings(full: AllResults) -> None:
    """Write the figure of the shipped tables."""
    without, scaled = settings(full)
    is_higher = without[_LOSS] > scaled[_LOSS]
    has_vanished = without[_GRADIENT] < VANISHED * scaled[_GRADIENT]
    is_shown = is_higher.groupby(has_vanished).mean().gt(0.5)
    title = supported(_TITLE, len(is_shown) == 2 and bool(is_shown.all()))
    path = figure_path(full.folder, "settings", "losses")
    picture = Picture(path, Words(title, _CAPTION), lambda: _draw(without, scaled))
    write_atomically(path, *picture.render())


def _draw(without: pd.DataFrame, scaled: pd.DataFrame) -> Drawing:
    table = pd.DataFrame(index=without.index).reset_index("initial")
    for end, other in _ENDS:
        gap = without[_LOSS + end] - scaled[_LOSS + other]
        ratio = without[_GRADIENT + end] / scaled[_GRADIENT + other]
        table[f"gap{end}"] = gap.to_numpy()
        table[f"ratio{end}"] = ratio.clip(lower=_LEAST).to_numpy()
    figure, [ax] = subplots(1, 1, (7.5, 3.6))
    for (_, rows), colour, form in zip(table.groupby("initial"), _COLOURS, "so", strict=True):
        label = values_of(rows.iloc[0], ["initial"])
        look = {"color": colour, "marker": form, "linestyle": "", "label": label}
        plot_measured(ax, rows, "ratio", "gap", xerr=error_lengths(rows, "ratio"), **look)
    ax.axhline(0, color=INK, linewidth=0.8)
    ax.axvline(VANISHED, color=INK, linestyle=":")
    ax.set(
        xscale="log",
        xlabel="median size of the gradient at a query after training, without over with division",
        ylabel="loss without minus with division (nats)",
    )
    legend(ax)
    return figure
