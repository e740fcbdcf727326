"""The division against a learning rate: arms of training side by side, at their own best rates and at
one rate. results/config.full/fair-plan.md says what counts as above, as good and vanished.

A setting is a decoder, a text, an optimizer and a start. In each setting, every arm is compared with
the divided one.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from experiments.config.paths import figure_path
from experiments.figures.axes import legend
from experiments.figures.lines import plot_measured
from experiments.figures.picture import Picture, Words, supported
from experiments.figures.style import UNORDERED_COLOURS, Drawing, subplots
from experiments.running.files import write_atomically
from experiments.studies.training.settings import VANISHED, runs_of
from experiments.tables.all_results import AllResults
from experiments.tables.changes import update
from experiments.tables.layout import csv_bytes

DIVIDED = "divided"
# Arms by rule, divisor of the rate of W_Q and W_K, and divisor of the gradients at q and k.
ARM_OF_KEYS = {
    ("d_k^1/2", "unscaled", "unscaled"): DIVIDED,
    ("unscaled", "unscaled", "unscaled"): "none",
    ("unscaled", "d_k^1/4", "unscaled"): "none, slower",
    ("unscaled", "d_k^1/2", "unscaled"): "none, slowest",
    ("unscaled", "unscaled", "d_k^1/2"): "divided in the backward pass alone",
    ("d_k^1/2", "unscaled", "0.125"): "divided in the forward pass alone",
    ("d_k^1/2", "1e+30", "unscaled"): "divided, W_Q and W_K frozen",
    ("unscaled", "1e+30", "unscaled"): "none, W_Q and W_K frozen",
    ("unscaled", "0.1", "unscaled"): "none, 10 times faster",
    ("unscaled", "0.01", "unscaled"): "none, 100 times faster",
    ("unscaled", "0.001", "unscaled"): "none, 1000 times faster",
}
SETTING = [
    "d_k",
    "layers",
    "n_heads",
    "optimizer",
    "warmup",
    "clip",
    "decay",
    "text",
    "steps",
    "initial",
]
LOSS, GRADIENT = "final_loss", "query_gradient_median_after"
AS_GOOD = 0.02  # the largest excess of a loss that is as good, by the plan
RATES = {
    "own best rates": "excess at own best rates",
    "best rate of divided": "at the best rate of divided",
    "best rate of the arm": "at the best rate of the arm",
}
KEYS = ["scaling", "rate_divisor", "gradient_divisor"]
_ENDS = ("", "_low", "_high")
_RATE = "learning_rate"
_TOP = 2.6  # nats; losses above tell arms apart no better


def fair_runs(full: AllResults) -> pd.DataFrame:
    """The runs of all sweeps of the plan, with their arm; of a rate that two sweeps have, that with
    most runs.
    """
    runs = runs_of(full, "fair", [*SETTING, *KEYS, _RATE])
    keys = runs[KEYS].astype(str).agg(tuple, axis=1)
    runs["arm"] = pd.Categorical(keys.map(ARM_OF_KEYS), [*ARM_OF_KEYS.values()])
    if runs["arm"].isna().any():
        raise ValueError(f"expected arms {[*ARM_OF_KEYS]}, got {sorted({*keys} - {*ARM_OF_KEYS})}")
    most = runs.sort_values("trials", ascending=False, kind="stable")
    return most.drop_duplicates([*SETTING, "arm", _RATE]).sort_values([*SETTING, "arm", _RATE])


def comparisons(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each arm and setting at three pairs of rates: own best rates, the best rate of the
    divided arm, and the best rate of the arm.
    """
    return pd.DataFrame(_compared(runs))


def _compared(runs: pd.DataFrame) -> Iterator[dict[str, object]]:
    for setting, rows in runs.groupby([*SETTING], sort=True):
        curves = {arm: group.set_index(_RATE) for arm, group in rows.groupby("arm", observed=True)}
        divided = curves.pop(DIVIDED, None)
        if divided is None:
            continue
        for arm, curve in curves.items():
            best, best_divided = curve[LOSS].idxmin(), divided[LOSS].idxmin()
            pairs = (best, best_divided), (best_divided, best_divided), (best, best)
            for rates, (rate, other) in zip(RATES, pairs, strict=True):
                if rate in curve.index and other in divided.index:
                    head = dict(zip(SETTING, setting, strict=True))
                    yield (
                        head
                        | {"arm": arm, "at": rates, _RATE: rate}
                        | comparison_of(curve.loc[rate], divided.loc[other])
                    )


def comparison_of(arm: pd.Series, divided: pd.Series) -> dict[str, object]:
    """Losses and gradients of an arm and of the divided one, the excess of the loss, and verdicts by
    their intervals.
    """
    loss, low, high = (arm[LOSS + end] for end in _ENDS)
    divided_loss, low_divided, high_divided = (divided[LOSS + end] for end in _ENDS)
    side = np.select([low > high_divided, high < low_divided], ["above", "below"], "open")
    least, most = (VANISHED * divided[GRADIENT + end] for end in _ENDS[1:])
    is_small = np.select(
        [arm[f"{GRADIENT}_high"] < least, arm[f"{GRADIENT}_low"] > most], ["yes", "no"], "open"
    )
    return {
        "runs": arm["trials"],
        "loss": loss,
        "loss_low": low,
        "loss_high": high,
        "divided_learning_rate": divided.name,
        "divided_loss": divided_loss,
        "divided_loss_low": low_divided,
        "divided_loss_high": high_divided,
        "excess": loss / divided_loss - 1,
        "side": str(side),
        "as_good": loss / divided_loss - 1 <= AS_GOOD,
        **{f"gradient{end}": arm[GRADIENT + end] for end in _ENDS},
        **{f"divided_gradient{end}": divided[GRADIENT + end] for end in _ENDS},
        "vanished": str(is_small),
    }


def setting_words(row: pd.Series) -> str:
    """The start of a setting, and what is unusual about it, such as `small, text = scipy`."""
    unusual = [f"{name} = {row[name]}" for name, value in USUAL.items() if row[name] != value]
    return ", ".join([row["initial"], *unusual])


_STARTS = {"unit": "q, k start with variance 1", "small": "$W_Q$, $W_K$ from N(0, 0.02²)"}
_CONDITIONS = {
    "": {},
    ", rate falls to 0": {"decay": "linear"},
    ", other text": {"text": "scipy"},
}
USUAL = {  # the decoder of which settings change one thing
    "d_k": 64,
    "layers": 4,
    "n_heads": 1,
    "steps": 400,
    "optimizer": "adam",
    "warmup": 30,
    "clip": 0,
    "decay": "none",
    "text": "python",
}
_SHOWN = {
    DIVIDED: "divided by √d_k",
    "none": "no division",
    "none, slower": "no division, rate of $W_Q$ and $W_K$ over d_k^1/4",
    "none, slowest": "no division, rate of $W_Q$ and $W_K$ over √d_k",
}
_MARKERS = "os^v"


def write_arms(full: AllResults) -> None:
    """Write the table of comparisons and its picture, from the shipped tables."""
    runs = fair_runs(full)
    update(full.folder / "arms.csv", csv_bytes(comparisons(runs)))
    path = figure_path(full.folder, "arms", "losses")
    write_atomically(path, *Picture(path, words(runs), lambda: _draw(runs)).render())


def words(runs: pd.DataFrame) -> Words:
    """Title and caption, with the losses of the usual decoder at own best rates."""
    best, from_unit = (
        _chosen(runs, "", start).groupby("arm", observed=True)[LOSS].min()
        for start in ("small", "unit")
    )
    is_as_good = best["none, slower"] <= (1 + AS_GOOD) * best[DIVIDED]
    are_above = from_unit[[*_SHOWN][1:]] > (1 + AS_GOOD) * from_unit[DIVIDED]
    return Words(
        supported(
            "From a small start, a learning rate does what the division does",
            is_as_good and are_above.all(),
        ),
        "Right: without the division, but with a smaller rate of W_Q and W_K, the decoder ends at "
        f"{best['none, slower']:.2f} nats, and with it at {best[DIVIDED]:.2f}. Left: from the large start, no rate "
        "that was tried closes the gap.\n"
        "four blocks of one head, d_k = 64, 400 steps of Adam; losses of all held-out characters; points: medians over "
        "few runs; bars: lowest to highest of three runs, or second to eighth of nine; losses above 2.6 are cut",
    )


def _chosen(runs: pd.DataFrame, condition: str, start: str) -> pd.DataFrame:
    """The runs of the usual decoder from a start."""
    case = USUAL | _CONDITIONS[condition] | {"initial": start}
    return runs[(runs[[*case]] == pd.Series(case)).all(axis=1)]


def _draw(runs: pd.DataFrame) -> Drawing:
    """A row for each condition that was run, with a panel for each start and a line for each arm."""
    shown = {
        start_title + condition: _chosen(runs, condition, start)
        for condition in _CONDITIONS
        if any(len(_chosen(runs, condition, start)) for start in _STARTS)
        for start, start_title in _STARTS.items()
    }
    height = 0.4 + 1.35 * len(shown)
    figure, axes = subplots(len(shown), 2, (7.5, height), sharex=True, sharey=True)
    for ax, (title, rows) in zip(axes, shown.items(), strict=True):
        for (arm, label), colour, marker in zip(
            _SHOWN.items(), UNORDERED_COLOURS, _MARKERS, strict=False
        ):
            look = {"color": colour, "marker": marker, "markersize": 4, "label": label}
            plot_measured(ax, rows[rows["arm"] == arm], _RATE, LOSS, **look)
        ax.set(title=title, xscale="log", ylim=(None, _TOP))
    for ax in axes[-2:]:
        ax.set_xlabel("learning rate")
    for ax in axes[::2]:
        ax.set_ylabel("loss (nats per character)")
    legend(axes[0])
    return figure
