"""The number of trials of a cell: the sweep names it, or a pilot finds it for the precision that the sweep requests.

With e the largest relative standard error among the precise metrics in a pilot of 200 trials, a precision p needs

    trials = 1.4 * 200 (e / p)^2,   at least 20 and at most max_trials

The suite discards the draws of the pilot and estimates from other draws. If the same draws also determined the number
of trials, it would be smaller where they happen to lie close together, and the estimates would be biased.
"""

import math
from typing import TYPE_CHECKING

from experiments.harness.experiment import MEASURED, Cell
from experiments.harness.grid import Chunk, Sweep, axis_values, chunks, describe
from experiments.harness.metric import relative_error
from experiments.harness.store import Store
from experiments.harness.wording import counted
from experiments.statistics.intervals import MIN_TRIALS

if TYPE_CHECKING:
    import pandas as pd

PILOT_TRIALS = 200
# Far above the number of any chunk that is kept.
_FIRST_PILOT_CHUNK = 2**31
# Squared relative errors of pilots of 200 trials spread by 13 to 15% around their mean (measured over 200 seeds at
# d_k = 4 and 64), and in 1 of 100 pilots lie so far below it.
_MARGIN = 1.4


def pilot_chunks(sweep: Sweep, cell: Cell) -> list[Chunk]:
    """The chunks of a cell's pilot, of 200 trials together; none for a sweep that names its number of trials."""
    if sweep.precision is None:
        return []
    return list(chunks(sweep.experiment, cell, PILOT_TRIALS, _FIRST_PILOT_CHUNK))


def cell_trials(store: Store, sweep: Sweep, cell: Cell) -> int:
    """The trials of a cell; in a sweep with a precision they follow from the pilot, which must be in the store."""
    return sweep.trials if sweep.precision is None else min(_wanted(store, sweep, cell), sweep.trials)


def _wanted(store: Store, sweep: Sweep, cell: Cell) -> int:
    """The trials that a cell's pilot requests; `sweep.trials` + 1, above the maximum, if no number suffices.

    Of T trials the standard error is that of the pilot times sqrt(PILOT_TRIALS / T). The result may exceed the maximum
    of the sweep, which `cell_trials` applies. No number suffices if a value or an error of the pilot is 0.
    """
    experiment = sweep.experiment
    pilot = store.merged(iter(pilot_chunks(sweep, cell)))
    error = relative_error(experiment.metrics, experiment.tabulate(cell, pilot)[MEASURED])
    if not math.isfinite(error):
        return sweep.trials + 1
    return max(math.ceil(_MARGIN * PILOT_TRIALS * (error / _precision(sweep)) ** 2), MIN_TRIALS)


def cell_chunks(store: Store, sweep: Sweep, cell: Cell) -> list[Chunk]:
    """The chunks of a cell, in merge order; in a sweep with a precision, its pilot must be in the store."""
    return list(chunks(sweep.experiment, cell, cell_trials(store, sweep, cell)))


def pilot_summary(store: Store, sweep: Sweep, table: "pd.DataFrame") -> list[str]:
    """The trials of the cells of a measured sweep, the precision they reached, and the cells that missed the target.

    Args:
        store: holds the pilots of the sweep.
        sweep: a sweep with a precision.
        table: its main table.

    Returns:
        One to three lines: the ranges over cells; the least precise cell, if one misses the precision; and the cells
        that needed more than `max_trials`, if there are any.
    """
    metrics = sweep.experiment.metrics
    cells = sweep.cells()
    found = [rows for _, rows in table.groupby(list(axis_values(cells[0])), sort=False)]
    trials = [rows["trials"].iloc[0] for rows in found]
    errors = [relative_error(metrics, rows.to_dict("records")) for rows in found]
    met = sum(error <= _precision(sweep) for error in errors)
    lines = [
        f"{sweep.name}: {min(trials)} to {max(trials)} trials per cell, relative standard error {min(errors):.2g} to "
        f"{max(errors):.2g}; {met} of {counted(len(cells), 'cell')} met the precision {sweep.precision:g}"
    ]
    worst = cells[errors.index(max(errors))]
    if met < len(cells):
        lines.append(f"{sweep.name}: the least precise cell is {describe(worst)}")
    capped = [cell for cell in cells if _wanted(store, sweep, cell) > sweep.trials]
    if capped:
        few = f"{sweep.name}: max_trials {sweep.trials} is too low for {counted(len(capped), 'cell')}"
        lines.append(f"{few}, the first being {describe(capped[0])}")
    return lines


def _precision(sweep: Sweep) -> float:
    if sweep.precision is None:
        raise ValueError(f"{sweep.name}: expected a sweep with a precision, got one with trials")
    return sweep.precision
