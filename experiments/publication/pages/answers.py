"""The answers on the first screen, with their numbers from the tables of the sweeps behind them."""

from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd

from experiments.figures.captions import finding_numbers
from experiments.kinds.figures import FIGURES
from experiments.kinds.support import rows_of, significant, widest
from experiments.tables.crossings import EQUAL
from experiments.tables.results import Results
from sdpa.scaling import SCALED, UNSCALED


def answers(found: Mapping[str, Results]) -> dict[str, dict[str, float]]:
    """The numbers of each answer by name; only of those that the tables support.

    Exact are means of the sweep `dimension` at its largest d_k, and the d_k of `crossing` at
    which the medians of |dL/dq| are equal. The growth through a network is measured.
    """
    behind = {name: _supporting(figure, found) for name, (figure, _) in ANSWERS.items()}
    return {name: ANSWERS[name][1](results) for name, results in behind.items() if results}


def _supporting(figure: str, found: Mapping[str, Results]) -> Results | None:
    """The results that the finding of a figure is about; None unless they support it.

    So is the answer of an experiment whose folder is gone.
    """
    finding = FIGURES[figure].finding if figure in FIGURES else None
    results = found.get(finding.sweep) if finding else None
    return results if results and finding_numbers(figure, results) is not None else None


def _exact(metric: str, results: Results) -> dict[str, float]:
    """The exact means of a metric under both rules at the largest d_k of a sweep."""
    return _both(widest(results.measured), f"{metric}_exact", "d_k", "n_keys")


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
    losses = finding_numbers("losses", results) or {}
    sizes = {name: results.measured[name].iloc[0] for name in ("d_k", "steps", "width")}
    return {
        **sizes,
        "unscaled": losses["plain"],
        "scaled": losses["root"],
        "apart_if_small": round(losses["small"], 2),
    }


# Each with the figure whose finding it is.
ANSWERS: dict[str, tuple[str, Callable[[Results], dict[str, float]]]] = {
    "variance": ("variance", partial(_exact, "score_variance")),
    "saturation": ("saturation", partial(_exact, "max_weight")),
    "gradients": ("map", _gradients),
    "network": ("growth", _network),
    "training": ("losses", _training),
}
