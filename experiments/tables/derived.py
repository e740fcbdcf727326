"""Derived tables, and the exact values of metrics in the cell of each row of a main table."""

import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pandas as pd

from experiments.measuring.columns import RULES, Column, Type, axis_columns, names
from experiments.measuring.experiment import MEASURED, AnyExperiment, Cell, ScaledCell
from experiments.measuring.metric import Exact, Metric
from experiments.running.workers import count_step
from experiments.tables.results import Results

VERDICTS = "verdicts"  # the kind of the table of one verdict per measured value

Field = float | str  # a value of a table
ColumnsOf = Callable[[AnyExperiment], tuple[Column, ...]]


@dataclass(frozen=True)
class Derived:
    """A table derived/SWEEP/KIND.csv, which every sweep gets whose tables have the columns that it
    needs.

    Attributes:
        kind: its name.
        needs: required columns of the source table.
        columns: its own columns, for an experiment.
        derive: makes it from the results so far; gives no rows if it does not apply.
        source: the source table.
        judge: the tests of its values, if it has any: the columns metric, z and p_value.
    """

    kind: str
    needs: Collection[str]
    columns: ColumnsOf
    derive: Callable[[Results], pd.DataFrame]
    source: str = MEASURED
    judge: Callable[[Results], pd.DataFrame] | None = None

    def applies_to(self, tables: Mapping[str, Iterable[str]]) -> bool:
        """True if the source table is among these, by kind, and has the required columns."""
        return {*self.needs} <= {*tables.get(self.source, ())}


def fold(
    table: pd.DataFrame,
    by: Sequence[str],
    derive: Callable[[pd.DataFrame], Iterable[Mapping[str, Field]]],
    columns: Sequence[str],
) -> pd.DataFrame:
    """The rows that a function gives for each group of a table, each after the values of its group.

    >>> table = pd.DataFrame({"d_k": [4, 4, 8], "x": [1, 2, 3]})
    >>> fold(table, ["d_k"], lambda rows: [{"sum": rows["x"].sum()}], ["sum"]).values.tolist()
    [[4, 3], [8, 3]]
    """
    found = []
    for key, group in table.groupby([*by], sort=False, dropna=False):
        identity = dict(zip(by, key, strict=True))
        found += [{**identity, **row} for row in derive(group)]
    return pd.DataFrame(found, columns=[*by, *columns])


def row_cells(cells: Iterable[Cell]) -> list[Cell]:
    """The cell of each row of a main table, with the row's own rule alone.

    Its divisor follows from the rule of the sweep, not from the column `divisor`, which may hold a
    wrong number.

    >>> from experiments.measuring.sampling import SampledCell
    >>> from sdpa import Scaling
    >>> cell = SampledCell(d_k=4, n_keys=8, scaling=(Scaling.parse("unscaled"), Scaling.parse("d_k^1/2")))
    >>> [one.divisor for one in row_cells([cell])]
    [1.0, 2.0]
    """
    found: list[Cell] = []
    for cell in cells:
        if isinstance(cell, ScaledCell):
            found += [replace(cell, **{RULES: (rule,)}) for rule in cell.scaling]
        else:
            found.append(cell)
    return found


def known_metrics(experiment: AnyExperiment) -> list[tuple[Metric, Exact]]:
    """The metrics with exact values, and these."""
    return [(metric, metric.exact) for metric in experiment.metrics if metric.exact]


def add_exact(
    experiment: AnyExperiment, measured: pd.DataFrame, cells: Iterable[Cell]
) -> pd.DataFrame:
    """The finished table: every declared column in order, including NAME_exact of each metric that
    theory knows.

    Args:
        experiment: declares the metrics.
        measured: its measured main table.
        cells: of the sweep, in the order of the table.
    """
    known = known_metrics(experiment)
    found = []
    for cell in row_cells(cells):
        found.append({f"{metric.name}_exact": float(exact.value(cell)) for metric, exact in known})
        count_step()
    table = measured.assign(**pd.DataFrame(found, measured.index))
    return table[names(experiment.table_columns)]


def columns_of_text(text: str) -> tuple[Column, ...]:
    """Columns from lines `name type meaning := formula`; an indented line continues the one before it.

    A type may have a unit in brackets, and `?` if values may be missing.

    >>> columns_of_text("width float[decades]? of the band := sum_i p_i D_i")
    (Column(name='width', type='float', meaning='of the band', formula='sum_i p_i D_i', unit='decades', \
may_be_empty=True),)
    """
    found = []
    joined = re.sub(r"\n +", " ", textwrap.dedent(text).strip())
    for line in joined.splitlines():
        name, kind, words = line.split(maxsplit=2)
        meaning, _, formula = words.partition(" := ")
        type_name, _, unit = kind.rstrip("?").rstrip("]").partition("[")
        found.append(
            Column(name, cast(Type, type_name), meaning, formula, unit, kind.endswith("?"))
        )
    return tuple(found)


def after_axes(columns: Iterable[Column], *, but: str = "") -> ColumnsOf:
    """The `columns` of a `Derived`: the axes of the cells, without one of them, and then these."""

    def of_experiment(experiment: AnyExperiment) -> tuple[Column, ...]:
        axes = axis_columns(experiment.cell)
        return (*(axis for axis in axes if axis.name != but), *columns)

    return of_experiment
