"""The command line: python -m experiments run | draw | plan | check | readme.

Exit status: 0 done, 1 something measured or checked failed, 2 bad config or usage, 130 interrupted. What a command
needs is imported when it runs, so that the others start without it; workers import this module too.
"""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from experiments.figures import Tables
    from experiments.harness.config import Config
    from experiments.harness.grid import Sweep

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help=__doc__)

Names = Annotated[list[str] | None, typer.Argument(metavar="SWEEP", help="Sweeps of the config; all if none.")]
ConfigFile = Annotated[Path, typer.Option("--config", metavar="FILE", help="What is swept.")]
Results = Annotated[
    Path | None,
    typer.Option("--results", metavar="DIR", help="Default: results, or results/NAME for another config NAME.yaml."),
]
Jobs = Annotated[int | None, typer.Option(metavar="N", min=1, help="Worker processes. Default: one per processor.")]
DEFAULT_CONFIG = Path("config.yaml")


@app.command()
def run(names: Names = None, config: ConfigFile = DEFAULT_CONFIG, results: Results = None, jobs: Jobs = None) -> None:
    """Measure sweeps and write their tables."""
    with _outcome(config, results):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments.analysis import all_columns, analyse
        from experiments.harness.progress import reporting
        from experiments.harness.run import default_jobs, estimated_seconds, measure_sweeps
        from experiments.harness.tables import csv_bytes, write_sweep, write_whole

        columns = all_columns(sorted({sweep.experiment for sweep in loaded.sweeps}))
        write_whole(folder / "columns.csv", csv_bytes(columns))
        with reporting(sum(map(estimated_seconds, sweeps))) as report:
            for sweep, measured in measure_sweeps(sweeps, loaded.seed, jobs or default_jobs(), report.advance):
                for path, alike in write_sweep(folder, loaded, sweep, analyse(sweep, measured)).items():
                    report.line(f"wrote {path}: {alike}")


@app.command()
def draw(names: Names = None, config: ConfigFile = DEFAULT_CONFIG, results: Results = None) -> None:
    """Draw the figures of sweeps from their tables."""
    with _outcome(config, results):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments.analysis.suite import all_verdicts, suite_tables
        from experiments.figures import SUITE_FIGURES, load_figure
        from experiments.figures.style import render
        from experiments.harness.paths import SUITE, figure_path
        from experiments.harness.tables import TableError, read_sweep

        tables = {}
        for sweep in loaded.sweeps:
            with suppress(TableError):  # of a sweep that is to be drawn, said below
                tables[sweep.name] = read_sweep(folder, loaded, sweep)
        verdicts = all_verdicts(tables)

        def draw_figure(sweep: str, figure: str, tables: "Tables") -> None:
            caption = render(load_figure(figure), tables, folder, sweep, figure)
            print(f"drew {figure_path(folder, sweep, figure, '.png')}: {caption}")

        def draw_sweep(sweep: "Sweep") -> None:
            own = read_sweep(folder, loaded, sweep)
            for figure in sweep.figures:
                draw_figure(sweep.name, figure, {**own, "suite": verdicts})

        _for_each(sweeps, draw_sweep)
        whole = suite_tables([sweep for sweep in loaded.sweeps if sweep.name in tables], tables)
        for figure in SUITE_FIGURES if whole else ():
            draw_figure(SUITE, figure, whole)


@app.command()
def check(names: Names = None, config: ConfigFile = DEFAULT_CONFIG, results: Results = None) -> None:
    """Hold the tables against the config and their checksums, and the measured values against the exact ones."""
    with _outcome(config, results):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments.analysis.check import check_table
        from experiments.analysis.suite import agreement
        from experiments.harness.tables import read_sweep

        tables = {}

        def check_sweep(sweep: "Sweep") -> None:
            read = read_sweep(folder, loaded, sweep)
            print(check_table(sweep, read))
            tables[sweep.name] = read
            if summary := agreement([sweep], tables).summary():
                print(f"  {summary}")

        _for_each(sweeps, check_sweep)
        suite = agreement(sweeps, tables)
        suite.raise_alarm()
        if summary := suite.summary():
            print(f"theory, sampler and error bars agree: {summary}")


@app.command()
def plan(names: Names = None, config: ConfigFile = DEFAULT_CONFIG, results: Results = None, jobs: Jobs = None) -> None:
    """Say what a run would measure, what is there already, and about how long and how much memory it takes."""
    with _outcome(config, results):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments.harness.plan import plan_lines
        from experiments.harness.run import default_jobs

        print("\n".join(plan_lines(loaded, sweeps, folder, jobs or default_jobs())))


@app.command()
def readme() -> None:
    """Rewrite the measured numbers of README.md from the shipped tables."""
    with _outcome(DEFAULT_CONFIG, None):
        loaded, sweeps, folder = _load(DEFAULT_CONFIG, None, None)
        from experiments.harness.tables import read_sweep, write_whole
        from experiments.page.readme import rewrite

        path = Path("README.md")
        tables = {sweep.name: read_sweep(folder, loaded, sweep) for sweep in sweeps}
        write_whole(path, rewrite(path.read_text(encoding="utf-8"), sweeps, tables, folder).encode())


def _load(config: Path, names: list[str] | None, results: Path | None) -> tuple["Config", tuple["Sweep", ...], Path]:
    """The config, the sweeps that were asked for, and the folder of their tables."""
    from experiments.harness.config import load_config
    from experiments.harness.paths import default_results

    loaded = load_config(config)
    known = {sweep.name: sweep for sweep in loaded.sweeps}
    for name in names or ():
        if name not in known:
            raise _UsageError(f"{config}: expected one of the sweeps {', '.join(known)}, got {name!r}")
    chosen = tuple(sweep for sweep in loaded.sweeps if not names or sweep.name in names)
    try:
        return loaded, chosen, results or default_results(config)
    except ValueError as error:
        raise _UsageError(str(error)) from None


def _for_each(sweeps: tuple["Sweep", ...], act: Callable[["Sweep"], None]) -> None:
    """Act on every sweep whose table is sound; name all others at the end."""
    from experiments.harness.tables import TableError

    problems = []
    for sweep in sweeps:
        try:
            act(sweep)
        except TableError as error:
            problems.append(str(error))
    if problems:
        raise TableError("\n".join(problems))


class _UsageError(Exception):
    """Something that was asked for does not exist or cannot be."""


@contextmanager
def _outcome(config: Path, results: Path | None) -> Iterator[None]:
    """Turn what went wrong into a message and an exit status; a fault of this code keeps its traceback."""
    from experiments.harness.config import ConfigError

    given = f"CONFIG={shlex.quote(str(config))}" + (f" RESULTS={shlex.quote(str(results))}" if results else "")
    try:
        yield
    except (ConfigError, _UsageError) as error:
        _stop(str(error), 2)
    except KeyboardInterrupt:
        _stop(f"interrupted: what was written stays; to measure and draw anew: make all {given}", 130)
    except Exception as error:
        from experiments.analysis.suite import DisagreementError
        from experiments.harness.run import MeasurementError
        from experiments.harness.tables import TableError
        from experiments.page.readme import ReadmeError

        if isinstance(error, TableError):
            _stop(f"{error}\nto measure anew: make results {given}", 1)
        if isinstance(error, OSError):
            _stop(f"{error.filename}: {error.strerror}", 1)
        if isinstance(error, MeasurementError | ReadmeError | DisagreementError):
            _stop(str(error), 1)
        raise


def _stop(message: str, status: int) -> None:
    print(message, file=sys.stderr)
    raise typer.Exit(status)


if __name__ == "__main__":
    app(prog_name="python -m experiments")
