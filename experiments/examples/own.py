"""A user's own matrices: CSV files of numbers with optional names go in, the steps of attention come out.

The limits keep the printed steps readable and their arithmetic free of overflow: 64 rows and columns, numbers within
±1e100. Every message names the file, the line and what was expected.
"""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.examples import ExampleError
from experiments.examples.steps import Floats, Step, attention, numbered
from sdpa import Scaling, trace

MOST = 64  # rows and columns
DRAWS = "scores undivided_weights weights output"
_LONGEST_NAME, _SHOWN, _LARGEST = 20, 40, 1e100


class Matrix(NamedTuple):
    """Numbers with the names of their rows and columns, which are empty in a file without names."""

    values: Floats
    rows: tuple[str, ...]
    columns: tuple[str, ...]


def own_steps(q: Path, k: Path, v: Path | None, *, scaling: str, causal: bool) -> list[Step]:
    """Every step of attention on the matrices in these files; without values the steps end at the weights.

    Raises:
        ExampleError: a file holds no matrix, shapes or names do not match, or the rule is unknown.
    """
    queries, keys, values = read_matrix(q), read_matrix(k), read_matrix(v) if v else None
    (n_queries, d_k), (n_keys, width) = queries.values.shape, keys.values.shape
    _expect(width == d_k, k, f"{d_k} columns, as many as {q} has", width)
    _expect(not causal or n_keys == n_queries, k, f"{n_queries} rows, as many as {q} has, for a causal mask", n_keys)
    pairs = [(k, "columns", keys.columns, q, queries.columns)]
    if v and values:
        _expect(len(values.values) == n_keys, v, f"{n_keys} rows, as many as {k} has", len(values.values))
        pairs.append((v, "rows", values.rows, k, keys.rows))
    for path, what, got, other, names in pairs:
        same = not got or not names or got == names
        _expect(same, path, f"the {what} {', '.join(names)} of {other}", ", ".join(got))
    try:
        rule = Scaling.parse(scaling)
    except ValueError as error:
        raise ExampleError(f"--scaling: {error}") from None
    mask = np.tri(n_queries, dtype=bool) if causal else None
    steps = attention(
        trace(queries.values, keys.values, values and values.values, scaling=rule, mask=mask),
        queries.rows or numbered(n_queries, "q"),
        keys.rows or numbered(n_keys, "k"),
        rule=rule.name,
        widths=queries.columns or keys.columns,
        outputs=values.columns if values else (),
    )
    return list(steps.values())


def read_matrix(path: Path) -> Matrix:
    """The matrix in a UTF-8 file.

    A first line with names, or after an empty cell, is a header. A first column without numbers, or below an empty cell
    of a header, has the names of the rows.
    """
    lines = _lines(path)
    _expect(lines, path, "rows of numbers", "an empty file")
    place, first = lines[0]
    counted = len(lines) > 1 < len(first) and first == [str(i) for i in range(len(first))]
    _expect(not counted, f"{path}:{place}", "numbers or names", "a header that counts from 0; omit it")
    header = len(first) > 1 and (first[0] == "" or any(_number(cell) is None for cell in first[1:]))
    body = lines[header:]
    _expect(body, f"{path}:{place}", "rows of numbers after the header", "none")
    for line, cells in lines:
        _expect(len(cells) == len(first), f"{path}:{line}", f"{len(first)} cells, as in line {place}", len(cells))
    named = (header and first[0] == "") or all(_number(cells[0]) is None for _, cells in body)
    line, cells = body[0]
    _expect(len(first) > named, f"{path}:{line}", "comma-separated numbers", repr(cells[0][:_SHOWN]))
    small = max(len(body), len(first) - named) <= MOST
    _expect(small, path, f"at most {MOST} rows and columns, as all are printed", f"{len(body)} x {len(first) - named}")
    values = np.array([[_value(path, line, cell) for cell in cells[named:]] for line, cells in body])
    rows = _names(path, [(line, cells[0]) for line, cells in body] if named else [])
    return Matrix(values, rows, _names(path, [(place, name) for name in first[named:]] if header else []))


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """The number and the cells of each line that is not blank."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, skipinitialspace=True, strict=True)
            lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    except OSError as error:
        raise ExampleError(f"{path}: cannot read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ExampleError(f"{path}: expected comma-separated numbers as UTF-8 text, got {error}") from None
    return [(number, cells) for number, cells in lines if any(cells)]


def _value(path: Path, line: int, cell: str) -> float:
    value = _number(cell)
    within = value is not None and abs(value) <= _LARGEST
    _expect(within, f"{path}:{line}", f"a number within ±{_LARGEST:g}", repr(cell[:_SHOWN]))
    return float(cell)


def _number(cell: str) -> float | None:
    """The number in a cell; None if it holds none. Python's 1_000 is no number here."""
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return None


def _names(path: Path, names: list[tuple[int, str]]) -> tuple[str, ...]:
    """Unique names: a repeated one, or the reserved name `sum`, gets a number."""
    unique: list[str] = []
    for line, name in names:
        short = 0 < len(name) <= _LONGEST_NAME and name.isprintable()
        _expect(short, f"{path}:{line}", f"names of 1 to {_LONGEST_NAME} characters", repr(name[:_SHOWN]))
        shown = (name, *(f"{name} ({count})" for count in range(2, MOST + 2)))
        unique.append(next(one for one in shown if one not in unique and one != "sum"))
    return tuple(unique)


def _expect(true: object, where: Path | str, expected: str, got: object) -> None:
    """ExampleError unless a condition is true."""
    if not true:
        raise ExampleError(f"{where}: expected {expected}, got {got}")
