"""Comparison of a table with the one before it."""

import io

import numpy as np
import pandas as pd

TOLERANCE = 1e-9


def how_alike(old: bytes | None, new: bytes) -> str:
    """In words: new, byte-identical, equal to 1e-9 relative, or different and where most."""
    if old is None:
        return "new"
    if old == new:
        return "byte-identical to the one before"
    try:
        before, after = pd.read_csv(io.BytesIO(old)), pd.read_csv(io.BytesIO(new))
    except (ValueError, UnicodeDecodeError):
        return "different from the one before, which is no table"
    if list(before.columns) != list(after.columns) or len(before) != len(after):
        return "different from the one before: other rows or columns"
    text = [name for name in before if "O" in (before[name].dtype.kind, after[name].dtype.kind)]
    if not all(before[name].equals(after[name]) for name in text):
        return "different from the one before: other rows"
    apart = {name: _relative_difference(before[name], after[name]) for name in before}
    worst = max(apart, key=apart.__getitem__)
    if apart[worst] <= TOLERANCE:
        return "equal to the one before to 1e-9 relative"
    return f"different from the one before, most in {worst} (relative difference {apart[worst]:.2g})"


def _relative_difference(before: pd.Series, after: pd.Series) -> float:
    """The largest difference of two columns, relative to the value; infinite where text or empty values differ."""
    if before.dtype.kind not in "iuf" or after.dtype.kind not in "iuf":
        return 0.0 if before.equals(after) else np.inf
    a, b = before.to_numpy(dtype=float), after.to_numpy(dtype=float)
    if (np.isnan(a) != np.isnan(b)).any():
        return np.inf
    a, b = a[a != b], b[a != b]  # without equal infinities, whose difference is no number
    if np.isinf([a, b]).any():
        return np.inf
    scale = np.maximum(np.abs(a), np.abs(b))
    # One unit of the tenth digit, the last that a table holds, counts as equal.
    return float(np.nanmax(np.abs(a - b) / scale, initial=0) * (1 - 1e-6))
