"""Exact values beside the measured ones, and the least errors that these can have, where `sdpa.theory` knows them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from experiments.harness.experiment import Column
from sdpa import LAWS, theory
from sdpa.theory import attention_deviations, attention_expectations


@dataclass(frozen=True)
class Exact:
    """What theory knows of a metric, from a row's axes, exponent and trials."""

    formula: str
    value: Callable[[Any], float]  # NaN, an empty field, where it is not known
    # Bounds of the standard error of the metric, or of the mean under a root; 0 and infinite where none is known.
    least_error: Callable[[Any], float] = lambda _: 0.0
    most_error: Callable[[Any], float] = lambda _: math.inf


def _expectation(metric: str) -> Callable[[Any], float]:
    """The exact expectation of a metric, which is known for Gaussian inputs."""

    def value(row: Any) -> float:
        if row.inputs != "gaussian":
            return math.nan
        expectations = attention_expectations(row.d_k, row.n_keys, _divisor(row), row.input_std)
        return float(getattr(expectations, metric))

    return value


def _of_rows(metric: str, deviation: str) -> Exact:
    """An expectation over rows. Rows that share keys depend on each other: on all, or at the other end on none.

    The mean of the n_queries rows of a trial varies by no more than one row does, and independent rows by no less than
    that over sqrt(n_queries).
    """

    def of_row(row: Any) -> float:
        if row.inputs != "gaussian":
            return 0.0
        deviations = attention_deviations(row.d_k, row.n_keys, _divisor(row), row.input_std)
        return float(getattr(deviations, deviation)) / math.sqrt(row.trials)

    return Exact(
        _INTEGRALS,
        _expectation(metric),
        lambda row: of_row(row) / math.sqrt(row.n_queries),
        lambda row: of_row(row) or math.inf,
    )


def _score_error(metric: str) -> Callable[[Any], float]:
    """The error that independent scores would have, which those that share a query or a key have at least."""

    def least_error(row: Any) -> float:
        moments = LAWS[row.inputs].moments
        deviations = theory.score_power_deviations(row.d_k, _divisor(row), row.input_std, moments)
        return float(getattr(deviations, metric)) / math.sqrt(row.trials * row.n_queries * row.n_keys)

    return least_error


def _divisor(row: Any) -> float:
    """What the scaling means, not what was divided by: a wrong divisor then parts measured from exact values."""
    return float(row.d_k**row.exponent)


_INTEGRALS = "integrals over a Gaussian row, then over |q| (sdpa.theory); empty where inputs is not gaussian"

SATURATION_EXACT = {
    "score_mean": Exact("0", lambda _: theory.score_mean(), _score_error("score_mean")),
    "score_variance": Exact(
        "d_k input_std^4 / divisor^2",
        lambda row: theory.score_variance(row.d_k, _divisor(row), row.input_std),
        _score_error("score_variance"),
    ),
    "score_kurtosis": Exact(
        "(E[x^4]^2 - 3) / d_k, x an entry of variance 1",
        lambda row: theory.score_kurtosis(row.d_k, LAWS[row.inputs].moments[0]),
        _score_error("score_kurtosis"),
    ),
    **{metric: _of_rows(metric, metric) for metric in ("max_weight", "entropy", "jacobian_trace", "saturated_rows")},
    "jacobian_norm": _of_rows("jacobian_norm", "jacobian_square"),
    "query_gradient_norm": _of_rows("query_gradient_norm", "query_gradient_square"),
}


def exact_column(metric: Column, exact: Exact) -> Column:
    """The column of a metric's exact values, in its unit."""
    return Column(f"{metric.name}_exact", "float", metric.unit, f"exact value of {metric.name}", exact.formula)


def add_exact(measured: pd.DataFrame, known: Mapping[str, Exact]) -> pd.DataFrame:
    """The table with NAME_exact behind NAME_high for every metric whose exact value is known."""
    table = measured.copy()
    for metric, exact in known.items():
        values = [exact.value(row) for row in measured.itertuples()]
        place = list(table.columns).index(f"{metric}_high") + 1
        table.insert(place, f"{metric}_exact", values)
    return table
