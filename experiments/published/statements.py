"""Published statements: statements.csv, from the shipped tables of config.yaml and of the folder `statements`."""

from functools import partial
from pathlib import Path

import pandas as pd

from experiments.analysis.written import csv_bytes
from experiments.config.loader import Config, load_config
from experiments.config.sweep import Sweep
from experiments.figures.findings import is_shipped
from experiments.measuring.experiment import MEASURED
from experiments.published.table import CONFIG, compute_table, table_path
from experiments.run.paths import STATEMENTS
from experiments.run.products import Product, build
from experiments.run.reporter import ALOUD, Reporter
from experiments.run.tables import read_sweep

_READ = ("dimension", "powers", "dot_products", "phase")  # sweeps of config.yaml


def update_statements(config: Config, results: Path, report: Reporter = ALOUD) -> None:
    """Bring statements.csv up to date; under another config than the shipped one, it stays as it is.

    Args:
        config: the config of the results.
        results: the folder of its tables; statements.csv is in its folder `statements`.
        report: told what becomes of the file.

    Raises:
        TableError: a table is missing, altered, or from another config.
    """
    path = table_path(results)
    if not is_shipped(config):
        report.line(f"kept {path}: statements are judged for the shipped config.yaml only")
        return
    sidecars = tuple(folder / f"{sweep.name}.json" for folder, _, sweep in _sources(config, results))
    build(results, [Product((path,), partial(_table, config, results), sidecars)], report)


def _table(config: Config, results: Path) -> list[bytes]:
    return [csv_bytes(compute_table(measured_tables(config, results)))]


def measured_tables(config: Config, results: Path) -> dict[str, pd.DataFrame]:
    """The tables behind the statements by name: SWEEP for a measured table, SWEEP/KIND for a derived one."""
    return {
        sweep.name if kind == MEASURED else f"{sweep.name}/{kind}": table
        for folder, of, sweep in _sources(config, results)
        for kind, table in read_sweep(folder, of, sweep).items()
    }


def _sources(config: Config, results: Path) -> list[tuple[Path, Config, Sweep]]:
    """The sweeps that the statements read, each with its config and the folder of its tables."""
    own = load_config(CONFIG)
    shipped = [(results, config, sweep) for sweep in config.sweeps if sweep.name in _READ]
    return shipped + [(results / STATEMENTS, own, sweep) for sweep in own.sweeps]
