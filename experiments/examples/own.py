"""Attention of a user's own matrices, from CSV files of numbers with optional names."""

from pathlib import Path

import numpy as np
import pandas as pd

from experiments.examples.steps import Step, attention, numbered
from sdpa import trace

_MOST = 64  # rows and columns
_LARGEST = 1e100  # so that no product overflows


class ExampleError(ValueError):
    """A missing example, or matrices that are not valid inputs of attention."""


def own_steps(q: Path, k: Path, v: Path | None, *, scaling: str, mask: str) -> list[Step]:
    """Every step of attention on the matrices in these files; without values, up to the weights.

    Raises:
        ExampleError: a file holds no matrix, shapes do not match, or the rule or the mask is
            unknown.
    """
    queries = read_matrix(q, "q")
    keys = read_matrix(k, "k")
    values = read_matrix(v, "v") if v else None
    try:
        found = trace(queries, keys, values, scaling=scaling, mask=mask)
    except ValueError as error:
        raise ExampleError(f"{listed(q, k, v)}: {error}") from None
    steps = attention(
        found,
        [*queries.index],
        [*keys.index],
        rule=scaling,
        widths=[*queries.columns],
        outputs=() if values is None else [*values.columns],
    )
    return list(steps.values())


def listed(*paths: Path | None) -> str:
    """The paths that are given, with commas."""
    return ", ".join(str(path) for path in paths if path)


def read_matrix(path: Path, letter: str) -> pd.DataFrame:
    """The matrix in a UTF-8 file, of at most 64 rows and columns, so that all can be printed.

    A first line without any number has names, and so has a first column without numbers and empty
    cells below it. Rows without names get the letter and their number.

    Raises:
        ExampleError: the file holds no matrix.
    """
    try:
        cells = pd.read_csv(path, header=None, dtype=str, na_filter=False, skipinitialspace=True)
    except OSError as error:
        raise ExampleError(f"{path}: cannot read: {error.strerror}") from None
    except ValueError as error:
        raise ExampleError(f"{path}: expected comma-separated numbers, got {error}") from None
    numbers = cells.apply(pd.to_numeric, errors="coerce")
    # One number makes names of none: a wrong cell is refused, and drops no row or column.
    top = int(numbers.iloc[0].isna().all())  # lines with names
    is_name = numbers[0].isna() & (cells[0] != "")
    left = int(is_name[top:].all())  # columns with names
    values = numbers.iloc[top:, left:]
    first = [*cells.iloc[0]]
    from_0 = [*map(str, range(len(first)))]
    counts = len(first) > 2 and first == from_0
    bad = np.argwhere(~(values.abs() <= _LARGEST).to_numpy(bool))
    fits = 0 < min(values.shape) <= max(values.shape) <= _MOST
    if counts or len(bad) or not fits:
        found = "a header that counts from 0" if counts else "{} x {}".format(*values.shape)
        if len(bad):
            row, column = bad[0] + (top, left)
            found = f"{cells.iloc[row, column]!r} in row {row + 1}"
        expected = f"1 to {_MOST} rows and columns of numbers within ±{_LARGEST:g}"
        raise ExampleError(f"{path}: expected {expected}, got {found}")
    rows = cells[0][top:] if left else numbered(len(values), letter)
    columns = cells.iloc[0, left:] if top else numbered(values.shape[1])
    return pd.DataFrame(values.to_numpy(float), [*rows], [*columns])
