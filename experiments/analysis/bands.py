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

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.analysis.derived import Derived, Field, beside_axes, columns_of_text, fold
from experiments.analysis.results import SweepAxes
from experiments.kinds.training import HISTORY, HISTORY_COLUMNS
from experiments.measuring.columns import Column, names
from experiments.measuring.experiment import Experiment
from experiments.measuring.rules import TREATMENT

BANDS = "bands"
BEST_RATE = "best_rate"
_RATE = "learning_rate"
_AT_BEST = ("solved", "steps_to_solve", "final_loss")
_ENDS = ("", "_low", "_high")
_AT_BEST_COLUMNS = [f"{name}{end}" for name in _AT_BEST for end in _ENDS]
_OF_RULE = ("exponent", "divisor")

Floats = npt.NDArray[np.floating]


def bands(table: pd.DataFrame, axes: SweepAxes) -> pd.DataFrame:
    """One row for each rule and each combination of the axes but the learning rate.

    Empty for a combination with a single learning rate. The best rate is the one that solves most
    often; of several, the one with the fewest steps; if none solves, the one with the smallest
    loss.

    Args:
        table: a main table of `training`.
        axes: of its cells.
    """
    columns = [*_OF_RULE, *names(_BAND), *_AT_BEST_COLUMNS]
    return fold(table, _case(table, axes), _band, columns)


def _case(table: pd.DataFrame, axes: SweepAxes) -> list[str]:
    """The columns that identify a rule of a combination of the axes but the learning rate."""
    return [*axes.among(table, but=_RATE), "scaling"]


def _band(rows: pd.DataFrame) -> Iterator[dict[str, Field]]:
    """The columns of one band, if it has several learning rates."""
    if len(rows) < 2:
        return
    rows = rows.sort_values(_RATE)
    rates = rows[_RATE].to_numpy()
    shares = (rows[f"solved{end}"].to_numpy() for end in _ENDS)
    width, low, high = band_width(rates, *shares)
    best = rows.sort_values([*_AT_BEST], ascending=[False, True, True], kind="stable").iloc[0]
    solving = rows.loc[rows["solved"] >= 0.5, _RATE]
    yield {
        **best[[*_OF_RULE, *_AT_BEST_COLUMNS]],
        "trials": int(rows["trials"].min()),
        "lowest_rate": rates[0],
        "highest_rate": rates[-1],
        "band_decades": width,
        "band_decades_low": low,
        "band_decades_high": high,
        "band_from": solving.min(),
        "band_to": solving.max(),
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


def at_best_rates(measured: pd.DataFrame, bands: pd.DataFrame, axes: SweepAxes) -> pd.DataFrame:
    """The measured rows at the best learning rate of each rule, with the column `best_rate` for the
    rate.

    Args:
        measured: rows of `training`.
        bands: their derived table; it has no row, or no column, where a rule has a single rate.
        axes: of their cells.
    """
    case = _case(measured, axes)
    best = bands.reindex(columns=[*case, BEST_RATE])
    marked = measured.merge(best, how="left", on=case)
    marked[BEST_RATE] = marked[BEST_RATE].astype(float).fillna(marked[_RATE])
    # The order of the cases is that of the table, whatever the best rates are.
    cases = marked.groupby(case, sort=False, dropna=False)
    at_best = [rows[rows[_RATE] == rows[BEST_RATE]] for _, rows in cases]
    return pd.concat(at_best).drop(columns=_RATE)


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
    described = [
        replace(column, meaning=f"at the best rate: {column.meaning}") for column in at_best
    ]
    return beside_axes([*TREATMENT, *_BAND, *described], but=_RATE)(experiment)


TABLES = (
    Derived(
        BANDS,
        needs={_RATE, *_AT_BEST},
        columns=_columns,
        derive=lambda results: bands(results.measured, results.axes),
    ),
    Derived(
        "learning_curves",
        needs={"step", "loss"},
        columns=beside_axes(HISTORY_COLUMNS),
        derive=lambda results: results[HISTORY],
        source=HISTORY,
    ),
)
