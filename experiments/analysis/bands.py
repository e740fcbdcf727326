"""The band of learning rates that solve a task under each rule, the best rate and its steps; and
the learning curves.

Learning curves are the table `history` as it is. For the table `bands`, each learning rate of the
sweep stands for the decades nearer to it than to any other rate, D_i, the outer ones for as much on
both of their sides. With p_i the share of runs that solve the task at rate i, the width of the band
is W = sum_i p_i D_i decades: the mean, over runs, of the width of the rates that solve. Its
interval combines the intervals [l_i, u_i] of the shares (columns solved_low and solved_high), which
are independent:

    W - sqrt(sum_i D_i^2 (p_i - l_i)^2)   to   W + sqrt(sum_i D_i^2 (u_i - p_i)^2)

Source: Zou and Donner (2008, Statistics in Medicine 27:1693), for sums of parameters.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.analysis.derived import Derived, axes_but, columns_of_text, fold
from experiments.analysis.results import Axes
from experiments.kinds.training import HISTORY, HISTORY_COLUMNS
from experiments.measuring.columns import Column, axis_columns
from experiments.measuring.experiment import Experiment

BANDS = "bands"
BEST_RATE = "best_rate"
_RATE = "learning_rate"
_AT_BEST = ("solved", "steps_to_solve", "final_loss")
_AT_BEST_COLUMNS = [f"{name}{end}" for name in _AT_BEST for end in ("", "_low", "_high")]

Floats = npt.NDArray[np.floating]


def bands(table: pd.DataFrame, axes: Axes) -> pd.DataFrame:
    """One row for each rule and each combination of the axes but the learning rate.

    Empty for a combination with a single learning rate. The best rate is the one that solves most
    often; of several, the one with the fewest steps; if none solves, the one with the smallest
    loss.

    Args:
        table: a main table of `training`.
        axes: of its cells.
    """
    names = [*axes.among(table, but=_RATE), "scaling"]
    return fold(
        table,
        names,
        _band,
        ["exponent", "divisor", *(column.name for column in _BAND), *_AT_BEST_COLUMNS],
    )


def _band(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The columns of one band, if it has several learning rates."""
    if len(rows) < 2:
        return
    rows = rows.sort_values(_RATE)
    rates = rows[_RATE].to_numpy()
    width, low, high = band_width(
        rates, *(rows[f"solved{end}"].to_numpy() for end in ("", "_low", "_high"))
    )
    best = rows.sort_values([*_AT_BEST], ascending=[False, True, True], kind="stable").iloc[0]
    solving = rows[rows["solved"] >= 0.5]
    yield {
        **best[["exponent", "divisor", *_AT_BEST_COLUMNS]],
        "trials": int(rows["trials"].min()),
        "lowest_rate": rates[0],
        "highest_rate": rates[-1],
        "band_decades": width,
        "band_decades_low": low,
        "band_decades_high": high,
        "band_from": solving[_RATE].min(),
        "band_to": solving[_RATE].max(),
        BEST_RATE: best[_RATE],
    }


def band_width(
    rates: Floats, shares: Floats, low: Floats, high: Floats
) -> tuple[float, float, float]:
    """W and its 95% interval, in decades, as in the module.

    Args:
        rates: learning rates, increasing, two or more.
        shares: share of runs that solve the task at each.
        low, high: the ends of the intervals of these shares.

    >>> shares = np.array([0.0, 1.0, 1.0])
    >>> band_width(np.array([0.01, 0.1, 1.0]), shares, np.array([0.0, 0.7, 0.6]), np.array([0.2, 1.0, 1.0]))
    (2.0, 1.5, 2.2)
    """
    logs = np.log10(rates)
    middles = (logs[1:] + logs[:-1]) / 2
    edges = np.concatenate([[2 * logs[0] - middles[0]], middles, [2 * logs[-1] - middles[-1]]])
    decades = np.diff(edges)
    width = float(shares @ decades)
    reach = [math.hypot(*(decades * distance)) for distance in (shares - low, high - shares)]
    return width, max(width - reach[0], 0.0), min(width + reach[1], float(decades.sum()))


def at_best_rates(measured: pd.DataFrame, bands: pd.DataFrame, axes: Axes) -> pd.DataFrame:
    """The measured rows at the best learning rate of each rule, with the column `best_rate` for the
    rate.

    Args:
        measured: rows of `training`.
        bands: their derived table; it has no row, or no column, where a rule has a single rate.
        axes: of their cells.
    """
    names = [*axes.among(measured, but=_RATE), "scaling"]
    best = (
        bands[[*names, BEST_RATE]]
        if BEST_RATE in bands
        else pd.DataFrame(columns=[*names, BEST_RATE])
    )
    keys = pd.MultiIndex.from_frame(measured[names])
    found = best.set_index(names)[BEST_RATE].reindex(keys).to_numpy(dtype=float)
    rate = np.where(np.isnan(found), measured[_RATE], found)
    order = measured.groupby(
        names, sort=False
    ).ngroup()  # that of the table, whatever the best rates are
    rows = measured.assign(**{BEST_RATE: rate})[measured[_RATE].to_numpy() == rate].drop(
        columns=_RATE
    )
    return rows.loc[order[rows.index].sort_values(kind="stable").index]


_BAND = columns_of_text(
    f"""
    trials int runs at each learning rate, the fewest of all
    lowest_rate float smallest learning rate of the sweep
    highest_rate float largest learning rate of the sweep
    band_decades float[decades] width of the band of learning rates that solve the task, among the rates of the sweep;
        mean over runs := sum_i p_i D_i
    band_decades_low float[decades] lower end of the 95% interval of band_decades
    band_decades_high float[decades] upper end of the same interval
    band_from float? smallest rate at which at least half of the runs solve
    band_to float? largest rate at which at least half of the runs solve
    {BEST_RATE} float rate with most runs that solve, then fewest steps, then smallest loss
    """
)


def _columns(experiment: Experiment) -> tuple[Column, ...]:
    metrics = {column.name: column for column in experiment.table_columns}
    at_best = [metrics[name] for name in _AT_BEST_COLUMNS]
    return (
        *axes_but(experiment, _RATE),
        *(metrics[name] for name in ("scaling", "exponent", "divisor")),
        *_BAND,
        *(replace(column, meaning=f"at the best rate: {column.meaning}") for column in at_best),
    )


TABLES = (
    Derived(
        BANDS,
        needs=frozenset({_RATE, *_AT_BEST}),
        columns=_columns,
        derive=lambda results: bands(results.measured, results.axes),
    ),
    Derived(
        "learning_curves",
        needs=frozenset({"step", "loss"}),
        columns=lambda experiment: (*axis_columns(experiment.cell), *HISTORY_COLUMNS),
        derive=lambda results: results[HISTORY],
        source=HISTORY,
    ),
)
