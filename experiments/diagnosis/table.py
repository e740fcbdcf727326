"""The table of a diagnosis, a row for each head of a user's arrays, and exact curves to compare the
heads with.

`sdpa.diagnosis.QUANTITIES` declares what most columns mean; here are sizes and options.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.measuring.columns import Column
from sdpa import Scaling
from sdpa.attention import most_visible
from sdpa.diagnosis import QUANTITIES, Quantity
from sdpa.diagnosis.quantities import VISIBLE_MASS
from sdpa.heads import HeadArrays
from sdpa.row_maps import PLAIN, RowMap
from sdpa.theory.gaussian_rows import gaussian_rows

Floats = npt.NDArray[np.floating]

NO_MASK = "none"
_SIZES = (
    Column("d_k", "int", "width of queries and keys"),
    Column("n_queries", "int", "queries of a sequence"),
    Column("n_keys", "int", "keys of a sequence"),
    Column(
        "mask",
        "str",
        (
            "none; causal: each query sees only the keys up to its own position; window-N: the "
            "last N of them"
        ),
    ),
    Column("scaling", "str", "scaling rule"),
    Column("divisor", "float", "divisor of the scores"),
    Column("sequences", "int", "independent sequences, between which standard errors come about"),
    Column("rows", "int", "rows that see two keys or more, over all sequences"),
)
_MOST_CURVES = 4
_POINTS = 40  # of a curve
_ROOM = 1.5  # factor by which a curve goes beyond the heads
_FLATTEST = 0.01  # smallest spread whose place on a curve matters


def _of_quantity(quantity: Quantity) -> Iterator[Column]:
    """NAME, NAME_se unless it is a largest value, and NAME_exact where an exact value is known."""
    name = quantity.name
    has_error = bool(quantity.of) or quantity.share is not None
    parts = [("", quantity.meaning, quantity.formula)]
    if has_error:
        parts.append(("_se", f"standard error of {name} between sequences", ""))
    if quantity.gaussian:
        meaning = f"exact value of {name} for Gaussian rows of the same lengths and mean variance"
        parts.append(("_exact", meaning, ""))
    for suffix, meaning, formula in parts:
        yield Column(f"{name}{suffix}", "float", meaning, formula, quantity.unit, may_be_empty=True)


COLUMNS: tuple[Column, ...] = (
    Column(
        "layer",
        "int",
        "number of the layer, from the name of its arrays or along their axis of that name",
    ),
    Column("head", "int", "number of the head, likewise; other names of axes have a column too"),
    *_SIZES,
    *(column for quantity in (*QUANTITIES, VISIBLE_MASS) for column in _of_quantity(quantity)),
)
_AFTER_INDICES = [column.name for column in COLUMNS[2:]]


def diagnosis_table(
    heads: Sequence[HeadArrays],
    scaling: str = "d_k^1/2",
    mask: str | None = None,
    row_map: RowMap = PLAIN,
) -> pd.DataFrame:
    """The table of all heads, in the order of their arrays.

    Its columns number heads, such as layer and head, then come those of `COLUMNS` that exist. The
    rule and the row map hold for scores of q and k alone.

    Raises:
        ValueError: an option is unknown or does not fit the arrays, or `sdpa.diagnose` refuses
            them.
    """
    try:
        rule = Scaling.parse(scaling)
    except ValueError as error:
        raise ValueError(f"--scaling: {error}") from None
    tables = [_of_pair(pair, rule, mask, row_map) for pair in heads]
    numbered, *others = dict.fromkeys(tuple(indices(table)) for table in tables)
    whole = pd.concat(tables, ignore_index=True)
    if others or (numbered and whole.duplicated([*numbered]).any()):
        received = " and ".join(", ".join(names) or "none" for names in (numbered, *others))
        raise ValueError(
            f"expected the same axes in each pair and each head once, got heads by {received}"
        )
    measured = [name for name in _AFTER_INDICES if name in whole]
    return whole[[*numbered, *measured]].copy()


def indices(table: pd.DataFrame) -> list[str]:
    """The columns that number the heads of a table, such as layer and head; none in the table of a
    single head.
    """
    columns = map(str, table.columns)
    return list(itertools.takewhile(lambda name: name not in _AFTER_INDICES, columns))


def _of_pair(pair: HeadArrays, rule: Scaling, mask: str | None, row_map: RowMap) -> pd.DataFrame:
    """The rows of one pair of arrays."""
    if taken := {*_AFTER_INDICES, *pair.numbers}.intersection(pair.leading):
        raise ValueError(
            f"--axes: expected names that no other column has, got {' and '.join(sorted(taken))}"
        )
    try:
        found = pair.diagnose(rule, mask, row_map)
    except ValueError as error:
        raise ValueError(f"{pair.place}: {error}") from None
    columns = found.columns()
    table: dict[str, object] = {**pair.numbers} | {name: columns.pop(name) for name in found.axes}
    if pair.k is not None:
        table |= {"d_k": found.d_k, "divisor": found.divisor, "scaling": rule.name}
    table |= {
        "n_queries": found.n_queries,
        "n_keys": found.n_keys,
        "sequences": found.sequences,
        "mask": mask or NO_MASK,
    }
    return pd.DataFrame(table | columns, index=range(found.rows.size))


def read_diagnosis(path: Path) -> pd.DataFrame:
    """A table of a diagnosis from its file."""
    table: pd.DataFrame = pd.read_csv(path, dtype={"mask": str, "scaling": str})
    return table


def gaussian_curves(table: pd.DataFrame) -> pd.DataFrame:
    """Exact mean entropy shares of Gaussian rows, along the spread within rows that the heads of a
    table have.

    Rows have the numbers of visible keys that the mask gives, and scores of one standard deviation
    sigma. Their variance with 1/n has the mean sigma^2 (1 - 1/n). Only the first four sizes have a
    curve.
    """
    ends = np.maximum(np.sqrt(table["row_variance"].agg(["min", "max"])), _FLATTEST)
    spread = np.geomspace(min(ends["min"] / _ROOM, 0.5), max(ends["max"] * _ROOM, 4.0), _POINTS)
    curves = []
    kinds = table[["n_queries", "n_keys", "mask"]].drop_duplicates().head(_MOST_CURVES)
    for n_queries, n_keys, mask in kinds.itertuples(index=False):
        first = n_keys if mask == NO_MASK else max(2, n_keys - n_queries + 1)
        lengths = np.minimum(np.arange(first, n_keys + 1), most_visible(mask) or n_keys)
        share = _entropy_shares(spread, lengths)
        curves.append(pd.DataFrame({"n_keys": n_keys, "spread": spread, "entropy_share": share}))
    return pd.concat(curves, ignore_index=True)


def _entropy_shares(spread: Floats, lengths: npt.NDArray[np.integer]) -> Floats:
    """The mean entropy share over rows of these lengths, for each spread within rows."""
    sigma = spread / np.sqrt(np.mean(1 - 1 / lengths))
    every_pair = np.repeat(sigma, len(lengths)), np.tile(lengths, len(spread))
    entropy = gaussian_rows(*every_pair)[:, 1].reshape(len(spread), -1)
    shares: Floats = (entropy / np.log(lengths)).mean(axis=1)
    return shares
