"""Published statements: statements.csv, from the shipped tables of config.yaml and of the folder `statements`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.claims.table import CONFIG, table_path
from experiments.findings import is_shipped
from experiments.folders import HOME, STATEMENTS
from experiments.harness.config import Config, load_config
from experiments.harness.experiment import MEASURED
from experiments.harness.products import Product, build
from experiments.harness.tables import csv_bytes, read_sweep
from experiments.steps.reporter import ALOUD, Reporter

if TYPE_CHECKING:
    import pandas as pd

_READ = ("dimension", "powers", "dot_products", "phase")  # sweeps of config.yaml


def is_home(results: Path) -> bool:
    """True for the results of the repository itself: other results have no published statements."""
    return results.resolve() == HOME.resolve()


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
    sidecars = [results / f"{name}.json" for name in _READ]
    sidecars += [results / STATEMENTS / f"{sweep.name}.json" for sweep in load_config(CONFIG).sweeps]
    build(results, [Product((path,), partial(_table, config, results), tuple(sidecars))], report.made)


def _table(config: Config, results: Path) -> list[bytes]:
    from experiments.claims.table import compute_table

    return [csv_bytes(compute_table(measured_tables(config, results)))]


def measured_tables(config: Config, results: Path) -> "dict[str, pd.DataFrame]":
    """The tables behind the statements by name: SWEEP for a measured table, SWEEP/KIND for a derived one."""
    own, tables = load_config(CONFIG), {}
    read = [(results, config, sweep) for sweep in config.sweeps if sweep.name in _READ]
    for place in read + [(results / STATEMENTS, own, sweep) for sweep in own.sweeps]:
        for kind, table in read_sweep(*place).items():
            name = place[-1].name
            tables[name if kind == MEASURED else f"{name}/{kind}"] = table
    return tables
