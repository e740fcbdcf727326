"""The sweeps on the page: what each varies, its figures, and a few rows of its table."""

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Self

import pandas as pd

from experiments.config.paths import SUMMARY
from experiments.figures.captions import extent, plain_title
from experiments.figures.markup import digits
from experiments.figures.words import short
from experiments.kinds.figures import SUMMARIES, metrics_of
from experiments.measuring.metric import FEW_DRAWS
from experiments.page.pictures import OnPage
from experiments.tables.results import Results
from experiments.tables.stored import csv_name

_MOST_ROWS = 40
_MOST_COLUMNS = 10


class Value(NamedTuple):
    """A value of a table as text, with its exact value and its interval if it has them."""

    text: str
    exact: str = ""
    interval: str = ""

    @classmethod
    def of(cls, row: "pd.Series[Any]", name: str) -> Self:
        """A metric of a row with its exact value and its 95% interval, with three digits; † if few
        draws carry it.

        >>> Value.of(pd.Series({"share": 0.0, "share_low": 0.0, "share_high": 0.000921}), "share")
        Value(text='0', exact='', interval='0 to 0.000921')
        >>> Value.of(pd.Series({"share": 1.0, "few_draws": "share"}), "share").text
        '1†'
        """
        value, low, high, exact = (
            row.get(f"{name}{end}", math.nan) for end in ("", "_low", "_high", "_exact")
        )
        if math.isnan(value):
            return cls("–")
        interval = f"{digits(low)} to {digits(high)}" if low < high else ""
        few = "†" if name in row.get(FEW_DRAWS, "").split() else ""
        return cls(digits(value) + few, "" if math.isnan(exact) else digits(exact), interval)


class Section(NamedTuple):
    """A sweep on the page: what it varies, its figures, the names of its tables, and a few rows
    below the head.
    """

    name: str
    experiment: str
    title: str = ""
    asked: str = ""
    pictures: Sequence[OnPage] = ()
    csvs: Sequence[str] = ()
    axes: Sequence[str] = ()  # those that vary
    last: str = ""  # the last value of the first one
    metric: str = ""  # of the code that reads, filters and plots the table
    head: Sequence[str] = ()
    roots: Collection[str] = ()  # names in the head of root mean squares
    rows: Sequence[list[Value]] = ()
    of: int = 0  # rows in all


def section_of(results: Results, drawn: Sequence[OnPage]) -> Section:
    """The section of a sweep."""
    table, figures = results.measured, results.sweep.figures
    declared = SUMMARIES[results.experiment.name]
    in_summary = {*declared}.intersection(results.metrics)
    last = [*results.metrics, *declared][-1:]  # none of an experiment without metrics
    listed = metrics_of(figures) or declared
    metrics = [name for name in listed if name in table]
    head, rows = few_rows(results, metrics)
    axes = results.axes.varied(table) or [name for name in ("scaling",) if name in table]
    rules = f"Rules: {', '.join(table['scaling'].unique())}." if "scaling" in table else ""
    lost = results.lacking()
    lacks = f" The table lacks {', '.join(lost)}." if lost else ""
    return Section(
        name=results.name,
        experiment=results.experiment.name,
        title=plain_title(results),
        asked=f"{extent(table, results.axes)} {rules}{lacks}",
        pictures=drawn,
        csvs=[csv_name(results.name, kind) for kind in (SUMMARY, *results)],
        axes=axes,
        last=repr(table[axes[0]].tolist()[-1]) if axes else "",
        metric=[*filter(in_summary.__contains__, metrics), *last, ""][0],
        head=head,
        roots={name for name, metric in results.metrics.items() if metric.kind == "root"},
        rows=rows,
        of=len(table),
    )


def few_rows(results: Results, metrics: Sequence[str]) -> tuple[list[str], list[list[Value]]]:
    """At most 40 rows of the main table: all, or of a long one those at both ends of every axis.

    Args:
        results: of a sweep.
        metrics: columns to show after the varied axes and the scaling, in ten columns.

    Returns:
        A head, and the rows.
    """
    table = results.measured
    varied = results.axes.varied(table)
    named = [*varied, "scaling"] if "scaling" in table else varied
    shown = table.drop_duplicates(named) if named else table
    for axis in varied if len(shown) > _MOST_ROWS else ():
        shown = shown[shown[axis].isin(shown[axis].unique()[[0, -1]])]
    few = metrics[: max(_MOST_COLUMNS - len(named), 1)]
    rows = [
        [*(Value(short(row[name])) for name in named), *(Value.of(row, name) for name in few)]
        for _, row in shown.head(_MOST_ROWS).iterrows()
    ]
    return [*named, *few], rows
