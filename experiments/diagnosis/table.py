"""The table of a diagnosis, a row for each head of a user's arrays, and what the terminal says
about it.

`sdpa.diagnosis.QUANTITIES` declares what most columns mean; here are sizes and options, exact
curves to compare heads with, a line for each of the sharpest heads, and fixed sentences with
numbers.
"""

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.diagnosis.files import HeadArrays
from experiments.errors import counted
from experiments.measuring.columns import Column
from sdpa import Scaling, diagnose, diagnose_scores
from sdpa.attention import most_visible
from sdpa.diagnosis import AXES, BATCH, QUANTITIES, Quantity
from sdpa.diagnosis.quantities import VISIBLE_MASS
from sdpa.row_maps import PLAIN, RowMap
from sdpa.theory.gaussian_rows import gaussian_rows

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
            "last N "
            "of them"
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
MOST_LINES = 20
_LEGEND = (
    (
        "max_weight_exact",
        "In brackets: exact values of Gaussian rows of the same lengths and variance.",
    ),
    ("row_variance", "Spread: standard deviation of the scaled scores within rows."),
    ("variance_ratio", "Ratio: their variance over that of independent entries."),
    ("row_variance", "Saturated: share of rows with a weight above 0.99. |J|_F: its median."),
    ("unit_exponent", "Unit power: the power of d_k that would give the rows the variance 1."),
)
_NO_ERRORS = "No standard errors: there is one sequence. Several need an axis named batch."
_SWAPPED = (
    "More heads than keys: if q has the axes (..., position, head, d_k), save "
    "q.swapaxes(-3, -2), k likewise."
)
Row = dict[Hashable, Any]


def _of_quantity(quantity: Quantity) -> Iterator[Column]:
    """NAME, NAME_se unless it is a largest value, and NAME_exact where an exact value is known."""
    name, unit = quantity.name, quantity.unit
    yield Column(name, "float", quantity.meaning, quantity.formula, unit, may_be_empty=True)
    if quantity.of or quantity.share is not None:
        yield Column(
            f"{name}_se",
            "float",
            f"standard error of {name} between sequences",
            "",
            unit,
            may_be_empty=True,
        )
    if quantity.gaussian:
        meaning = f"exact value of {name} for Gaussian rows of the same lengths and mean variance"
        yield Column(f"{name}_exact", "float", meaning, "", unit, may_be_empty=True)


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
    axes: str | None = None,
    row_map: RowMap = PLAIN,
) -> pd.DataFrame:
    """The table of all heads, in the order of their arrays.

    Its columns number heads, such as layer and head, then come those of `COLUMNS` that exist. The
    names of the leading axes of every q are separated by commas; None for the usual ones. The row
    map holds for scores of q and k alone.

    Raises:
        ValueError: an option is unknown or does not fit the arrays, or `sdpa.diagnose` refuses
            them.
    """
    try:
        rule = Scaling.parse(scaling)
    except ValueError as error:
        raise ValueError(f"--scaling: {error}") from None
    tables = [_of_pair(pair, rule, mask, axes, row_map) for pair in heads]
    numbered, *others = dict.fromkeys(tuple(indices(table)) for table in tables)
    whole = pd.concat(tables, ignore_index=True)
    if others or (numbered and whole.duplicated([*numbered]).any()):
        received = " and ".join(", ".join(names) or "none" for names in (numbered, *others))
        raise ValueError(
            f"expected the same axes in each pair and each head once, got heads by {received}"
        )
    return whole[[*numbered, *(name for name in _AFTER_INDICES if name in whole)]].copy()


def axes_of(pair: HeadArrays, axes: str | None = None) -> tuple[str, ...]:
    """The names of the leading axes of a pair, whose arrays may have some numbers in their names.

    Raises:
        ValueError: one is that of another column.
    """
    given, n_leading = _given(pair), pair.q.ndim - 2
    free = (BATCH,) if "head" in given else (BATCH, "head")
    usual = {n: free[len(free) - n :] for n in range(len(free) + 1)} if given else AXES
    if axes is None and n_leading in usual:
        return usual[n_leading]
    names = tuple(name.strip().lower() for name in (axes or "").split(",") if name.strip())
    if taken := {*_AFTER_INDICES, *given}.intersection(names):
        raise ValueError(
            f"--axes: expected names that no other column has, got {' and '.join(sorted(taken))}"
        )
    return names


def indices(table: pd.DataFrame) -> list[str]:
    """The columns that number the heads of a table, such as layer and head; none in the table of a
    single head.
    """
    return [
        str(name)
        for name in itertools.takewhile(lambda name: name not in _AFTER_INDICES, table.columns)
    ]


def _of_pair(
    pair: HeadArrays, rule: Scaling, mask: str | None, axes: str | None, row_map: RowMap
) -> pd.DataFrame:
    """The rows of one pair of arrays."""
    names = axes_of(pair, axes)
    try:
        if pair.k is None:
            found = diagnose_scores(pair.q, mask, axes=names)
        else:
            found = diagnose(
                pair.q, pair.k, rule, mask, axes=names, softcap=row_map.softcap, sink=row_map.sink
            )
    except ValueError as error:
        raise ValueError(f"{pair.place}: {error}") from None
    columns = found.columns()
    numbers = _given(pair) | {name: columns.pop(name) for name in found.axes}
    sizes = {
        name: getattr(found, name)
        for name in ("d_k", "n_queries", "n_keys", "divisor", "sequences")
    }
    sizes |= {"mask": mask or NO_MASK, "scaling": rule.name}
    if pair.k is None:
        del sizes["d_k"], sizes["scaling"], sizes["divisor"]
    return pd.DataFrame({**numbers, **sizes, **columns}, index=range(found.rows.size))


def _given(pair: HeadArrays) -> dict[str, int]:
    """The numbers in the names of a pair's arrays."""
    return {name: n for name, n in (("layer", pair.layer), ("head", pair.head)) if n is not None}


def read_diagnosis(path: Path) -> pd.DataFrame:
    """A table of a diagnosis from its file."""
    table: pd.DataFrame = pd.read_csv(path, dtype={"mask": str, "scaling": str})
    return table


def legend(table: pd.DataFrame) -> str:
    """The meaning of the words for the columns that a table has."""
    return " ".join(text for column, text in _LEGEND if column in table)


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
    for n_queries, n_keys, mask in (
        table[["n_queries", "n_keys", "mask"]].drop_duplicates().head(_MOST_CURVES).to_numpy()
    ):
        first = n_keys if mask == NO_MASK else max(2, n_keys - n_queries + 1)
        lengths = np.minimum(np.arange(first, n_keys + 1), most_visible(mask) or n_keys)
        sigma = np.repeat(spread / np.sqrt(np.mean(1 - 1 / lengths)), len(lengths))
        entropy = gaussian_rows(sigma, np.tile(lengths, len(spread)))[:, 1].reshape(len(spread), -1)
        share = (entropy / np.log(lengths)).mean(axis=1)
        curves.append(pd.DataFrame({"n_keys": n_keys, "spread": spread, "entropy_share": share}))
    return pd.concat(curves, ignore_index=True)


# On the terminal.


def sizes(table: pd.DataFrame) -> str:
    """The sizes and options of a table of a diagnosis, with warnings of one sequence and of swapped
    axes.
    """
    named = {
        "queries": "n_queries",
        "keys": "n_keys",
        "d_k": "d_k",
        "sequences": "sequences",
        "divisor": "divisor",
    }
    parts = [f"{name} {_range(table[column])}" for name, column in named.items() if column in table]
    rule = f" ({table['scaling'].iloc[0]})" if "scaling" in table else ""
    swapped = "head" in table and table["head"].nunique() > table["n_keys"].max()
    mask = table["mask"].iloc[0]
    causal = " (causal: no key after the query's own)" if mask.startswith("window") else ""
    text = f"Heads {len(table)}, {', '.join(parts)}{rule}, mask {mask}{causal}"
    single = (table["sequences"] == 1).any()
    return "\n".join([text, *([_SWAPPED] if swapped else []), *([_NO_ERRORS] if single else [])])


def sharpest(table: pd.DataFrame) -> str:
    """One line for each of the sharpest heads, below the headings of its columns; many axes make
    the lines long.
    """
    shown = table.sort_values("entropy_share", kind="stable").head(MOST_LINES)
    columns = {
        heading: text
        for heading, text in _COLUMNS.items()
        if "q_std" in table or heading not in _OF_VECTORS
    }
    texts = {
        heading: [text(row.to_dict()) for _, row in shown.iterrows()]
        for heading, text in columns.items()
    }
    numbers = shown[indices(shown)].reset_index(drop=True)
    lines = numbers.join(pd.DataFrame(texts)).to_string(index=False)
    rest = len(table) - len(shown)
    return f"{lines}\nLess sharp heads, not shown: {rest}" if rest else lines


def summary(table: pd.DataFrame) -> list[str]:
    """Those of six sentences whose condition holds for at least one head, with the number of such
    heads.
    """
    counts = {words: int(holds(table).sum()) for words, holds in _CONDITIONS.items()}
    return [
        f"Heads with {words}: {count} of {len(table)}." for words, count in counts.items() if count
    ]


# Agreement with Gaussian rows says little below a spread of 0.8, because the rows of most laws
# agree there (docs/your-model.md has numbers).
_CONDITIONS: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "a weight above 0.99 in most rows": lambda heads: heads["saturated_rows"] > 0.5,
    "a spread below 0.5 or above 2": lambda heads: _is_far_from_1(heads),
    "an entropy share more than 0.05 from that of Gaussian rows": lambda heads: (
        (heads["entropy_share"] - heads.get("entropy_share_exact", math.nan)).abs() > 0.05
    ),
    "a spread below 0.8, too flat to differ from Gaussian rows": lambda heads: (
        heads["row_variance"] < 0.8**2
    ),
    "most weight on the first key, an attention sink": lambda heads: (
        heads["first_key_weight"] > 0.5
    ),
    "equal scores in each row, or equal entries of q or k, and so without some numbers (nan)": lambda heads: (
        heads[[name for name in ("unit_divisor", "variance_ratio") if name in heads]]
        .isna()
        .any(axis=1)
    ),
}


def advice(table: pd.DataFrame, *, is_capped: bool) -> list[str]:
    """At most four sentences on what to do; none where the numbers of the table do not settle it.

    Args:
        table: of a diagnosis.
        is_capped: True for scores under a soft cap, whose spread no divisor changes in proportion.
    """
    told = []
    for holds, words in _ADVICE:
        if (chosen := holds(table)).any():
            heads = table[chosen]
            divide = f"divide there by about {_range(heads['unit_divisor'], 2)}"
            divide += (
                f" rather than {_range(heads['divisor'])}"
                if "divisor" in heads
                else " what is divided already"
            )
            numbers = {
                name: _range(100 * heads[name], 2) + "%"
                for name in ("saturated_rows", "first_key_weight")
            }
            numbers["spread"] = _range(heads["row_variance"] ** 0.5, 2)
            numbers["divide"] = (
                "change the soft cap or the divisor"
                if is_capped
                else f"{divide}, for a spread of 1"
            )
            told.append(
                words.format(heads=f"{len(heads)} of {counted(len(table), 'head')}", **numbers)
            )
    is_healthy = (
        (table["saturated_rows"] < 0.05)
        & (table["entropy_share"] < 0.95)
        & ("visible_mass" not in table)
    )
    is_healthy &= ~_is_far_from_1(table).all()
    return told or ([_HEALTHY] if is_healthy.all() else [])


def _is_far_from_1(heads: pd.DataFrame) -> pd.Series:
    """True where the spread is below 0.5 or above 2."""
    return ~heads["row_variance"].between(0.5**2, 2.0**2)


def _has_sink(heads: pd.DataFrame) -> pd.Series:
    """True where the first of at least 16 keys has most weight; with fewer, equal weights come near
    to it.
    """
    return (heads["first_key_weight"] > 0.5) & (heads["n_keys"] >= 16)


# A head that is so much sharper than Gaussian rows of its spread picks its keys: another divisor is
# no remedy.
_SHARPER = 0.1
# Rows that saturate on the first key idle on purpose; beside a sink logit, gradients of saturated
# rows may be large.
_ADVICE: tuple[tuple[Callable[[pd.DataFrame], pd.Series], str], ...] = (
    (
        lambda heads: (
            (heads["saturated_rows"] > 0.5)
            & (heads["first_key_weight"] < 0.5)
            & ~(heads["entropy_share"] < heads.get("entropy_share_exact", math.nan) - _SHARPER)
            & ("visible_mass" not in heads)
        ),
        "In {heads}, {saturated_rows} of the rows have a weight above 0.99, so their softmax "
        "passes almost no "
        "gradient. At the start of training that is a fault; a trained model may need such heads "
        "as they are.",
    ),
    (
        # A single large score among many keys gives a small spread, too, but not a large entropy.
        # Below a spread of 0.001, scores are equal but for rounding.
        lambda heads: heads["row_variance"].between(1e-6, 0.2**2) & (heads["entropy_share"] > 0.95),
        "In {heads}, the scores of a row have a spread of {spread}, so their weights are almost "
        "equal, and the "
        "head averages: to train on, {divide}.",
    ),
    (
        # All heads together: then the cause is rather the scale than what a head has learned.
        lambda heads: (heads["row_variance"] > 0) & (heads["row_variance"] > 2.0**2).all(),
        "In {heads}, the scores of a row have a spread of {spread}, far above 1: check that they "
        "are divided; to start "
        "training, {divide}.",
    ),
    (
        _has_sink,
        "In {heads}, the first key gets {first_key_weight} of the weight, so keep it in every "
        "cache and window: "
        "without it, other keys get this weight.",
    ),
)
_HEALTHY = (
    "Under 5% of the rows of each head are saturated, and none has almost equal weights on "
    "average, so nothing here "
    "asks for another divisor."
)


def _range(numbers: pd.Series, digits: int = 4) -> str:
    """The smallest and the largest number, or the only one."""
    return " to ".join(
        dict.fromkeys(
            f"{float(f'{number:.{digits}g}'):.6g}" for number in (numbers.min(), numbers.max())
        )
    )


def _with_gaussian(name: str) -> Callable[[Row], str]:
    """A value, and in brackets that of Gaussian rows, if it is known."""
    exact = f"{name}_exact"
    return lambda row: f"{row[name]:.2f} ({row[exact]:.2f})" if exact in row else f"{row[name]:.2f}"


_OF_VECTORS = ("ratio = length x alignment", "unit power")  # headings that scores alone do not have
# Headings of the columns after those that number heads, and the text of a row below each.
_COLUMNS: dict[str, Callable[[Row], str]] = {
    "rows": lambda row: str(row["rows"]),
    "spread": lambda row: f"{row['row_variance'] ** 0.5:.3g}",
    "ratio = length x alignment": lambda row: (
        f"{row['variance_ratio']:.3g} = {row['length_effect']:.3g} x {row['alignment_effect']:.3g}"
    ),
    "largest weight": _with_gaussian("max_weight"),
    "entropy share": _with_gaussian("entropy_share"),
    "saturated": lambda row: f"{row['saturated_rows']:.0%}",
    "first key": lambda row: f"{row['first_key_weight']:.2f}",
    "|J|_F": lambda row: f"{row['jacobian_norm_median']:.3g}",
    "unit power": lambda row: f"{row['unit_exponent']:.2f}",
}
