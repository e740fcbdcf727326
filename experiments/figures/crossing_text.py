"""Crossings in text: the d_k at which unscaled norms fall below scaled ones (d_k^1/2), measured and exact."""

import numpy as np
import pandas as pd

from experiments.analysis.crossings import EQUAL, TENTH
from experiments.figures.axes import plain
from experiments.figures.caption_text import listed, number

NORM_NAMES = {
    "jacobian": "|J|_F",
    "query_gradient": "|dL/dq|",
    "undivided_query_gradient": "divisor · |dL/dq|",
}
Kind = tuple[str, str, float]  # of a crossing: its norm, its statistic, and the level that the ratio crosses
_SHOWN: tuple[Kind, ...] = (
    ("jacobian", "median", EQUAL),
    ("jacobian", "median", TENTH),
    ("query_gradient", "median", EQUAL),
    ("query_gradient", "median", TENTH),
    ("undivided_query_gradient", "median", EQUAL),
    ("jacobian", "r.m.s.", EQUAL),
    ("query_gradient", "r.m.s.", EQUAL),
)
_LEVELS = {EQUAL: "equal", TENTH: "a tenth"}


def of_norm(table: pd.DataFrame, norm: str, statistic: str) -> pd.DataFrame:
    """The rows of one norm and statistic, from ratios or crossings.

    Args:
        table: of `experiments.analysis.crossings`.
        norm: a key of `NORM_NAMES`.
        statistic: `median` or `r.m.s.`.
    """
    return table[(table["norm"] == norm) & (table["statistic"] == statistic)]


def crossings_of(table: pd.DataFrame, kind: Kind) -> pd.DataFrame:
    """The crossings of one kind, in order of n_keys."""
    norm, statistic, level = kind
    rows = of_norm(table, norm, statistic)
    return rows[rows["level"] == level].sort_values("n_keys")


def crossing_list(crossings: pd.DataFrame) -> str:
    """The d_k of crossings of one kind, in order of n_keys: exact ones if known.

    Returns:
        `20.1, 72 and 170`, or `none up to 2048` if no ratio falls to the level.
    """
    found = [_exact_text(row) or crossing(row) for _, row in crossings.iterrows()]
    largest = crossings["largest_d_k"].iloc[0]
    if set(found) == {f">{largest}"}:
        return f"none up to {largest}"
    return listed(found)


def crossing(row: pd.Series) -> str:
    """A crossing with as many digits as its interval justifies; `>2048` or `<8` if it lies outside the sweep.

    A dash if no ratio is known.

    >>> row = {"level": 1.0, "crossing": 71.98, "crossing_low": 69.2, "crossing_high": 74.5, "ratio_at_largest": 0.1}
    >>> crossing(pd.Series(row))
    '72'
    """
    if np.isnan(row["ratio_at_largest"]):
        return "–"
    if np.isnan(row["crossing"]):
        below = row["ratio_at_largest"] > row["level"]
        return f">{plain(row['largest_d_k'])}" if below else f"<{plain(row['smallest_d_k'])}"
    ends = row[["crossing_low", "crossing_high"]].fillna(row["crossing"]).to_numpy(dtype=float)
    return number(float(row["crossing"]), float(ends[1] - ends[0]) / 4)


def _exact_text(row: pd.Series) -> str:
    """The exact crossing to three digits; empty if it is unknown."""
    return three_digits(row["crossing_exact"]) if pd.notna(row["crossing_exact"]) else ""


def three_digits(d_k: float) -> str:
    """A fractional d_k to three digits.

    >>> three_digits(71.619), three_digits(1029.2)
    ('71.6', '1030')
    """
    return f"{float(f'{d_k:.3g}'):g}"


def crossing_with_interval(row: pd.Series) -> str:
    """A crossing, the ends of its interval with the same decimals, and the exact crossing if it is known.

    An end outside the sweep is `<8` or `>2048`, below its smallest d_k or above its largest.

    >>> row = {"level": 1.0, "crossing": 71.98, "crossing_low": 69.2, "crossing_high": 74.5, "ratio_at_largest": 0.1}
    >>> crossing_with_interval(pd.Series(row | {"crossing_exact": 71.6}))
    '72 (69 to 74; exactly 71.6)'
    """
    text = crossing(row)
    if pd.isna(row["crossing"]):
        return text
    places = len(text.partition(".")[2])
    low, high = row["crossing_low"], row["crossing_high"]
    start = f"<{plain(row['smallest_d_k'])}" if np.isnan(low) else f"{low:.{places}f}"
    end = f">{plain(row['largest_d_k'])}" if np.isnan(high) else f"{high:.{places}f}"
    exact = f"; exactly {_exact_text(row)}" if _exact_text(row) else ""
    return f"{text} ({start} to {end}{exact})"


def law_is_inside(row: pd.Series) -> bool:
    """True if the law lies in the interval of the measured crossing, which may be open at an end of the sweep."""
    low, high = row["crossing_low"], row["crossing_high"]
    return bool((np.isnan(low) or low <= row["law"]) and (np.isnan(high) or row["law"] <= high))


def crossing_rows(crossings: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """A table of crossings with a row per n_keys: its head and its rows."""
    columns = [[crossing_with_interval(row) for _, row in crossings_of(crossings, kind).iterrows()] for kind in _SHOWN]
    keys = [plain(n_keys) for n_keys in sorted(crossings["n_keys"].unique())]
    head = [f"{statistic} of {NORM_NAMES[norm]}: {_LEVELS[level]}" for norm, statistic, level in _SHOWN]
    return ["n_keys", *head], [list(row) for row in zip(keys, *columns, strict=True)]
