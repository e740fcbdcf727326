"""Declarations of derived tables, and the functions that make their rows and columns."""

import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import pandas as pd

from experiments.measuring.columns import Column, Type, axis_columns
from experiments.measuring.experiment import MEASURED, AnyExperiment
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
