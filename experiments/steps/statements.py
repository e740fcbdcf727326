"""Published statements: their measurements, statements.csv, and its summary.

They do not depend on the user's sweeps. Their own config, `experiments/statements/config.yaml`, pins their sweeps.
The tables of that config and statements.csv are in the folder `statements` of the repository's results.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.folders import HOME, STATEMENTS
from experiments.harness.artifacts import Artifact, Ledger
from experiments.harness.config import Config, load_config
from experiments.harness.experiment import MEASURED
from experiments.harness.files import locked
from experiments.harness.paths import STORE
from experiments.harness.tables import csv_bytes, is_current, read_sweep
from experiments.statements.table import CONFIG, read_statements, table_path
from experiments.steps.measuring import measure
from experiments.steps.overview import write_overview
from experiments.steps.reporter import ALOUD, Reporter

if TYPE_CHECKING:
    import pandas as pd

    from experiments.harness.run import Workers

_COMPUTED_WITH = ("numpy", "scipy", "pandas")


def is_home(results: Path) -> bool:
    """True for the results of the repository itself: other results have no published statements."""
    return results.resolve() == HOME.resolve()


def update_statements(results: Path, workers: "Workers", jobs: int | None = None, report: Reporter = ALOUD) -> None:
    """Bring the measurements for the statements and statements.csv up to date.

    Args:
        results: the step writes to its folder `statements` and reuses chunks that sweeps in `results` measured.
        workers: measure the missing chunks.
        jobs, report: as in `measure`.
    """
    config, folder = load_config(CONFIG), results / STATEMENTS
    due = [sweep for sweep in config.sweeps if not is_current(folder, config, sweep)]
    with locked(results):
        if due:
            measure(config, due, folder, workers, store=results / STORE, jobs=jobs, report=report)
        write_overview(config, folder, report)
        with locked(folder):
            _write(config, results, report)


def _write(config: Config, results: Path, report: Reporter) -> None:
    """Write statements.csv unless it is up to date; the tables of its config must be complete."""
    from experiments.statements.declare import statement_modules

    path, ledger = table_path(results), Ledger(results / STATEMENTS)
    measured = (results / STATEMENTS / f"{sweep.name}.json" for sweep in config.sweeps)
    modules = ("experiments.statements.compute", *statement_modules())
    table = Artifact((path,), modules, _COMPUTED_WITH, tuple(measured))
    if ledger.is_current(table):
        report.current(path)
        return
    from experiments.harness.compare import update
    from experiments.statements.compute import compute_table

    content = csv_bytes(compute_table(measured_tables(results)))
    report.table(path, update(path, content))
    ledger.note(table)


def measured_tables(results: Path) -> "dict[str, pd.DataFrame]":
    """The measurements behind the statements by name: SWEEP for a measured table, SWEEP/KIND for a derived one.

    Args:
        results: the tables are in its folder `statements`.

    Raises:
        TableError: a table is missing, altered, or from another config.
    """
    config, tables = load_config(CONFIG), {}
    for sweep in config.sweeps:
        for kind, table in read_sweep(results / STATEMENTS, config, sweep).items():
            tables[sweep.name if kind == MEASURED else f"{sweep.name}/{kind}"] = table
    return tables


def statement_summary(results: Path, *, whole: bool) -> str:
    """The number of statements by verdict, and every wrong or misleading one, from statements.csv.

    Args:
        results: the folder of the repository's results.
        whole: True for verdicts by source too, and for the numbers and reasons behind each.
    """
    from experiments.statements.summary import short_summary, summary

    return (summary if whole else short_summary)(read_statements(results))
