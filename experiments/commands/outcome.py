"""The outcome of a command: exit status, and messages in place of tracebacks.

An exception or a signal goes in; a message on standard error and a status come out.
"""

# Imports are within functions, so that commands start without the packages that they do not need.

import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer


class UsageError(Exception):
    """A request for something that does not exist or is not possible."""


class _InterruptedError(KeyboardInterrupt):
    """Ctrl-C. After a bare KeyboardInterrupt leaves an exec, Python ends by the signal and ignores the exit status."""


class _TerminatedError(BaseException):
    """SIGTERM: like Ctrl-C, but with its own exit status."""


@contextmanager
def outcome(
    config: Path,
    results: Path | None,
    jobs: int | None = None,
    scheduler: str | None = None,
    scheduler_file: Path | None = None,
    *,
    yes: bool = False,
    measures: bool = False,
) -> Iterator[None]:
    """Turn an error into a message and an exit status; a bug in this code keeps its traceback.

    SIGTERM and Ctrl-C become exceptions, so that the block can end its workers. If several parts fail, all messages
    appear, each line once.

    Args:
        config, results, jobs, scheduler, scheduler_file, yes: as the user gave them, for the command that continues a
            run in the same way.
        measures: True for a command that measures, so that a failure names the command that continues.

    Raises:
        typer.Exit: with the status that `experiments.__main__` lists.
    """
    from threadpoolctl import threadpool_limits

    from experiments.examples import ExampleError
    from experiments.harness.config import ConfigError  # imports NumPy, whose threads are limited below
    from experiments.harness.problems import LongRunError, leaves

    given = (config, results, jobs, scheduler, scheduler_file, int(yes))
    kept = f"finished work is kept. To continue: {as_typed('make all', *given)}"
    try:
        _catch_signals()
        with threadpool_limits(limits=1):  # more threads wait for each other beside busy workers, and sum differently
            yield
    except (ConfigError, ExampleError, UsageError) as error:
        _stop(str(error), 2)
    except LongRunError as error:
        _stop(f"{error}\nto start it nevertheless: {as_typed('make all', *given[:-1], 1)} (or --yes)", 2)
    except BaseException as error:
        stopped = _signal_behind(error)
        if stopped is not None:
            _stop(f"interrupted; {kept}", 130 if isinstance(stopped, KeyboardInterrupt) else 143)
        if not isinstance(error, Exception):
            raise
        errors = list(leaves(error))
        text = _text(errors, as_typed("make results", *given), kept if measures else "")
        if not all(map(_message, errors)):
            print(text, file=sys.stderr)
            raise
        _stop(text, 1)


def as_typed(
    command: str,
    config: Path,
    results: Path | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    scheduler_file: Path | None = None,
    yes: int = 0,
) -> str:
    """A make command with options as the user gave them, without the default config.

    >>> as_typed("make all", Path("mine.yaml"), jobs=3)
    'make all CONFIG=mine.yaml JOBS=3'
    >>> as_typed("make all", Path("config.yaml"))
    'make all'
    """
    from experiments.folders import SHIPPED_CONFIG

    options = {
        "CONFIG": None if config == SHIPPED_CONFIG else config,
        "RESULTS": results,
        "JOBS": jobs,
        "SCHEDULER": scheduler,
        "SCHEDULER_FILE": scheduler_file,
        "YES": yes,
    }
    return " ".join([command, *(f"{name}={shlex.quote(str(value))}" for name, value in options.items() if value)])


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


def _text(errors: Sequence[Exception], restore: str, kept: str) -> str:
    """The messages of errors and a hint about the next command, each line once: several parts may meet one problem.

    Args:
        errors: what the parts of a command raised.
        restore: the command that restores tables.
        kept: the hint after a failed measurement; empty for a command that measures nothing.
    """
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


def _interrupt(*_: object) -> None:
    raise _InterruptedError


def _terminate(*_: object) -> None:
    raise _TerminatedError


def _stop(message: str, status: int) -> None:
    """Print a message to standard error, in red if it is a terminal, and exit with a status."""
    from rich.console import Console

    Console(stderr=True).out(message, style="red", highlight=False)
    raise typer.Exit(status)
