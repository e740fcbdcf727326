"""The record of published statements: the measurements that it rests on, record.csv, and its summary.

The record does not depend on what a user sweeps. Its own config, `experiments/record/config.yaml`, pins what it needs;
the tables of that config and record.csv are in the folder `record` of the repository's results.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.config import Config, load_config
from experiments.harness.files import held, write_whole
from experiments.harness.paths import STORE
from experiments.harness.tables import csv_bytes, is_current, read_sweep
from experiments.record.files import CLAIMS, CONFIG, FOLDER, TABLE
from experiments.steps.sweeps import measure

if TYPE_CHECKING:
    import pandas as pd

HOME = Path("results")  # the results of the repository itself, which alone have a record
_NOTE = ".made"


def is_home(results: Path) -> bool:
    """True for the results of the repository itself: other results have no published statements."""
    return results.resolve() == HOME.resolve()


def update_record(results: Path, jobs: int) -> bool:
    """Measure what the record needs and write record.csv, where they are not up to date; True if it was written.

    Args:
        results: the folder whose `record` is written; chunks that a sweep in `results` measured are not measured again.
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
    from experiments.record.build import build

    content = csv_bytes(build(record_tables(config, folder)))
    print(f"wrote {path}: {how_alike(path.read_bytes() if path.exists() else None, content)}")
    write_whole(path, content)
    write_whole(note, _state(config, folder))
    return True


def _state(config: Config, folder: Path) -> bytes:
    """Checksums of everything that decides record.csv, and of record.csv itself."""
    from experiments.harness.fingerprint import source_fingerprint

    files = [*(folder / f"{sweep.name}.json" for sweep in config.sweeps), CLAIMS, folder / TABLE]
    checksums = (hashlib.sha256(path.read_bytes()).hexdigest() for path in files)
    return "\n".join([source_fingerprint("experiments.record.build"), *checksums]).encode()


def record_tables(config: Config, folder: Path) -> "dict[str, pd.DataFrame]":
    """The record's measurements by name: SWEEP for a measured table, SWEEP-KIND for a derived one."""
    tables = {}
    for sweep in config.sweeps:
        for kind, table in read_sweep(folder, config, sweep).items():
            tables[sweep.name if kind == "measured" else f"{sweep.name}-{kind}"] = table
    return tables


def record_summary(results: Path) -> str:
    """Verdicts by source, and every wrong statement with what is right."""
    from experiments.record.summary import summary

    return summary(results / FOLDER / TABLE)
