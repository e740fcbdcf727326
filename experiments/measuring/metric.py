"""A metric: one measured quantity, declared once, and its columns in a table.

The columns, intervals and list of unreliable error bars follow from the declaration; verdicts and
figures iterate over the same declarations.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

import sdpa
from experiments.measuring.cells import ACCURACY, BaseCell, Row, Sizes
from experiments.measuring.columns import Column
from experiments.measuring.intervals import (
    LEVEL,
    MIN_DRAWS,
    MIN_SEPARATE_ROWS,
    MIN_TRIALS,
    Limits,
    share_interval,
)
from experiments.measuring.quantiles import Quantile
from sdpa._arrays import FloatArray

FEW_DRAWS = "few_draws"
Per = Literal["row", "query", "key", "scores", "run"]

OfCell = Callable[[BaseCell], float]  # of a cell with one scaling
End = float | Callable[[Sizes], float | FloatArray]  # of a range


@dataclass(frozen=True)
class Exact:
    """The exact value of a metric.

    Attributes:
        formula: in words or symbols.
        value: computes it for a cell with one scaling; NaN if theory does not know it.
        accuracy: bound of its relative error.
    """

    formula: str
    value: OfCell
    accuracy: float = ACCURACY


def from_theory(
    function: str,
    arguments: Callable[[BaseCell], tuple[object, ...]],
    field: str = "",
) -> OfCell:
    """A function of `sdpa.theory` at the arguments that a cell gives, or a field of what it
    returns; NaN where theory does not know it.

    >>> from experiments.measuring.sampling import SampledCell
    >>> from sdpa import PairLaw
    >>> mean = from_theory("score_mean", lambda cell: (cell.d_k, 1.0, PairLaw(normalize="l2", query_mean=1.0)))
    >>> mean(SampledCell(d_k=4, n_keys=8, scaling=()))
    nan
    """

    def value(cell: BaseCell) -> float:
        try:
            expectation = getattr(sdpa.theory, function)(*arguments(cell))
        except sdpa.theory.UnknownError:
            return math.nan
        return float(getattr(expectation, field) if field else expectation)

    return value


@dataclass(frozen=True)
class Metric:
    """A measured quantity of a table; a subclass may say how to compute it.

    Attributes:
        name: name of its column; NAME_se, NAME_low, NAME_high and NAME_exact follow it in memory.
        meaning, formula: for the description of the column.
        title: for the panels of figures, with mathematics between dollar signs.
        kind: the reduction of a trial's values: a mean, the root of a mean, a share of rows, or a
            quantile of all rows.
        unit: unit of its values; empty for a number without one.
        per: what has one value: a row of attention, a query or a key, the scores of all trials, or
            a run of training.
        share: the share of the rows below a quantile.
        exact: the exact value, if theory knows it.
        within: the range of the quantity.
        min_draws, min_trials: effective draws, and trials, below which its error bar is unreliable.
        draws_like: for a metric without a range, such as score_mean, the metric whose effective
            draws it uses.
        is_precise: True if the `precision` of a sweep bounds its relative standard error.
        is_of_squares: True for a sum of squared weights, which few rows carry if keys are many, so
            that its comparison with an exact value needs more draws.
        is_logarithmic: True if figures may show it on a logarithmic axis.
        may_be_empty: True if its value and its interval may be missing.
    """

    name: str
    meaning: str
    formula: str
    title: str
    kind: Literal["mean", "root", "share", "quantile"] = "mean"
    unit: str = ""
    per: Per = "row"
    share: float = math.nan
    exact: Exact | None = None
    within: tuple[End, End] = (-math.inf, math.inf)
    min_draws: int = MIN_DRAWS
    min_trials: int = MIN_TRIALS
    draws_like: str = ""
    is_precise: bool = False
    is_of_squares: bool = False
    is_logarithmic: bool = False
    may_be_empty: bool = False

    @property
    def is_average(self) -> bool:
        """True if its interval follows from value, standard error and trials."""
        return self.kind in ("mean", "root")

    def columns(self) -> tuple[Column, ...]:
        """Its columns in a file: NAME, NAME_se unless it is a quantile, NAME_low and NAME_high
        unless they follow from these, and NAME_exact if theory knows it.
        """
        endings = [("", self.meaning, self.formula)]
        if self.kind != "quantile":
            endings.append(("_se", f"standard error of {self.name} between draws", ""))
        if not self.is_average:
            level = f"{LEVEL:.0%} interval"
            if self.kind == "quantile" and self.per == "run":
                level = "interval (95% from nine runs on, else from the lowest to the highest)"
            endings.append(("_low", f"lower end of the {level} of {self.name}", ""))
            endings.append(("_high", "upper end of the same interval", ""))
        if self.exact is not None:
            meaning = f"exact value of {self.name}, to {self.exact.accuracy:g} of it"
            endings.append(("_exact", meaning, self.exact.formula))
        return tuple(
            Column(
                f"{self.name}{suffix}",
                "float",
                meaning,
                formula,
                self.unit,
                suffix == "_exact" or self.may_be_empty,
            )
            for suffix, meaning, formula in endings
        )

    def limits(self, sizes: Sizes) -> Limits:
        """The values that the quantity cannot pass in rows of these sizes."""
        return Limits(*(end(sizes) if callable(end) else end for end in self.within))

    def effective_draws(
        self, sizes: Sizes, value: float | FloatArray, error: float | FloatArray
    ) -> FloatArray:
        """(d / se)^2 of the mean, with d its distance from the nearer limit; for a root, of the
        mean under it.

        If x is a root, the mean square x^2 has the standard error 2 x se. Near a limit of 0 it thus
        has a quarter of the draws of x.

        Args:
            sizes: of a row, or of the rows of a table; they determine the limits.
            value: the metric's value, a number or a column.
            error: its standard error, likewise.
        """
        draws = self.limits(sizes).effective_draws(value, error)
        return draws / 4 if self.kind == "root" else draws


def metric_columns(metrics: Sequence[Metric]) -> tuple[Column, ...]:
    """The columns of metrics, and a column that lists the metrics with unreliable error bars in
    each row.
    """
    draws = _fewest(metrics, "min_draws", f"{MIN_DRAWS} effective draws")
    trials = _fewest(metrics, "min_trials", f"{MIN_TRIALS} trials")
    few_draws = Column(
        FEW_DRAWS,
        "str",
        "metrics of this row with too few effective draws for reliable error bars, which more "
        f"trials give: fewer than {draws}, {trials}, {MIN_SEPARATE_ROWS} separate rows, or "
        f"{MIN_TRIALS} of them below or above a quantile",
        "effective draws = (distance from the nearer limit / se)^2, a quarter of it for a root "
        "mean square; separate "
        "rows = trials min(n_queries, n_keys - 1); trials, if the queries of a draw are nearly "
        "parallel; not limited in stacks and decoders",
        may_be_empty=True,
    )
    return (*(column for metric in metrics for column in metric.columns()), few_draws)


def _fewest(
    metrics: Sequence[Metric], limit: Literal["min_draws", "min_trials"], usual: str
) -> str:
    """The usual limit in words, followed in brackets by the metrics that have another one."""
    default = getattr(Metric, limit)
    others = [
        f"{fewest} of {metric.name}"
        for metric in metrics
        if (fewest := getattr(metric, limit)) != default
    ]
    return f"{usual} ({', '.join(others)})" if others else usual


def metric_row(
    metrics: Sequence[Metric],
    cell: BaseCell,
    trials: int,
    estimates: Mapping[str, tuple[float, float] | Quantile],
) -> Row:
    """A row of the main table, without the intervals of averages.

    Args:
        metrics: the metrics of the experiment, in order.
        cell: of the row, with its rule alone.
        trials: number of independent draws.
        estimates: the value and standard error of each metric, or its quantile, by metric.

    Returns:
        The head of the cell, the trials, the measured columns of each metric, and `few_draws`:
        the names, separated by spaces, of metrics with unreliable error bars. Below 50
        separate rows these are all; otherwise those below their `min_trials`, means and roots of
        fewer effective draws than `min_draws`, and quantiles whose interval is not `inside` or that have fewer than 20
        separate rows below or above.
    """
    sizes = cell.sizes
    draws = {
        metric.name: float(metric.effective_draws(sizes, *estimate))
        for metric in metrics
        if isinstance(estimate := estimates[metric.name], tuple)
    }
    separate = trials * cell.separate_rows
    row = cell.row_head() | {"trials": trials}
    few = []
    for metric in metrics:
        name, estimate = metric.name, estimates[metric.name]
        if isinstance(estimate, Quantile):
            row |= {
                name: estimate.value,
                f"{name}_low": estimate.low,
                f"{name}_high": estimate.high,
            }
            beyond = round(min(metric.share, 1 - metric.share) * separate, 6)
            enough = estimate.inside and beyond >= MIN_TRIALS
        else:
            value, error = estimate
            row |= {name: value, f"{name}_se": error}
            if metric.kind == "share":
                per_trial = float(sizes.n_queries) if metric.per == "row" else 1.0
                low, high = share_interval(value, error, trials, per_trial)
                row |= {f"{name}_low": low, f"{name}_high": high}
                enough = True  # the interval of Clopper and Pearson holds for any number of events
            else:
                enough = draws[metric.draws_like or name] >= metric.min_draws
        if trials < metric.min_trials or separate < MIN_SEPARATE_ROWS or not enough:
            few.append(name)
    row[FEW_DRAWS] = " ".join(few)
    return row


def relative_error(metrics: Iterable[Metric], rows: Iterable[Row]) -> float:
    """max of se / |value| over the precise metrics in rows; infinite if a value or error is 0, and
    0 without any.
    """
    errors = [0.0]
    for row in rows:
        for metric in metrics:
            if metric.is_precise:
                pair = row[metric.name], row[f"{metric.name}_se"]
                value, error = np.abs(np.array(pair, dtype=float))
                # An error of 0 beside a positive value means that its square was too small for a
                # double.
                errors.append(error / value if value > 0 and error > 0 else math.inf)
    return max(errors)
