"""Tables that are computed from the measured table of a sweep: their declarations, and the
functions that make their rows and columns.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from experiments.measuring.cells import RULE_COLUMNS, BaseCell
from experiments.measuring.columns import Column, axis_columns
from experiments.measuring.experiment import MEASURED
from experiments.tables.results import Results

VERDICTS = "verdicts"  # the kind of the table of one verdict per measured value

Field = float | str  # a value of a table


@dataclass(frozen=True)
class Derived:
    """A table derived/SWEEP/KIND.csv, which every sweep gets whose tables have the columns that it
    needs.

    Attributes:
        kind: its name.
        own: its columns after the axes; of cells without rules, those of rules are left out.
        derive: makes it from the results so far; gives no rows if it does not apply.
        source: the source table.
        needs: required columns of the source table.
        without: an axis that it lacks.
        judge: the tests of its values, if it has any: the columns metric, z and p_value.
    """

    kind: str
    own: Sequence[Column]
    derive: Callable[[Results], pd.DataFrame]
    source: str = MEASURED
    needs: Collection[str] = ()
    without: str = ""
    judge: Callable[[Results], pd.DataFrame] | None = None

    def columns(self, cell: type[BaseCell]) -> list[Column]:
        """All columns of the table for cells of a class."""
        axes = [axis for axis in axis_columns(cell) if axis.name != self.without]
        hidden = {*RULE_COLUMNS}.difference(cell.shows)
        own = [column for column in self.own if column not in hidden]
        return axes + own

    def applies_to(self, tables: Mapping[str, Iterable[str]]) -> bool:
        """True if the source table is among these, by kind, and has the required columns."""
        return self.source in tables and {*self.needs} <= {*tables[self.source]}


def rows_by_group(
    table: pd.DataFrame,
    by: Sequence[str],
    derive: Callable[[pd.DataFrame], Iterable[Mapping[str, Field]]],
) -> pd.DataFrame:
    """The rows that a function gives for each group of a table, each after the values of its group.

    >>> table = pd.DataFrame({"d_k": [4, 4, 8], "x": [1, 2, 3]})
    >>> rows_by_group(table, ["d_k"], lambda rows: [{"sum": rows["x"].sum()}]).values.tolist()
    [[4, 3], [8, 3]]
    """
    rows = []
    groups = table.groupby([*by], sort=False, dropna=False)
    for key, group in groups:
        identity = dict(zip(by, key, strict=True))
        for row in derive(group):
            rows.append(identity | {**row})
    return pd.DataFrame(rows)
