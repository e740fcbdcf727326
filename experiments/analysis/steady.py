"""The power p of d_k at which attention stays equally sharp: the mean largest weight neither rises nor falls with d_k.

The main table of a sweep comes in; the derived table `steady` comes out, a row for each pair of neighbouring d_k. With
m(d_k; p) the mean largest of n weights under the divisor d_k^p, between 1/n (equal weights) and 1 (saturated),

    L(d_k; p) = ln((m - 1/n) / (1 - m)),   growth y(p) = L(larger d_k; p) - L(smaller d_k; p).

The growth falls as p rises, and p is the place where it falls through 0. Unlike m, L is not flat near both ends.
Independent centred queries and keys give 1/2; a key that is a copy of its query gives 1, because its score grows as d_k
instead of sqrt(d_k).
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from experiments.analysis.derived import Derived
from experiments.analysis.interpolation import fall_through_zero, interpolated
from experiments.harness.columns import Column, axis_columns, names
from experiments.harness.discovery import axes_of
from experiments.harness.experiment import MEASURED, Experiment
from experiments.statistics.intervals import LEVEL

METRIC = "max_weight"
_VALUES = ("", "_low", "_high", "_exact")
_MIN_POWERS = 4  # needed to interpolate


def steady_powers(table: pd.DataFrame) -> pd.DataFrame:
    """The power of each pair of neighbouring d_k, for each combination of the other axes.

    Empty if fewer than 4 rules of the sweep are powers of d_k. `power` is empty unless 4 of them leave rows between the
    ends, and the growth is below 0 at the largest of them and above 0 at a smaller one.

    Args:
        table: a finished main table with the columns of _NEEDS.
    """
    others = [name for name in axes_of(table) if name != "d_k"]
    powers = table[table["exponent"].notna()].sort_values("exponent")
    rows = []
    if powers["exponent"].nunique() >= _MIN_POWERS:
        for key, cells in powers.groupby(others, sort=False):
            rows += [dict(zip(others, key, strict=True)) | pair for pair in _pairs(cells)]
    return pd.DataFrame(rows, columns=[*others, *names(_COLUMNS)])


def _pairs(cells: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The fields of each pair of neighbouring d_k, from rows that differ in d_k and in the exponent."""
    by_width = {d_k: rows.set_index("exponent") for d_k, rows in cells.groupby("d_k")}
    for (small, below), (large, above) in itertools.pairwise(sorted(by_width.items())):
        yield {"from_d_k": small, "to_d_k": large, **_power(below, above)}


def _power(below: pd.DataFrame, above: pd.DataFrame) -> dict[str, float]:
    """Where the growth between two d_k falls through 0, with its interval and its exact place.

    The d_k are independent draws, and the rules of a d_k share their draws.

    Args:
        below, above: the rows of the smaller and of the larger d_k, by their exponents, in order.
    """
    sharpness = [
        pd.DataFrame({name: _log_odds(rows, f"{METRIC}{name}") for name in _VALUES if f"{METRIC}{name}" in rows})
        for rows in (below, above)
    ]
    growth = sharpness[1] - sharpness[0]
    reaches = [
        np.hypot(sharpness[1][one] - sharpness[1][""], sharpness[0][other] - sharpness[0][""])
        for one, other in (("_low", "_high"), ("_high", "_low"))
    ]
    known = growth[["", "_low", "_high"]].notna().all(axis=1).to_numpy()
    if known.sum() < _MIN_POWERS:
        return dict.fromkeys(names(_COLUMNS)[2:], math.nan)
    x, y = growth.index.to_numpy(dtype=float)[known], growth[""].to_numpy()[known]
    exact = growth.get("_exact", growth[""] * math.nan).to_numpy()[known]
    reach_below, reach_above = (reach.to_numpy()[known] for reach in reaches)
    at, *curves = interpolated(x, y, y - reach_below, y + reach_above, exact, same_draws=True)
    middle, low, high, truth = (fall_through_zero(at, curve) if curve[-1] < 0 else math.nan for curve in curves)
    if math.isnan(middle):
        low = high = math.nan
    return {"power": middle, "power_low": low, "power_high": high, "power_exact": truth}


def _log_odds(rows: pd.DataFrame, column: str) -> pd.Series:
    """L of a column of largest weights; NaN at both ends of its range."""
    least = 1 / rows["n_keys"]
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log((rows[column] - least) / (1 - rows[column]))
    return odds.where(np.isfinite(odds))


def _columns(experiment: Experiment) -> tuple[Column, ...]:
    return (*(column for column in axis_columns(experiment.cell) if column.name != "d_k"), *_COLUMNS)


_COLUMNS = (
    Column("from_d_k", "int", "the smaller d_k"),
    Column("to_d_k", "int", "the larger d_k"),
    Column(
        "power",
        "float",
        f"power p of d_k in the divisor at which mean {METRIC} is the same at both d_k, interpolated between the "
        "powers of the sweep; empty if it lies outside them",
        f"{METRIC}(to_d_k; p) = {METRIC}(from_d_k; p)",
        may_be_empty=True,
    ),
    Column(
        "power_low",
        "float",
        f"lower end of the {LEVEL:.0%} interval of the power; empty if below the smallest power of the sweep",
        may_be_empty=True,
    ),
    Column(
        "power_high",
        "float",
        "upper end of the same interval; empty if above the largest power of the sweep",
        may_be_empty=True,
    ),
    Column(
        "power_exact",
        "float",
        "the same place on the interpolated exact values; empty if they are unknown or it lies outside the sweep",
        may_be_empty=True,
    ),
)
_NEEDS = frozenset({"d_k", "scaling", "exponent", METRIC, f"{METRIC}_low"})
STEADY = Derived("steady", _NEEDS, _columns, lambda _, tables: steady_powers(tables[MEASURED]))
