"""Attention of a user's own matrices, from CSV files of numbers with optional names."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.examples.steps import Floats, Names, Step, attention, numbered
from sdpa import trace

_MOST = 64  # rows and columns
_LARGEST = 1e100  # so that no product overflows


class ExampleError(ValueError):
    """A missing example, or matrices that are not valid inputs of attention."""


class Matrix(NamedTuple):
    """Numbers with the names of their rows and columns, which are empty in a file without names."""

    values: Floats
    rows: Names
    columns: Names


def own_steps(q: Path, k: Path, v: Path | None, *, scaling: str, mask: str) -> list[Step]:
    """Every step of attention on the matrices in these files; without values, up to the weights.

    Raises:
        ExampleError: a file holds no matrix, shapes do not match, or the rule or the mask is
            unknown.
    """
    queries = read_matrix(q)
    keys = read_matrix(k)
    values = read_matrix(v) if v else None
    of_values = values.values if values else None
    try:
        found = trace(queries.values, keys.values, of_values, scaling=scaling, mask=mask)
    except ValueError as error:
        raise ExampleError(f"{listed(q, k, v)}: {error}") from None
    steps = attention(
        found,
        queries.rows or numbered(len(queries.values), "q"),
        keys.rows or numbered(len(keys.values), "k"),
        rule=scaling,
        widths=queries.columns or keys.columns,
        outputs=values.columns if values else (),
    )
    return list(steps.values())


def listed(*paths: Path | None) -> str:
    """The paths that are given, with commas."""
    return ", ".join(str(path) for path in paths if path)


def read_matrix(path: Path) -> Matrix:
    """The matrix in a UTF-8 file, of at most 64 rows and columns, so that all can be printed.

    A first line with names, or after an empty cell, is a header. A first column without numbers,
    or below an empty cell of a header, has the names of the rows.

    Raises:
        ExampleError: the file holds no matrix.
    """
    lines = _cells(path)
    first = lines[0][1] if lines else [""]
    _expect(len(first) > 1 or ";" not in first[0], path, "commas between numbers", "semicolons")
    has_header = first[0] == "" or not all(map(_is_number, first[1:]))
    is_mixed = has_header and first[0] != "" and any(map(_is_number, first))
    both = f"both: {','.join(first)}"
    _expect(not is_mixed, path, "numbers or names in the first line", both)
    body = lines[1:] if has_header else lines
    names = [cells[0] for _, cells in body]
    has_names = (has_header and first[0] == "") or not any(map(_is_number, names))
    start = 1 if has_names else 0
    height = len(body)
    width = len(first) - start
    fits = 0 < height <= _MOST and 0 < width <= _MOST
    _expect(fits, path, f"1 to {_MOST} rows and columns", f"{height} x {width}")
    counts = len(first) > 2 and first == [*map(str, range(len(first)))]  # as pandas writes it
    _expect(not counts, path, "numbers or names", "a header that counts from 0; omit it")
    for line, cells in lines:
        same = len(cells) == len(first)
        _expect(same, f"{path}:{line}", f"{len(first)} cells, as above", len(cells))
    for line, cells in body:
        for cell in cells[start:]:
            small = _is_number(cell) and abs(float(cell)) <= _LARGEST
            _expect(small, f"{path}:{line}", f"a number within ±{_LARGEST:g}", repr(cell))
    values = np.array([[float(cell) for cell in cells[start:]] for _, cells in body])
    rows = _unique(names) if has_names else ()
    columns = _unique(first[start:]) if has_header else ()
    return Matrix(values, rows, columns)


def _cells(path: Path) -> list[tuple[int, list[str]]]:
    """The lines of a file with their numbers; without empty ones."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, skipinitialspace=True, strict=True)
            stripped = ([cell.strip() for cell in cells] for cells in reader if any(cells))
            return [(reader.line_num, cells) for cells in stripped]
    except OSError as error:
        raise ExampleError(f"{path}: cannot read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        expected = "expected comma-separated numbers as UTF-8 text"
        raise ExampleError(f"{path}: {expected}, got {error}") from None


def _is_number(cell: str) -> bool:
    """True if a cell holds a number. Python's 1_000 is no number here."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _unique(names: Names) -> Names:
    """The names; a repeated one, or the reserved name `sum`, gets a number."""
    unique: list[str] = []
    for name in names:
        shown = name
        count = 1
        while shown in unique or shown == "sum":
            count += 1
            shown = f"{name} ({count})"
        unique.append(shown)
    return unique


def _expect(true: object, where: Path | str, expected: str, got: object) -> None:
    """ExampleError unless a condition is true."""
    if not true:
        raise ExampleError(f"{where}: expected {expected}, got {got}")
