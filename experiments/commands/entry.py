"""The suite from Python: measure the sweeps of a config, and get tables and drawings.

    from experiments import run

    results = run("mine.yaml")                 # or a mapping with the same keys
    results["wide"].measured                   # the table of the sweep `wide`, with exact values, as a data frame
    results.draw("saturation")                 # a Matplotlib figure

A script calls it below `if __name__ == "__main__":`, because workers import the script.

Importing `experiments` leaves OpenBLAS one thread, in this process and in those that it starts; a
NumPy that is already loaded keeps its own. Other computations belong in a process of their own.
"""

import json
import warnings
from collections.abc import Mapping
from multiprocessing import current_process
from pathlib import Path

import yaml

from experiments.commands.job import Job
from experiments.commands.measure import measure
from experiments.config.errors import UsageError
from experiments.config.loader import load_config
from experiments.config.paths import PYTHON, SHIPPED_RESULTS, default_results
from experiments.figures.picture import Drawing
from experiments.kinds.figures import FIGURES
from experiments.running.files import locked, require_folder, write_atomically
from experiments.running.workers import LocalWorkers, default_jobs
from experiments.tables.all_results import AllResults
from experiments.tables.reporter import Reporter

_MAPPINGS_FOLDER = SHIPPED_RESULTS / PYTHON


class RunResults(AllResults):
    """The results of all sweeps of a config, by name, and their drawings.

    `results["wide"].measured` is the table of the sweep `wide`, as a data frame. The tables are in
    memory: a later run changes the files in the folder, and not these.
    """

    def draw(self, figure: str, sweep: str | None = None) -> Drawing:
        """A figure of a sweep, by its name in results/columns.md; of the first one whose experiment has it unless
        you name one.

        Raises:
            UsageError: no figure or no sweep has the name, or the sweep has no such figure.
        """
        from experiments.figures.rendering import typeset_picture
        from experiments.figures.shown import shown

        if figure not in FIGURES:
            raise UsageError(f"figure: expected one of {', '.join(FIGURES)}, got {figure!r}")
        of = FIGURES[figure].of
        fitting = [name for name, results in self.items() if results.experiment.name == of]
        if (chosen := sweep or next(iter(fitting), "")) not in fitting:
            known = ", ".join(fitting) or "none"
            raise UsageError(
                f"{figure}: expected a sweep of the experiment {of} ({known}), got {chosen or 'none'}"
            )
        return typeset_picture(shown(FIGURES[figure], self[chosen]))


def run(
    config: str | Path | Mapping[str, object],
    folder: str | Path | None = None,
    *,
    jobs: int | None = None,
) -> RunResults:
    """Measure the sweeps of a config as far as the folder lacks them, and read their tables.

    Args:
        config: the path of a YAML file, or a mapping with its keys `seed` and `sweeps`.
        folder: of tables and stored chunks. Default: results/NAME for NAME.yaml, and for a mapping
            results/python, which has the tables of the last one.
        jobs: worker processes; by default one per processor.

    Raises:
        BusyError: another run uses the folder.
        ConfigError: the config is invalid; the message lists its faults.
        Problem: a measurement or a table failed; an ExceptionGroup if several did.
        UsageError: the folder is a file; `config` is neither; or a script calls this outside of
            `if __name__ == "__main__":`.
    """
    if getattr(current_process(), "_inheriting", False):  # of a worker while it imports the script
        raise UsageError(
            'expected run(...) below `if __name__ == "__main__":` of the script, got a call that '
            "every worker process repeats, because workers import the script"
        )
    if not isinstance(config, str | Path | Mapping):
        raise UsageError(f"config: expected the path of a file or a mapping, got {config!r}")
    if isinstance(config, Mapping):
        if "sweeps" not in config:
            got = ", ".join(map(str, config))
            raise UsageError(f"config: expected the keys seed and sweeps, got {got or 'none'}")
        folder = require_folder(Path(folder or _MAPPINGS_FOLDER))
        path = folder / "sweeps.yaml"
        plain = json.loads(json.dumps(dict(config), default=_listed))
        with locked(folder):  # another run may use it
            write_atomically(path, yaml.safe_dump(plain, sort_keys=False).encode())
    else:
        path = Path(config)
        folder = require_folder(Path(folder) if folder else default_results(path))
    loaded = load_config(path)
    with _Warnings(say=lambda _: None) as report:
        workers = LocalWorkers(jobs or default_jobs())
        measure(Job(loaded, folder, report, workers, jobs=jobs))
    results = RunResults(loaded, folder)
    for sweep in loaded.sweeps:
        results.require(sweep.name)
    return results


class _Warnings(Reporter):
    """What a command flags are warnings of Python."""

    def flag(self, text: str) -> None:
        """Warn."""
        warnings.warn(text, stacklevel=2)


def _listed(value: object) -> object:
    """A NumPy number or array, or a range, as plain numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, range):
        return list(value)
    raise UsageError(f"config: expected plain keys, lists, numbers and text, got {value!r}")
