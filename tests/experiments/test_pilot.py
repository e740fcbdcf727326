"""Trials that follow from a precision: as many as a pilot of other draws asks for."""

import dataclasses
import math
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest

from experiments.harness.columns import defaults
from experiments.harness.experiment import MEASURED
from experiments.harness.grid import Chunk, Sweep
from experiments.harness.local import LocalWorkers
from experiments.harness.measuring import measure_chunk
from experiments.harness.pilot import PILOT_TRIALS, pilot_chunks, pilot_summary
from experiments.harness.run import measure_missing
from experiments.harness.store import Store
from experiments.harness.tabulate import tabulate_sweep
from experiments.harness.work import find_chunks, find_pilots
from experiments.saturation import EXPERIMENT, STATISTICS, Cell
from experiments.statistics.intervals import MIN_TRIALS
from sdpa import Scaling, theory

METRICS = ["score_variance", "max_weight", "entropy", "jacobian_trace", "jacobian_norm", "query_gradient_norm"]
VALUES = MappingProxyType(
    {name: (value,) for name, value in defaults(Cell).items()}
    | {
        "d_k": (4, 64),
        "n_keys": (8,),
        "scaling": (Scaling.parse("unscaled"), Scaling.parse("d_k^1/2")),
        "n_queries": (6,),
    }
)
pytestmark = pytest.mark.usefixtures("in_this_process")
SWEEP = Sweep("precise", EXPERIMENT, VALUES, trials=100_000, figures=(), precision=0.02)


def measured(store: Store, sweep: Sweep) -> pd.DataFrame:
    for find in (find_pilots, find_chunks):
        work = find(store, [sweep])
        assert list(measure_missing(store, [sweep], work, LocalWorkers(1), lambda *_: None)) == [sweep]
    return tabulate_sweep(store, sweep)[MEASURED]


def relative_errors(table: pd.DataFrame) -> pd.Series:
    return pd.DataFrame({name: table[f"{name}_se"] / table[name] for name in METRICS}).max(axis=1)


@pytest.fixture(scope="module")
def precise(tmp_path_factory) -> tuple[Store, pd.DataFrame]:
    store = Store(tmp_path_factory.mktemp("pilot"), seed=0)
    return store, measured(store, SWEEP)


def test_the_trials_of_a_cell_follow_from_its_pilot_alone(precise):
    store, table = precise
    for cell in SWEEP.cells():
        pilot = measure_chunk(Chunk(EXPERIMENT, cell, 2**31, PILOT_TRIALS), store.seed)
        error = relative_errors(pd.DataFrame(STATISTICS.tabulate(cell, pilot)[MEASURED])).max()
        wanted = math.ceil(1.4 * PILOT_TRIALS * (error / 0.02) ** 2)
        assert set(table.loc[table["d_k"] == cell.d_k, "trials"]) == {wanted}
        assert 200 < wanted < 20_000


def test_the_table_is_that_of_the_same_number_of_trials_without_a_pilot(precise, tmp_path):
    """The pilot's draws are in no estimate."""
    _, table = precise
    for d_k, rows in table.groupby("d_k"):
        trials = int(rows["trials"].iloc[0])
        plain = dataclasses.replace(SWEEP, values={**VALUES, "d_k": (d_k,)}, trials=trials, precision=None)
        pd.testing.assert_frame_equal(measured(Store(tmp_path, 0), plain), rows.reset_index(drop=True))


def test_a_rerun_measures_nothing(precise):
    store, _ = precise
    assert not find_pilots(store, [SWEEP]).todo
    assert not find_chunks(store, [SWEEP]).todo


@pytest.mark.parametrize("seeds", [20, pytest.param(50, marks=pytest.mark.slow)])
def test_the_precision_is_met(tmp_path, seeds):
    """In 95% of the two cells of every seed, and without doing much more than was asked for."""
    found = []
    for seed in range(seeds):
        table = measured_here(Store(tmp_path, seed), SWEEP)
        found += relative_errors(table).groupby(table["d_k"]).max().tolist()
    assert np.mean(np.array(found) <= 0.02) >= 0.95
    assert np.median(found) > 0.02 / math.sqrt(1.5)


def measured_here(store: Store, sweep: Sweep) -> pd.DataFrame:
    """The same without processes: the pilot's trials, then one chunk after the other."""
    frames = []
    for cell in sweep.cells():
        pilot = measure_chunk(Chunk(EXPERIMENT, cell, 2**31, PILOT_TRIALS), store.seed)
        error = relative_errors(pd.DataFrame(STATISTICS.tabulate(cell, pilot)[MEASURED])).max()
        trials = math.ceil(1.4 * PILOT_TRIALS * (error / sweep.precision) ** 2)
        rows = pd.DataFrame(
            STATISTICS.tabulate(cell, measure_chunk(Chunk(EXPERIMENT, cell, 0, trials), store.seed))[MEASURED]
        )
        frames.append(rows.assign(d_k=cell.d_k))
    return pd.concat(frames, ignore_index=True)


@pytest.mark.parametrize("seeds", [100, pytest.param(400, marks=pytest.mark.slow)])
def test_estimates_are_unbiased(seeds):
    """Over many seeds, with few and varying trials, the mean of E(max weight) is the exact one.

    False alarms: 1 in 100,000.
    """
    sweep = dataclasses.replace(SWEEP, values={**VALUES, "d_k": (2,), "n_keys": (3,), "n_queries": (1,)}, precision=0.1)
    tables = [measured_here(Store(None, seed), sweep) for seed in range(seeds)]
    unscaled = pd.concat([table[table["scaling"] == "unscaled"] for table in tables])
    assert unscaled["trials"].nunique() > seeds / 8
    exact = theory.attention_expectations(2, 3, 1.0).max_weight
    z = (unscaled["max_weight"].mean() - exact) / (unscaled["max_weight"].std() / math.sqrt(len(unscaled)))
    assert abs(z) < 4.4


def test_what_came_of_the_precision_is_said(precise):
    store, table = precise
    (line,) = pilot_summary(store, SWEEP, table)
    trials, errors = sorted(set(table["trials"])), relative_errors(table).groupby(table["d_k"]).max()
    assert line == (
        f"precise: {trials[0]} to {trials[-1]} trials per cell, relative standard error "
        f"{errors.min():.2g} to {errors.max():.2g}; 2 of 2 cells met the precision 0.02"
    )


def test_max_trials_bounds_and_is_said(tmp_path):
    capped = dataclasses.replace(SWEEP, trials=300)
    store = Store(tmp_path, 0)
    table = measured(store, capped)
    assert set(table["trials"]) == {300}
    line, furthest, few = pilot_summary(store, capped, table)
    assert "300 to 300 trials per cell" in line
    assert line.endswith("0 of 2 cells met the precision 0.02")
    assert furthest.startswith("precise: the least precise cell is d_k=")
    assert few == ("precise: max_trials 300 is too low for 2 cells, the first being d_k=4, n_keys=8, n_queries=6")


def test_no_fewer_trials_than_say_something_of_their_spread(tmp_path):
    """And these are enough, even if they are all that there may be."""
    rough = dataclasses.replace(SWEEP, precision=0.9, trials=MIN_TRIALS)
    store = Store(tmp_path, 0)
    table = measured(store, rough)
    assert set(table["trials"]) == {MIN_TRIALS}
    assert len(pilot_summary(store, rough, table)) == 1


def test_a_row_that_never_leaves_one_key_takes_the_most_trials(tmp_path):
    """Its entropy, or the square of its norms, is 0 in double precision: no number of trials gives it an error."""
    for std in (600.0, 1e5):
        values = {**VALUES, "d_k": (4,), "query_std": (std,), "key_std": (std,)}
        frozen = dataclasses.replace(SWEEP, values=values, trials=500)
        assert set(measured(Store(tmp_path, 0), frozen)["trials"]) == {500}


def test_a_pilot_larger_than_a_chunk_is_measured_in_chunks():
    wide = dataclasses.replace(SWEEP, values={**VALUES, "d_k": (4096,), "n_keys": (2048,)})
    parts = pilot_chunks(wide, wide.cells()[0])
    assert sum(part.trials for part in parts) == PILOT_TRIALS
    assert len(parts) > 10
    assert pilot_chunks(dataclasses.replace(wide, precision=None), wide.cells()[0]) == []
