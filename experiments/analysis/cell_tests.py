"""One joint test of all values of a cell against the exact ones: the derived table `tests`."""

import numpy as np
import pandas as pd
from scipy import special

from experiments.analysis.derived import TESTS, VERDICTS, Derived, after_axes, columns_of_text
from experiments.analysis.results import SweepAxes
from experiments.analysis.verdicts import T_TEST, is_resolved
from experiments.analysis.written import significant
from experiments.measuring.columns import names
from experiments.measuring.intervals import MIN_DRAWS, MIN_DRAWS_OF_FOURTH_POWERS
from experiments.measuring.moments import CORRELATIONS
from experiments.measuring.rules import Floats

# A cell's test uses the first direction and at most one for this many trials and rows, each above
# this share of the variance: finer contrasts of nearly equal metrics are the least normal, and
# reach the accuracy of the exact values. A contrast needs as many trials and rows as a mean needs
# effective draws. With one query per trial, few rows carry it: without the limit of rows, 19 of 300
# honest runs of one_query_100 (benchmarks/calibration) raise the alarm. With 25 trials per
# direction, 0.25% of honest cells of d_k = 1, four keys and queries, rms and 100 trials have p <
# 3.3e-4.
_PER_DIRECTION = MIN_DRAWS
_MIN_SHARE = 1e-2


def cell_tests(
    table: pd.DataFrame, axes: SweepAxes, correlations: pd.DataFrame, judged: pd.DataFrame
) -> pd.DataFrame:
    """One row per cell of at least 20 trials and 100 rows: a joint test of all its values against
    the exact ones.

    The z-scores of a cell depend on each other, because metrics and scalings share its draws. With
    R their correlation between draws, V its leading eigenvectors and L their eigenvalues, |L^(-1/2)
    V^T z|^2 is Hotelling's T^2 of those directions: k (T - 1) / (T - k) times an F of k and T - k
    degrees of freedom for T trials, as far as means of trials are normal. R alone determines the
    directions, not z. z is in units of the values' own standard errors, on which R rests too. Draws
    that miss rare large values understate these, and an error rests on second powers: so with fewer
    effective draws than fourth powers need, L follows from the errors of the verdicts, which theory
    keeps up.

    Args:
        table: measured values, with their exact ones.
        axes: of its cells.
        correlations: one row per value: its correlation between draws with each value of the cell,
            in order.
        judged: the verdicts of the table; the test uses only values that t judges.
    """
    point_names = axes.among(table)
    has_correlations = judged["metric"].isin(correlations["metric"])  # a quantile has none
    by_t = judged[(judged["test"] == T_TEST) & is_resolved(judged) & has_correlations]
    tested = dict(list(by_t.groupby(point_names, sort=False)))
    matrices = dict(list(correlations.groupby(point_names, sort=False)))
    rows = []
    for point, cell in table.groupby(point_names, sort=False):
        first = cell.iloc[0]
        # An experiment without queries has one row per trial.
        rows_in_all = first["trials"] * first.get("n_queries", 1)
        if point in tested and rows_in_all >= _PER_DIRECTION:
            identity = dict(zip(point_names, point, strict=True))
            trials = int(first["trials"])
            rows.append(identity | _cell_test(tested[point], matrices[point], trials))
    return pd.DataFrame(rows, columns=[*point_names, *names(_TEST)])


def _cell_test(values: pd.DataFrame, matrix: pd.DataFrame, trials: int) -> dict[str, float]:
    """The test of the values of one cell, from their correlations and the number of draws."""
    order = list(zip(matrix["scaling"], matrix["metric"], strict=True))
    tested = zip(values["scaling"], values["metric"], strict=True)
    chosen = [order.index(value) for value in tested]
    whole = np.stack(list(matrix["correlations"]))
    correlation = whole[np.ix_(chosen, chosen)]
    z = ((values["measured"] - values["exact"]) / values["se"]).to_numpy()
    scarce = values["effective_draws"] < MIN_DRAWS_OF_FOURTH_POWERS
    error = (values["error"] / values["se"]).where(scarce, 1.0).to_numpy()
    most = max(1, trials // _PER_DIRECTION)
    directions, statistic = _leading(z, correlation, error, most)
    ratio = statistic * (trials - directions) / (directions * (trials - 1))
    return {
        "trials": trials,
        "values": len(z),
        "directions": directions,
        "statistic": significant(statistic),
        "p_value": significant(special.fdtrc(directions, trials - directions, ratio)),
    }


def _leading(z: Floats, correlation: Floats, error: Floats, most: int) -> tuple[int, float]:
    """The number of leading principal directions in the test, at most `most`, and sum_i (v_i . z)^2
    / M_i over them.

    A direction v_i counts if its eigenvalue L_i of the correlation R exceeds 0.01. M_i = v_i^T E R
    E v_i, with E the errors in units of the standard errors, is L_i if no error exceeds these, and
    otherwise larger.

    >>> z, correlation = np.array([2.0, 2.0]), np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> [round(_leading(z, correlation, np.full(2, error), most=1)[1], 4) for error in (1, 2)]  # along (1, 1): 8 / 1.5
    [5.3333, 1.3333]
    """
    shares, directions = np.linalg.eigh(correlation)
    count = min(int((shares > _MIN_SHARE).sum()), most)
    directions = directions[:, ::-1][:, :count]
    spread = error[:, None] * directions
    variances = (spread * (correlation @ spread)).sum(axis=0)
    squares = (z @ directions) ** 2
    return count, float((squares / variances).sum())


_TEST = columns_of_text(
    """
    trials int independent draws of (Q, K)
    values int number of measured values of the cell in the comparison with exact ones
    directions int number of leading principal directions of their correlation in the joint test
    statistic float sum of squares of the z-scores in those directions (Hotelling's T^2)
    p_value float probability of a statistic at least this large if measured and exact values agree
    """
)
TABLES = (
    Derived(
        TESTS,
        needs={"correlations"},
        columns=after_axes(_TEST),
        derive=lambda results: cell_tests(
            results.measured, results.axes, results[CORRELATIONS], results[VERDICTS]
        ),
        source=CORRELATIONS,
    ),
)
