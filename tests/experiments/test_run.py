"""Running over processes: the same unrounded numbers however it is done, and faults that name their cell."""

import dataclasses
import multiprocessing
import os
import random
import signal
import struct
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import MappingProxyType

import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from experiments import row_statistics, rows
from experiments.harness.columns import defaults
from experiments.harness.experiment import MEASURED
from experiments.harness.grid import Chunk, Sweep, chunks
from experiments.harness.local import LocalWorkers, worker_pool
from experiments.harness.problems import MeasurementError
from experiments.harness.run import measure_missing
from experiments.harness.seeds import chunk_key
from experiments.harness.store import Store, measure_record
from experiments.harness.tabulate import tabulate_sweep
from experiments.harness.work import find_chunks
from experiments.saturation import EXPERIMENT, Cell
from experiments.statistics.quantiles import Quantile
from sdpa import Scaling

VALUES = MappingProxyType(
    {name: (value,) for name, value in defaults(Cell).items()}
    | {
        "d_k": (4, 1024),
        "n_keys": (300, 1000),
        "scaling": (Scaling.parse("unscaled"), Scaling.parse("d_k^1/2")),
        "n_queries": (50,),
    }
)
SWEEP = Sweep("wide", EXPERIMENT, VALUES, trials=30, figures=())


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path, seed=0)


def measured(store: Store, sweep: Sweep, jobs: int, on_progress=lambda *_: None) -> pd.DataFrame:
    work = find_chunks(store, [sweep])
    assert list(measure_missing(store, [sweep], work, LocalWorkers(jobs), on_progress)) == [sweep]
    return tabulate_sweep(store, sweep)[MEASURED]


def in_shuffled_order(store: Store, sweep: Sweep) -> pd.DataFrame:
    """Every chunk measured here, in an order of its own."""
    work = find_chunks(store, [sweep]).todo
    random.Random(1).shuffle(work)
    with threadpool_limits(limits=1):
        for task in work:
            store.write(task.chunk, measure_record(*task.arguments))
    return tabulate_sweep(store, sweep)[MEASURED]


@pytest.mark.parametrize("jobs", [2, *(pytest.param(jobs, marks=pytest.mark.slow) for jobs in (1, 4))])
def test_tables_do_not_depend_on_workers_or_order(tmp_path, jobs):
    assert len(list(chunks(EXPERIMENT, SWEEP.cells()[-1], SWEEP.trials))) >= 3
    shuffled = in_shuffled_order(Store(tmp_path / "shuffled", 0), SWEEP)
    pd.testing.assert_frame_equal(measured(Store(tmp_path, 0), SWEEP, jobs), shuffled, check_exact=True)


@pytest.mark.usefixtures("in_this_process")
def test_grid_points_and_trials_do_not_touch_each_other(tmp_path):
    """Another d_k, another order and fewer n_keys: the shared rows are the same."""
    more = dataclasses.replace(SWEEP, values={**VALUES, "d_k": (4, 64)})
    fewer = dataclasses.replace(SWEEP, values={**VALUES, "d_k": (64, 4, 8), "n_keys": (300,)})
    stores = Store(tmp_path / "one", 0), Store(tmp_path / "other", 0)
    both = pd.concat([measured(stores[0], more, jobs=2), measured(stores[1], fewer, jobs=2)])
    shared = both[(both["n_keys"] == 300) & (both["d_k"] != 8)]
    assert len(shared) == 8
    assert len(shared.drop_duplicates()) == 4


def test_chunk_keys_are_of_content_alone():
    cell = SWEEP.cells()[0]
    other_treatments = dataclasses.replace(cell, scaling=cell.scaling[:1])
    assert chunk_key(Chunk(EXPERIMENT, cell, 3, 10)) == chunk_key(Chunk(EXPERIMENT, other_treatments, 3, 7))
    keys = {
        chunk_key(Chunk(experiment, dataclasses.replace(cell, d_k=d_k), index, 1))
        for experiment in (EXPERIMENT, rows.EXPERIMENT)
        for d_k in range(1, 201)
        for index in range(50)
    }
    assert len(keys) == 2 * 200 * 50


def test_more_trials_keep_the_earlier_chunks():
    few, many = (list(chunks(EXPERIMENT, SWEEP.cells()[0], trials)) for trials in (1500, 5000))
    assert few[:-1] == many[: len(few) - 1]
    assert sum(chunk.trials for chunk in many) == 5000


def test_a_number_that_overflows_stops_the_run_and_names_its_cell(store):
    broken = dataclasses.replace(SWEEP, values={**VALUES, "d_k": (1024,), "n_keys": (300,), "key_std": (1e308,)})
    with pytest.raises(
        MeasurementError, match=r"sweep wide, cell d_k=1024, n_keys=300, .*key_std=1e\+308, chunk \d+: .*overflow"
    ):
        measured(store, broken, jobs=2)


def test_a_metric_that_is_not_finite_stops_the_run_and_names_its_cell(store, monkeypatch):
    small = dataclasses.replace(SWEEP, values={**VALUES, "d_k": (4,), "n_keys": (300,)})
    broken = Quantile(float("nan"), 0.0, 1.0, True)
    monkeypatch.setattr(row_statistics.Histograms, "quantile", lambda *_: broken)
    with pytest.raises(
        MeasurementError, match=r"sweep wide, cell d_k=.*: expected a finite jacobian_norm_p10, got nan"
    ):
        in_shuffled_order(store, small)


def test_a_killed_worker_ends_the_run_at_once_and_names_a_cell(store):
    long = dataclasses.replace(SWEEP, values={**VALUES, "d_k": (1024,), "n_keys": (300,)}, trials=10**4)

    others = {child.pid for child in multiprocessing.active_children()}

    def kill_one(*_):
        # Called again for a chunk that was finished already; by then the pool may have ended its other workers.
        workers = [child.pid for child in multiprocessing.active_children() if child.pid not in others]
        for victim in workers[:1]:
            os.kill(victim, signal.SIGKILL)

    started = time.monotonic()
    with pytest.raises(MeasurementError, match=r"sweep wide, cell d_k=.*: a worker process died"):
        measured(store, long, jobs=2, on_progress=kill_one)
    assert time.monotonic() - started < 60
    assert {child.pid for child in multiprocessing.active_children()} <= others
    kept = find_chunks(store, [long])
    assert kept.states["wide"]["sound"] >= 1  # the chunk after which it was killed


def test_an_error_in_one_pool_leaves_the_work_of_another():
    """Complete sweeps are analysed in other processes, whose tables a failed cell of a later sweep must not cost."""

    def measure() -> None:
        with worker_pool(1) as measuring:
            measuring.submit(abs, -1).result()
            raise ValueError("a failed cell")

    with worker_pool(1) as analysing:
        slow = analysing.submit(time.sleep, 0.5)
        with pytest.raises(ValueError, match="a failed cell"):
            measure()
        assert slow.result() is None
        assert analysing.submit(abs, -1).result() == 1


def test_a_worker_that_dies_before_a_chunk_is_handed_out_ends_the_run_alike(store, monkeypatch):
    def broken(*_):
        raise BrokenProcessPool

    monkeypatch.setattr(ProcessPoolExecutor, "submit", broken)
    with pytest.raises(MeasurementError, match=r"sweep wide, cell d_k=.*: a worker process died"):
        measured(store, SWEEP, jobs=2)


def test_a_worker_killed_while_it_sends_a_record_holds_nobody_up(store, monkeypatch):
    """The pool's thread has the length of a record and a part of it when the workers are killed."""
    queues = []

    class HalfSent(ProcessPoolExecutor):
        def submit(self, *_):
            super().submit(time.sleep, 60)
            queues.append(self._result_queue)
            os.write(self._result_queue._writer.fileno(), struct.pack("!i", 1000) + b"half a record")
            time.sleep(0.5)  # for the thread to read it
            raise KeyboardInterrupt

    monkeypatch.setattr("experiments.harness.local._Pool", HalfSent)
    ended = threading.Event()

    def interrupted():
        with pytest.raises(KeyboardInterrupt):
            measured(store, SWEEP, jobs=1)
        ended.set()

    threading.Thread(target=interrupted, daemon=True).start()
    try:
        assert ended.wait(30)
    finally:
        queues[0]._writer.close()  # so that a failure does not hold up the other tests


def count(store: Store, *sweeps: Sweep) -> int:
    """Chunks that are to be measured."""
    return len(find_chunks(store, sweeps).todo)


@pytest.mark.usefixtures("in_this_process")
def test_a_rerun_measures_what_is_missing_alone(store):
    small = dataclasses.replace(SWEEP, values={**VALUES, "n_keys": (300,)})
    measured(store, small, jobs=2)
    assert count(store, small) == 0
    more_d_k = dataclasses.replace(small, values={**small.values, "d_k": (4, 16, 1024)})
    one_d_k = dataclasses.replace(small, values={**small.values, "d_k": (16,)})
    assert count(store, more_d_k) == count(store, one_d_k) == 1
    size = [len(list(chunks(EXPERIMENT, cell, SWEEP.trials))) for cell in small.cells()]
    more_trials = dataclasses.replace(small, trials=10 * SWEEP.trials)
    whole = sum(1 for cell in small.cells() for chunk in chunks(EXPERIMENT, cell, more_trials.trials))
    # Kept are all chunks but the last of each cell, which was cut short.
    assert count(store, more_trials) == whole - sum(size) + len(size)
    other_scaling = dataclasses.replace(small, values={**small.values, "scaling": (Scaling.parse("d_k^1/3"),)})
    assert count(store, other_scaling) == sum(size)
    assert count(Store(store.folder, seed=1), small) == sum(size)


@pytest.mark.usefixtures("in_this_process")
def test_sweeps_that_share_a_cell_measure_it_once(store):
    small = dataclasses.replace(SWEEP, values={**VALUES, "n_keys": (300,)})
    other = dataclasses.replace(small, name="other", values={**small.values, "d_k": (4,)})
    work = find_chunks(store, [small, other])
    assert len(work.todo) == count(store, small)
    assert work.missing()["other"] == count(store, other) > 0
    done = [sweep.name for sweep in measure_missing(store, [small, other], work, LocalWorkers(2), lambda *_: None)]
    assert done == ["wide", "other"]
    assert count(store, small, other) == 0
