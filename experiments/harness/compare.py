"""Comparison of a table with its previous version, both as the bytes of CSV files.

Other machines differ in the last digits, so that a table of unchanged results need not be byte-identical.
"""

import io

import numpy as np
import pandas as pd

TOLERANCE = 1e-9


def describe_change(old: bytes | None, new: bytes) -> str:
    r"""The comparison in words: new, byte-identical, equal to 1e-9 relative, or different and where it differs most.

    Columns of text, and empty fields, must be equal. Tables with other columns, or another number of rows, are
    different; rows are compared in order.

    Args:
        old: the previous file, None if there was none.
        new: the new file, a valid table.

    >>> describe_change(b"x\n1\n", b"x\n1.0000000001\n")
    'equal to the previous version to 1e-9 relative'
    >>> describe_change(b"x,y\n1,2\n", b"x,y\n1,3\n")
    'different from the previous version, most in y (relative difference 0.33)'
    """
    if old is None:
        return "new"
    if old == new:
        return "byte-identical to the previous version"
    try:
        before, after = pd.read_csv(io.BytesIO(old)), pd.read_csv(io.BytesIO(new))
    except (ValueError, UnicodeDecodeError):
        return "different from the previous version, which is not a table"
    if list(before.columns) != list(after.columns) or len(before) != len(after):
        return "different from the previous version: other rows or columns"
    text = [name for name in before if "O" in (before[name].dtype.kind, after[name].dtype.kind)]
    if not all(before[name].equals(after[name]) for name in text):
        return "different from the previous version: other rows"
    apart = {name: _relative_difference(before[name], after[name]) for name in before}
    worst = max(apart, key=apart.__getitem__)
    if apart[worst] <= TOLERANCE:
        return "equal to the previous version to 1e-9 relative"
    return f"different from the previous version, most in {worst} (relative difference {apart[worst]:.2g})"


def _relative_difference(before: pd.Series, after: pd.Series) -> float:
    """max |a - b| / max(|a|, |b|) over the rows of two columns; infinite where text or empty values differ.

    A finite and an infinite value differ infinitely; equal infinities, and two empty values, do not differ.
    """
    if before.dtype.kind not in "iuf" or after.dtype.kind not in "iuf":
        return 0.0 if before.equals(after) else np.inf
    a, b = before.to_numpy(dtype=float), after.to_numpy(dtype=float)
    if (np.isnan(a) != np.isnan(b)).any():
        return np.inf
    a, b = a[a != b], b[a != b]  # drops equal infinities, whose difference is NaN
    if np.isinf([a, b]).any():
        return np.inf
    scale = np.maximum(np.abs(a), np.abs(b))
    # A difference of one unit in the tenth digit, the last digit of a table, counts as equal.
    return float(np.nanmax(np.abs(a - b) / scale, initial=0) * (1 - 1e-6))
