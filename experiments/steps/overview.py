"""The files that cover all sweeps of a results folder: columns.csv and long-format.csv.

columns.csv describes the columns of all tables, and long-format.csv stacks the values of all sweeps. The sound tables
of a config's sweeps come in; sweeps without such tables are left out.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from experiments.harness.artifacts import Artifact, Ledger
from experiments.harness.config import Config
from experiments.harness.files import locked, write_atomically
from experiments.harness.grid import Sweep
from experiments.harness.paths import COLUMNS, LONG
from experiments.harness.tables import TableError, check_sound, csv_bytes, read_sweep
from experiments.harness.wording import counted
from experiments.steps.reporter import ALOUD, Reporter

_COMPUTED_WITH = ("numpy", "pandas", "scipy")


def write_overview(config: Config, results: Path, report: Reporter = ALOUD) -> None:
    """Write columns.csv and long-format.csv unless they are up to date; nothing if no sweep has sound tables.

    Args:
        config: the whole config.
        results: the folder of its tables.
        report: told about the values.

    Raises:
        BusyError: another run uses the results folder.
    """
    with locked(results):
        sweeps, ledger = _sound(config, results), Ledger(results)
        if sweeps and not ledger.is_current(_overview(sweeps, results)):
            values = _write(config, sweeps, results)
            report.detail(f"wrote {results / LONG}: {counted(values, 'value')}")
            ledger.note(_overview(sweeps, results))


def _sound(config: Config, results: Path) -> list[Sweep]:
    """The sweeps of a config whose tables are sound."""
    sound = []
    for sweep in config.sweeps:
        with suppress(TableError):
            check_sound(results, config, sweep)
            sound.append(sweep)
    return sound


def _overview(sweeps: Sequence[Sweep], results: Path) -> Artifact:
    """Both files, with everything that determines them."""
    experiments = sorted({f"experiments.{sweep.experiment.name}" for sweep in sweeps})
    sidecars = (results / f"{sweep.name}.json" for sweep in sweeps)
    modules = ("experiments.analysis.long", *experiments)
    return Artifact((results / COLUMNS, results / LONG), modules, _COMPUTED_WITH, tuple(sidecars))


def _write(config: Config, sweeps: Sequence[Sweep], results: Path) -> int:
    """Write both files; the number of values in the latter."""
    import pandas as pd

    from experiments.analysis.long import described, long_columns, long_tables
    from experiments.harness.columns import names

    tables = {sweep.name: read_sweep(results, config, sweep) for sweep in sweeps}
    write_atomically(results / COLUMNS, csv_bytes(described(sweeps, tables)))
    header, values = csv_bytes(pd.DataFrame(columns=names(long_columns(sweeps)))), 0

    def content() -> Iterator[bytes]:
        nonlocal values
        yield header
        for table in long_tables(sweeps, tables):
            values += len(table)
            yield csv_bytes(table).removeprefix(header)

    write_atomically(results / LONG, content())
    return values
