"""The answers on the first screen, with their numbers from the tables of the sweeps behind them."""

from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd

from experiments.analysis.crossings import EQUAL
from experiments.analysis.results import Results
from experiments.analysis.written import significant
from experiments.declarations.tables import rows_of, widest
from experiments.figures.findings import finding_of
from sdpa.scaling import SCALED, UNSCALED

Numbers = dict[str, float]


def answers(found: Mapping[str, Results]) -> dict[str, Numbers]:
    """The numbers of each answer by name; only of those that the tables support.

    Exact are means of the sweep `dimension` at its largest d_k, and the d_k of `crossing` at
    which the medians of |dL/dq| are equal. The growth through a network is measured.
    """
    judged = {}
    for name, (sweep, figure, numbers) in ANSWERS.items():
        if sweep in found and finding_of(figure, found[sweep]):
            judged[name] = numbers(found[sweep])
    return judged


def _exact(metric: str, results: Results) -> Numbers:
    """The exact means of a metric under both rules at the largest d_k of a sweep."""
    return _both(widest(results.measured), f"{metric}_exact", "d_k", "n_keys")


def _both(rows: pd.DataFrame, column: str, *sizes: str) -> Numbers:
    """Sizes of the rows, and a column under both rules."""
    values = rows.set_index("scaling")[column]
    numbers = {name: rows[name].iloc[0] for name in sizes}
    return numbers | {"unscaled": values[UNSCALED], "scaled": values[SCALED]}


def _gradients(results: Results) -> Numbers:
    medians = {"norm": "query_gradient", "statistic": "median", "level": EQUAL}
    equal = rows_of(results, "crossings", **medians).sort_values("n_keys")
    numbers = {}
    for name, place in (("shortest", 0), ("longest", -1)):
        row = equal.iloc[place]
        numbers[name] = row["n_keys"]
        numbers[f"crossing_{name}"] = significant(row["crossing_exact"], 2)
    return numbers


def _network(results: Results) -> Numbers:
    deepest = rows_of(results, layers=results.measured["layers"].max())
    return _both(deepest, "stream_gradient_growth", "layers", "d_k", "n_keys")


ANSWERS: dict[str, tuple[str, str, Callable[[Results], Numbers]]] = {
    "variance": ("dimension", "variance", partial(_exact, "score_variance")),
    "saturation": ("dimension", "saturation", partial(_exact, "max_weight")),
    "gradients": ("crossing", "map", _gradients),
    "network": ("network", "growth", _network),
}
