"""Problems with data, files and numbers: the command line prints their message without a traceback
and exits 1.
"""

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn

_LONGEST = 200  # characters of a message of an exception that nobody expects


class Problem(Exception):  # noqa: N818
    """A measurement, a file or a check has a problem; the message says what and where."""


class MeasurementError(Problem):
    """The measurement of a cell failed or gave a value that is not a finite number."""


class TableError(Problem):
    """A table that is missing, incomplete, altered, or from another config."""


class DisagreementError(Problem):
    """Measured and exact values differ by more than chance explains; the message names the rows."""


class FolderError(Problem):
    """The results folder cannot be written; the message names it."""


class BusyError(FolderError):
    """Another run holds the results folder; the message names it."""


class PartError(Problem):
    """An unexpected exception in one part of the work: the message names the part and the exception
    in one line, and the note of the error is the traceback.
    """


class UsageError(Problem):
    """A request for something that does not exist or is not possible; exit status 2."""


def attempt(actions: Iterable[Callable[[], object]]) -> None:
    """Run every action, even after one fails, and raise all errors at the end.

    A `FolderError` stops the run at once, because every other action would meet it too.

    Raises:
        Exception: the error of the one action that failed.
        ExceptionGroup: the errors of several actions.
    """
    errors: list[Exception] = []
    for action in actions:
        try:
            action()
        except Exception as error:
            errors.append(error)
            if isinstance(error, FolderError):
                break
    raise_all(errors)


def fail(error: Exception) -> NoReturn:
    """Raise an error: the action of a part that cannot begin."""
    raise error


def raise_all(errors: Sequence[Exception]) -> None:
    """Raise one error as it is, several as an ExceptionGroup, and nothing without any."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup(f"{len(errors)} parts failed", errors)


def leaves(error: Exception) -> Iterator[Exception]:
    """The errors of a group and of its nested groups, in order; a single error yields itself.

    >>> group = ExceptionGroup("all", [Problem("one"), ExceptionGroup("rest", [Problem("two")])])
    >>> [str(error) for error in leaves(group)]
    ['one', 'two']
    """
    if isinstance(error, ExceptionGroup):
        for part in error.exceptions:
            yield from leaves(part)
    else:
        yield error


def message_of(error: Exception) -> str:
    """The message of a problem or of an unusable file; empty for an unexpected exception."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) if isinstance(error, Problem) else ""


def in_part(part: str, error: Exception) -> Exception:
    """An error that has a message, as it is; the `PartError` of any other.

    >>> in_part("figure a", Problem("no table")), in_part("figure a", KeyError("crossings"))
    (Problem('no table'), PartError("figure a: KeyError: 'crossings'"))
    """
    if message_of(error):
        return error
    first, *_ = "".join(traceback.format_exception_only(error)).splitlines()
    unexpected = PartError(f"{part}: {first[:_LONGEST]}")
    unexpected.add_note("".join(traceback.format_exception(error)))
    return unexpected


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the singular or with an s.

    >>> counted(1, "cell"), counted(2, "cell")
    ('1 cell', '2 cells')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
