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
from experiments.statements.files import CLAIMS, CONFIG, FOLDER, TABLE
from experiments.steps.sweeps import measure

if TYPE_CHECKING:
    import pandas as pd

HOME = Path("results")  # the results of the repository itself, the only ones with published statements
_NOTE = ".made"


def is_home(results: Path) -> bool:
    """True for the results of the repository itself: other results have no published statements."""
    return results.resolve() == HOME.resolve()


def update_statements(results: Path, jobs: int) -> bool:
    """Measure what statements need and write statements.csv, where they are not up to date; True if it was written.

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
            return _write(config, folder)


def _write(config: Config, folder: Path) -> bool:
    path, note = folder / TABLE, folder / _NOTE
    if path.exists() and note.exists() and note.read_bytes() == _state(config, folder):
        print(f"{path}: made before, nothing to do")
        return False
    from experiments.harness.compare import how_alike
    from experiments.statements.build import build

    content = csv_bytes(build(measured_tables(config, folder)))
    print(f"wrote {path}: {how_alike(path.read_bytes() if path.exists() else None, content)}")
    write_whole(path, content)
    write_whole(note, _state(config, folder))
    return True


def _state(config: Config, folder: Path) -> bytes:
    """Checksums of everything that decides statements.csv, and of statements.csv itself."""
    from experiments.harness.fingerprint import source_fingerprint

    files = [*(folder / f"{sweep.name}.json" for sweep in config.sweeps), CLAIMS, folder / TABLE]
    checksums = (hashlib.sha256(path.read_bytes()).hexdigest() for path in files)
    return "\n".join([source_fingerprint("experiments.statements.build"), *checksums]).encode()


def measured_tables(config: Config, folder: Path) -> "dict[str, pd.DataFrame]":
    """The measurements that statements rest on, by name: SWEEP for a measured table, SWEEP-KIND for a derived one."""
    tables = {}
    for sweep in config.sweeps:
        for kind, table in read_sweep(folder, config, sweep).items():
            tables[sweep.name if kind == "measured" else f"{sweep.name}-{kind}"] = table
    return tables


def statement_summary(results: Path) -> str:
    """Verdicts by source, and every wrong statement with what is right."""
    from experiments.statements.summary import summary

    return summary(results / FOLDER / TABLE)
