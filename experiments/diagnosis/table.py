"""The table of a diagnosis: a row for each head of a user's arrays, with the quantities of `sdpa.diagnose`.

`QUANTITIES` declares what the columns mean; here are the sizes and options beside them, and the exact curves to compare
heads with.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.diagnosis.labels import in_words, indices
from experiments.harness.columns import Column
from experiments.harness.wording import counted
from sdpa import Scaling, diagnose
from sdpa.attention import is_causal
from sdpa.diagnosis import AXES, BATCH, QUANTITIES, Diagnosis, Quantity
from sdpa.theory.gaussian_rows import gaussian_rows

if TYPE_CHECKING:
    from experiments.diagnosis.files import HeadArrays

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
_ROOM, _LEAST_ROOM = 1.5, 4.0  # factors by which a curve goes beyond the heads, and beyond their middle at least
_FLATTEST = 0.01  # smallest spread whose place on a curve matters

Floats = npt.NDArray[np.float64]


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
    heads: "Sequence[HeadArrays]", scaling: str = "d_k^1/2", mask: str | None = None, axes: str | None = None
) -> pd.DataFrame:
    """The table of all heads, in the order of their arrays.

    Args:
        heads: pairs of q and k; `sdpa.diagnose` diagnoses each.
        scaling: a scaling rule.
        mask: `causal`, `none` or None.
        axes: names of the leading axes of every q, separated by commas; None for the usual ones.

    Returns:
        The columns that number heads, such as layer and head, then those of `COLUMNS` that exist.

    Raises:
        ValueError: an option is unknown or does not fit the arrays, or numbers are so large that scores overflow.
    """
    rule, names = _rule(scaling), None if axes is None else _split(axes)
    is_causal(mask or NO_MASK)  # a wrong name is no fault of the arrays
    tables = [_of_pair(pair, rule, mask, names) for pair in heads]
    numbered = [indices(table) for table in tables]
    for pair, others in zip(heads, numbered, strict=True):
        if others != numbered[0]:
            raise ValueError(
                f"{_place(pair)}: expected the same axes as in the first pair of arrays, {_quoted(numbered[0])}, got"
                f" {_quoted(others)}"
            )
    whole = pd.concat(tables, ignore_index=True)
    if numbered[0] and whole.duplicated(numbered[0]).any():
        raise ValueError(f"expected each head once, got several rows with the same {' and '.join(numbered[0])}")
    present = [name for name in _AFTER_INDICES if name in whole]
    return whole[[*numbered[0], *present]].copy()


def order_of_axes(pair: "HeadArrays", axes: str | None = None) -> str:
    """The shape of q and the order in which its axes are read, for a reader who may have another order in mind."""
    leading = _axes(pair, tuple(_given(pair)), None if axes is None else _split(axes))
    return f"q of shape {pair.q.shape} read as ({', '.join([*leading, 'position', 'd_k'])})"


def _of_pair(pair: "HeadArrays", rule: Scaling, mask: str | None, axes: tuple[str, ...] | None) -> pd.DataFrame:
    """The rows of one pair of arrays."""
    given = _given(pair)
    names = _axes(pair, tuple(given), axes)
    try:
        with np.errstate(over="raise"):
            found = diagnose(pair.q, pair.k, rule, mask, axes=names)
    except ValueError as error:
        raise ValueError(f"{_place(pair)}: {error}") from None
    except FloatingPointError:
        raise ValueError(f"{_place(pair)}: expected numbers whose scores do not overflow, got larger ones") from None
    columns = found.columns()
    sizes = _sizes(found, rule, mask) | {"rows": columns.pop("rows")}
    numbers = given | {name: columns.pop(name) for name in found.axes}
    return pd.DataFrame({**numbers, **sizes, **columns}, index=range(found.rows.size))


def _sizes(found: Diagnosis, rule: Scaling, mask: str | None) -> dict[str, object]:
    """The columns of `_SIZES` that are the same for all heads of a pair."""
    return {
        "d_k": found.d_k,
        "n_queries": found.n_queries,
        "n_keys": found.n_keys,
        "mask": mask or NO_MASK,
        "scaling": rule.name,
        "divisor": found.divisor,
        "sequences": found.sequences,
    }


def _rule(scaling: str) -> Scaling:
    try:
        return Scaling.parse(scaling)
    except ValueError as error:
        raise ValueError(f"--scaling: {error}") from None


def _split(axes: str) -> tuple[str, ...]:
    """The names in an option, none of which may be another column of the table."""
    names = tuple(name.strip().lower() for name in axes.split(","))
    taken = [name for name in names if name in _AFTER_INDICES]
    if taken or len(set(names)) < len(names) or not all(map(str.isidentifier, names)):
        raise ValueError(f"--axes: expected different names of axes, such as batch,layer,head, got {axes!r}")
    return names


def _axes(pair: "HeadArrays", given: tuple[str, ...], axes: tuple[str, ...] | None) -> tuple[str, ...]:
    """The names of the leading axes of a pair whose arrays have some numbers in their names."""
    n_leading = pair.q.ndim - 2
    if axes is None and n_leading in _USUAL_AXES[given]:
        return _USUAL_AXES[given][n_leading]
    if axes is None or len(axes) != n_leading:
        raise ValueError(
            f"--axes: expected {counted(n_leading, 'name')} for the leading axes of q of shape {pair.q.shape}, got"
            f" {', '.join(axes or ()) or 'none'}"
        )
    if twice := [name for name in axes if name in given]:
        raise ValueError(f"--axes: expected no {twice[0]}, whose number is in the names of the arrays, got it")
    return axes


def _place(pair: "HeadArrays") -> str:
    """The pair in messages."""
    return in_words(_given(pair)) if _given(pair) else "q and k"


def _given(pair: "HeadArrays") -> dict[str, int]:
    """The numbers in the names of a pair's arrays."""
    numbers = {"layer": pair.layer, "head": pair.head}
    return {name: number for name, number in numbers.items() if number is not None}


def _quoted(names: Sequence[str]) -> str:
    return f"({', '.join(names)})"


def read_diagnosis(path: Path) -> pd.DataFrame:
    """A table of a diagnosis from its file."""
    table: pd.DataFrame = pd.read_csv(path, dtype={"mask": str, "scaling": str})
    return table


def gaussian_curves(table: pd.DataFrame) -> pd.DataFrame:
    """Exact mean entropy shares of Gaussian rows, along the spread within rows that the heads of a table have.

    Rows have the numbers of visible keys that the mask gives, and scores of one standard deviation sigma. Their
    variance with 1/n has the mean sigma^2 (1 - 1/n).

    Args:
        table: of a diagnosis; only the first four sizes have a curve.

    Returns:
        The columns n_queries, n_keys, mask, spread and entropy_share, one row for each point.
    """
    sizes = ["n_queries", "n_keys", "mask"]
    # Without a mask, the number of queries does not matter.
    kinds = table[sizes].assign(n_queries=table["n_queries"].where(table["mask"] != NO_MASK, 1)).drop_duplicates()
    spread = np.maximum(np.sqrt(table["row_variance"].to_numpy()), _FLATTEST)
    middle, room = np.sqrt(spread.min() * spread.max()), max(_ROOM * np.sqrt(spread.max() / spread.min()), _LEAST_ROOM)
    at = np.geomspace(middle / room, middle * room, _POINTS)
    curves = [
        pd.DataFrame({"n_queries": n_queries, "n_keys": n_keys, "mask": mask, **_curve(n_queries, n_keys, mask, at)})
        for n_queries, n_keys, mask in kinds.head(_MOST_CURVES).to_numpy()
    ]
    return pd.concat(curves, ignore_index=True)


def _curve(n_queries: int, n_keys: int, mask: str, spread: Floats) -> dict[str, Floats]:
    """The points of one curve: at each spread, the mean over rows of the mask."""
    lengths = np.arange(n_keys - n_queries + 1, n_keys + 1) if mask != NO_MASK else np.array([n_keys])
    lengths = lengths[lengths > 1]
    sigma = spread / np.sqrt(np.mean(1 - 1 / lengths))
    all_sigma, all_lengths = np.repeat(sigma, len(lengths)), np.tile(lengths, len(sigma))
    entropy = gaussian_rows(all_sigma, all_lengths)[:, 1] / np.log(all_lengths)
    return {"spread": spread, "entropy_share": entropy.reshape(len(sigma), -1).mean(axis=1)}
