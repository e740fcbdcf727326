"""What the commands share: their options, each declared once, the request that these make, exit status and messages.

An exception or a signal in a command goes in; a message on standard error and a status come out.
"""

# Imports are within functions, so that commands start without the packages that they do not need.

import dataclasses
import inspect
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from experiments.folders import SHIPPED_CONFIG, default_results

if TYPE_CHECKING:
    from experiments.harness.config import Config
    from experiments.harness.grid import Sweep
    from experiments.harness.run import Workers

_ROOT = Path(__file__).parents[1]
_FORMATS = ("png", "svg", "pdf")


class UsageError(Exception):
    """A request for something that does not exist or is not possible."""


class _InterruptedError(KeyboardInterrupt):
    """Ctrl-C. After a bare KeyboardInterrupt leaves an exec, Python ends by the signal and ignores the exit status."""


class _TerminatedError(BaseException):
    """SIGTERM: like Ctrl-C, but with its own exit status."""


def whole_from(least: int) -> Callable[[str], int]:
    """The parser of an option for whole numbers that are not below the least."""

    def whole(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise typer.BadParameter(f"expected a whole number from {least}, got {text!r}")
        return int(text)

    return whole


def _real(text: str) -> float:
    """The parser of an option for numbers."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"expected a number, got {text!r}") from None


number = partial(typer.Option, metavar="NUMBER", parser=_real)
Wish = Annotated[float | None, number(help="The wanted value of this metric.")]
Mask = Annotated[
    str | None,
    typer.Option(
        metavar="none|causal", help="causal: each query sees only the keys up to its own position. Default: none."
    ),
]


@dataclass(frozen=True)
class Request:
    """What a user asked of a command about sweeps: a field for each option, with its default."""

    names: Annotated[
        list[str] | None, typer.Argument(metavar="SWEEP", help="Names of sweeps in the config. Default: all.")
    ] = None
    config: Annotated[Path, typer.Option(metavar="FILE", help="Config that defines the sweeps.")] = SHIPPED_CONFIG
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Results folder. Default: results, or results/NAME for another config NAME.yaml."
        ),
    ] = None
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", metavar="N", parser=whole_from(1), help="Worker processes. Default: one per processor."
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Measure on the Dask cluster with this scheduler, such as tcp://host:8786."
        ),
    ] = None
    scheduler_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Measure on the Dask cluster whose scheduler wrote this file.")
    ] = None
    format: Annotated[
        str,
        typer.Option(metavar="NAMES", help="Formats of the sweeps' figures: png,svg,pdf. PNG is always drawn."),
    ] = "png"
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Write the page even if sweeps are missing; the page then says so.")
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print a line about each table, figure and test.")
    ] = False
    yes: Annotated[bool, typer.Option("--yes", help="Start even if the estimate is longer than an hour.")] = False

    def as_typed(self, command: str, **changes: Any) -> str:
        """A make command with options as the user gave them, without the default config.

        >>> Request(config=Path("mine.yaml"), jobs=3).as_typed("make all", jobs=None, yes=True)
        'make all CONFIG=mine.yaml YES=1'
        """
        given = dataclasses.replace(self, **changes)
        options = {
            "CONFIG": None if given.config == SHIPPED_CONFIG else given.config,
            "RESULTS": given.results,
            "JOBS": given.jobs,
            "SCHEDULER": given.scheduler,
            "SCHEDULER_FILE": given.scheduler_file,
            "YES": int(given.yes),
        }
        return " ".join([command, *(f"{name}={shlex.quote(str(value))}" for name, value in options.items() if value)])

    def load(self) -> "tuple[Config, tuple[Sweep, ...], Path]":
        """The config, the requested sweeps, and the folder of their tables.

        Raises:
            ConfigError: the config is invalid.
            UsageError: the shipped config is not in this folder, a sweep is unknown, or the default results folder of
                the config belongs to something else.
        """
        from experiments.harness.config import load_config

        if self.config == SHIPPED_CONFIG:
            need_root()
        loaded = load_config(self.config)
        known = {sweep.name: sweep for sweep in loaded.sweeps}
        for name in self.names or ():
            if name not in known:
                raise UsageError(f"{self.config}: got the sweep {name!r}, expected one of {', '.join(known)}")
        chosen = tuple(sweep for sweep in loaded.sweeps if not self.names or sweep.name in self.names)
        try:
            return loaded, chosen, self.results or default_results(self.config)
        except ValueError as error:
            raise UsageError(str(error)) from None

    def workers(self, say: Callable[[str], object] = print) -> "Workers":
        """The processes that measure: those of a cluster, or as many here, by default one per processor.

        Raises:
            UsageError: the options exclude each other, or Dask is not installed.
        """
        from experiments.harness.local import LocalWorkers, default_jobs

        cluster = self.scheduler or self.scheduler_file
        if not cluster:
            return LocalWorkers(self.jobs or default_jobs())
        if self.jobs or (self.scheduler and self.scheduler_file):
            raise UsageError("expected one of --jobs, --scheduler and --scheduler-file, got several")
        try:
            from experiments.harness.cluster import DaskCluster
        except ModuleNotFoundError as error:
            raise UsageError(f"a cluster needs the package {error.name}; install it with: make cluster") from None
        return DaskCluster(cluster, say)

    @property
    def limit(self) -> float | None:
        """The estimated seconds beyond which a run needs consent; None with it, and on a cluster.

        The workers of a cluster come and go, so nobody knows the time before the run.
        """
        from experiments.harness.plan import LONGEST

        return None if self.yes or self.scheduler or self.scheduler_file else LONGEST

    @property
    def further_formats(self) -> list[str]:
        """The formats besides PNG that --format asks for.

        Raises:
            UsageError: a name is none of the formats.
        """
        names = [name.strip() for name in self.format.split(",")]
        for name in names:
            if name not in _FORMATS:
                expected = ", ".join(_FORMATS)
                raise UsageError(f"--format: got the format {name!r}, expected some of {expected}, separated by commas")
        return [name for name in names if name != "png"]


def about_sweeps(app: typer.Typer, *options: str, name: str = "", measures: bool = False) -> Callable[..., None]:
    """A decorator that makes a function of a request a command.

    Args:
        app: receives the command.
        options: the fields of the request that the command takes.
        name: of the command, if it is not that of the function.
        measures: True for a command that measures, so that a failure names the command that continues.
    """
    types = get_type_hints(Request, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name]
        )
        for field in dataclasses.fields(Request)
        if field.name in options
    ]

    def register(body: Callable[[Request], None]) -> None:
        def command(**given: object) -> None:
            request = Request(**given)  # type: ignore[arg-type]
            with outcome(request, measures=measures):
                body(request)

        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        app.command(name or body.__name__, help=inspect.getdoc(body))(command)

    return register


def need_root() -> None:
    """Raise `UsageError` unless the current folder has the shipped config: default paths are relative to the root."""
    if not SHIPPED_CONFIG.exists():
        raise UsageError(f"run it in the repository root {_ROOT}, got the folder {Path.cwd()} without {SHIPPED_CONFIG}")


@contextmanager
def outcome(request: Request | None = None, *, measures: bool = False) -> Iterator[None]:
    """Turn an error into a message and an exit status; a bug in this code keeps its traceback.

    SIGTERM and Ctrl-C become exceptions, so that the block can end its workers. If several parts fail, all messages
    appear, each line once.

    Args:
        request: for the command that continues a run in the same way.
        measures: as for `about_sweeps`.

    Raises:
        typer.Exit: with the status that `experiments.__main__` lists.
    """
    from threadpoolctl import threadpool_limits

    from experiments.examples import ExampleError
    from experiments.harness.config import ConfigError  # imports NumPy, whose threads are limited below
    from experiments.harness.problems import LongRunError, leaves

    request = request or Request()
    kept = f"finished work is kept. To continue: {request.as_typed('make all')}"
    try:
        _catch_signals()
        with threadpool_limits(limits=1):  # more threads wait for each other beside busy workers, and sum differently
            yield
    except (ConfigError, ExampleError, UsageError) as error:
        _stop(str(error), 2)
    except LongRunError as error:
        _stop(f"{error}\nto start it nevertheless: {request.as_typed('make all', yes=True)} (or --yes)", 2)
    except BaseException as error:
        stopped = _signal_behind(error)
        if stopped is not None:
            _stop(f"interrupted; {kept}", 130 if isinstance(stopped, KeyboardInterrupt) else 143)
        if not isinstance(error, Exception):
            raise
        errors = list(leaves(error))
        text = _text(errors, request.as_typed("make results"), kept if measures else "")
        if not all(map(_message, errors)):
            print(text, file=sys.stderr)
            raise
        _stop(text, 1)


def _signal_behind(error: BaseException | None) -> BaseException | None:
    """The exception of a signal, itself or as the cause of another one; None if there is none.

    A signal during the import of a compiled module comes out as an ImportError.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt | _TerminatedError):
        error = error.__cause__
    return error


def _catch_signals() -> None:
    """Turn SIGTERM into an exception, and Ctrl-C unless it is ignored, as by nohup."""
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(*_: object) -> None:
    raise _InterruptedError


def _terminate(*_: object) -> None:
    raise _TerminatedError


def _text(errors: Sequence[Exception], restore: str, kept: str) -> str:
    """The messages of errors and a hint about the next command, each line once: several parts may meet one problem."""
    from experiments.harness.problems import MeasurementError
    from experiments.harness.tables import TableError

    hint = ""
    if any(isinstance(each, TableError) for each in errors):
        hint = f"to complete or restore the tables: {restore}"
    elif any(isinstance(each, MeasurementError) for each in errors):
        hint = kept
    lines = (line for message in [*map(_message, errors), hint] for line in message.splitlines())
    return "\n".join(dict.fromkeys(lines))


def _message(error: Exception) -> str:
    """The message of a problem or of an unusable file; none for a bug in this code."""
    from experiments.harness.problems import Problem

    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) if isinstance(error, Problem) else ""


def _stop(message: str, status: int) -> None:
    """Print a message to standard error, in red if it is a terminal, and exit with a status."""
    from rich.console import Console

    Console(stderr=True).out(message, style="red", highlight=False)
    raise typer.Exit(status)
