"""Growth with d_k: slopes of the score variance, and the power of d_k that keeps weights equally
sharp.

Slopes are those of ln score_variance against ln d_k. The exact slope is that of the exact
variances: for independent centred q and k it is 1 - 2 p under a divisor with the power d_k^p. The
intervals are of 99.9%.

The power p of d_k at which the mean largest weight neither rises nor falls with d_k is interpolated
between the powers of a sweep, for each pair of neighbouring d_k. With m(d_k; p) the mean largest of
n weights under the divisor d_k^p, between 1/n (equal weights) and 1 (saturated),

    L(d_k; p) = ln((m - 1/n) / (1 - m)),   growth y(p) = L(larger d_k; p) - L(smaller d_k; p).

The growth falls as p rises, and p is the place where it falls through 0. Unlike m, L is not flat
near both ends. Independent centred queries and keys give 1/2; a key that is a copy of its query
gives 1, because its score grows as d_k instead of sqrt(d_k).
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import special

from experiments.analysis.derived import Derived, Field, after_axes, columns_of_text, fold
from experiments.analysis.results import Results
from experiments.measuring.columns import names
from experiments.measuring.intervals import LEVEL
from experiments.measuring.rules import TREATMENT, Floats
from sdpa.theory.integrals import lagrange

_SLOPE_LEVEL = 0.999  # of the intervals of slopes
_SHARPNESS = "max_weight"
_VALUES = ("", "_low", "_high", "_exact")
_MIN_POWERS = 4  # needed to interpolate
_STEPS = 64  # places of an interpolated curve between neighbours, for the ends of its interval


def shared_by_line(results: Results) -> list[str]:
    """The columns that identify a line: the axes besides d_k, and the scaling."""
    return [*results.axes.among(results.measured, "d_k"), "scaling"]


def fit_slopes(results: Results) -> pd.DataFrame:
    """One row per scaling (and combination of the other axes) with at least two values of d_k;
    otherwise empty.

    ln(variance) = y has the standard error e = se / variance; cells of different d_k are
    independent draws, so the least-squares slope b = sum c y, c = (x - mean x) / sum (x - mean
    x)^2, has the variance sum (c e)^2. The errors are estimates, hence Student's t (Welch and
    Satterthwaite). Points have equal weights, because estimated weights favour points whose error
    came out too small.
    """
    return fold(results.measured, shared_by_line(results), _fit, names(_FITTED))


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
    slope = float(coefficients @ np.log(variances))
    added = (coefficients * (errors / variances)) ** 2
    error = float(np.sqrt(added.sum()))
    degrees_of_points = cells["trials"].to_numpy() - 1
    degrees = added.sum() ** 2 / (added**2 / degrees_of_points).sum()
    reach = -special.stdtrit(degrees, (1 - _SLOPE_LEVEL) / 2) * error  # Student's t
    yield {
        "exponent": cells["exponent"].iloc[0],
        "points": len(cells),
        "slope": slope,
        "slope_se": error,
        "slope_low": slope - reach,
        "slope_high": slope + reach,
        "slope_exact": float(coefficients @ np.log(exact)),
    }


def steady_powers(results: Results) -> pd.DataFrame:
    """The power of each pair of neighbouring d_k, for each combination of the other axes.

    Empty if fewer than 4 rules of the sweep are powers of d_k. `power` is empty unless 4 of them
    leave rows between the ends, and the growth is below 0 at the largest of them and above 0 at a
    smaller one.
    """
    table = results.measured
    others = results.axes.among(table, "d_k")
    powers = table[table["exponent"].notna()].sort_values("exponent")
    if powers["exponent"].nunique() < _MIN_POWERS:
        powers = powers.head(0)
    return fold(powers, others, _pairs, names(_POWERS))


def _pairs(cells: pd.DataFrame) -> Iterator[dict[str, Field]]:
    """The fields of each pair of neighbouring d_k, from rows that differ in d_k and in the
    exponent.
    """
    by_width = [(d_k, _log_odds(rows)) for d_k, rows in cells.groupby("d_k")]
    for (small, below), (large, above) in itertools.pairwise(by_width):
        power, low, high, exact = _power(below, above)
        yield {
            "from_d_k": small,
            "to_d_k": large,
            "power": power,
            "power_low": low,
            "power_high": high,
            "power_exact": exact,
        }


def _log_odds(rows: pd.DataFrame) -> pd.DataFrame:
    """L of the mean largest weight, of the ends of its interval and of its exact value, by
    exponent; NaN at both ends of its range, and where the exact value is unknown.
    """
    rows = rows.set_index("exponent")
    least = 1 / rows["n_keys"]
    found = {}
    for end in _VALUES:
        weights = rows.get(f"{_SHARPNESS}{end}", pd.Series(math.nan, rows.index))
        with np.errstate(divide="ignore", invalid="ignore"):
            found[end] = np.log((weights - least) / (1 - weights))
    return pd.DataFrame(found).replace([-math.inf, math.inf], math.nan)


def _power(small: pd.DataFrame, large: pd.DataFrame) -> tuple[float, float, float, float]:
    """The power at which the growth between two d_k falls through 0, the ends of its interval and
    its exact value, from the log odds at both.
    """
    growth = (large - small).dropna(subset=["", "_low", "_high"])
    if len(growth) < _MIN_POWERS:
        return math.nan, math.nan, math.nan, math.nan
    ends = (rows.sub(rows[""], axis=0).loc[growth.index] for rows in (small, large))
    of_small, of_large = ends
    x = growth.index.to_numpy(dtype=float)
    y = growth[""].to_numpy()
    below = np.hypot(of_large["_low"], of_small["_high"]).to_numpy()
    above = np.hypot(of_large["_high"], of_small["_low"]).to_numpy()
    exact = growth["_exact"].to_numpy()
    at, *curves = interpolated(x, y, y - below, y + above, exact, same_draws=True)
    power, low, high, true = (
        fall_through_zero(at, curve) if curve[-1] < 0 else math.nan for curve in curves
    )
    if math.isnan(power):
        low = high = math.nan
    return power, low, high, true


def interpolated(
    x: Floats, y: Floats, low: Floats, high: Floats, exact: Floats, *, same_draws: bool = False
) -> list[Floats]:
    """Places x at and between the points, and at each place y, the ends of its 95% interval, and
    the exact curve.

    If neighbours are independent draws, a curve sum_j A_j y_j has the reach sqrt(sum_j (A_j
    reach_j)^2); for values of the same draws, sum_j |A_j| reach_j holds for any correlation. The
    function adds a bound of the cubics' error between the points: their distance from parabolas.

    Args:
        x: increasing, (points,).
        y, low, high: a value and the ends of its interval, (points,).
        exact: the exact value, NaN where unknown, (points,).
        same_draws: True if the values at different x come from the same draws.

    Returns:
        Five arrays over 64 (points - 1) + 1 places: places, curve, lower end, upper end and exact
        curve.
    """
    at, weights = _local_polynomials(x, 4)
    _, coarser = _local_polynomials(x, 3)
    curve = weights @ y
    missed = np.abs((weights - coarser) @ y)

    def reach(of_points: Floats) -> Floats:
        if same_draws:
            return missed + np.abs(weights) @ of_points
        return missed + np.sqrt(weights**2 @ of_points**2)

    lower = curve - reach(y - low)
    upper = curve + reach(high - y)
    known = np.isfinite(exact)
    exact_curve = weights @ np.where(known, exact, 0.0)
    exact_curve[(weights[:, ~known] != 0).any(axis=1)] = np.nan
    return [at, curve, lower, upper, exact_curve]


def _local_polynomials(x: Floats, size: int) -> tuple[Floats, Floats]:
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
        of_interval = np.zeros((_STEPS, len(x)))
        of_interval[:, first : first + size] = lagrange(at, nodes)
        places.append(at)
        weights.append(of_interval)
    places.append(x[-1:])
    weights.append(np.eye(len(x))[-1:])
    return np.concatenate(places), np.concatenate(weights)


def fall_through_zero(x: Floats, y: Floats) -> float:
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


_FITTED = columns_of_text(
    f"""
    exponent float? p if the divisor is d_k^p; empty for any other rule
    points int number of values of d_k in the fit
    slope float least-squares slope of ln score_variance against ln d_k
    slope_se float standard error of the slope, from the standard errors of the points
    slope_low float lower end of the {_SLOPE_LEVEL:.1%} interval of the slope
    slope_high float upper end of the {_SLOPE_LEVEL:.1%} interval of the slope
    slope_exact float? the same slope of score_variance_exact; empty if an exact variance is unknown
    """
)
_POWERS = columns_of_text(
    f"""
    from_d_k int the smaller d_k
    to_d_k int the larger d_k
    power float? power p of d_k in the divisor at which mean {_SHARPNESS} is the same at both d_k, interpolated between
        the powers of the sweep; empty if it lies outside them
        := {_SHARPNESS}(to_d_k; p) = {_SHARPNESS}(from_d_k; p)
    power_low float? lower end of the {LEVEL:.0%} interval of the power; empty if below the smallest power of
        the sweep
    power_high float? upper end of the same interval; empty if above the largest power of the sweep
    power_exact float? the same place on the interpolated exact values; empty if they are unknown or it lies outside
        the sweep
    """
)
TABLES = (
    Derived(
        "slopes",
        needs={"d_k", "score_variance_exact", "scaling", "exponent"},
        columns=after_axes([TREATMENT[0], *_FITTED], but="d_k"),
        derive=fit_slopes,
    ),
    Derived(
        "steady",
        needs={"d_k", "scaling", "exponent", _SHARPNESS, f"{_SHARPNESS}_low"},
        columns=after_axes(_POWERS, but="d_k"),
        derive=steady_powers,
    ),
)
