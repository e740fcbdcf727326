"""The best learning rate of each scaling rule, the rates that are nearly as good, and the training
runs at the best one.

The best rate has the smallest median loss after training; of several, it is the smallest. The band
holds the rates around it whose median loss exceeds the best by at most 1%, without a gap. The
tables `history` and `heads` have the recorded steps of the runs at the best rate alone.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pandas as pd

from experiments.kinds.language.cell import (
    HEADS,
    HEADS_COLUMNS,
    HISTORY,
    HISTORY_COLUMNS,
    METRICS,
    RUNS,
)
from experiments.measuring.cells import RULE_COLUMNS
from experiments.measuring.columns import Column, names
from experiments.tables.derived import Derived, Field, rows_by_group
from experiments.tables.results import Results

BANDS = "bands"
BEST_RATE = "best_rate"
NEARLY = 1.01  # of the least median loss
_RATE = "learning_rate"
_LOSS = "final_loss"
_AT_BEST = [
    replace(column, meaning=f"at the best rate: {column.meaning}")
    for column in METRICS[0].columns()  # of the loss
]
_LOSSES = names(_AT_BEST)
_RULE_FIELDS = ["exponent", "divisor", "trials"]


def bands(results: Results) -> pd.DataFrame:
    """One row for each rule and each combination of the axes but the learning rate."""
    table = results.measured
    case = [*results.axes.among(table, _RATE), "scaling"]
    return rows_by_group(table, case, _band)


def _band(rows: pd.DataFrame) -> Iterator[dict[str, Field]]:
    """The columns of one band."""
    rows = rows.sort_values(_RATE).reset_index(drop=True)
    losses = rows[_LOSS]
    best = int(losses.idxmin())
    is_near = losses <= NEARLY * losses[best]
    gaps = (~is_near).cumsum()
    band = rows.loc[is_near & (gaps == gaps[best]), _RATE]
    yield {
        **rows.loc[best, [*_RULE_FIELDS, *_LOSSES]],
        "lowest_rate": rows[_RATE].min(),
        "highest_rate": rows[_RATE].max(),
        BEST_RATE: rows.loc[best, _RATE],
        "band_from": band.min(),
        "band_to": band.max(),
        "octaves": math.log2(band.max() / band.min()),
        "diverged_least": rows["diverged"].min(),
    }


def _at_best(kind: str, results: Results) -> pd.DataFrame:
    """The rows of a table at the best rate of their rule."""
    best = results[BANDS].rename(columns={BEST_RATE: _RATE})
    axes = results.axes.among(best)
    # An axis that is younger than the table has one value.
    younger = {name: best[name].iloc[0] for name in axes if name not in results[kind]}
    same = [*axes, "scaling"]
    return results[kind].assign(**younger).merge(best[same], on=same)


_BAND = (
    Column("lowest_rate", "float", "smallest learning rate of the sweep"),
    Column("highest_rate", "float", "largest learning rate of the sweep"),
    Column(BEST_RATE, "float", "learning rate with the smallest median loss"),
    Column("band_from", "float", "smallest rate of the band"),
    Column("band_to", "float", "largest rate of the band"),
    Column("octaves", "float", "width of the band", "log2(band_to / band_from)"),
    Column("diverged_least", "float", "smallest share of runs that diverge at a rate"),
)


def _recorded(kind: str, columns: tuple[Column, ...]) -> Derived:
    """A table of recorded steps at the best rates."""
    return Derived(
        kind,
        own=columns,
        derive=partial(_at_best, kind),
        source=kind,
    )


TABLES = (
    Derived(
        BANDS,
        needs={_RATE, _LOSS},
        own=(*RULE_COLUMNS, RUNS, *_BAND, *_AT_BEST),
        without=_RATE,
        derive=bands,
    ),
    _recorded(HISTORY, HISTORY_COLUMNS),
    _recorded(HEADS, HEADS_COLUMNS),
)
