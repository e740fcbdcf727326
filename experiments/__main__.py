"""The command line: python -m experiments all | run | draw | check | page | plan | record | cost | bench | readme.

Exit status: 0 done, 1 something measured or checked failed, 2 bad config or usage, 130 interrupted, 143 terminated.
What a command needs is imported when it runs, so that the others start without it; workers import this module too.
"""

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
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
Incomplete = Annotated[bool, typer.Option("--incomplete", help="Also if sweeps are missing; the page then says so.")]
DEFAULT_CONFIG = Path("config.yaml")


@app.command(name="all")
def all_steps(
    names: Names = None, config: ConfigFile = DEFAULT_CONFIG, results: Results = None, jobs: Jobs = None
) -> None:
    """Run, draw, write the page and check; with the shipped config the record of published statements too."""
    with _outcome(config, results):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments import steps
        from experiments.harness.run import default_jobs

        steps.measure(loaded, sweeps, folder, jobs or default_jobs())
        if config == DEFAULT_CONFIG and not names:
            steps.write_record(loaded, folder)
        steps.draw(loaded, sweeps, folder)
        if not names:
            steps.write_page(loaded, folder, config)
        steps.check(loaded, sweeps, folder)


@app.command()
def run(names: Names = None, config: ConfigFile = DEFAULT_CONFIG, results: Results = None, jobs: Jobs = None) -> None:
    """Measure what is missing of sweeps and write their tables."""
    with _outcome(config, results):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments import steps
        from experiments.harness.run import default_jobs

        steps.measure(loaded, sweeps, folder, jobs or default_jobs())


@app.command()
def draw(names: Names = None, config: ConfigFile = DEFAULT_CONFIG, results: Results = None) -> None:
    """Draw the figures of sweeps from their tables."""
    with _outcome(config, results):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments import steps

        steps.draw(loaded, sweeps, folder)


@app.command()
def check(names: Names = None, config: ConfigFile = DEFAULT_CONFIG, results: Results = None) -> None:
    """Hold the tables against the config and their checksums, and the measured values against the exact ones."""
    with _outcome(config, results):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments import steps

        steps.check(loaded, sweeps, folder)


@app.command()
def page(config: ConfigFile = DEFAULT_CONFIG, results: Results = None, incomplete: Incomplete = False) -> None:
    """Write the page to look at, index.html in the results folder, with its figures drawn."""
    with _outcome(config, results):
        loaded, _, folder = _load(config, None, results)
        from experiments import steps

        steps.draw(loaded, steps.whole_sweeps(loaded, folder, incomplete=incomplete), folder)
        steps.write_page(loaded, folder, config, incomplete=incomplete)


@app.command()
def plan(names: Names = None, config: ConfigFile = DEFAULT_CONFIG, results: Results = None, jobs: Jobs = None) -> None:
    """Say what a run would measure, what is there already, and about how long and how much memory it takes."""
    with _outcome(config, results):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments.harness.plan import plan_lines
        from experiments.harness.run import default_jobs

        print("\n".join(plan_lines(loaded, sweeps, folder, jobs or default_jobs())))


@app.command()
def record() -> None:
    """Hold published statements against the shipped tables and computations of their own."""
    with _outcome(DEFAULT_CONFIG, None):
        loaded, _, folder = _load(DEFAULT_CONFIG, None, None)
        from experiments import steps

        steps.write_record(loaded, folder)
        print(steps.record_summary(folder))


@app.command()
def cost() -> None:
    """Time attention and its memory on this machine, and how both grow."""
    with _outcome(DEFAULT_CONFIG, None):
        _, _, folder = _load(DEFAULT_CONFIG, None, None)
        from experiments import steps

        print(steps.measure_growth(folder))


@app.command()
def bench() -> None:
    """Time the suite beside other ways to measure and beside what a plain way cannot do without."""
    with _outcome(DEFAULT_CONFIG, None):
        loaded, _, folder = _load(DEFAULT_CONFIG, None, None)
        from experiments import steps

        print(steps.bench(loaded, folder))


@app.command()
def readme() -> None:
    """Rewrite the measured numbers of README.md from the shipped tables."""
    with _outcome(DEFAULT_CONFIG, None):
        loaded, _, folder = _load(DEFAULT_CONFIG, None, None)
        from experiments import steps

        steps.rewrite_readme(loaded, folder)


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


class _UsageError(Exception):
    """Something that was asked for does not exist or cannot be."""


class _TerminatedError(BaseException):
    """SIGTERM: like Ctrl-C, but with an exit status of its own."""


@contextmanager
def _outcome(config: Path, results: Path | None) -> Iterator[None]:
    """Turn what went wrong into a message and an exit status; a fault of this code keeps its traceback."""
    from experiments.harness.config import ConfigError

    given = f"CONFIG={shlex.quote(str(config))}" + (f" RESULTS={shlex.quote(str(results))}" if results else "")
    try:
        signal.signal(signal.SIGTERM, _terminate)
        yield
    except (ConfigError, _UsageError) as error:
        _stop(str(error), 2)
    except (KeyboardInterrupt, _TerminatedError) as error:
        status = 130 if isinstance(error, KeyboardInterrupt) else 143
        _stop(f"interrupted: what was finished is kept; to go on: make all {given}", status)
    except Exception as error:
        from experiments.analysis.suite import DisagreementError
        from experiments.harness.files import BusyError
        from experiments.harness.run import MeasurementError
        from experiments.harness.store import RecordError
        from experiments.harness.tables import TableError
        from experiments.page.readme import ReadmeError

        if isinstance(error, TableError):
            _stop(f"{error}\nto complete it: make results {given}", 1)
        if isinstance(error, OSError):
            _stop(f"{error.filename}: {error.strerror}", 1)
        if isinstance(error, BusyError | MeasurementError | RecordError | ReadmeError | DisagreementError):
            _stop(str(error), 1)
        raise


def _terminate(*_: object) -> None:
    raise _TerminatedError


def _stop(message: str, status: int) -> None:
    print(message, file=sys.stderr)
    raise typer.Exit(status)


if __name__ == "__main__":
    app(prog_name="python -m experiments")
