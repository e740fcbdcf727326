"""Running over processes: the same unrounded numbers however it is done, and faults that name their
cell.
"""

import io
import math
import multiprocessing
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace

import pandas as pd
import pytest
from rich.console import Console

from experiments.commands.measure import measure_chunks
from experiments.config.errors import MeasurementError, PartError
from experiments.config.sweep import Sweep
from experiments.kinds.saturation.cell import EXPERIMENT, KERNEL, Cell
from experiments.measuring.chunk import Chunk
from experiments.measuring.columns import defaults
from experiments.measuring.experiment import MEASURED
from experiments.measuring.intervals import MIN_TRIALS
from experiments.running import workers
from experiments.running.store import Store
from experiments.running.work import PILOT_TRIALS, cell_chunks, find_work, merged
from experiments.running.workers import LocalWorkers
from experiments.tables import reporter
from experiments.tables.reporter import Reporter
from experiments.tables.results import Results
from experiments.tables.rows import tabulated
from sdpa import Scaling
from tests.plain_rows import RULES

VALUES = {name: (value,) for name, value in defaults(Cell).items()}
VALUES |= {"d_k": (4, 1024), "n_keys": (300,), "scaling": RULES, "n_queries": (50,)}
SMALL = Sweep("wide", EXPERIMENT, VALUES, trials=30, figures=(), seed=0)
PRECISE = replace(
    SMALL,
    name="precise",
    values={**VALUES, "d_k": (4, 64), "n_keys": (8,), "n_queries": (6,)},
    trials=100_000,
    precision=0.02,
)
METRICS = [
    "score_variance",
    "max_weight",
    "entropy",
    "jacobian_trace",
    "jacobian_norm",
    "query_gradient_norm",
]


def of(sweep, **values):
    return replace(sweep, values={**sweep.values, **values})


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def measured(store, sweep, jobs=1, report=None):
    report = report or Reporter(say=lambda _: None)
    for _ in ("pilots, if there are any", "chunks"):
        work = find_work(store, [sweep])
        measure_chunks(store, work, LocalWorkers(jobs), report)
        assert not +work.left
    assert work.is_complete(sweep)
    measurements = (
        merged(map(store.read, cell_chunks(store, sweep, cell))) for cell in sweep.cells
    )
    return tabulated(EXPERIMENT, sweep.cells, measurements)[MEASURED]


def test_a_number_that_overflows_stops_the_run_and_names_its_cell(store):
    broken = of(SMALL, d_k=(1024,), key_std=(1e308,))
    named = r"sweep wide, cell d_k=1024, n_keys=300, .*key_std=1e\+308, chunk \d+: .*overflow"
    with pytest.raises(MeasurementError, match=named):
        measured(store, broken, jobs=2)


def test_a_killed_worker_ends_the_run_at_once_and_names_a_cell(store):
    long = replace(of(SMALL, d_k=(1024,)), trials=10**4)
    others = set(multiprocessing.active_children())

    def kill_one(*_):
        for victim in [*set(multiprocessing.active_children()) - others][:1]:
            victim.kill()

    report = Reporter(say=lambda _: None)
    report.bar.phase = lambda *_: nullcontext(kill_one)
    with pytest.raises(MeasurementError, match=r"sweep wide, cell d_k=.*: a worker process died"):
        measured(store, long, jobs=2, report=report)
    assert set(multiprocessing.active_children()) <= others
    work = find_work(store, [long])
    assert work.left["wide"] < work.total["wide"]  # by the chunk after which it was killed


def test_workers_start_in_a_thread_too():
    def distance():
        with workers.worker_pool(1) as pool:
            return pool.submit(abs, -3).result()

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(distance).result() == 3


def test_a_bug_names_its_chunk_and_keeps_its_traceback(store):
    failed = Future()
    failed.set_exception(KeyError("planted"))
    task = find_work(store, [SMALL]).todo[0]
    named = r"^sweep wide, cell d_k=\d+, .*, chunk 0: KeyError: 'planted'\nTraceback "
    with pytest.raises(PartError, match=named):
        list(workers.receive(lambda *_: failed, [task], 1))


def test_one_bar_counts_all_phases_of_a_command(monkeypatch):
    lines = []
    monkeypatch.setattr(reporter, "_SECONDS_BETWEEN_LINES", 0)
    whole = reporter.Bar(Console(file=io.StringIO()), lines.append)
    whole.to_come = {"figures": 2, "page": 4}
    with whole.phase("tables", 20, 2.0) as advance:
        advance("mine", 10)
    for name in ("figures", "page"):
        with whole.phase(name, 1, 99.0) as advance:
            advance("it", 1)
    words = [line.split(" of all")[0] for line in lines]
    assert words == ["tables: mine; 12%", "figures: it; 50%", "page: it; 100%"]


def count(store, *sweeps):
    """Chunks that are to be measured."""
    return len(find_work(store, sweeps).todo)


@pytest.mark.usefixtures("in_this_process")
def test_a_rerun_measures_what_is_missing_alone(store):
    measured(store, SMALL)
    cells = len(SMALL.cells)
    assert count(store, SMALL) == 0
    assert count(store, of(SMALL, d_k=(4, 16, 1024))) == count(store, of(SMALL, d_k=(16,))) == 1
    assert count(store, of(SMALL, scaling=(Scaling.parse("d_k^1/3"),))) >= cells
    assert count(store, replace(SMALL, seed=1)) >= cells
    more = replace(SMALL, trials=10 * SMALL.trials)
    elsewhere = Store(store.folder / "elsewhere")
    # all chunks but the last of each cell, which was cut short
    kept = count(elsewhere, SMALL) - cells
    assert count(store, more) == count(elsewhere, more) - kept


def relative_errors(table):
    """The largest relative standard error of each row."""
    return pd.DataFrame({name: table[f"{name}_se"] / table[name] for name in METRICS}).max(axis=1)


def pilot_trials(cell, precision):
    """The trials that the draws of a pilot request, without the store."""
    pilot = Chunk(EXPERIMENT, cell, 2**31, PILOT_TRIALS, seed=0).measure()
    error = relative_errors(pd.DataFrame(KERNEL.tabulate(cell, pilot)[MEASURED])).max()
    return math.ceil(1.4 * PILOT_TRIALS * (error / precision) ** 2)


@pytest.mark.usefixtures("in_this_process")
def test_trials_follow_from_the_pilot_alone_whose_draws_are_in_no_estimate(store, tmp_path):
    table = measured(store, PRECISE)
    assert count(store, PRECISE) == 0
    for cell in PRECISE.cells:
        rows = table[table["d_k"] == cell.d_k]
        assert set(rows["trials"]) == {pilot_trials(cell, 0.02)}
        trials = int(rows["trials"].iloc[0])
        plain = replace(of(PRECISE, d_k=(cell.d_k,)), trials=trials, precision=None)
        expected = measured(Store(tmp_path / "plain"), plain)
        pd.testing.assert_frame_equal(expected, rows.reset_index(drop=True))
    assert Results(PRECISE, {MEASURED: table}).unreached() == ""
    between = relative_errors(table).groupby(table["d_k"]).max().mean()
    rougher = replace(PRECISE, precision=between)
    missed = Results(rougher, {MEASURED: table}).unreached()
    assert missed.startswith("precise: got the relative error 0.017, expected the precision 0.016")


@pytest.mark.usefixtures("in_this_process")
def test_max_trials_and_the_fewest_trials_bound(store):
    capped = replace(PRECISE, trials=300)
    table = measured(store, capped)
    assert set(table["trials"]) == {300}
    assert "a larger max_trials may reach it" in Results(capped, {MEASURED: table}).unreached()
    rough = replace(of(PRECISE, d_k=(4,)), precision=0.9, trials=MIN_TRIALS + 1)
    assert set(measured(store, rough)["trials"]) == {MIN_TRIALS}
    # Its entropy, or the square of its norms, is 0 in double precision: no number of trials gives
    # it an error.
    frozen = of(capped, d_k=(4,), query_std=(1e5,), key_std=(1e5,))
    table = measured(store, frozen)
    assert set(table["trials"]) == {300}
    assert "got the relative error inf" in Results(frozen, {MEASURED: table}).unreached()
