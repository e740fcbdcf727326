"""The benchmark: ways that give the same numbers, medians, ratios, and what the shipped run found."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from experiments.benchmarks import article, pytorch, timing, ways
from experiments.benchmarks.attention import attention_cost
from experiments.benchmarks.floor import floor_tasks
from experiments.benchmarks.memory import peak_of_process, peak_of_task
from experiments.benchmarks.speed import Workload, cell_of
from experiments.benchmarks.summary import (
    cluster_lines,
    cluster_rates,
    exponents,
    growth,
    normals,
    over_floor,
    precision_line,
    ratios,
    report,
    shares,
    speedup,
)
from experiments.benchmarks.ways import DifferentOutputError, compare, measure_by_suite
from experiments.folders import BENCHMARKS, benchmark_path
from experiments.harness.config import load_config
from experiments.harness.processor import is_supported
from experiments.page import blocks
from experiments.sampling import block_trials, chunk_trials
from experiments.saturation import SINGLE
from experiments.steps import benchmarks, statements
from tests.shipped import CONFIG, RESULTS

SHIPPED = RESULTS / BENCHMARKS / "speed.csv"


@pytest.fixture
def few_trials(monkeypatch):
    """100 trials compared, in place of the thousands in a block of small cells."""
    monkeypatch.setattr(ways, "block_trials", lambda cell: min(100, block_trials(cell)))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(3, 7, 5), (11, 7, 5), (2, 40, 1)])
def test_every_way_gives_the_same_numbers_for_all_draws_of_a_block(size):
    compare(cell_of(size))


@pytest.mark.usefixtures("few_trials")
@pytest.mark.parametrize("size", [(3, 7, 5), (11, 7, 5), (2, 40, 1)])
def test_every_way_gives_the_same_numbers_for_the_same_draws(size):
    compare(cell_of(size))


@pytest.mark.usefixtures("few_trials")
@pytest.mark.parametrize(
    "metric",
    ["max_weight", "entropy", "jacobian_trace", "saturated_rows", "score_mean", "score_square", "score_fourth"],
)
def test_a_way_that_gives_another_number_is_named(monkeypatch, metric):
    def wrong(scaled, weights):
        means, norms = with_products(scaled, weights)
        return {**means, metric: means[metric] + 0.05 * (1 + means[metric])}, norms

    with_products = article.with_products
    monkeypatch.setitem(ways.ARTICLE, "article, products", wrong)
    where = "article, products, d_k = 4, 8 keys, unscaled, float64"
    with pytest.raises(DifferentOutputError, match=f"{where}: expected {metric}"):
        compare(cell_of((4, 8, 5)))


@pytest.mark.usefixtures("few_trials")
@pytest.mark.parametrize("norm", ["jacobian_norm", "query_gradient_norm"])
def test_a_norm_that_is_another_is_named(monkeypatch, norm):
    def wrong(trials, norms):
        return summary(trials, {**norms, norm: [1.01 * rows for rows in norms[norm]]})

    summary = article.summary
    monkeypatch.setattr(article, "summary", wrong)
    with pytest.raises(DifferentOutputError, match=norm):
        compare(cell_of((4, 8, 5)))


@pytest.mark.usefixtures("few_trials")
def test_another_number_in_single_precision_alone_is_named(monkeypatch):
    def wrong(cell, trials):
        keys, queries = same_draws(cell, trials)
        return keys, queries if queries.dtype == np.float64 else queries * np.float32(1.001)

    same_draws = ways._same_draws
    monkeypatch.setattr(ways, "_same_draws", wrong)
    with pytest.raises(DifferentOutputError, match="article, powers, d_k = 4, 8 keys, unscaled, float32: expected"):
        compare(cell_of((4, 8, 5)))


def test_the_suite_in_single_precision_is_that_of_the_fast_mode():
    cell, way = cell_of((4, 8, 5)), ways.ways()["suite, float32"]
    single = dataclasses.replace(cell, arithmetic=SINGLE)
    assert (way.block(cell), way.chunk(cell)) == (block_trials(single), chunk_trials(single))
    found, expected = (measure(cell, 3, False) for measure, cell in ((way.measure, cell), (measure_by_suite, single)))
    np.testing.assert_array_equal(found.moments.mean, expected.moments.mean)
    assert (found.moments.mean[:4] != measure_by_suite(cell, 3, False).moments.mean[:4]).all()


@pytest.mark.parametrize(("name", "dtype"), [("pytorch", "float64"), ("pytorch, float32", "float32")])
def test_pytorch_draws_and_measures_in_the_precision_of_its_name(monkeypatch, name, dtype):
    torch = pytest.importorskip("torch", reason="PyTorch is not in the lock; install it to run this comparison")
    drawn = []
    monkeypatch.setattr(pytorch, "measure", lambda keys, queries, *_, **__: drawn.extend((keys, queries)))
    ways.ways()[name].measure(cell_of((4, 8, 5)), 3, False)
    assert [tensor.dtype for tensor in drawn] == [getattr(torch, dtype)] * 2
    assert [tuple(tensor.shape) for tensor in drawn] == [(3, 8, 4), (3, 5, 4)]


def test_the_floor_counts_what_a_trial_takes():
    """By hand: 64 x 5 + 7 x 5 numbers; one product; an exponential per scaling."""
    per_trial = {name: count for name, (_, count) in floor_tasks(cell_of((5, 7, 64))).items()}
    assert per_trial["floor: normals"] * 2**15 == pytest.approx(64 * 5 + 7 * 5)
    assert per_trial["floor: exponentials"] * 2**15 == pytest.approx(4 * 64 * 7)
    wide = {name: count for name, (_, count) in floor_tasks(cell_of((5, 2**15, 64))).items()}
    assert wide["floor: product"] == 2  # two blocks of 32 queries


def test_rounds_are_interleaved_and_their_median_is_taken(monkeypatch):
    clock = iter(np.cumsum([0, 1, 5, 2, 5, 9, 5, 3, 5, 1, 5, 4]).tolist())
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    ran = []
    found = timing.interleaved({"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}, rounds=3)
    assert ran == ["a", "b"] * 4  # one round before the clock
    assert found == {"a": 1, "b": 3}  # of 1, 9, 1 and of 2, 3, 4


def test_ratios_are_those_of_seconds():
    size = {"part": "cell", "d_k": 2, "n_keys": 3, "n_queries": 4, "gradients": False}
    ways_and_floor = {
        "suite": 6.0,
        "suite, float32": 3.0,
        "article, powers": 30.0,
        "pytorch": 12.0,
        "pytorch, float32": 9.0,
        "floor: normals": 1.0,
        "floor: product": 2.0,
    }
    rows = pd.DataFrame([{**size, "what": what, "seconds": value} for what, value in ways_and_floor.items()])
    assert over_floor(rows).iloc[0][["suite", "article, powers"]].tolist() == [2.0, 10.0]
    (found,) = ratios(rows).to_dict("records")
    assert (found["suite over floor"], found["article, powers over suite"]) == (2.0, 5.0)
    assert found["float32 over float64"] == 0.5
    assert (found["pytorch over suite"], found["pytorch over suite, float32"]) == (2.0, 3.0)


def test_the_gain_of_single_precision_is_a_median_over_cells():
    rows = [
        {"part": "cell", "d_k": d_k, "n_keys": 3, "n_queries": 4, "gradients": gradients, "what": what, "seconds": took}
        for d_k, gain in ((2, 0.4), (4, 0.5), (8, 0.9))
        for gradients, more in ((False, 0.0), (True, 0.1))
        for what, took in (("suite", 2.0), ("suite, float32", 2 * (gain + more)), ("floor: normals", 1.0))
    ]
    assert precision_line(pd.DataFrame(rows)) == (
        "In float32, the suite takes 0.50 of its time in float64 without gradients, and 0.60 with gradients (medians "
        "over the 3 sizes)."
    )


def test_the_peak_of_a_task_is_that_of_its_arrays():
    peak = peak_of_task(lambda: [np.ones(2**20) for _ in range(3)])
    assert 24 * 2**20 <= peak < 25 * 2**20


def test_the_peak_of_a_process_is_that_of_its_arrays():
    """K of 64 MiB, and what the plan reckons beside it."""
    peak = peak_of_process(cell_of((2048, 4096, 2)), "suite") / 2**20
    assert 64 < peak < 64 + 40


@pytest.mark.slow
def test_a_small_benchmark_has_every_part_and_its_figure(tmp_path, monkeypatch):
    sizes = {"d_k": (4, 8, 16), "n_keys": (4, 8, 16), "trials": (4, 8, 16)}
    workload = Workload(cells=((4, 8, 5),), largest=(8, 16, 2), growth=sizes, round_seconds=0.001)
    monkeypatch.setattr(statements, "update_statements", lambda *_, **__: False)  # it would measure its own config
    config = tmp_path / "small.yaml"
    config.write_text(
        "seed: 0\nsweeps:\n  one:\n    experiment: saturation\n    d_k: [4, 8]\n    n_keys: 8\n    n_queries: 5\n"
        "    scaling: [unscaled, d_k^1/2]\n    arithmetic: [float64, float32]\n    precision: 0.1\n"
        "  two:\n    experiment: training\n    task: recall\n    d_k: 4\n    n_keys: 4\n    learning_rate: 0.1\n"
        "    scaling: d_k^1/2\n    steps: 20\n    trials: 2\n"
    )
    text = benchmarks.time_suite(load_config(config), tmp_path, workload)
    found = pd.read_csv(tmp_path / BENCHMARKS / "speed.csv")
    parts = {"cell", "normals", "growth", "memory", "workers", "profile"}
    assert set(found["part"]) == parts | ({"instructions"} if is_supported() else set())
    assert (found.loc[~found["part"].isin(["memory", "profile"]), "seconds"] > 0).all()
    profiled = found[found["part"] == "profile"].set_index("what")["seconds"]
    one_worker = found.loc[found["what"] == "1 worker", "seconds"].item()
    later = ["imports", "tables", "statements", "figures", "check"]
    assert profiled.drop(later).sum() == pytest.approx(one_worker)
    assert over_floor(found)["gradients"].tolist() == [False, True]
    assert {"suite", "suite, float32", "article, powers", "article, products"} <= {*over_floor(found)}
    largest = found[(found["part"] == "memory") & (found["d_k"] == 8)]
    assert largest["what"].tolist() == ["suite", "suite, float32"]
    assert {"SFC64", "SFC64 in float32", "Box-Muller", "Box-Muller in float32"} <= {*normals(found).index}
    assert "two workers measure the whole config" in text
    assert (tmp_path / BENCHMARKS / "speed.png").stat().st_size > 10_000


@pytest.fixture(scope="module")
def shipped() -> pd.DataFrame:
    return pd.read_csv(SHIPPED)


def test_the_shipped_run_is_as_fast_as_the_documentation_says(shipped):
    """Single precision misses 0.4 without gradients, and short rows stay far above the floor: the page says why."""
    table = ratios(shipped)
    assert len(table) == 2 * len(Workload().cells)
    without = table[~table["gradients"]]
    assert without["suite over floor"].median() <= 2.5
    shortest = without["d_k"] == 4
    assert without.loc[~shortest, "suite over floor"].max() <= 3.5
    assert without.loc[shortest, "suite over floor"].item() <= 9
    assert without.loc[shortest, ["article, powers over suite", "article, products over suite"]].min(axis=None) >= 12
    assert (table["pytorch over suite"] > 1).all()
    assert (table.loc[table["d_k"] != 4, "pytorch over suite, float32"] > 1).all()
    medians = table.groupby("gradients")["float32 over float64"].median()
    assert (medians <= 0.6).all()
    assert (table["float32 over float64"] < 1).all()
    assert speedup(shipped) >= 1.6


def test_the_shipped_run_grows_as_it_should(shipped):
    grown = growth(shipped).set_index("swept")
    assert 0.8 < grown.loc["d_k", "seconds"] < 1.2
    assert 0.9 < grown.loc["trials", "seconds"] < 1.1
    assert abs(grown.loc["trials", "peak_bytes"]) < 0.1
    in_double = [name for name in normals(shipped).index if "float32" not in name]
    assert in_double[0] == "SFC64"
    assert shares(shipped).sum() == pytest.approx(1)
    assert report(shipped).count("\n") > 20


def test_the_cost_of_attention_has_a_row_for_each_size():
    """The peak is that of a few arrays of n^2 doubles."""
    found = attention_cost(tokens=(128, 512), widths=(4, 64))
    assert found[["swept", "n", "d_k"]].to_numpy().tolist() == [
        ["n", 128, 64],
        ["n", 512, 64],
        ["d_k", 1024, 4],
        ["d_k", 1024, 64],
    ]
    assert (found["seconds"] > 0).all()
    assert found["peak_bytes"].between(8 * found["n"] ** 2, 40 * found["n"] ** 2).all()


def test_the_growth_of_cost_is_fitted_to_the_larger_sizes():
    sizes = [64, 128, 256, 512, 1024]
    rows = [{"swept": "n", "n": n, "d_k": 8, "seconds": 3e-9 * n**2 + 1e-5, "peak_bytes": 8 * n**2} for n in sizes]
    (row,) = exponents(pd.DataFrame(rows)).to_dict("records")
    assert row["peak_bytes"] == pytest.approx(2)
    assert 1.9 < row["seconds"] < 2


def test_the_shipped_cost_grows_with_the_square_of_tokens_and_not_with_that_of_the_width():
    grown = exponents(pd.read_csv(RESULTS / BENCHMARKS / "cost.csv")).set_index("swept")
    assert 1.7 < grown.loc["n", "seconds"] < 2.3
    assert 1.9 < grown.loc["n", "peak_bytes"] < 2.1
    assert grown.loc["d_k", "seconds"] < 1.2


def test_the_cost_of_attention_goes_where_the_docs_read_it(tmp_path, monkeypatch):
    shipped = pd.read_csv(benchmark_path(RESULTS, "cost"))
    monkeypatch.setattr("experiments.benchmarks.attention.attention_cost", lambda: shipped)
    assert "time grows as n^1.9" in benchmarks.time_attention(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.csv")] == ["benchmarks/cost.csv"]


@pytest.fixture
def on_a_cluster() -> pd.DataFrame:
    """Rows as in cluster.csv."""
    columns = ["part", "what", "workers", "chunks", "seconds", "chunk_seconds", "client_cpu", "scheduler_cpu"]
    rows = [
        ("sweep", "local", 2, 100, 10.0, None, None, None),
        ("sweep", "cluster", 2, 100, 10.5, None, None, None),
        ("writing", "client", None, 4000, 2.0, None, 1.0, None),
        ("scale", "cluster", 64, 3200, 10.0, 0.2, 4.0, 1.0),
        ("scale", "cluster", 64, 128, 10.0, 5.0, 0.2, 0.5),
        ("scale", "cluster", 256, 10_240, 10.0, 0.2, 9.0, 5.0),
        ("scale", "cluster", 256, 461, 10.0, 5.0, 1.0, 0.5),
    ]
    return pd.DataFrame(rows, columns=columns)


def test_the_rates_of_a_client(on_a_cluster):
    rates = cluster_rates(on_a_cluster)
    assert rates["workers"].tolist() == [64, 64, 256, 256]
    assert rates["per_second"].tolist() == pytest.approx([320, 12.8, 1024, 46.1])
    assert rates["share"].tolist() == pytest.approx([1, 1, 0.8, 0.9004], abs=1e-4)
    assert rates["client"].tolist() == pytest.approx([0.4, 0.02, 0.9, 0.1])
    assert rates["scheduler"].tolist() == pytest.approx([0.1, 0.05, 0.5, 0.05])


def test_the_findings_on_a_cluster(on_a_cluster):
    sweep, writing, cost, busy = cluster_lines(on_a_cluster)
    assert "100 chunks of about 0.2 s takes 1.05 times as long on 2 workers of a cluster as on 2 local" in sweep
    assert "writes 2,000 records per second; its processor is busy for 50%" in writing
    assert "takes 0.88 ms of processor time in the client and 0.49 ms in the scheduler" in cost
    assert "about 1,138 records per second" in cost
    assert busy.endswith("at least 90% of the time: 64 with chunks of 0.2 s, 256 with chunks of 5 s.")


def test_the_limit_of_a_client_is_in_the_docs(on_a_cluster):
    *_, last = [line for line in blocks._cluster(CONFIG, on_a_cluster).splitlines() if line.startswith("|")]
    assert last == "| 256 | 5 | 46 | 90% | 10% | 5% |"


def test_a_client_that_keeps_no_workers_busy(on_a_cluster):
    slow = on_a_cluster.assign(seconds=on_a_cluster["seconds"] * 2)
    *_, busy = cluster_lines(slow)
    assert busy.endswith(": fewer than 64 with chunks of 0.2 s, fewer than 64 with chunks of 5 s.")


def test_without_dask_nothing_is_timed_on_a_cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmarks, "find_spec", lambda _: None)
    assert "Dask is not installed" in benchmarks.time_cluster(tmp_path)
    assert list(tmp_path.iterdir()) == []
