"""Every measured value of all sweeps in rows of the same columns, for plots and joins across sweeps.

The finished tables of sweeps come in; the rows of long-format.csv come out. Nothing is measured or tested here: z comes
from the verdicts, and the flags from the check and from `few_draws`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.analysis.agreement import agreement
from experiments.analysis.derived import VERDICTS, Tables
from experiments.harness.columns import Column, defaults, names
from experiments.harness.discovery import axes_of
from experiments.harness.experiment import MEASURED, load_experiment
from experiments.harness.grid import Sweep, plain
from experiments.harness.metric import FEW_DRAWS, Metric
from experiments.harness.tables import as_written

DISAGREES, FEW = "disagrees", "few draws"
LONG_COLUMNS = (
    Column("sweep", "str", "name of the sweep"),
    Column(
        "cell",
        "str",
        "axes and their values, separated by semicolons, without the axes that have their default in the whole sweep",
        "d_k=64;n_keys=64",
    ),
    Column("scaling", "str", "scaling rule; empty if the experiment has none", may_be_empty=True),
    Column("metric", "str", "name of the measured value, a column of the sweep's table"),
    Column("value", "float", "measured value; empty if no run has one", may_be_empty=True),
    Column("se", "float", "standard error of the value between draws; empty for quantiles", may_be_empty=True),
    Column("exact", "float", "exact value, if known", may_be_empty=True),
    Column("z", "float", "z of the verdict on the value", "(value - exact) / error", may_be_empty=True),
    Column(
        "flag",
        "str",
        f"{DISAGREES}: the value by itself raises the alarm of the check; {FEW}: its metric is in `{FEW_DRAWS}`",
        may_be_empty=True,
    ),
)
_KEY = ["cell", "scaling", "metric"]


def long_tables(sweeps: Sequence[Sweep], tables: Mapping[str, Tables]) -> Iterator[pd.DataFrame]:
    """The rows of one sweep after the other, one per cell, rule and metric; none of a sweep without metrics.

    Args:
        sweeps: the sweeps to include; the check tests their values together.
        tables: the finished tables of each sweep by its name.
    """
    together = agreement(sweeps, tables)
    for sweep in sweeps:
        experiment, measured = load_experiment(sweep.experiment), tables[sweep.name][MEASURED]
        if experiment.metrics:
            untested = measured.head(0).assign(metric="", test="", z=np.nan, p_value=np.nan)
            judged = tables[sweep.name].get(VERDICTS, untested)
            axes = _named_axes(experiment.cell, measured)
            keyed, tested = (_keyed(table, axes) for table in (measured, judged))
            rows = _rows(keyed, experiment.metrics, tested.assign(disagrees=together.alarming(judged)))
            yield rows.assign(sweep=sweep.name)[names(LONG_COLUMNS)]


def _named_axes(cell: type[Any], table: pd.DataFrame) -> list[str]:
    """The axes of a table that have no default, or another value than their default in some row."""
    usual = {name: as_written(plain(value)) for name, value in defaults(cell).items()}
    return [name for name in axes_of(table) if set(table[name].map(as_written)) != {usual.get(name)}]


def _keyed(table: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """A table with the column `cell`, the values of these axes as text, and with an empty `scaling` if it has none."""
    cell = pd.Series("", index=table.index, dtype=str)
    for name in axes:
        cell = cell + f";{name}=" + table[name].map(as_written)
    return table.assign(cell=cell.str.removeprefix(";"), scaling=table.get("scaling", ""))


def _rows(measured: pd.DataFrame, metrics: Sequence[Metric], judged: pd.DataFrame) -> pd.DataFrame:
    """One row for each metric in each row of a main table, in its order, with z and flag.

    Args:
        measured: the finished main table with the key of each cell.
        metrics: those of its experiment.
        judged: its verdicts with the same key, and with `disagrees`.
    """
    values = [
        measured[["cell", "scaling", FEW_DRAWS]].assign(
            metric=metric.name,
            value=measured[metric.name],
            se=measured.get(f"{metric.name}_se", np.nan),
            exact=measured.get(f"{metric.name}_exact", np.nan),
        )
        for metric in metrics
    ]
    rows = pd.concat(values).sort_index(kind="stable")  # the index is that of the table
    rows = rows.merge(judged[[*_KEY, "z", "disagrees"]], how="left", on=_KEY, validate="one_to_one")
    few = [metric in listed.split() for metric, listed in zip(rows["metric"], rows[FEW_DRAWS], strict=True)]
    return rows.assign(flag=np.select([rows["disagrees"].eq(True), few], [DISAGREES, FEW], default=""))
