"""Comparison of a table with its previous version."""

import io

import numpy as np
import pandas as pd

TOLERANCE = 1e-9


def describe_change(old: bytes | None, new: bytes) -> str:
    """The comparison in words: new, byte-identical, equal to 1e-9 relative, or different and where it differs most."""
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
    """The largest difference of two columns, relative to the value; infinite where text or empty values differ."""
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
