"""Published statements: the measurements that they rest on, statements.csv, and its summary.

They do not depend on what a user sweeps. Their own config, `experiments/statements/config.yaml`, pins what they need.
The tables of that config and statements.csv are in the folder `statements` of the repository's results.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.config import Config, load_config
from experiments.harness.files import held, write_whole
from experiments.harness.paths import STORE
from experiments.harness.tables import csv_bytes, is_current, read_sweep
from experiments.statements.table import CONFIG, FOLDER, read_statements, table_path
from experiments.steps.sweeps import measure

if TYPE_CHECKING:
    import pandas as pd

HOME = Path("results")  # the results of the repository itself, the only ones with published statements
_NOTE = ".made"


def is_home(results: Path) -> bool:
    """True for the results of the repository itself: other results have no published statements."""
    return results.resolve() == HOME.resolve()


def update_statements(results: Path, jobs: int) -> None:
    """Measure what statements need and write statements.csv, where they are not up to date.

    Args:
        results: its folder `statements` is written; chunks that a sweep in `results` measured are not measured again.
        jobs: worker processes.
    """
    config, folder = load_config(CONFIG), results / FOLDER
    due = [sweep for sweep in config.sweeps if not is_current(folder, config, sweep)]
    with held(results):
        if due:
            measure(config, due, folder, jobs, store=results / STORE)
        with held(folder):
            _write(config, results)


def _write(config: Config, results: Path) -> None:
    path, note = table_path(results), results / FOLDER / _NOTE
    if path.exists() and note.exists() and note.read_bytes() == _state(config, results):
        print(f"{path}: made before, nothing to do")
        return
    from experiments.harness.compare import how_alike
    from experiments.statements.compute import compute_table

    content = csv_bytes(compute_table(measured_tables(results)))
    print(f"wrote {path}: {how_alike(path.read_bytes() if path.exists() else None, content)}")
    write_whole(path, content)
    write_whole(note, _state(config, results))


def _state(config: Config, results: Path) -> bytes:
    """Checksums of everything that decides statements.csv, and of statements.csv itself."""
    from experiments.harness.fingerprint import source_fingerprint
    from experiments.statements.declare import statement_modules

    files = [*(results / FOLDER / f"{sweep.name}.json" for sweep in config.sweeps), table_path(results)]
    checksums = (hashlib.sha256(path.read_bytes()).hexdigest() for path in files)
    source = source_fingerprint("experiments.statements.compute", *statement_modules())
    return "\n".join([source, *checksums]).encode()


def measured_tables(results: Path) -> "dict[str, pd.DataFrame]":
    """The measurements that statements rest on, by name: SWEEP for a measured table, SWEEP-KIND for a derived one."""
    config, tables = load_config(CONFIG), {}
    for sweep in config.sweeps:
        for kind, table in read_sweep(results / FOLDER, config, sweep).items():
            tables[sweep.name if kind == "measured" else f"{sweep.name}-{kind}"] = table
    return tables


def statement_summary(results: Path) -> str:
    """Verdicts by source, and every wrong statement with what is right."""
    from experiments.statements.summary import summary

    return summary(read_statements(results))
