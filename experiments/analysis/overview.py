"""Tables as wholes: every value in rows of the same columns, and the description of every column.

The rows of long-format.csv serve plots and joins across sweeps: z comes from the verdicts, and the
flags from the check and from `few_draws`. The rows of columns.csv describe every table.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.analysis.analyse import columns_of
from experiments.analysis.derived import VERDICTS, columns_of_text
from experiments.analysis.results import Results
from experiments.analysis.verdicts import agreement
from experiments.analysis.written import IDENTITY
from experiments.measuring.columns import Column, axis_columns, names
from experiments.measuring.experiment import MEASURED
from experiments.measuring.metric import FEW_DRAWS
from experiments.paths import LONG

DISAGREES = "disagrees"
FEW = "few draws"
_OF_VALUES = columns_of_text(
    f"""
    scaling str? scaling rule; empty if the experiment has none
    metric str name of the measured value, a column of the sweep's table
    value float? measured value; empty if no run has one
    se float? standard error of the value between draws; empty for quantiles
    exact float? exact value, if known
    z float? z of the verdict on the value := (value - exact) / error
    flag str? {DISAGREES}: the value by itself raises the alarm of the check; {FEW}: its metric is in `{FEW_DRAWS}`
    """
)


def long_columns(sweeps: Iterable[Results]) -> tuple[Column, ...]:
    """The columns for these sweeps: the sweep, every axis that one of them has, and the columns of
    a value.

    A sweep without an axis leaves its fields empty. Sweeps of an experiment without metrics do not
    count.
    """
    axes: dict[str, Column] = {}
    for sweep in sweeps:
        if sweep.metrics:
            for column in axis_columns(sweep.experiment.cell):
                axes.setdefault(column.name, column)
    return (IDENTITY[0], *axes.values(), *_OF_VALUES)


def long_tables(sweeps: Sequence[Results]) -> Iterator[pd.DataFrame]:
    """The rows of one sweep after the other, one per cell, rule and metric; none of a sweep without
    metrics.

    The check tests the values of all these sweeps together.
    """
    together = agreement(sweeps)
    columns = names(long_columns(sweeps))
    for one in sweeps:
        if one.metrics:
            rows = _values(one)
            if VERDICTS in one:
                judged = _with_scaling(one[VERDICTS])
                flagged = judged.assign(disagrees=together.alarming(judged))
                key = [*one.axes.usual, "scaling", "metric"]
                z = flagged[[*key, "z", "disagrees"]]
                rows = rows.merge(z, how="left", on=key, validate="one_to_one")
            yield rows.assign(sweep=one.name, flag=_flags(rows)).reindex(columns=columns)


def _with_scaling(table: pd.DataFrame) -> pd.DataFrame:
    """A table with an empty `scaling` if it has none."""
    return table.assign(scaling=table.get("scaling", ""))


def _values(results: Results) -> pd.DataFrame:
    """One row for each metric in each row of a main table."""
    measured = _with_scaling(results.measured)
    of_rows = measured[[*results.axes.usual, "scaling", FEW_DRAWS]]
    values = [
        of_rows.assign(
            metric=metric,
            value=measured[metric],
            se=measured.get(f"{metric}_se", np.nan),
            exact=measured.get(f"{metric}_exact", np.nan),
        )
        for metric in results.metrics
        if metric in measured  # not in a table that is older than the metric
    ]
    return pd.concat(values).sort_index(kind="stable")  # the index is that of the table


def _flags(rows: pd.DataFrame) -> npt.NDArray[np.str_]:
    """The flag of each value: the graver one if both hold, empty if none does."""
    named = zip(rows["metric"], rows[FEW_DRAWS], strict=True)
    has_few = [metric in few.split() for metric, few in named]
    disagrees = rows["disagrees"].eq(True) if "disagrees" in rows else False
    return np.select([disagrees, np.array(has_few, bool)], [DISAGREES, FEW], "")


def described(sweeps: Sequence[Results]) -> pd.DataFrame:
    """The columns of all tables, in the order of the tables, and last those of long-format.csv.

    Returns:
        One row per column that has its own description: column, type, unit, meaning, formula, and
        the tables with it (EXPERIMENT, EXPERIMENT/KIND or long-format.csv), separated by spaces.
    """
    columns_in: dict[str, tuple[Column, ...]] = {}
    for one in sweeps:
        experiment = one.experiment.name
        columns = columns_of(one.experiment)
        for kind in one:
            table = experiment if kind == MEASURED else f"{experiment}/{kind}"
            columns_in[table] = (*IDENTITY, *columns[kind])
    columns_in[LONG] = long_columns(sweeps)
    rows = [
        (column.name, column.type, column.unit, column.meaning, column.formula, table)
        for table, columns_of_table in columns_in.items()
        for column in columns_of_table
    ]
    fields = ["column", "type", "unit", "meaning", "formula"]
    listed = pd.DataFrame(rows, columns=[*fields, "tables"])
    return listed.groupby(fields, sort=False)["tables"].agg(" ".join).reset_index()
