"""The common part of commands: their options, each declared once, the job that these make, exit
status and messages.

An exception or a signal in a command goes in; a message on standard error and a status come out.
"""

import inspect
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer import Argument, Option, TyperException
from typer.core import TyperGroup

from experiments.commands.job import Job
from experiments.config.errors import (
    MeasurementError,
    TableError,
    UsageError,
    in_part,
    leaves,
    message_of,
)
from experiments.config.loader import load_config
from experiments.config.paths import ERRORS, SHIPPED_CONFIG, SHIPPED_RESULTS, default_results
from experiments.running.files import require_folder, write_atomically
from experiments.running.work import Workers
from experiments.running.workers import LocalWorkers, default_jobs
from experiments.tables.reporter import Reporter
from sdpa._names import did_you_mean, nearest

_KEPT = "finished work is kept; repeat the command to continue"


def _positive(text: str) -> int:
    """The number of a text, at least 1; `UsageError` for any other."""
    if re.fullmatch("0*[1-9][0-9]{0,5}", text):
        return int(text)
    raise UsageError(f"--jobs: got {text!r}, expected a whole number of at least 1")


class Commands(TyperGroup):
    """Commands whose bad usage is a line, as all other errors are."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Run a command, and exit with its status."""
        try:
            sys.exit(super().main(*args, **options | {"standalone_mode": False}))
        except TyperException as error:
            message = error.format_message().removeprefix("Invalid value for ")
            _print([message.replace("Input should be", "expected")])
        except UsageError as error:
            _print([str(error)])
        sys.exit(2)


@dataclass(frozen=True)
class Request:
    """The wish of a user about sweeps: a field for each option, with its default."""

    sweep: Annotated[
        list[str] | None,
        Argument(metavar="SWEEP", help="Names of sweeps in the config. Default: all."),
    ] = None
    config: Annotated[Path, Option(metavar="FILE", help="Config that defines the sweeps.")] = (
        SHIPPED_CONFIG
    )
    results: Annotated[
        Path | None,
        Option(
            metavar="DIR", help="Results folder. Default: results, or results/NAME for NAME.yaml."
        ),
    ] = None
    jobs: Annotated[
        int | None,
        Option(
            "--jobs",
            "-j",
            metavar="N",
            parser=_positive,
            help="Worker processes. Default: one per processor.",
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        Option(
            metavar="ADDRESS|FILE",
            help="Measure on a Dask cluster: the address of its scheduler, or the file it wrote.",
        ),
    ] = None
    format: Annotated[
        str, Option(metavar="NAMES", help="Formats of figures beside PNG: svg, pdf, or both.")
    ] = "png"
    verbose: Annotated[
        bool, Option("--verbose", "-v", help="Print a line about each table, figure and test.")
    ] = False

    @property
    def names(self) -> list[str]:
        """The names of the requested sweeps, which commas may separate; empty for all sweeps."""
        return [name for words in self.sweep or () for name in words.split(",")]

    @property
    def folder(self) -> Path:
        """The results folder; `UsageError` if it is a file, or belongs to something else."""
        return require_folder(self.results or default_results(self.config))

    def workers(self, say: Callable[[str], object]) -> Workers:
        """The processes that measure: those of a cluster, or as many here, by default one per
        processor.

        Raises:
            UsageError: the options exclude each other, or Dask is not installed.
        """
        if not self.scheduler:
            return LocalWorkers(self.jobs or default_jobs())
        if self.jobs:
            raise UsageError("expected one of --jobs and --scheduler, got both")
        try:
            from experiments.running.cluster import DaskCluster
        except ModuleNotFoundError as error:
            lost = f"a cluster needs the package {error.name}"
            raise UsageError(f"{lost}; install it with: make cluster") from None
        return DaskCluster(self.scheduler, say)

    @property
    def further_formats(self) -> list[str]:
        """The formats besides PNG that --format asks for; `UsageError` if a name is none of the
        formats.
        """
        names = [name.strip() for name in self.format.split(",")]
        for name in names:
            if name not in ("png", "svg", "pdf"):
                expected = "expected some of png, svg, pdf, separated by commas"
                raise UsageError(f"--format: got the format {name!r}, {expected}")
        return [name for name in names if name != "png"]


def job_of(asked: Request, report: Reporter) -> Job:
    """The job that a user asked for.

    Raises:
        UsageError: the config is invalid, a sweep or a format is unknown, the results folder is a
            file or belongs to something else, or options of workers exclude each other.
    """
    folder = asked.folder
    config = load_config(asked.config)
    known = [sweep.name for sweep in config.sweeps]
    for name in asked.names:
        if name not in known:
            beside = Path(f"{name}.yaml")
            is_meant = beside.exists() and beside != asked.config
            hint = did_you_mean(f"CONFIG={beside}" if is_meant else nearest(name, known))
            got = f"{asked.config}: got the sweep {name!r}"
            raise UsageError(f"{got}, expected one of {', '.join(known)}{hint}")
    workers, formats = asked.workers(report.line), asked.further_formats
    return Job(config, folder, report, workers, asked.names, asked.jobs, formats)


Body = Callable[[Job], None]  # of a command


def run_command(asked: Request, body: Body) -> None:
    """Run a command."""
    with exit_on_error(folder=lambda: asked.folder), Reporter(verbose=asked.verbose) as report:
        body(job_of(asked, report))


def command(
    app: typer.Typer,
    *options: str,
    name: str = "",
    start: Callable[[Request, Body], object] = run_command,
) -> Callable[[Body], None]:
    """A decorator that makes a function of a job a command.

    Args:
        app: receives the command.
        options: the fields of the request that the command takes.
        name: of the command, if it is not that of the function.
        start: runs it.
    """
    fields = inspect.signature(Request).parameters.values()
    signature = inspect.Signature([field for field in fields if field.name in options])

    def register(body: Body) -> None:
        def run(**given: Any) -> None:
            start(Request(**given), body)

        run.__signature__ = signature  # type: ignore[attr-defined]
        app.command(name or body.__name__, help=inspect.getdoc(body))(run)

    return register


@contextmanager
def exit_on_error(folder: Callable[[], Path] = lambda: SHIPPED_RESULTS) -> Iterator[None]:
    """Turn an error into a message and an exit status, an unexpected one into a line and a file.

    SIGTERM and Ctrl-C become exceptions, so that the block can end its workers. If several parts
    fail, all messages appear, each line once.

    Args:
        folder: gets the file `ERRORS` with the tracebacks of unexpected exceptions.

    Raises:
        typer.Exit: with the status that `experiments.__main__` lists.
    """
    stopped: list[int] = []
    try:
        with _raising_signals(stopped):
            yield
    except typer.Exit:  # of a command within this one, which said why
        raise
    except UsageError as error:
        _exit(str(error).splitlines(), 2)
    except BaseException as error:
        # A signal during the import of a compiled module arrives as an ImportError.
        if stopped:
            _exit([f"interrupted; {_KEPT}"], 128 + stopped[0])
        if not isinstance(error, Exception):
            raise
        errors = [in_part("the command ended", leaf) for leaf in leaves(error)]
        traces = [note for leaf in errors for note in getattr(leaf, "__notes__", ())]
        lines = [line for leaf in errors for line in message_of(leaf).splitlines()]
        _exit([*lines, *_kept(traces, folder()), *_advice(errors)], 1)


def _kept(traces: Sequence[str], folder: Path) -> Iterator[str]:
    """Write tracebacks to a file, or to standard error if its folder only reads."""
    if traces:
        path = folder / ERRORS
        try:
            write_atomically(path, "\n".join(traces).encode())
            yield f"traceback: {path}"
        except OSError:
            sys.stderr.writelines(traces)


@contextmanager
def _raising_signals(came: list[int]) -> Iterator[None]:
    """Make SIGTERM and Ctrl-C raise SystemExit, and add each to a list, until the end of the block."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def stop(number: int, _: object) -> None:
        came.append(number)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    # it is ignored under nohup
    if before[signal.SIGINT] is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _advice(errors: list[Exception]) -> Iterator[str]:
    if any(isinstance(error, TableError) for error in errors):
        yield "to complete or restore the tables: make results, with the same options"
    elif any(isinstance(error, MeasurementError) for error in errors):
        yield _KEPT


def _exit(lines: Iterable[str], status: int) -> NoReturn:
    """Print lines, and exit with a status."""
    _print(lines)
    raise typer.Exit(status)


def _print(lines: Iterable[str]) -> None:
    """Print lines to standard error, each once."""
    once = dict.fromkeys(lines)  # several parts may meet one problem
    Console(stderr=True).out("\n".join(once), style="red", highlight=False)
