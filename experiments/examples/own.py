"""A user's own matrices: CSV files of numbers with optional names go in, the steps of attention come out.

The limits keep the printed steps readable and their arithmetic free of overflow: 64 rows and columns, 1 MB, numbers
within ±1e100. Every message names the file, the line and what was expected.
"""

import csv
import io
import math
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.examples import ExampleError
from experiments.examples.steps import Step, attention, numbered
from sdpa import Scaling, trace

MOST = 64  # rows and columns
DRAWS = "scores undivided_weights weights output"
_MAX_BYTES, _LONGEST_NAME, _LARGEST = 1_000_000, 20, 1e100


def own_steps(q: Path, k: Path, v: Path | None, *, scaling: str, causal: bool) -> list[Step]:
    """Every step of attention on the matrices in these files; without values the steps end at the weights.

    Raises:
        ExampleError: a file holds no matrix, shapes or names do not match, or the rule is unknown.
    """
    queries, keys, values = read_matrix(q), read_matrix(k), read_matrix(v) if v else None
    (n_queries, d_k), (n_keys, width) = queries.shape, keys.shape
    if width != d_k:
        raise ExampleError(f"{k}: expected {d_k} columns, as many as {q} has, got {width}")
    if values is not None and len(values) != n_keys:
        raise ExampleError(f"{v}: expected {n_keys} rows, as many as {k} has, got {len(values)}")
    if causal and n_keys != n_queries:
        raise ExampleError(f"{k}: expected {n_queries} rows, as many as {q} has, for a causal mask, got {n_keys}")
    _same(k, "columns", keys.attrs["columns"], q, queries.attrs["columns"])
    if values is not None:
        _same(v, "rows", values.attrs["rows"], k, keys.attrs["rows"])
    try:
        rule = Scaling.parse(scaling)
    except ValueError as error:
        raise ExampleError(f"--scaling: {error}") from None
    mask = np.tri(n_queries, dtype=bool) if causal else None
    found = trace(
        queries.to_numpy(), keys.to_numpy(), None if values is None else values.to_numpy(), scaling=rule, mask=mask
    )
    steps = attention(
        found,
        queries.attrs["rows"] or numbered(n_queries, "q"),
        keys.attrs["rows"] or numbered(n_keys, "k"),
        rule=rule.name,
        widths=queries.attrs["columns"] or keys.attrs["columns"],
        outputs=() if values is None else values.attrs["columns"],
    )
    return list(steps.values())


def _same(path: Path | None, what: str, got: tuple[str, ...], other: Path, expected: tuple[str, ...]) -> None:
    """ExampleError if both files have names and these differ."""
    if got and expected and got != expected:
        raise ExampleError(f"{path}: expected the {what} {', '.join(expected)} of {other}, got {', '.join(got)}")


def read_matrix(path: Path) -> pd.DataFrame:
    """The matrix in a UTF-8 file; its `attrs` have the names of `rows` and `columns`, empty without any.

    A first line of names is a header, and a first column of names has the names of the rows. A header that counts after
    an empty cell is one too, as pandas writes it together with an index.
    """
    lines = _lines(path)
    if not lines:
        raise ExampleError(f"{path}: expected rows of numbers, got an empty file")
    place, first = lines[0]
    counts = [[str(start + i) for i in range(len(first) - 1)] for start in (0, 1)]
    if 1 < len(first) == len({*first}) and len(lines) > 1 and first == [str(i) for i in range(len(first))]:
        raise ExampleError(
            f"{path}:{place}: expected numbers or column names, got a header that counts from 0, as pandas writes it; "
            "omit it (header=False), or write a row of such numbers as 0.0, 1.0"
        )
    texts = [cell for cell in first[1:] if _number(cell) is None]
    header = len(first) > 1 and (bool(texts) or (first[0] == "" and first[1:] in counts))
    if texts and len(texts) < len(first) - 1:
        raise ExampleError(f"{path}:{place}: expected a row of only numbers or only names, got {_short(texts[0])}")
    body = lines[header:]
    if not body:
        raise ExampleError(f"{path}:{place}: expected rows of numbers after the header, got none")
    for line, cells in lines:
        if len(cells) != len(first):
            raise ExampleError(f"{path}:{line}: expected {len(first)} cells, as in line {place}, got {len(cells)}")
    named = (header and first[0] == "") or all(_number(cells[0]) is None for _, cells in body)
    if len(first) == named:
        raise ExampleError(f"{path}:{body[0][0]}: expected comma-separated numbers, got {_short(body[0][1][0])}")
    if max(len(body), len(first) - named) > MOST:
        raise ExampleError(
            f"{path}: expected at most {MOST} rows and {MOST} columns, because the command prints every number, "
            f"got {len(body)} x {len(first) - named}"
        )
    matrix = pd.DataFrame([[_value(path, line, cell) for cell in cells[named:]] for line, cells in body])
    matrix.attrs["rows"] = _names(path, [(line, cells[0]) for line, cells in body] if named else [])
    matrix.attrs["columns"] = _names(path, [(place, name) for name in first[named:]] if header else [])
    return matrix


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """The number and the cells of each line that is not blank."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ExampleError(f"{path}: expected a file of at most {_MAX_BYTES} bytes, {MOST} rows and {MOST} columns")
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), skipinitialspace=True, strict=True)
        lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    except OSError as error:
        raise ExampleError(f"{path}: cannot read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ExampleError(f"{path}: expected UTF-8 text, got other bytes") from None
    except csv.Error as error:
        raise ExampleError(f"{path}: expected comma-separated numbers, got invalid CSV ({error})") from None
    return [(number, cells) for number, cells in lines if any(cells)]


def _value(path: Path, line: int, cell: str) -> float:
    value = _number(cell)
    if value is None or not math.isfinite(value):
        raise ExampleError(f"{path}:{line}: expected a finite number, got {_short(cell)}")
    if abs(value) > _LARGEST:
        raise ExampleError(f"{path}:{line}: expected a number within ±{_LARGEST:g}, got {_short(cell)}")
    return value


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
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise ExampleError(f"{path}:{line}: expected names of 1 to {_LONGEST_NAME} characters, got {_short(name)}")
        count = 1
        while (shown := name if count == 1 else f"{name} ({count})") in unique or shown == "sum":
            count += 1
        unique.append(shown)
    return tuple(unique)


def _short(cell: str) -> str:
    """A short form of a cell for messages."""
    return repr(cell if len(cell) <= 2 * _LONGEST_NAME else f"{cell[: 2 * _LONGEST_NAME]}...")
