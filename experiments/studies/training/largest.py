"""The largest score over the steps of training, beside that of normal scores with the same spread.

Small decoders start with small W_Q and W_K, and train at one learning rate in four ways: divided by
sqrt(d_k), not divided, with QK-norm, and not divided with QK-Clip (Kimi Team 2025, arXiv 2507.20534).
QK-Clip multiplies W_Q and W_K of a head by sqrt(t / s) after a pass whose largest score s is above t.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import inf, sqrt
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.config.paths import FULL, SHIPPED_RESULTS, figure_path
from experiments.figures.axes import legend, plain_numbers
from experiments.figures.picture import Picture, Words, supported
from experiments.figures.style import UNORDERED_COLOURS, Drawing, subplots
from experiments.kinds.language.cell import Cell, run
from experiments.kinds.language.corpus import trained_on
from experiments.running.files import write_atomically
from experiments.tables.changes import update
from experiments.tables.layout import csv_bytes
from sdpa import Scaling
from sdpa.decoder import Decoder
from sdpa.metrics import entropy, row_variance
from sdpa.network import Steps
from sdpa.theory.query_lengths import largest_score_mean

PATH = Path(FULL) / "largest_scores.csv"
_LARGEST = 30.0  # t of QK-Clip: near the largest score with the division
_EVERY = 10  # steps from one row of the table to the next
_RUNS = 3
_NEAR = 0.25  # the largest excess over normal scores that the title calls near
_CELL = Cell(64, 64, 0.004, (Scaling.parse("unscaled"),), initial="small")
_DIVIDED = replace(_CELL, scaling=(Scaling.parse("d_k^1/2"),))
# A decoder, and the largest score that QK-Clip leaves.
TRAINED = {
    "divided by √d_k": (_DIVIDED, inf),
    "no division": (_CELL, inf),
    "QK-norm": (replace(_DIVIDED, normalize="rms", gain="learned"), inf),
    "no division, QK-Clip": (_CELL, _LARGEST),
}


def tabulate() -> pd.DataFrame:
    """A row for each arm and recorded step: means over runs and blocks."""
    rows = [row for arm in TRAINED for seed in range(_RUNS) for row in _of_run(arm, seed)]
    return pd.DataFrame(rows).groupby(["arm", "step"], sort=False).mean().reset_index()


def _of_run(arm: str, seed: int) -> Iterator[dict[str, object]]:
    """The records of a run; runs of a seed share their start, if they have the same weights, and texts."""
    cell, largest = TRAINED[arm]
    rng = np.random.default_rng(seed)
    start = cell.start(rng)
    places = rng.integers(
        len(trained_on(cell.text)) - cell.n_keys, size=(cell.steps + 1, cell.n_sequences)
    )
    (design,) = cell.designs()
    for step, decoder, done in run(cell, design, start, places):
        blocks = [_values(steps) for steps in done.steps]
        if step % _EVERY == 0:
            means = pd.DataFrame(blocks).mean()
            loss = done.losses.mean()
            yield {"arm": arm, "step": step, "loss": loss} | means.to_dict()
        _clip(decoder, [block["largest_score"] for block in blocks], largest)


def _values(steps: Steps) -> dict[str, float]:
    """Of a block of one head, over the rows of a batch that have two keys or more."""
    scores = steps.scaled[..., 1:, :].astype(float)
    n_keys = np.arange(2, scores.shape[-1] + 1)
    seen = np.arange(scores.shape[-1]) < n_keys[:, None]
    spread = sqrt((row_variance(scores) * n_keys / (n_keys - 1)).mean())
    rows = np.broadcast_to(n_keys, scores.shape[:-1]).ravel()
    return {
        "largest_score": scores.max(initial=-np.inf, where=seen),
        "largest_score_exact": float(largest_score_mean(np.full(1, spread), [rows.sum()])),
        "entropy_share": (entropy(steps.weights[..., 1:, :]) / np.log(n_keys)).mean(),
    }


def _clip(decoder: Decoder, scores: list[float], largest: float) -> None:
    """QK-Clip, in place."""
    for block, score in zip(decoder.blocks, scores, strict=True):
        factor = sqrt(min(1.0, largest / score)) if score > 0 else 1.0
        block.query[...] *= factor
        block.key[...] *= factor


def words(table: pd.DataFrame) -> Words:
    """Title and caption, with the largest scores after the last step."""
    last = table[table["step"] == _CELL.steps].set_index("arm")
    divided, none = (last.loc[arm] for arm in ("divided by √d_k", "no division"))
    excess = last["largest_score"] / last["largest_score_exact"] - 1
    return Words(
        supported(
            "In training, the largest score stays near that of normal scores",
            excess[[divided.name, none.name]].abs().max() < _NEAR,
        ),
        f"After {_CELL.steps} steps the largest score is {divided.largest_score:.0f} with the division, and "
        f"{none.largest_score:.0f} without it. Normal scores of the same spread have "
        f"{divided.largest_score_exact:.0f} and {none.largest_score_exact:.0f}.\n"
        f"four blocks of one head, d_k = 64, small start, rate {_CELL.learning_rate:g}; means of {_RUNS} runs and four "
        f"blocks; QK-Clip at {_LARGEST:g}; dotted: normal scores of the same spread",
    )


def draw(table: pd.DataFrame) -> Drawing:
    """The largest score and the entropy over steps."""
    figure, axes = subplots(2, 2, (9, 3.6))
    for colour, (arm, rows) in zip(
        UNORDERED_COLOURS, table.groupby("arm", sort=False), strict=False
    ):
        look = {"color": colour, "label": arm}
        axes[0].errorbar(rows["step"], rows["largest_score"], **look)
        axes[0].plot(rows["step"], rows["largest_score_exact"], ":", color=colour)
        axes[1].errorbar(rows["step"], rows["entropy_share"], **look)
    axes[0].set(
        yscale="log", ylim=(1, None), ylabel="largest scaled score", xlabel="steps of training"
    )
    plain_numbers(axes[0].yaxis)
    axes[1].set(ylim=(0, 1.02), ylabel="entropy of a row over ln n", xlabel="steps of training")
    legend(axes[0])
    return figure


def write_largest(folder: Path) -> None:
    """Draw the shipped table."""
    table = pd.read_csv(folder / PATH)
    path = figure_path(folder / FULL, "arms", "largest")
    write_atomically(path, *Picture(path, words(table), partial(draw, table)).render())


if __name__ == "__main__":
    update(SHIPPED_RESULTS / PATH, csv_bytes(tabulate()))
