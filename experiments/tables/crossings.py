"""What grows with d_k: slopes of the variance of scores, ratios of gradient norms without and with
the division, and the d_k at which such a ratio falls through 1 and 0.1.

The main table of a sweep comes in; the derived tables `slopes`, `ratios` and `crossings` come out.

Slopes are those of ln score_variance against ln d_k. The exact slope is that of the exact
variances: for independent centred q and k it is 1 - 2 p under a divisor with the power d_k^p.

Ratios are those of norms, unscaled over d_k^1/2. Below a crossing the unscaled norm is larger than that
with d_k^1/2 (level 1), or than a tenth of it (level 0.1); above it, it is smaller.
"""

from collections.abc import Iterator
from math import exp, isnan, log, nan

import numpy as np
import pandas as pd

from experiments.kinds.support import is_few
from experiments.measuring.cells import RULE_COLUMNS
from experiments.measuring.columns import Column
from experiments.measuring.intervals import LEVEL
from experiments.measuring.metric import FEW_DRAWS
from experiments.tables.derived import Derived, Field, rows_by_group
from experiments.tables.results import Results, SweepAxes
from sdpa._arrays import FloatArray
from sdpa.scaling import SCALED, UNSCALED
from sdpa.theory.integrals import lagrange

NORM_STATISTICS = {"median": "_median", "r.m.s.": ""}
# Levels that ratios cross: the unscaled norm equals the scaled one, or a tenth of it.
EQUAL = 1.0
TENTH = 0.1
_RATIO = ["ratio", "ratio_low", "ratio_high"]
_SMALLEST = np.finfo(float).tiny  # replaces an interval's end of 0, so that it has a logarithm
_SCALED_SUFFIX = "_of_scaled"  # ends the columns of the scaled row in a pair
_MIN_D_K = 4  # needed to interpolate a crossing
_STEPS = 64  # places of an interpolated curve between neighbours, for the ends of its interval


# Norms to compare: the metric of the root mean square, and True for divisor * norm. dL/dq = K^T J g
# / divisor; times the divisor, it is the gradient that the softmax passes on.
NORMS = {
    "jacobian": ("jacobian_norm", False),
    "query_gradient": ("query_gradient_norm", False),
    "undivided_query_gradient": ("query_gradient_norm", True),
}


def fit_slopes(results: Results) -> pd.DataFrame:
    """One row per scaling (and combination of the other axes) with at least two values of d_k;
    otherwise empty.

    The standard error of y = ln(variance) is e = se / variance; cells of different d_k are
    independent draws, so the least-squares slope b = sum c y, c = (x - mean x) / sum (x - mean
    x)^2, has the variance sum (c e)^2. Points have equal weights, because estimated weights favour
    points whose error came out too small.
    """
    table = results.measured
    line = [*results.axes.among(table, "d_k"), "scaling"]
    return rows_by_group(table, line, _fit)


def _fit(cells: pd.DataFrame) -> Iterator[dict[str, Field]]:
    """The slope of one line, if it has two values of d_k, and no scores that are all equal."""
    if len(cells) < 2 or not (cells["score_variance"] > 0).all():
        return
    x = np.log(cells["d_k"].to_numpy(dtype=float))
    centred = x - x.mean()
    coefficients = centred / (centred**2).sum()
    variances = cells["score_variance"].to_numpy()
    errors = cells["score_variance_se"].to_numpy()
    exact = cells["score_variance_exact"].to_numpy()
    added = (coefficients * (errors / variances)) ** 2
    yield {
        "exponent": cells["exponent"].iloc[0],
        "points": len(cells),
        "slope": float(coefficients @ np.log(variances)),
        "slope_se": float(np.sqrt(added.sum())),
        "slope_exact": float(coefficients @ np.log(exact)),
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
    pairs = unscaled.merge(scaled, on=point, suffixes=("", _SCALED_SUFFIX))
    if table["d_k"].nunique() < 2 or pairs.empty:
        return pd.DataFrame()
    tables = []
    for norm, (metric, times_divisor) in NORMS.items():
        factor = pairs["divisor"] / pairs[f"divisor{_SCALED_SUFFIX}"] if times_divisor else 1.0
        for statistic, suffix in NORM_STATISTICS.items():
            ratio = _ratio(pairs, f"{metric}{suffix}", factor)
            tables.append(pairs[point].assign(**ratio, norm=norm, statistic=statistic))
    return pd.concat(tables)


def _ratio(
    pairs: pd.DataFrame, metric: str, factor: "float | pd.Series[float]"
) -> dict[str, object]:
    """The ratio of one metric of pairs of rows, times a factor; empty if one of the norms is 0."""

    def over(upper: str, lower: str) -> "pd.Series[float]":
        return factor * pairs[f"{metric}{upper}"] / pairs[f"{metric}{lower}{_SCALED_SUFFIX}"]

    high = over("_high", "_low")
    # A norm too small for a double is 0 and has no ratio.
    known = (pairs[metric] > 0) & (pairs[f"{metric}_low{_SCALED_SUFFIX}"] > 0) & np.isfinite(high)
    few = [
        np.where(is_few(pairs[f"{FEW_DRAWS}{rows}"], metric), name, "")
        for name, rows in ((UNSCALED, ""), (SCALED, _SCALED_SUFFIX))
    ]
    return {
        "ratio": over("", "").where(known),
        "ratio_low": over("_low", "_high").where(known),
        "ratio_high": high.where(known),
        "ratio_exact": over("_exact", "_exact") if f"{metric}_exact" in pairs else nan,
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
    return rows_by_group(ratios, kind, _crossings)


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
            exp(fall_through_zero(at, curve - log(level))) for curve in curves
        )
        if isnan(middle):
            low = high = nan
        yield {
            "level": level,
            "crossing": middle,
            "crossing_low": low,
            "crossing_high": high,
            "crossing_exact": exact,
            "smallest_d_k": cells["d_k"].min(),
            "largest_d_k": cells["d_k"].max(),
            "ratio_at_largest": known["ratio"].iloc[-1] if len(known) else nan,
        }


def interpolated(
    x: FloatArray, y: FloatArray, low: FloatArray, high: FloatArray, exact: FloatArray
) -> list[FloatArray]:
    """Places x at and between the points, and at each place y, the ends of its 95% interval, and
    the exact curve.

    Neighbours are independent draws, so that a curve sum_j A_j y_j has the reach sqrt(sum_j (A_j
    reach_j)^2). The function adds a bound of the cubics' error between the points: their distance
    from parabolas.

    Args:
        x: increasing, (points,).
        y, low, high: a value and the ends of its interval, (points,).
        exact: the exact value, NaN where unknown, (points,).

    Returns:
        Five arrays over 64 (points - 1) + 1 places: places, curve, lower end, upper end and exact
        curve.
    """
    at, weights = _local_polynomials(x, 4)
    _, coarser = _local_polynomials(x, 3)
    curve = weights @ y
    missed = np.abs((weights - coarser) @ y)

    def reach(distances: FloatArray) -> FloatArray:
        return missed + np.sqrt(weights**2 @ distances**2)

    lower = curve - reach(y - low)
    upper = curve + reach(high - y)
    known = np.isfinite(exact)
    exact_curve = weights @ np.where(known, exact, 0.0)
    exact_curve[(weights[:, ~known] != 0).any(axis=1)] = np.nan
    return [at, curve, lower, upper, exact_curve]


def _local_polynomials(x: FloatArray, size: int) -> tuple[FloatArray, FloatArray]:
    """Places at and between the points x, and the weight of each point there, (places, points).

    The weights are those of Lagrange's polynomial through `size` neighbours: one below the interval
    if it exists, the others above. Straight lines would put the crossing of a concave curve 1 to 2%
    too low at steps of a factor sqrt(2).

    >>> x = np.array([0.0, 1.0, 2.0, 4.0])
    >>> places, weights = _local_polynomials(x, 4)
    >>> bool(np.allclose(weights @ x**3, places**3))  # cubics are exact
    True
    """
    size = min(size, len(x))
    fractions = np.arange(_STEPS) / _STEPS
    places = []
    weights = []
    for i in range(len(x) - 1):
        first = min(max(i - 1, 0), len(x) - size)
        nodes = x[first : first + size]
        at = x[i] + (x[i + 1] - x[i]) * fractions
        interval_weights = np.zeros((_STEPS, len(x)))
        interval_weights[:, first : first + size] = lagrange(at, nodes)
        places.append(at)
        weights.append(interval_weights)
    places.append(x[-1:])
    weights.append(np.eye(len(x))[-1:])
    return np.concatenate(places), np.concatenate(weights)


def fall_through_zero(x: FloatArray, y: FloatArray) -> float:
    """The x at which the polygon through (x, y) last falls through 0; NaN if it never does.

    A fall goes from above 0 to 0 or below.

    >>> fall_through_zero(np.array([0.0, 1.0, 2.0]), np.array([-1.0, 3.0, -1.0]))
    1.75
    """
    is_fall = (y[:-1] > 0) & (y[1:] <= 0)
    falls = np.flatnonzero(is_fall)
    if not len(falls):
        return np.nan
    i = falls[-1]
    step = x[i + 1] - x[i]
    fall = y[i] - y[i + 1]
    return float(x[i] + step * y[i] / fall)


_FITTED = (
    *RULE_COLUMNS[:2],
    Column("points", "int", "number of values of d_k in the fit"),
    Column("slope", "float", "least-squares slope of ln score_variance against ln d_k"),
    Column(
        "slope_se", "float", "standard error of the slope, from the standard errors of the points"
    ),
    Column(
        "slope_exact",
        "float",
        "the same slope of score_variance_exact; empty if an exact variance is unknown",
        may_be_empty=True,
    ),
)
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
        "slopes",
        needs={"d_k", "score_variance_exact", "scaling", "exponent"},
        own=_FITTED,
        without="d_k",
        derive=fit_slopes,
    ),
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
