"""The axes of a table: varied axes, fixed axes, and their names in captions.

Axes are the fields of a cell, such as d_k, n_keys and inputs.
"""

import re
from collections.abc import Sequence

import pandas as pd

from experiments.harness.discovery import axes_of


def varied_axes(table: pd.DataFrame) -> list[str]:
    """The axes with more than one value in a table."""
    return [name for name in axes_of(table) if len(table[name].unique()) > 1]


def first_axis(table: pd.DataFrame) -> str:
    """The first axis with more than one value in the table; the first axis of all if there is none."""
    return [*varied_axes(table), *axes_of(table)][0]


def other_axes(table: pd.DataFrame, *shown: str) -> list[str]:
    """The other axes with more than one value in the table."""
    return [name for name in varied_axes(table) if name not in shown]


def first_combination(table: pd.DataFrame, *shown: str) -> pd.DataFrame:
    """The rows of the first combination of the other axes.

    Args:
        table: a measured table.
        shown: the axes along which the rows may differ; the scaling always may.
    """
    others = other_axes(table, *shown)
    return table[(table[others] == table.iloc[0][others]).all(axis=1)]


def values_of(row: pd.Series, names: Sequence[str]) -> str:
    """Axes of a row with their values: `d_k = 4, n_keys = 64`.

    >>> values_of(pd.Series({"d_k": 4, "key_std": 0.5}), ["d_k", "key_std"])
    'd_k = 4, key_std = 0.5'
    """
    return ", ".join(f"{name} = {plain(row[name])}" for name in names)


def by_scaling(table: pd.DataFrame, x: str) -> dict[str, pd.DataFrame]:
    """The rows of each scaling, by its name and in order of x (in table order if x is not a number)."""
    groups = table.groupby("scaling", sort=False)
    return {str(name): rows.sort_values(x) if is_number(table, x) else rows for name, rows in groups}


def is_number(table: pd.DataFrame, x: str) -> bool:
    """True if an axis has an order and distances."""
    return table[x].dtype.kind in "iuf"


def plain(value: object) -> str:
    """A value of an axis without trailing zeros: 1, 0.5, gaussian.

    >>> plain(1.0), plain(4096), plain("gaussian")
    ('1', '4096', 'gaussian')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)


def under(scaling: str) -> str:
    """The name of a scaling in a sentence.

    >>> under("unscaled"), under("d_k^1/2"), under("8")
    ('unscaled', 'under d_k^1/2', 'under the divisor 8')
    """
    if scaling == "unscaled":
        return scaling
    return f"under the divisor {scaling}" if re.fullmatch("[0-9./]+", scaling) else f"under {scaling}"
