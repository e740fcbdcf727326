"""Growth with d_k: slopes of the score variance, and interpolated curves.

Slopes are those of ln score_variance against ln d_k. The exact slope is that of the exact
variances: for independent centred q and k it is 1 - 2 p under a divisor with the power d_k^p.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from experiments.measuring.cells import RULE_COLUMNS, Floats
from experiments.measuring.columns import Column
from experiments.tables.derived import Derived, Field, fold
from experiments.tables.results import Results
from sdpa.theory.integrals import lagrange

_STEPS = 64  # places of an interpolated curve between neighbours, for the ends of its interval


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
    return fold(table, line, _fit)


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


def interpolated(x: Floats, y: Floats, low: Floats, high: Floats, exact: Floats) -> list[Floats]:
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

    def reach(of_points: Floats) -> Floats:
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


_FITTED = (
    Column(
        "exponent",
        "float",
        "p if the divisor is d_k^p; empty for any other rule",
        may_be_empty=True,
    ),
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
TABLES = (
    Derived(
        "slopes",
        needs={"d_k", "score_variance_exact", "scaling", "exponent"},
        own=(RULE_COLUMNS[0], *_FITTED),
        without="d_k",
        derive=fit_slopes,
    ),
)
