"""The growth of the score variance with d_k: slopes of log variance against log d_k, with standard errors.

The exact slope is that of the exact variances. For independent centred q and k it is 1 - 2 p under a divisor with the
power d_k^p: 1 for unscaled scores, 0 under d_k^1/2. The intervals are of 99.9%.
"""

import numpy as np
import pandas as pd
from scipy import special

from experiments.analysis.derived import Derived
from experiments.harness.columns import Column, axis_columns, names
from experiments.harness.discovery import axes_of
from experiments.harness.experiment import MEASURED, Experiment

LEVEL = 0.999


def shared_by_line(table: pd.DataFrame) -> list[str]:
    """The columns that identify a line: the axes besides d_k, and the scaling.

    >>> shared_by_line(pd.DataFrame(columns=["d_k", "n_keys", "scaling", "score_variance"]))
    ['n_keys', 'scaling']
    """
    return [*(name for name in axes_of(table) if name != "d_k"), "scaling"]


def fit_slopes(table: pd.DataFrame) -> pd.DataFrame:
    """One row per scaling (and combination of the other axes) with at least two values of d_k; otherwise empty.

    ln(variance) = y has the standard error e = se / variance; cells of different d_k are independent draws, so the
    least-squares slope b = sum c y, c = (x - mean x) / sum (x - mean x)^2, has the variance sum (c e)^2. The errors
    are themselves estimated from a number of trials, hence Student's t (Welch and Satterthwaite). The points have equal
    weights, because weights estimated from few trials favour points whose error came out too small.
    """
    rows = []
    shared = shared_by_line(table)
    for key, cells in table.groupby(shared, sort=False):
        if len(cells) < 2:
            continue
        x = np.log(cells["d_k"].to_numpy(dtype=float))
        variances = cells["score_variance"].to_numpy()
        errors = cells["score_variance_se"].to_numpy() / variances
        coefficients = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
        slope, added = float(coefficients @ np.log(variances)), (coefficients * errors) ** 2
        exact = cells["score_variance_exact"].to_numpy()
        error = float(np.sqrt(added.sum()))
        degrees = added.sum() ** 2 / (added**2 / (cells["trials"].to_numpy() - 1)).sum()
        quantile = -special.stdtrit(degrees, (1 - LEVEL) / 2)  # Student's t
        rows.append(
            {
                **dict(zip(shared, key, strict=True)),
                "exponent": cells["exponent"].iloc[0],
                "points": len(cells),
                "slope": slope,
                "slope_se": error,
                "slope_low": slope - quantile * error,
                "slope_high": slope + quantile * error,
                "slope_exact": float(coefficients @ np.log(exact)),
            }
        )
    return pd.DataFrame(rows, columns=[*shared, *names(_FITTED)])


_FITTED = (
    Column("exponent", "float", "p if the divisor is d_k^p; empty for any other rule", may_be_empty=True),
    Column("points", "int", "number of values of d_k in the fit"),
    Column("slope", "float", "least-squares slope of ln score_variance against ln d_k"),
    Column("slope_se", "float", "standard error of the slope, from the standard errors of the points"),
    Column("slope_low", "float", f"lower end of the {LEVEL:.1%} interval of the slope"),
    Column("slope_high", "float", f"upper end of the {LEVEL:.1%} interval of the slope"),
    Column(
        "slope_exact",
        "float",
        "the same slope of score_variance_exact; empty if an exact variance is unknown",
        may_be_empty=True,
    ),
)


def _columns(experiment: Experiment) -> tuple[Column, ...]:
    """The columns of slopes: the axes besides d_k, the scaling, then the fit."""
    axes = [column for column in axis_columns(experiment.cell) if column.name != "d_k"]
    return (*axes, *(column for column in experiment.columns if column.name == "scaling"), *_FITTED)


SLOPES = Derived(
    "slopes",
    needs=frozenset({"d_k", "score_variance_exact", "scaling", "exponent"}),
    columns=_columns,
    derive=lambda _, tables: fit_slopes(tables[MEASURED]),
)
