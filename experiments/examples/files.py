"""Matrices from CSV files: comma-separated numbers, with or without names for rows and columns.

A user's file goes in; a small, finite and named matrix comes out, or a message with file and line. The limits keep
the printed example readable and its arithmetic free of overflow: 64 rows and columns, 1 MB, numbers within ±1e100.
"""

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.examples.example import ExampleError, Floats

MOST = 64  # rows and columns
_MAX_BYTES = 1_000_000
_LONGEST_NAME = 20
_LARGEST = 1e100  # of a number, so that no product or sum of them overflows

Line = tuple[int, list[str]]


@dataclass(frozen=True)
class Named:
    """A matrix with the names in its file, if there are any.

    Attributes:
        values: (rows, columns), finite.
        rows, columns: unique names, one for each; empty if the file has none.
    """

    values: Floats
    rows: tuple[str, ...]
    columns: tuple[str, ...]


def read_matrix(path: Path) -> Named:
    """The matrix in a file.

    A first line of names is a header. A first column of names has the names of the rows. A header that counts from 0 or
    1 after an empty cell is one too, as pandas writes it together with an index.

    Args:
        path: a UTF-8 file, with or without a byte order mark; blank lines do not count.

    Raises:
        ExampleError: the file is missing or holds no matrix; the message names the file, the line and the expectation.
    """
    lines = list(_lines(path))
    if not lines:
        raise ExampleError(f"{path}: expected rows of numbers, got an empty file")
    if len(lines) > 1 and len(lines[0][1]) > 1 and lines[0][1] == [str(i) for i in range(len(lines[0][1]))]:
        raise ExampleError(
            f"{path}:{lines[0][0]}: expected numbers or column names, got a header that counts from 0, as pandas "
            "writes it; omit it (header=False), or write a row of such numbers as 0.0, 1.0"
        )
    header = _is_header(path, *lines[0])
    body = lines[1:] if header else lines
    if not body:
        raise ExampleError(f"{path}:{lines[0][0]}: expected rows of numbers after the header, got none")
    _same_lengths(path, lines)
    named = (header and lines[0][1][0] == "") or all(_number(cells[0]) is None for _, cells in body)
    if len(body[0][1]) - named == 0:
        place, cells = body[0]
        raise ExampleError(f"{path}:{place}: expected comma-separated numbers, got {_short(cells[0])}")
    place, names = lines[0]
    return _matrix(path, body, [(place, name) for name in names[named:]] if header else [], named=named)


def _lines(path: Path) -> Iterator[Line]:
    """The cells of each line that is not blank, with its number."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        text = content[:_MAX_BYTES].decode("utf-8-sig")
        if len(content) > _MAX_BYTES:
            raise ExampleError(f"{path}: expected a file of at most {_MAX_BYTES} bytes, {MOST} rows and {MOST} columns")
        reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip() for cell in cells]
    except OSError as error:
        raise ExampleError(f"{path}: cannot read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ExampleError(f"{path}: expected UTF-8 text, got other bytes") from None
    except csv.Error as error:
        raise ExampleError(f"{path}: expected comma-separated numbers, got invalid CSV ({error})") from None


def _is_header(path: Path, place: int, cells: list[str]) -> bool:
    """True if the first line names the columns; ExampleError if it has both names and numbers."""
    numbers = [_number(cell) is not None for cell in cells[1:]]
    if cells[0] == "" and len(cells) > 1 and _counts(cells[1:]):
        return True
    if len(cells) == 1 or all(numbers):
        return False
    if any(numbers):
        text = cells[1 + numbers.index(False)]
        raise ExampleError(f"{path}:{place}: expected a row of only numbers or only names, got {_short(text)}")
    return True


def _counts(cells: list[str]) -> bool:
    """True if the cells count from 0 or 1, as pandas names columns."""
    return any(cells == [str(start + i) for i in range(len(cells))] for start in (0, 1))


def _same_lengths(path: Path, lines: list[Line]) -> None:
    """ExampleError if lines differ in their number of cells, or if lines or cells are too many."""
    first = len(lines[0][1])
    for place, cells in lines:
        if len(cells) != first:
            raise ExampleError(f"{path}:{place}: expected {first} cells, as in line {lines[0][0]}, got {len(cells)}")
    if len(lines) > MOST + 1 or first > MOST + 1:
        _too_large(path, len(lines), first)


def _matrix(path: Path, body: list[Line], header: list[tuple[int, str]], *, named: bool) -> Named:
    """The matrix of the lines after the header, whose first cells are names if `named`."""
    values = np.array([[_value(path, place, cell) for cell in cells[named:]] for place, cells in body])
    if max(values.shape) > MOST:
        _too_large(path, *values.shape)
    rows = _names(path, [(place, cells[0]) for place, cells in body]) if named else ()
    return Named(values, rows, _names(path, header))


def _too_large(path: Path, rows: int, columns: int) -> None:
    """Raise the ExampleError of a matrix with too many rows or columns."""
    raise ExampleError(
        f"{path}: expected at most {MOST} rows and {MOST} columns, because the command prints every number, "
        f"got {rows} x {columns}"
    )


def _value(path: Path, place: int, cell: str) -> float:
    """The number in a cell; ExampleError unless it is finite and within ±1e100."""
    value = _number(cell)
    if value is None or not math.isfinite(value):
        raise ExampleError(f"{path}:{place}: expected a finite number, got {_short(cell)}")
    if abs(value) > _LARGEST:
        raise ExampleError(f"{path}:{place}: expected a number within ±{_LARGEST:g}, got {_short(cell)}")
    return value


def _number(cell: str) -> float | None:
    """The number in a cell; None if it holds none. Python's 1_000 is no number here.

    >>> _number("1e-3"), _number("1_000"), _number("word")
    (0.001, None, None)
    """
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return None


def _names(path: Path, names: list[tuple[int, str]]) -> tuple[str, ...]:
    """Unique names from names with their lines: a repeated name, or the reserved name `sum`, gets a number."""
    unique: list[str] = []
    for place, name in names:
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise ExampleError(f"{path}:{place}: expected names of 1 to {_LONGEST_NAME} characters, got {_short(name)}")
        count = 1
        while (shown := name if count == 1 else f"{name} ({count})") in unique or shown == "sum":
            count += 1
        unique.append(shown)
    return tuple(unique)


def _short(cell: str) -> str:
    """A short form of a cell for messages."""
    return repr(cell if len(cell) <= 2 * _LONGEST_NAME else f"{cell[: 2 * _LONGEST_NAME]}...")
