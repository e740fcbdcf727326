"""How many trials a cell takes: as many as its sweep says, or what a pilot finds for the precision that it asks for.

The pilot's draws are none of those that the estimates come from, and are thrown away: a number of trials that followed
from the draws themselves would be smaller where these happen to lie close together, and bias what they give.
"""

import math

from experiments.harness.experiment import Cell, load_experiment
from experiments.harness.grid import Chunk, Sweep, axis_values, chunks
from experiments.harness.moments import FEWEST_TRIALS
from experiments.harness.store import Store

PILOT_TRIALS = 200
# Far above the number of any chunk that is kept.
_FIRST_PILOT_CHUNK = 2**31
# Squared relative errors of pilots of 200 trials spread by 13 to 15% around their mean (measured over 200 seeds at
# d_k = 4 and 64), and in 1 of 100 pilots lie so far below it.
_MARGIN = 1.4


def pilot_chunks(sweep: Sweep, cell: Cell) -> list[Chunk]:
    """The chunks of a cell's pilot; none for a sweep that says its number of trials."""
    if sweep.precision is None:
        return []
    return list(chunks(sweep.experiment, cell, PILOT_TRIALS, _FIRST_PILOT_CHUNK))


def cell_trials(store: Store, sweep: Sweep, cell: Cell) -> int:
    """The trials of a cell; those of a sweep with a precision follow from its pilot, which must be in the store.

    Of T trials the standard error is that of the pilot times sqrt(PILOT_TRIALS / T).
    """
    find_relative_error = load_experiment(sweep.experiment).relative_error
    if sweep.precision is None or find_relative_error is None:
        return sweep.trials
    error = find_relative_error(cell, store.merged(iter(pilot_chunks(sweep, cell))))
    if not math.isfinite(error):
        return sweep.trials
    wanted = math.ceil(_MARGIN * PILOT_TRIALS * (error / sweep.precision) ** 2)
    return min(max(wanted, FEWEST_TRIALS), sweep.trials)


def cell_chunks(store: Store, sweep: Sweep, cell: Cell) -> list[Chunk]:
    """The chunks of a cell, in the order in which they are merged."""
    return list(chunks(sweep.experiment, cell, cell_trials(store, sweep, cell)))


def pilot_summary(store: Store, sweep: Sweep) -> str:
    """How many trials the pilots asked for, and which cells would take more than max_trials."""
    trials = {tuple(axis_values(cell).items()): cell_trials(store, sweep, cell) for cell in sweep.cells()}
    capped = [point for point, count in trials.items() if count == sweep.trials]
    line = f"{sweep.name}: {min(trials.values())} to {max(trials.values())} trials per cell for {sweep.precision:g}"
    if not capped:
        return line
    first = ", ".join(f"{name}={value}" for name, value in capped[0])
    return f"{line}; max_trials {sweep.trials} is not enough for {len(capped)} of {len(trials)} cells, first {first}"
