"""How fast the score variance grows with d_k: slopes of log variance against log d_k, with their errors."""

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from experiments.draws import AXES, TREATMENT
from experiments.harness.experiment import Column

Floats = npt.NDArray[np.float64]

LEVEL = 0.999
GROUP = [*(column.name for column in AXES if column.name != "d_k"), "scaling", "exponent"]

SLOPE_COLUMNS = (
    *(column for column in (*AXES, *TREATMENT) if column.name in GROUP),
    Column("points", "int", "", "values of d_k that the line is fitted to"),
    Column("slope", "float", "", "slope of ln score_variance against ln d_k, weighted least squares"),
    Column("slope_se", "float", "", "standard error of the slope, from the points' own standard errors"),
    Column("slope_low", "float", "", f"lower end of the {LEVEL:.1%} interval of the slope"),
    Column("slope_high", "float", "", f"upper end of the {LEVEL:.1%} interval of the slope"),
    Column("slope_exact", "float", "", "exact slope", "1 - 2 p"),
)


def fit_slopes(table: pd.DataFrame) -> pd.DataFrame:
    """One row per scaling (and combination of the other axes) with at least two values of d_k; empty if none has.

    ln(variance) has standard error se / variance; cells of different d_k are independent draws, so the weighted
    least-squares slope b = sum w (x - mean x) y / sum w (x - mean x)^2 has variance 1 / sum w (x - mean x)^2. The
    errors are themselves estimated from a number of trials: hence Student's t (Welch and Satterthwaite).
    """
    rows = []
    for key, cells in table.groupby(GROUP, sort=False):
        if len(cells) < 2:
            continue
        x = np.log(cells["d_k"].to_numpy(dtype=float))
        y = np.log(cells["score_variance"].to_numpy())
        errors = (cells["score_variance_se"] / cells["score_variance"]).to_numpy()
        (slope, _), covariance = np.polyfit(x, y, 1, w=1 / errors, cov="unscaled")
        error = np.sqrt(covariance[0, 0])
        degrees = _degrees_of_freedom(x, errors, cells["trials"].to_numpy())
        quantile = -special.stdtrit(degrees, (1 - LEVEL) / 2)  # Student's t
        group = dict(zip(GROUP, key, strict=True))
        rows.append(
            {
                **group,
                "points": len(cells),
                "slope": slope,
                "slope_se": error,
                "slope_low": slope - quantile * error,
                "slope_high": slope + quantile * error,
                "slope_exact": 1 - 2 * float(cells["exponent"].iloc[0]),
            }
        )
    return pd.DataFrame(rows, columns=[column.name for column in SLOPE_COLUMNS])


def _degrees_of_freedom(x: Floats, errors: Floats, trials: Floats) -> float:
    """(sum v)^2 / sum v^2 / (trials - 1), v being what each point's error adds to the slope's variance."""
    w = errors**-2.0
    added = (w * (x - np.average(x, weights=w)) * errors) ** 2
    return float(added.sum() ** 2 / (added**2 / (trials - 1)).sum())
