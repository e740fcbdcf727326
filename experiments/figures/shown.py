"""The rows that a figure shows, as a value: made once from its declaration, for its drawing, its caption and
its tests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from experiments.config.errors import counted
from experiments.figures.panels import ShownPanel, panels_of
from experiments.figures.words import listed
from experiments.kinds.declarations import Figure, Lines
from experiments.measuring.experiment import MEASURED
from experiments.tables.results import Results, SweepAxes

_TRIAL = "trial"  # of tables with single draws, which show the first
_MOST_WORDS = 10  # on rows left out


@dataclass(frozen=True)
class Shown:
    """The rows of a table that a figure draws, and the words for those that it leaves out.

    Attributes:
        name: of the figure. Its conditions are functions, which other processes cannot get.
        metrics: of the figure.
        results: of the sweep.
        tables: by kind, the rows with values of axes that are drawn.
        rows: those drawn, of the table that the figure declares.
        left_out: values of axes, rules and cases of this table that are not drawn; empty if all are.
        lines: the picture, if it is one of lines.
        x: of lines, the column along which they go.
        panels: of lines, from left to right and from top to bottom.
    """

    name: str
    metrics: Sequence[str]
    results: Results
    tables: Mapping[str, pd.DataFrame]
    rows: pd.DataFrame
    left_out: str
    lines: Lines | None = None
    x: str = ""
    panels: Sequence[ShownPanel] = ()


def shown(figure: Figure, results: Results) -> Shown:
    """The rows of the results of a sweep that a declared figure shows."""
    lines, axes = figure.lines, results.axes
    kind = lines.table if lines else MEASURED
    table = results.get(kind, pd.DataFrame()).reset_index(drop=True)
    if _TRIAL in table:
        table = table[table[_TRIAL] == 0]
    rows = table
    if figure.rules:
        is_meant = table["scaling"].isin(figure.rules)
        rows = table[is_meant] if {*figure.rules} <= {*table["scaling"]} else table
    x, panels = "", list[ShownPanel]()
    if lines:
        along = [*axes.varied(rows, *lines.separating), lines.by]
        is_fixed = lines.x in {"", *axes.usual}.difference(along)
        x = along[0] if is_fixed else lines.x
        rows, panels = panels_of(lines, x, rows, results)
    elif figure.along:
        rows = _case_rows(figure, rows, axes)
    tables = {name: _beside(rows, other, axes) for name, other in results.items()} | {kind: rows}
    left_out = _left_out(table, rows, axes)
    return Shown(figure.name, figure.metrics, results, tables, rows, left_out, lines, x, panels)


def _beside(rows: pd.DataFrame, table: pd.DataFrame, axes: SweepAxes) -> pd.DataFrame:
    """The rows of another table with values of axes that are drawn."""
    for axis in axes.among(table):
        table = table[table[axis].isin(rows[axis])]
    return table


def _case_rows(figure: Figure, rows: pd.DataFrame, axes: SweepAxes) -> pd.DataFrame:
    """The rows of the first cases, or of the first combination of the other axes."""
    if figure.cases:
        every = cases(rows, axes, figure.along)
        return pd.concat(every[: figure.cases]).sort_index()
    others = axes.varied(rows, *figure.along)
    is_first = (rows[others] == rows[others].iloc[0]).all(axis=1)
    return rows[is_first]


def cases(rows: pd.DataFrame, axes: SweepAxes, along: Sequence[str]) -> list[pd.DataFrame]:
    """The rows of each rule and combination of the axes besides some."""
    names = [*axes.among(rows, *along), "scaling"]
    return [group for _, group in rows.groupby(names, sort=False)]


def _left_out(table: pd.DataFrame, rows: pd.DataFrame, axes: SweepAxes) -> str:
    """The values of axes and the rules of a table that some rows lack, and the number of further
    rows.

    >>> table = pd.DataFrame({"d_k": [4, 8, 4, 8], "mask": ["none", "none", "causal", "causal"]})
    >>> axes = SweepAxes({"d_k": None, "mask": "none"})
    >>> _left_out(table, table[:2], axes), _left_out(table, table[:3], axes), _left_out(table, table, axes)
    ('mask = causal', '1 further row', '')
    """
    phrases = []
    names = [*axes.varied(table), *(["scaling"] if "scaling" in table else [])]
    rest = table[~table.index.isin(rows.index)]
    for name in names:
        lacking = [value for value in table[name].unique() if not (rows[name] == value).any()]
        if lacking:
            rest = rest[~rest[name].isin(lacking)]
            values = listed(lacking)
            phrases.append(values if name == "scaling" else f"{name} = {values}")
    if len(rest):
        phrases.append(counted(len(rest), "further row"))
    named = "; ".join(phrases)
    is_long = len(named.split()) > _MOST_WORDS
    return counted(len(table) - len(rows), "further row") if is_long else named
