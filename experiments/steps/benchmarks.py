"""Timings on this machine, which differ from run to run: attention, and the suite beside other ways to measure.

No other run reproduces their tables, and `make check` does not compare them.
"""

import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.folders import BENCHMARKS, benchmark_path
from experiments.harness.config import Config
from experiments.harness.files import write_atomically
from experiments.harness.tables import csv_bytes
from experiments.steps import statements, sweeps
from experiments.steps.measuring import measure

if TYPE_CHECKING:
    from experiments.benchmarks.cluster import Sizes
    from experiments.benchmarks.speed import Workload
    from experiments.benchmarks.whole_run import Step

_IMPORTS = (
    "experiments.analysis, experiments.statements.compute, experiments.figures.style, experiments.figures.variance"
)


def time_attention(results: Path) -> str:
    """Write benchmarks/cost.csv, time and memory of attention on this machine; return the table and how both grow.

    Args:
        results: the folder of benchmarks/cost.csv.
    """
    from experiments.benchmarks.attention import attention_cost
    from experiments.benchmarks.summary import exponent_lines, exponents

    cost = attention_cost()
    write_atomically(benchmark_path(results, "cost"), csv_bytes(cost))
    return "\n".join([cost.to_string(index=False), *exponent_lines(exponents(cost))])


def time_suite(config: Config, results: Path, workload: "Workload | None" = None) -> str:
    """Write benchmarks/speed.csv, draw its figure, and report the ratios. PyTorch is timed only if it is installed.

    Args:
        config: the config whose whole run is timed.
        results: the folder of the table and the figure.
        workload: the cells to time; by default those of `make bench`.
    """
    from experiments.benchmarks.pytorch import is_installed
    from experiments.benchmarks.speed import benchmark
    from experiments.benchmarks.summary import growth_rows, over_floor, report
    from experiments.figures.figure import load_figure
    from experiments.figures.rendering import render
    from experiments.harness.figures import figures_of

    if not is_installed():
        print("PyTorch is not installed; the benchmark leaves it out")
    found = benchmark(config, _steps_after_measuring(config), print, workload)
    write_atomically(benchmark_path(results, "speed"), csv_bytes(found))
    tables = {"ratios": over_floor(found), "growth": growth_rows(found)}
    for figure in figures_of(BENCHMARKS):
        render(load_figure(figure), tables, results / BENCHMARKS / figure)
    return report(found)


def time_cluster(results: Path, sizes: "Sizes | None" = None) -> str:
    """Write benchmarks/cluster.csv, the speed of runs on a Dask cluster, and report it; without Dask, say so.

    Args:
        results: the folder of the table.
        sizes: the sizes to time; by default those of `make bench`.
    """
    if find_spec("distributed") is None:
        return "Dask is not installed; skipping runs on a cluster (make cluster installs it)"
    from experiments.benchmarks.cluster import cluster_rows
    from experiments.benchmarks.summary import cluster_lines, cluster_rates

    found = cluster_rows(print, sizes)
    write_atomically(benchmark_path(results, "cluster"), csv_bytes(found))
    rates = cluster_rates(found).to_string(index=False, float_format="{:.2f}".format)
    return "\n".join([rates, *cluster_lines(found)])


def _steps_after_measuring(config: Config) -> "dict[str, Step]":
    """The later parts of `make all` by name, each from and into a folder; first the imports of all parts."""
    from experiments.harness.local import LocalWorkers

    one = LocalWorkers(1)
    return {
        "imports": lambda _: subprocess.run([sys.executable, "-c", f"import {_IMPORTS}"], check=True),
        "tables": lambda folder: measure(config, config.sweeps, folder, one, jobs=1),
        "figures": partial(sweeps.draw, config, config.sweeps, jobs=1),
        "check": partial(sweeps.check, config, config.sweeps),
        "statements": lambda folder: statements.update_statements(folder, one, jobs=1),
    }
