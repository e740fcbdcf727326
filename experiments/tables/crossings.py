"""Ratios of gradient norms, unscaled over d_k^1/2, and the d_k at which a ratio falls through 1 and
through 0.1.

The main table of a sweep comes in; the derived tables `ratios` and `crossings` come out. Below a
crossing the unscaled norm is larger than that with d_k^1/2 (level 1), or than a tenth of it (level
0.1); above it, it is smaller.
"""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from experiments.kinds.support import is_few
from experiments.measuring.columns import Column
from experiments.measuring.intervals import LEVEL
from experiments.measuring.metric import FEW_DRAWS
from experiments.tables.derived import Derived, Field, fold
from experiments.tables.results import Results, SweepAxes
from experiments.tables.slopes import fall_through_zero, interpolated
from sdpa.scaling import SCALED, UNSCALED

NORM_STATISTICS = {"median": "_median", "r.m.s.": ""}
# Levels that ratios cross: the unscaled norm equals the scaled one, or a tenth of it.
EQUAL = 1.0
TENTH = 0.1
_RATIO = ["ratio", "ratio_low", "ratio_high"]
_SMALLEST = np.finfo(float).tiny  # replaces an interval's end of 0, so that it has a logarithm
_OF_SCALED = "_of_scaled"  # ends the columns of the scaled row in a pair
_MIN_D_K = 4  # needed to interpolate a crossing


# Norms to compare: the metric of the root mean square, and True for divisor * norm. dL/dq = K^T J g
# / divisor; times the divisor, it is the gradient that the softmax passes on.
NORMS = {
    "jacobian": ("jacobian_norm", False),
    "query_gradient": ("query_gradient_norm", False),
    "undivided_query_gradient": ("query_gradient_norm", True),
}


def norm_ratios(results: Results) -> pd.DataFrame:
    """Ratio of each norm and statistic at each point of a sweep that varies d_k and has both rules;
    otherwise empty.

    The interval is (low / high, high / low) of the two norms' own intervals. With normal errors it
    holds at least as often as these do, whatever their correlation. Both rules see the same draws,
    and a more peaked row has a larger scaled norm and a smaller unscaled one.

    Returns:
        One row per point, norm (NORMS) and statistic (NORM_STATISTICS), with the axes of the point.
    """
    table = results.measured
    point = results.axes.among(table)
    unscaled, scaled = (table[table["scaling"] == name] for name in (UNSCALED, SCALED))
    # Joined once: pandas takes long to compare axes.
    pairs = unscaled.merge(scaled, on=point, suffixes=("", _OF_SCALED))
    if table["d_k"].nunique() < 2 or pairs.empty:
        return pd.DataFrame()
    parts = []
    for norm, (metric, times_divisor) in NORMS.items():
        factor = pairs["divisor"] / pairs[f"divisor{_OF_SCALED}"] if times_divisor else 1.0
        for statistic, suffix in NORM_STATISTICS.items():
            ratio = _ratio(pairs, f"{metric}{suffix}", factor)
            parts.append(pairs[point].assign(**ratio, norm=norm, statistic=statistic))
    return pd.concat(parts)


def _ratio(
    pairs: pd.DataFrame, metric: str, factor: "float | pd.Series[float]"
) -> dict[str, object]:
    """The ratio of one metric of pairs of rows, times a factor; empty if one of the norms is 0."""

    def over(upper: str, lower: str) -> "pd.Series[float]":
        return factor * pairs[f"{metric}{upper}"] / pairs[f"{metric}{lower}{_OF_SCALED}"]

    high = over("_high", "_low")
    # A norm too small for a double is 0 and has no ratio.
    known = (pairs[metric] > 0) & (pairs[f"{metric}_low{_OF_SCALED}"] > 0) & np.isfinite(high)
    few = [
        np.where(is_few(pairs[f"{FEW_DRAWS}{rows}"], metric), name, "")
        for name, rows in ((UNSCALED, ""), (SCALED, _OF_SCALED))
    ]
    return {
        "ratio": over("", "").where(known),
        "ratio_low": over("_low", "_high").where(known),
        "ratio_high": high.where(known),
        "ratio_exact": over("_exact", "_exact") if f"{metric}_exact" in pairs else math.nan,
        FEW_DRAWS: [" ".join(filter(None, names)) for names in zip(*few, strict=True)],
    }


def crossings(ratios: pd.DataFrame, axes: SweepAxes) -> pd.DataFrame:
    """Crossing of each norm, statistic and level for each combination of the axes besides d_k.

    The function interpolates ln ratio in ln d_k, with an interval at every d_k. The crossing's
    interval begins where the lower end falls through the level, and ends where the upper end does.
    No rows for fewer than 4 d_k. The last fall through a level counts; without one, the crossing is
    empty.

    Args:
        ratios: of `norm_ratios`.
        axes: of its cells.
    """
    kind = [*axes.among(ratios, "d_k"), "norm", "statistic"]
    if ratios["d_k"].nunique() < _MIN_D_K:
        ratios = ratios.head(0)
    return fold(ratios, kind, _crossings)


def _crossings(cells: pd.DataFrame) -> Iterator[dict[str, Field]]:
    """The crossing of each level in a group of cells that differ only in d_k; none for fewer than 4
    known ratios.
    """
    known = cells.dropna(subset=_RATIO).sort_values("d_k")
    if len(known) < _MIN_D_K:
        known = known.head(0)
    x = np.log(known["d_k"].to_numpy(dtype=float))
    ratios = known[[*_RATIO, "ratio_exact"]].clip(lower=_SMALLEST)
    at, *curves = interpolated(x, *np.log(ratios.to_numpy(dtype=float)).T)
    for level in (EQUAL, TENTH):
        middle, low, high, exact = (
            math.exp(fall_through_zero(at, curve - math.log(level))) for curve in curves
        )
        if math.isnan(middle):
            low = high = math.nan
        yield {
            "level": level,
            "crossing": middle,
            "crossing_low": low,
            "crossing_high": high,
            "crossing_exact": exact,
            "smallest_d_k": cells["d_k"].min(),
            "largest_d_k": cells["d_k"].max(),
            "ratio_at_largest": known["ratio"].iloc[-1] if len(known) else math.nan,
        }


_KIND = (
    Column(
        "norm",
        "str",
        f"norm of a row: {', '.join(NORMS)} (|J|_F, |dL/dq|, and divisor times |dL/dq|)",
    ),
    Column(
        "statistic", "str", f"statistic of the norm over all rows: {' or '.join(NORM_STATISTICS)}"
    ),
)
_RATIO_COLUMNS = (
    *_KIND,
    Column(
        "ratio",
        "float",
        f"{UNSCALED} norm divided by the norm under {SCALED}; empty if one of them is 0",
        may_be_empty=True,
    ),
    Column(
        "ratio_low",
        "float",
        f"lower end of the {LEVEL:.0%} interval of the ratio, valid for any correlation of the two norms",
        may_be_empty=True,
    ),
    Column("ratio_high", "float", "upper end of the same interval", may_be_empty=True),
    Column(
        "ratio_exact",
        "float",
        "ratio of the exact norms; empty if they are unknown",
        may_be_empty=True,
    ),
    Column(
        FEW_DRAWS,
        "str",
        "scalings whose norm has too few effective draws for a reliable interval",
        may_be_empty=True,
    ),
)
_CROSSING = (
    Column("level", "float", f"level that the ratio crosses: {EQUAL:g} or {TENTH:g}"),
    Column(
        "crossing",
        "float",
        "d_k at which the ratio falls through the level; empty if it does not within the sweep",
        "ratio(crossing) = level",
        may_be_empty=True,
    ),
    Column(
        "crossing_low",
        "float",
        f"lower end of the {LEVEL:.0%} interval of the crossing; empty if below the smallest d_k",
        may_be_empty=True,
    ),
    Column(
        "crossing_high",
        "float",
        "upper end of the same interval; empty if above the largest d_k",
        may_be_empty=True,
    ),
    Column(
        "crossing_exact",
        "float",
        "crossing of the exact ratios; empty if they are unknown or do not cross within the sweep",
        may_be_empty=True,
    ),
    Column("smallest_d_k", "int", "smallest d_k of the sweep"),
    Column("largest_d_k", "int", "largest d_k of the sweep"),
    Column(
        "ratio_at_largest",
        "float",
        "ratio at the largest d_k with a known ratio",
        may_be_empty=True,
    ),
)
_NEEDS = ("inputs", "jacobian_norm", "query_gradient_norm")
TABLES = (
    Derived(
        "ratios",
        needs=_NEEDS,
        own=_RATIO_COLUMNS,
        derive=norm_ratios,
    ),
    Derived(
        "crossings",
        needs=("ratio",),
        source="ratios",
        own=(*_KIND, *_CROSSING),
        without="d_k",
        derive=lambda results: crossings(results["ratios"], results.axes),
    ),
)
