"""The cards of the first screen: a finding, its curves with and without the division, and a pair of
their numbers.

The finding of a figure gives headline and sentence; the tables of its sweep give all else.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments.figures.captions import words_of
from experiments.figures.markup import digits
from experiments.figures.shown import shown
from experiments.figures.words import short
from experiments.kinds.figures import FIGURES
from experiments.kinds.support import BOTH, MEDIAN_GRADIENT, exact_or_measured, rows_of, widest
from experiments.tables.results import Results
from sdpa.scaling import UNSCALED


class Curves(NamedTuple):
    """A quantity with and without the division.

    Attributes:
        values: the quantity along an axis, a column for each of `BOTH`.
        pair: the two numbers of the card.
        at: the setup and the sizes of the pair, in words.
    """

    values: pd.DataFrame
    pair: Sequence[float]
    at: str

    @property
    def ends(self) -> list[str]:
        """The first and the last place of the axis."""
        places = self.values.index
        return [short(places[0]), short(places[-1])]

    def paths(self) -> list[str]:
        """An SVG path for each of `BOTH` in a box of 100 by 100, with a logarithmic upward axis."""
        x = self.values.index.to_numpy(float)
        y = np.log(self.values.to_numpy(float))
        if x.min() > 0:
            x = np.log(x)
        right, up = (100 * (axis - axis.min()) / np.ptp(axis) for axis in (x, y))
        paths = []
        for heights in up.T:
            points = zip(right, 100 - heights, strict=True)
            paths.append("M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points))
        return paths


class Card(NamedTuple):
    """A card: its subject, title and sentence of the finding, the sweep, the quantity in words, and
    its curves.
    """

    subject: str
    headline: str
    sentence: str
    sweep: str
    quantity: str
    curves: Curves


def cards(sweeps: Mapping[str, Results]) -> Iterator[Card]:
    """The cards whose finding the tables support."""
    for subject, (name, quantity, metric) in _CARDS.items():
        # None if the folder of its experiment is gone
        figure = FIGURES.get(name)
        if not figure or not (finding := figure.finding) or finding.sweep not in sweeps:
            continue
        results = sweeps[finding.sweep]
        words = words_of(figure, shown(figure, results))
        if words.is_found and {*BOTH} <= {*results.measured["scaling"]}:
            curves = _along_widths(results, metric) if metric else _along_steps(results)
            sentence, _, _ = words.caption.partition("\n")
            yield Card(subject, words.title, sentence, results.name, quantity, curves)


def _along_widths(results: Results, metric: str) -> Curves:
    """A metric of textbook rows, exact where theory knows it."""
    rows = results.measured
    known = rows.assign(value=exact_or_measured(rows, metric))
    values = known.pivot_table("value", "d_k", "scaling")[[*BOTH]]
    last = widest(rows).iloc[0]
    at = f"in textbook rows with d_k = {digits(last['d_k'])} and {digits(last['n_keys'])} keys"
    return Curves(values, values.iloc[-1].tolist(), at)


def _along_steps(results: Results) -> Curves:
    """Losses of decoders at the best rate of each rule, from q and k of variance 1."""
    start = {"initial": "unit", "initial_divisor": UNSCALED}
    best = rows_of(results, "bands", **start).set_index("scaling")
    losses = rows_of(results, "history", **start)
    values = losses.pivot_table("test_loss", "step", "scaling")[[*BOTH]]
    first = best.iloc[0]
    at = f"at d_k = {first['d_k']}, in {first['layers']} blocks, after {first['steps']:,} steps"
    return Curves(values, best.loc[[*BOTH], "final_loss"].tolist(), at)


# By subject: the figure of the finding, the quantity, and its metric; none for losses of training.
_CARDS = {
    "Variance": ("variance", "variance of the scores", "score_variance"),
    "Saturation": ("saturation", "mean largest weight", "max_weight"),
    "Gradients": ("gradients", "median gradient at a query", MEDIAN_GRADIENT),
    "Training": ("losses", "loss in nats per character", ""),
}
