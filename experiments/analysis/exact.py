"""Exact values beside the measured ones, where `sdpa.theory` knows them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from experiments.harness.experiment import Column
from sdpa import LAWS, theory


@dataclass(frozen=True)
class Exact:
    """The exact value of a metric, from a row's axes and divisor."""

    column: Column
    value: Callable[[Any], float]


def _exact(metric: str, formula: str, value: Callable[[Any], float]) -> Exact:
    return Exact(Column(f"{metric}_exact", "float", "", f"exact value of {metric}", formula), value)


SATURATION_EXACT = {
    "score_mean": _exact("score_mean", "0", lambda _: theory.score_mean()),
    "score_variance": _exact(
        "score_variance",
        "d_k input_std^4 / divisor^2",
        lambda row: theory.score_variance(row.d_k, row.divisor, row.input_std),
    ),
    "score_kurtosis": _exact(
        "score_kurtosis",
        "(E[x^4]^2 - 3) / d_k, x an entry of variance 1",
        lambda row: theory.score_kurtosis(row.d_k, LAWS[row.inputs].fourth_moment),
    ),
}


def add_exact(measured: pd.DataFrame, known: Mapping[str, Exact]) -> pd.DataFrame:
    """The table with NAME_exact behind NAME_se for every metric whose exact value is known."""
    table = measured.copy()
    for metric, exact in known.items():
        values = [exact.value(row) for row in measured.itertuples()]
        place = list(table.columns).index(f"{metric}_se") + 1
        table.insert(place, exact.column.name, values)
    return table
