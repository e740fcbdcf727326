"""Problems with data, files and numbers: the command line prints their message without a traceback
and exits 1.
"""

from collections.abc import Callable, Iterable, Iterator


class Problem(Exception):  # noqa: N818
    """A measurement, a file or a check has a problem; the message says what and where."""


class MeasurementError(Problem):
    """The measurement of a cell failed or gave a value that is not a finite number."""


class TableError(Problem):
    """A table that is missing, incomplete, altered, or from another config."""


class DisagreementError(Problem):
    """Measured and exact values differ by more than chance explains; the message names the rows."""


class BusyError(Problem):
    """Another run holds the results folder; the message names it."""


class UsageError(Problem):
    """A request for something that does not exist or is not possible; exit status 2."""


class LongRunError(UsageError):
    """The estimate of a run exceeds its limit; the message names both, and how to start it
    nevertheless.
    """

    def __init__(self, message: str) -> None:
        super().__init__(f"{message}\nto start it nevertheless: YES=1 (--yes)")


def attempt(actions: Iterable[Callable[[], object]]) -> None:
    """Run every action, even after one fails, and raise all errors at the end.

    A `BusyError` stops the run at once, because every other action would meet it too, and a
    `LongRunError` because no other action may begin without consent.

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
            if isinstance(error, BusyError | LongRunError):
                break
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


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the singular or with an s.

    >>> counted(1, "cell"), counted(2, "cell")
    ('1 cell', '2 cells')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
