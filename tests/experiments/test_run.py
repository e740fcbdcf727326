"""Running over processes: the same unrounded numbers however it is done, and faults that name their cell."""

import dataclasses
import multiprocessing
import os
import random
import signal
import time
from types import MappingProxyType

import pandas as pd
import pytest

from experiments import saturation
from experiments.harness import run
from experiments.harness.grid import Chunk, Sweep, chunks
from experiments.harness.run import MeasurementError, measure_chunk, measure_sweeps
from experiments.harness.seeds import chunk_key
from sdpa import LAWS, Scaling

VALUES = MappingProxyType(
    {
        "d_k": (4, 1024),
        "n_keys": (300, 1000),
        "scaling": (Scaling.parse("unscaled"), Scaling.parse("d_k^1/2")),
        "n_queries": (50,),
        "inputs": (LAWS["gaussian"],),
        "input_std": (1.0,),
    }
)
SWEEP = Sweep("wide", "saturation", VALUES, trials=40, figures=())


def measured(sweep: Sweep, jobs: int, on_progress=lambda *_: None) -> pd.DataFrame:
    ((_, result),) = measure_sweeps([sweep], seed=0, jobs=jobs, on_progress=on_progress)
    return result.table


def in_shuffled_order(sweep: Sweep) -> pd.DataFrame:
    """Every chunk measured here, in an order of its own, and handed in as it comes."""
    cell_runs = [run._cell_run(sweep, cell) for cell in sweep.cells()]
    work = [(cell_run, chunk) for cell_run in cell_runs for chunk in chunks("saturation", cell_run.cell, sweep.trials)]
    random.Random(1).shuffle(work)
    with run.threadpool_limits(limits=1):
        for cell_run, chunk in work:
            cell_run.add(chunk.index, measure_chunk(chunk, 0))
    return run._finished(sweep, cell_runs).table


def test_tables_do_not_depend_on_workers_or_order():
    assert len(list(chunks("saturation", SWEEP.cells()[-1], SWEEP.trials))) >= 3
    one = measured(SWEEP, jobs=1)
    pd.testing.assert_frame_equal(measured(SWEEP, jobs=2), one, check_exact=True)
    pd.testing.assert_frame_equal(in_shuffled_order(SWEEP), one, check_exact=True)


def test_grid_points_and_trials_do_not_touch_each_other():
    """Another d_k, another order, and the chunks of a smaller number of trials: the shared rows are the same."""
    fewer = dataclasses.replace(SWEEP, values={**VALUES, "d_k": (1024, 4, 8), "n_keys": (300,)})
    both = pd.concat([measured(SWEEP, jobs=2), measured(fewer, jobs=2)])
    shared = both[(both["n_keys"] == 300) & (both["d_k"] != 8)]
    assert len(shared) == 8
    assert len(shared.drop_duplicates()) == 4


def test_chunk_keys_are_of_content_alone():
    cell = SWEEP.cells()[0]
    other_treatments = dataclasses.replace(cell, scaling=cell.scaling[:1])
    assert chunk_key(Chunk("saturation", cell, 3, 10)) == chunk_key(Chunk("saturation", other_treatments, 3, 7))
    keys = {
        chunk_key(Chunk(experiment, dataclasses.replace(cell, d_k=d_k), index, 1))
        for experiment in ("saturation", "rows")
        for d_k in range(1, 101)
        for index in range(50)
    }
    assert len(keys) == 2 * 100 * 50


def test_more_trials_keep_the_earlier_chunks():
    few, many = (list(chunks("saturation", SWEEP.cells()[0], trials)) for trials in (1500, 5000))
    assert few[:-1] == many[: len(few) - 1]
    assert sum(chunk.trials for chunk in many) == 5000


def test_a_number_that_overflows_stops_the_run_and_names_its_cell():
    broken = dataclasses.replace(SWEEP, values={**VALUES, "d_k": (1024,), "n_keys": (300,), "input_std": (1e200,)})
    with pytest.raises(
        MeasurementError, match=r"sweep wide, cell d_k=1024, n_keys=300, .*input_std=1e\+200, chunk \d+: .*overflow"
    ):
        measured(broken, jobs=2)


def test_a_metric_that_is_not_finite_stops_the_run_and_names_its_cell(monkeypatch):
    monkeypatch.setattr(saturation.Histograms, "median", lambda *_: (float("nan"), 0.0))
    with pytest.raises(
        MeasurementError, match=r"sweep wide, cell d_k=.*: expected a finite jacobian_norm_median, got nan"
    ):
        in_shuffled_order(SWEEP)


def test_a_killed_worker_ends_the_run_at_once_and_names_a_cell():
    endless = dataclasses.replace(SWEEP, trials=10**9)

    def kill_one(*_):
        victim = multiprocessing.active_children()[0]
        os.kill(victim.pid, signal.SIGKILL)

    started = time.monotonic()
    with pytest.raises(MeasurementError, match=r"sweep wide, cell d_k=.*: a worker process died"):
        measured(endless, jobs=2, on_progress=kill_one)
    assert time.monotonic() - started < 60
    assert not multiprocessing.active_children()
