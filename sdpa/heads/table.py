"""The diagnosis of all heads of a user's arrays as one table of columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray
from sdpa.diagnosis.quantities import QUANTITIES, VISIBLE_MASS, Quantity
from sdpa.heads.arrays import HeadArrays
from sdpa.row_maps import PLAIN, RowMap
from sdpa.scaling import Scaling
from sdpa.theory.gaussian_rows import gaussian_rows

Columns = dict[str, npt.NDArray[Any]]  # by name, each with a value for every head
NO_MASK = "none"
_FILE = "file"  # beside the name of a mask, or alone
OUTSIDE_DOCUMENT = Quantity(
    "outside_document",
    "share of the weight on keys of another document than the query's, of packed sequences",
    "sum over rows of sum_j w_j [document of j is another], over their number",
)
SIZES = ("d_k", "n_queries", "n_keys", "mask", "scaling", "divisor", "sequences", "rows")
_MEASURED = [
    f"{quantity.name}{end}"
    for quantity in (*QUANTITIES, VISIBLE_MASS, OUTSIDE_DOCUMENT)
    for end in ("", "_se", "_exact")
    if end != "_se" or quantity.has_error
]
_AFTER_INDICES = [*SIZES, *_MEASURED]


def table_of(
    heads: Sequence[HeadArrays],
    scaling: str = "d_k^1/2",
    mask: str | None = None,
    row_map: RowMap = PLAIN,
) -> Columns:
    """The table of all heads, in the order of their arrays.

    Its columns number heads, such as layer and head; then come `SIZES` and the quantities of
    `sdpa.diagnosis.QUANTITIES` with errors and exact values, as far as they are known. The rule and
    the row map hold for scores of q and k alone.

    Raises:
        ValueError: an option is unknown or does not fit the arrays, or `sdpa.diagnose` refuses
            them.
    """
    rule = Scaling.parse(scaling)
    tables = [_of_pair(pair, rule, mask, row_map) for pair in heads]
    numbered, *others = dict.fromkeys(tuple(indices(table)) for table in tables)
    known = [name for name in _AFTER_INDICES if any(name in one for one in tables)]
    names = [*numbered, *known]
    whole = {name: np.concatenate([_column(one, name) for one in tables]) for name in names}
    of_heads = (whole[name] for name in numbered)
    places = list(zip(*of_heads, strict=True))
    if others or len(set(places)) < len(places):
        received = " and ".join(", ".join(each) or "none" for each in (numbered, *others))
        raise ValueError(
            f"expected the same axes in each pair and each head once, got heads by {received}"
        )
    return whole


def _column(table: Columns, name: str) -> npt.NDArray[Any]:
    """A column of a table; NaN where it has none, as without errors."""
    return table.get(name, np.full(len(table["rows"]), np.nan))


def _mask_of(pair: HeadArrays, mask: str) -> str:
    """The name of a mask, of a mask in a file, or of both."""
    if pair.mask is None:
        return mask
    return _FILE if mask == NO_MASK else f"{mask},{_FILE}"


def _of_pair(pair: HeadArrays, rule: Scaling, mask: str | None, row_map: RowMap) -> Columns:
    """The rows of one pair of arrays."""
    if taken := {*_AFTER_INDICES, *pair.numbers}.intersection(pair.leading):
        raise ValueError(
            f"--axes: expected names that no other column has, got {' and '.join(sorted(taken))}"
        )
    try:
        found = pair.diagnose(rule, mask, row_map)
    except ValueError as error:
        raise ValueError(f"{pair.place}: {error}") from None
    sizes: dict[str, object] = {
        "n_queries": found.n_queries,
        "n_keys": found.n_keys,
        "mask": _mask_of(pair, mask or NO_MASK),
        "sequences": found.sequences,
    }
    if pair.k is not None:
        sizes |= {"d_k": found.d_k, "scaling": rule.name, "divisor": found.divisor}
    same = {**pair.numbers, **sizes}
    count = found.rows.size
    known = {*found.axes, *_AFTER_INDICES}
    columns = {name: values for name, values in found.columns().items() if name in known}
    if pair.documents is not None:
        columns[OUTSIDE_DOCUMENT.name] = pair.outside_document().ravel()
    return {name: np.full(count, value) for name, value in same.items()} | columns


def indices(names: Iterable[str]) -> list[str]:
    """The columns that number heads, such as layer and head, among the names of a table; none of a
    single head.
    """
    return [name for name in names if name not in _AFTER_INDICES]


def entropy_shares(sigmas: FloatArray, lengths: npt.NDArray[np.integer]) -> FloatArray:
    """The mean entropy share over Gaussian rows of these lengths, for each standard deviation."""
    n_keys = np.tile(lengths, len(sigmas))
    entropy = gaussian_rows(np.repeat(sigmas, len(lengths)), n_keys, ["entropy"])[:, 0]
    shares = entropy.reshape(len(sigmas), -1) / np.log(lengths)
    return np.asarray(shares.mean(axis=1))
