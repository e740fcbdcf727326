"""A metric: one measured quantity, declared once, and the columns that a table has of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from experiments.harness.experiment import Column, Row
from experiments.statistics.intervals import (
    LEVEL,
    MIN_DRAWS,
    MIN_TRIALS,
    Limits,
    effective_draws,
    mean_interval,
    share_interval,
)
from experiments.statistics.quantiles import Quantile

FEW_DRAWS = "few_draws"


@dataclass(frozen=True)
class Metric:
    """A measured quantity of a table: its column, how it is estimated, and what it cannot pass."""

    name: str
    unit: str
    meaning: str
    formula: str
    kind: Literal["mean", "root", "share", "quantile"] = "mean"
    # From anything that has a cell's axes as attributes: a cell, or a table for arrays of limits.
    limits: Callable[[Any], Limits] = lambda _: Limits()
    min_draws: int = MIN_DRAWS  # effective ones, below which an error bar is not to be trusted
    draws_like: str = ""  # the metric whose effective draws count for one without limits
    scale_free: bool = False  # its z-score is the same whatever the scores are divided by

    def columns(self) -> tuple[Column, ...]:
        """NAME, NAME_se unless it is a quantile, NAME_low and NAME_high."""
        error = Column(f"{self.name}_se", "float", self.unit, f"standard error of {self.name}, between draws")
        low = Column(f"{self.name}_low", "float", self.unit, f"lower end of the {LEVEL:.0%} interval of {self.name}")
        high = Column(f"{self.name}_high", "float", self.unit, "upper end of the same interval")
        value = Column(self.name, "float", self.unit, self.meaning, self.formula)
        return (value, low, high) if self.kind == "quantile" else (value, error, low, high)

    def effective_draws(self, table: Any, value: Any, error: Any) -> npt.NDArray[np.floating]:
        """(d / se)^2 of the mean, d its distance from the nearer limit; of a root, that of the mean under it."""
        draws = effective_draws(value, error, self.limits(table))
        return draws / 4 if self.kind == "root" else draws


def few_draws_column() -> Column:
    """The column that lists the metrics of a row whose error bars are not to be trusted."""
    return Column(
        FEW_DRAWS,
        "str",
        "",
        "metrics of this row that rest on too few effective draws for their error bars: fewer than "
        f"{MIN_DRAWS}, or {MIN_TRIALS} trials; raise trials",
        "effective draws = (distance from the nearer limit / se)^2",
    )


def fields(
    metrics: Sequence[Metric], cell: Any, trials: int, found: Mapping[str, tuple[float, float] | Quantile]
) -> Row:
    """The columns of metrics in a row of a cell, with those that rest on few draws.

    Args:
        metrics: those of the experiment, in order.
        cell: what the metrics' limits follow from; its n_queries is the number of rows of a trial.
        trials: independent draws.
        found: by metric, its value and standard error, or the quantile.
    """
    draws = {
        metric.name: float(metric.effective_draws(cell, *estimate))
        for metric in metrics
        if isinstance(estimate := found[metric.name], tuple)
    }
    row: Row = {}
    few = []
    for metric in metrics:
        name, estimate = metric.name, found[metric.name]
        if isinstance(estimate, Quantile):
            row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
            enough = estimate.inside
        else:
            value, error = estimate
            low, high = (
                share_interval(value, error, trials, cell.n_queries)
                if metric.kind == "share"
                else mean_interval(value, error, trials, metric.limits(cell))
            )
            row |= {name: value, f"{name}_se": error, f"{name}_low": low, f"{name}_high": high}
            # Clopper and Pearson's interval of a share holds for any number of events.
            enough = metric.kind == "share" or draws[metric.draws_like or name] >= metric.min_draws
        if trials < MIN_TRIALS or not enough:
            few.append(name)
    row[FEW_DRAWS] = " ".join(few)
    return row
