"""The answers on the first screen, with their numbers from the tables of the sweeps behind them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pandas as pd

from experiments.kinds.figures import FIGURES
from experiments.kinds.support import rows_of, significant
from experiments.publication.pages.pictures import Picture
from experiments.tables.crossings import EQUAL
from experiments.tables.results import Results
from sdpa.scaling import SCALED, UNSCALED


def answers(
    found: Mapping[str, Results], drawn: Mapping[str, Sequence[Picture]]
) -> dict[str, dict[str, float]]:
    """The numbers of each answer by name; only of those whose figure, as drawn, has the title of its
    finding, because the tables support it.

    Exact are means of the sweep `dimension` at its largest d_k, and the d_k of `crossing` at
    which the medians of |dL/dq| are equal. The growth through a network is measured.
    """
    known = {}
    for name, (figure, numbers) in ANSWERS.items():
        # None if the folder of its experiment is gone
        finding = FIGURES[figure].finding if figure in FIGURES else None
        if not finding or finding.sweep not in found:
            continue
        if finding.title in (picture.title for picture in drawn[finding.sweep]):
            known[name] = numbers(found[finding.sweep])
    return known


def _exact(metric: str, results: Results) -> dict[str, float]:
    """The exact means of a metric under both rules at the largest d_k of a sweep."""
    widest = rows_of(results, d_k=results.measured["d_k"].max())
    return _both(widest, f"{metric}_exact", "d_k", "n_keys")


def _both(rows: pd.DataFrame, column: str, *sizes: str) -> dict[str, float]:
    """Sizes of the rows, and a column under both rules."""
    values = rows.set_index("scaling")[column]
    numbers = {name: rows[name].iloc[0] for name in sizes}
    return numbers | {"unscaled": values[UNSCALED], "scaled": values[SCALED]}


def _gradients(results: Results) -> dict[str, float]:
    medians = {"norm": "query_gradient", "statistic": "median", "level": EQUAL}
    equal = rows_of(results, "crossings", **medians).sort_values("n_keys")
    numbers = {}
    for name, place in (("shortest", 0), ("longest", -1)):
        row = equal.iloc[place]
        numbers[name] = row["n_keys"]
        numbers[f"crossing_{name}"] = significant(row["crossing_exact"], 2)
    return numbers


def _network(results: Results) -> dict[str, float]:
    deepest = rows_of(results, layers=results.measured["layers"].max())
    return _both(deepest, "stream_gradient_growth", "layers", "n_heads", "d_k", "n_keys")


def _training(results: Results) -> dict[str, float]:
    """Losses of a decoder at the best rates, from q and k of variance 1 and from small weights."""
    unit, small = (
        _both(
            rows_of(results, "bands", initial=start, initial_divisor=UNSCALED),
            "final_loss",
            "d_k",
            "steps",
            "width",
        )
        for start in ("unit", "small")
    )
    return unit | {"apart_if_small": round(small["unscaled"] - small["scaled"], 2)}


# Each with the figure whose finding it is.
ANSWERS: dict[str, tuple[str, Callable[[Results], dict[str, float]]]] = {
    "variance": ("variance", partial(_exact, "score_variance")),
    "saturation": ("saturation", partial(_exact, "max_weight")),
    "gradients": ("map", _gradients),
    "network": ("growth", _network),
    "training": ("losses", _training),
}
