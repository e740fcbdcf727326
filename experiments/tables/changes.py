"""Comparison of a table with its previous version: rounding, or a change.

A difference that cannot matter to a reader is rounding. docs/methods.md, "Rounding or change", has
the limits for each kind of number.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from experiments.running.files import write_atomically
from sdpa._arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["new", "unchanged", "equal to rounding", "different", "removed"]
ROUNDING: Kind = "equal to rounding"
_VALUE_RTOL = 1e-9
_ERROR_RTOL = 1e-3  # of the standard error of a value
_TEST_RTOL, _TESTED_RTOL = 1e-4, 1e-9  # of an error or a number of a test; of the value behind it
_TESTS = ("error", "z", "p_value", "statistic")


@dataclass(frozen=True)
class Change:
    """The fate of a table."""

    kind: Kind
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}" if self.where else self.kind

    def of(self, path: Path) -> str:
        """The change of a file in a sentence.

        >>> Change("unchanged").of(Path("a.csv")), Change("new").of(Path("a.csv"))
        ('kept a.csv: unchanged', 'wrote a.csv: new')
        """
        verb = {"new": "wrote", "different": "wrote", "removed": "removed"}.get(self.kind, "kept")
        return f"{verb} {path}: {self.where if self.kind == verb else self}"


def update(path: Path, content: bytes, *, keeps: bool = True) -> Change:
    """Write a table, unless it equals the previous one: to rounding, or with `keeps=False` to the
    byte.
    """
    change = change_of(path.read_bytes() if path.exists() else None, content)
    if change.kind in ("new", "different") or (change.kind == ROUNDING and not keeps):
        write_atomically(path, content)
    return change


def change_of(old: bytes | None, new: bytes) -> Change:
    r"""The change from one CSV to another; rows are compared in order.

    It names the largest difference.

    >>> print(change_of(b"x,x_se\n1,0.1\n", b"x,x_se\n1.0001,0.1\n"))
    equal to rounding: x in row 1: 1 before, 1.0001 now
    >>> print(change_of(b"x,x_se\n1,0.1\n", b"x,x_se\n1.001,0.1\n"))
    different: x in row 1: 1 before, 1.001 now
    """
    if old is None:
        return Change("new")
    if old == new:
        return Change("unchanged")
    import pandas as pd

    try:
        before, after = (
            pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
            for content in (old, new)
        )
    except ValueError:
        return Change("different", "the previous file is not a table")
    if [*before] != [*after]:
        others = before.columns.symmetric_difference(after.columns)
        named = f"other columns ({len(others)}): {', '.join(others[:5])}"
        return Change("different", named if len(others) else "another order of columns")
    if len(before) != len(after):
        return Change("different", f"{len(before)} rows before, {len(after)} now")
    excesses = [*_excesses(before, after)]
    if not excesses:
        return Change(ROUNDING, "numbers in another form")
    excess, column, row = max(excesses)
    was = before[column][row] or "empty"
    now = after[column][row] or "empty"
    where = f"{column} in row {row + 1}: {was:.40} before, {now:.40} now"
    return Change(ROUNDING if excess <= 1 else "different", where)


def _excesses(before: "pd.DataFrame", after: "pd.DataFrame") -> Iterator[tuple[float, str, int]]:
    """For each column with differences: the largest one over what counts as rounding, the column
    and the row.
    """
    old, new = map(_numbers, (before, after))
    for name, differs in zip(before, (before != after).to_numpy().T, strict=True):
        if differs.any():
            distance = np.abs(old[name] - new[name])
            # 0 allows no difference
            excess = distance / np.maximum(_allowed(name, new), 1e-290)
            # text and empty fields are no rounding of anything else
            excess = np.nan_to_num(excess, nan=np.inf)
            row = int(np.where(differs, excess, -1.0).argmax())
            yield float(excess[row]), name, row


def _numbers(table: "pd.DataFrame") -> dict[str, FloatArray]:
    """The columns of a table of texts as numbers: NaN for what is none."""
    import pandas as pd

    numbers = pd.to_numeric(table.to_numpy().ravel(), errors="coerce").astype(float)
    return dict(zip(table, numbers.reshape(table.shape).T, strict=True))


def _allowed(name: str, table: dict[str, FloatArray]) -> FloatArray:
    """The largest difference that counts as rounding, in each row of a column of numbers."""
    number: FloatArray = np.abs(table[name])

    def size(column: str) -> FloatArray:
        return np.abs(np.nan_to_num(table.get(column, np.zeros_like(number))))

    base = re.sub("_(se|low|high|exact)$", "", name)
    if name in _TESTS or name.endswith("_se"):
        tested = size("measured" if name == "error" else base)
        return _TEST_RTOL * number + _TESTED_RTOL * tested + _ERROR_RTOL * (name == "z")
    error = size(f"{base}_se")
    if base in ("measured", "exact"):  # in verdicts, where the error of a median is relative
        error = np.minimum(size("error"), number)
    if f"{base}_high" in table and f"{base}_se" not in table:
        error = np.nan_to_num((table[f"{base}_high"] - table[f"{base}_low"]) / 4)
    allowed: FloatArray = np.fmax(_VALUE_RTOL * number, _ERROR_RTOL * error)
    return allowed
