"""The table of a diagnosis: a row for each head of a user's arrays, with the quantities of `sdpa.diagnose`.

`QUANTITIES` declares what the columns mean; here are the sizes and options beside them, and the exact curves to compare
heads with.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.diagnosis.files import HeadArrays
from experiments.harness.columns import Column
from sdpa import Scaling, diagnose
from sdpa.diagnosis import AXES, BATCH, QUANTITIES, Quantity
from sdpa.theory.gaussian_rows import gaussian_rows

SHIPPED_LAYERS = "Layer 0: before training. Layer 1: after it. Heads: independent runs."
NO_MASK = "none"
_SIZES = (
    Column("d_k", "int", "width of queries and keys"),
    Column("n_queries", "int", "queries of a sequence"),
    Column("n_keys", "int", "keys of a sequence"),
    Column("mask", "str", "none, or causal: each query sees only the keys up to its own position"),
    Column("scaling", "str", "scaling rule"),
    Column("divisor", "float", "divisor of the scores"),
    Column("sequences", "int", "independent sequences, between which standard errors come about"),
    Column("rows", "int", "rows that see two keys or more, over all sequences"),
)
# The names of leading axes by their number, after those that the names of the arrays give.
_USUAL_AXES: dict[tuple[str, ...], dict[int, tuple[str, ...]]] = {
    (): AXES,
    ("layer",): {0: (), 1: ("head",), 2: (BATCH, "head")},
    ("head",): {0: (), 1: (BATCH,)},
    ("layer", "head"): {0: (), 1: (BATCH,)},
}
_MOST_CURVES = 4
_POINTS = 40  # of a curve
_ROOM = 1.5  # factor by which a curve goes beyond the heads
_FLATTEST = 0.01  # smallest spread whose place on a curve matters


def _of_quantity(quantity: Quantity) -> Iterator[Column]:
    """NAME, NAME_se unless it is a largest value, and NAME_exact where an exact value is known."""
    name, unit = quantity.name, quantity.unit
    yield Column(name, "float", quantity.meaning, quantity.formula, unit, may_be_empty=True)
    if quantity.row is None or quantity.share is not None:
        yield Column(f"{name}_se", "float", f"standard error of {name} between sequences", "", unit, may_be_empty=True)
    if quantity.gaussian:
        meaning = f"exact value of {name} for Gaussian rows of the same lengths and mean variance"
        yield Column(f"{name}_exact", "float", meaning, "", unit, may_be_empty=True)


COLUMNS: tuple[Column, ...] = (
    Column("layer", "int", "number of the layer, from the name of its arrays or along their axis of that name"),
    Column("head", "int", "number of the head, likewise; other names of axes have a column too"),
    *_SIZES,
    *(column for quantity in QUANTITIES for column in _of_quantity(quantity)),
)
_AFTER_INDICES = [column.name for column in COLUMNS[2:]]


def diagnosis_table(
    heads: Sequence[HeadArrays], scaling: str = "d_k^1/2", mask: str | None = None, axes: str | None = None
) -> pd.DataFrame:
    """The table of all heads, in the order of their arrays.

    Its columns number heads, such as layer and head, then come those of `COLUMNS` that exist. The names of the leading
    axes of every q are separated by commas; None for the usual ones.

    Raises:
        ValueError: an option is unknown or does not fit the arrays, or `sdpa.diagnose` refuses them.
    """
    try:
        rule = Scaling.parse(scaling)
    except ValueError as error:
        raise ValueError(f"--scaling: {error}") from None
    tables = [_of_pair(pair, rule, mask, axes) for pair in heads]
    numbered = indices(tables[0])
    for pair, table in zip(heads, tables, strict=True):
        if indices(table) != numbered:
            raise ValueError(
                f"{pair.place}: expected the axes of the first pair, {', '.join(numbered) or 'none'}, got"
                f" {', '.join(indices(table)) or 'none'}"
            )
    whole = pd.concat(tables, ignore_index=True)
    if numbered and whole.duplicated(numbered).any():
        raise ValueError(f"expected each head once, got several rows with the same {' and '.join(numbered)}")
    return whole[[*numbered, *(name for name in _AFTER_INDICES if name in whole)]].copy()


def axes_of(pair: HeadArrays, axes: str | None = None) -> tuple[str, ...]:
    """The names of the leading axes of a pair, whose arrays may have some numbers in their names.

    Raises:
        ValueError: the names do not fit the array, or one is that of another column.
    """
    given, n_leading = tuple(_given(pair)), pair.q.ndim - 2
    if axes is None and n_leading in _USUAL_AXES[given]:
        return _USUAL_AXES[given][n_leading]
    names = tuple(name.strip().lower() for name in (axes or "").split(",") if name.strip())
    taken = {*_AFTER_INDICES, *given}.intersection(names)
    if len(set(names)) != n_leading or len(names) != n_leading or taken or not all(map(str.isidentifier, names)):
        beside = f" beside {' and '.join(given)} in the names of the arrays" if given else ""
        raise ValueError(
            f"--axes: expected {n_leading} different names of axes{beside}, none that of another column, for q of shape"
            f" {pair.q.shape}, got {axes or 'none'}"
        )
    return names


def indices(table: pd.DataFrame) -> list[str]:
    """The columns that number the heads of a table, such as layer and head; none in the table of a single head.

    >>> indices(pd.DataFrame({"layer": [0], "head": [3], "d_k": [64]}))
    ['layer', 'head']
    """
    return [str(name) for name in table.columns[: table.columns.get_loc(_SIZES[0].name)]]


def _of_pair(pair: HeadArrays, rule: Scaling, mask: str | None, axes: str | None) -> pd.DataFrame:
    """The rows of one pair of arrays."""
    names = axes_of(pair, axes)
    try:
        found = diagnose(pair.q, pair.k, rule, mask, axes=names)
    except ValueError as error:
        raise ValueError(f"{pair.place}: {error}") from None
    columns = found.columns()
    sizes = {
        "d_k": found.d_k,
        "n_queries": found.n_queries,
        "n_keys": found.n_keys,
        "mask": mask or NO_MASK,
        "scaling": rule.name,
        "divisor": found.divisor,
        "sequences": found.sequences,
        "rows": columns.pop("rows"),
    }
    numbers = _given(pair) | {name: columns.pop(name) for name in found.axes}
    return pd.DataFrame({**numbers, **sizes, **columns}, index=range(found.rows.size))


def _given(pair: HeadArrays) -> dict[str, int]:
    """The numbers in the names of a pair's arrays."""
    numbers = {"layer": pair.layer, "head": pair.head}
    return {name: number for name, number in numbers.items() if number is not None}


def read_diagnosis(path: Path) -> pd.DataFrame:
    """A table of a diagnosis from its file."""
    table: pd.DataFrame = pd.read_csv(path, dtype={"mask": str, "scaling": str})
    return table


def gaussian_curves(table: pd.DataFrame) -> pd.DataFrame:
    """Exact mean entropy shares of Gaussian rows, along the spread within rows that the heads of a table have.

    Rows have the numbers of visible keys that the mask gives, and scores of one standard deviation sigma. Their
    variance with 1/n has the mean sigma^2 (1 - 1/n). Only the first four sizes have a curve.
    """
    ends = np.maximum(np.sqrt(table["row_variance"].agg(["min", "max"])), _FLATTEST)
    spread = np.geomspace(min(ends["min"] / _ROOM, 0.5), max(ends["max"] * _ROOM, 4.0), _POINTS)
    curves = []
    for n_queries, n_keys, mask in (
        table[["n_queries", "n_keys", "mask"]].drop_duplicates().head(_MOST_CURVES).to_numpy()
    ):
        first = n_keys if mask == NO_MASK else max(2, n_keys - n_queries + 1)
        lengths = np.arange(first, n_keys + 1)
        sigma = np.repeat(spread / np.sqrt(np.mean(1 - 1 / lengths)), len(lengths))
        entropy = gaussian_rows(sigma, np.tile(lengths, len(spread)))[:, 1].reshape(len(spread), -1)
        share = (entropy / np.log(lengths)).mean(axis=1)
        curves.append(pd.DataFrame({"n_keys": n_keys, "spread": spread, "entropy_share": share}))
    return pd.concat(curves, ignore_index=True)
