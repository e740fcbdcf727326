"""The distance of every measured value from its exact one, with the test that its draws allow; one
test per cell.

A finished main table comes in; the derived tables `verdicts` (one row per value) and `tests` (one
row per cell) come out. `experiments.analysis.agreement` combines them and raises the alarm; nothing
here does.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from experiments.analysis.derived import (
    TESTS,
    VERDICTS,
    Derived,
    columns_of_text,
    of_cells,
    row_cells,
)
from experiments.analysis.results import Axes
from experiments.measuring.columns import Column, axis_columns, names
from experiments.measuring.experiment import ACCURACY, Cell, Experiment
from experiments.measuring.intervals import (
    MIN_DRAWS,
    MIN_DRAWS_OF_FOURTH_POWERS,
    MIN_SEPARATE_ROWS,
    Limits,
)
from experiments.measuring.metric import FEW_DRAWS, Metric
from experiments.measuring.moments import CORRELATIONS

Floats = npt.NDArray[np.floating]

# A cell's test uses the first direction and at most one for this many trials and rows, each above
# this share of the variance: finer contrasts of nearly equal metrics are the least normal, and
# reach the accuracy of the exact values. A contrast needs as many trials and rows as a mean needs
# effective draws. With one query per trial, few rows carry it: without the limit of rows, 19 of 300
# honest runs of one_query_100 (benchmarks/calibration) raise the alarm. With 25 trials per
# direction, 0.25% of honest cells of d_k = 1, four keys and queries, rms and 100 trials have p <
# 3.3e-4.
_PER_DIRECTION = MIN_DRAWS
_MIN_SHARE = 1e-2

T_TEST, BOUND, NONE = "t", "bound", "none"
FEW_TRIALS = "too few trials"
TOO_FEW = "too few effective draws"
TOO_RARE = "events too rare for any run"
NO_ERROR = "inputs have no moment behind its error"
_MAX_TRIALS = 1e9  # the most that a run can take


def verdicts(experiment: Experiment, table: pd.DataFrame, cells: Iterable[Cell]) -> pd.DataFrame:
    """One row for every measured value with a known exact value.

    Student's t tests a mean of at least `min_draws` effective draws, `min_trials` and 50 separate
    rows (`AttentionCell.separate_rows`). A mean of fewer draws is not normal: where most rows are
    saturated, the few near a tie carry both the mean and its standard error (sizes:
    `experiments.measuring.intervals`). The mean m of T independent draws between 0 and 1 still
    exceeds its expectation mu with a probability of at most e^(-T D), where D = m ln(m / mu) + (1 -
    m) ln((1 - m) / (1 - mu)) (Chernoff 1952; Hoeffding 1963, theorem 1). For draws without a limit
    and with a variance of at most v, the mean is off by |m - mu| with a probability of at most v /
    (T (m - mu)^2) (Chebyshev).

    Args:
        experiment: declares the metrics and their exact values.
        table: its finished main table.
        cells: of the sweep, in the order of the table.

    Returns:
        Rows with the index of their row in table, so that one label may have several verdicts.
    """
    declared = names(_verdict_columns(experiment))
    # Means and shares before roots: the order of the rows of verdicts.csv.
    metrics = sorted(experiment.metrics, key=lambda metric: metric.kind == "root")
    known = {metric.name: metric for metric in metrics if metric.exact is not None}
    frames, of_rows = {}, pd.Series(row_cells(cells), table.index, dtype=object)
    for metric in known.values():
        rows = table[table[f"{metric.name}_exact"].notna()]
        if len(rows):
            frames[metric.name] = _compared(experiment, rows, metric, of_rows[rows.index])
    if not frames:
        return pd.DataFrame(columns=declared)
    for name, frame in frames.items():
        like, enough = (
            frames[known[name].draws_like or name]["effective_draws"],
            known[name].min_draws,
        )
        frame["few"] = ~(like >= enough)
        frame["rare"] = frame["few"] & (like * (_MAX_TRIALS / frame["trials"]) < enough)
        frame["few_trials"] = frame["trials"] < known[name].min_trials
        frame["few"] |= frame["separate"] < MIN_SEPARATE_ROWS
    rows = pd.concat(frames.values()).sort_index(kind="stable")  # the index is that of the table
    return _judged(rows)[declared]


def _compared(
    experiment: Experiment, rows: pd.DataFrame, metric: Metric, cells: Iterable[Cell]
) -> pd.DataFrame:
    """A metric beside its known exact values, with the error of its test, its effective draws and
    its bound.
    """
    bounds = [metric.exact.bound(cell) for cell in cells]  # type: ignore[union-attr]
    exact = rows[f"{metric.name}_exact"].abs().to_numpy()
    floor = np.divide(
        [bound.floor for bound in bounds], exact, out=np.zeros(len(rows)), where=exact > 0
    )
    relative = [max(ACCURACY, bound.relative) for bound in bounds]
    accuracy = np.maximum(relative, floor)
    separate = rows["trials"] * [cell.separate_rows for cell in cells]
    least, largest = (
        of_cells(deviation, cells) / np.sqrt(rows["trials"].to_numpy())
        for deviation in (metric.exact.min_deviation, metric.exact.max_deviation)  # type: ignore[union-attr]
    )
    if metric.kind == "root":
        # Deviation of the mean square; that of its root x follows from d(x^2) = 2 x dx.
        least = np.divide(least, 2 * exact, out=np.zeros_like(least), where=exact > 0)
    columns = [name for name in names(_verdict_columns(experiment)) if name in rows]
    frame = rows[columns].assign(
        metric=metric.name,
        measured=rows[metric.name],
        se=rows[f"{metric.name}_se"],
        exact=rows[f"{metric.name}_exact"],
        accuracy=accuracy,
        separate=separate,
        error=np.maximum.reduce([rows[f"{metric.name}_se"].to_numpy(), least, accuracy * exact]),
    )
    # If a value and its error are far too large, the exact value would seem to rest on few draws.
    draws = (
        metric.effective_draws(rows, frame[value], frame["error"])
        for value in ("measured", "exact")
    )
    return frame.assign(
        effective_draws=np.maximum(*draws),
        bound=_bound(frame, metric, metric.limits(rows), largest),
    )


def _bound(rows: pd.DataFrame, metric: Metric, limits: Limits, max_error: Floats) -> pd.Series:
    """The bound of the p-value: Chernoff's for values moved from their limits to 0 and 1, or else
    Chebyshev's.

    These are min(1, 2 e^(-T D)) with D of `verdicts`, and min(1, (max_error / distance)^2), with
    max_error that of the mean; NaN without two limits and a finite error.
    """
    power = 2 if metric.kind == "root" else 1  # of the value that is a mean
    measured, exact = rows["measured"] ** power, rows["exact"] ** power
    chebyshev = ((max_error / (measured - exact)) ** 2).clip(upper=1).where(np.isfinite(max_error))
    low, high = np.power(limits.low, power), np.power(limits.high, power)
    width = np.broadcast_to(high - low, len(rows)).astype(float)
    if not np.isfinite(width).all():
        return chebyshev
    share, expected = (((values - low) / width).clip(0, 1) for values in (measured, exact))
    divergence = special.rel_entr(share, expected) + special.rel_entr(1 - share, 1 - expected)
    return (2 * np.exp(-rows["trials"] * divergence)).clip(upper=1).fillna(chebyshev)


def _judged(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with z, the test that the draws allow (t, or else a bound), its p-value, and why t
    does not judge.
    """
    distance = (rows["measured"] - rows["exact"]).to_numpy()
    # Without an error, for example if an exact value is 0 to the precision of a double, only a
    # bound judges. With an infinite one, nothing does.
    endless = np.isinf(rows["error"])
    z = pd.Series(
        np.divide(distance, rows["error"], out=np.zeros(len(rows)), where=rows["error"] > 0),
        rows.index,
    )
    by_t = ~rows["few_trials"] & ~rows["few"] & ~endless
    by_bound = ~by_t & rows["bound"].notna()
    p_value = np.select(
        [by_t, by_bound],
        [2 * special.stdtr(rows["trials"] - 1, -z.abs()), rows["bound"]],
        default=np.nan,
    )
    return rows.assign(
        error=rows["error"].where(~endless),
        z=(z.round(4) + 0.0).where(~endless),  # further decimals differ between machines; no -0.0
        # Few digits, so that all machines round alike.
        effective_draws=[
            float(f"{draws:.3g}") if np.isfinite(draws) else np.nan
            for draws in rows["effective_draws"]
        ],
        test=np.select([by_t, by_bound], [T_TEST, BOUND], default=NONE),
        p_value=[_six_digits(value) for value in p_value],
        remark=np.select(
            [rows["few_trials"], endless, rows["rare"], rows["few"]],
            [FEW_TRIALS, NO_ERROR, TOO_RARE, TOO_FEW],
            default="",
        ),
    )


def flag_few_draws(table: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """The table after adding to `few_draws` the metrics with too few effective draws by theory.

    Draws that happen to miss the rare rows behind a mean also have a small spread; the exact value
    reveals this.

    Args:
        table: a finished main table.
        judged: its verdicts, with the same index.
    """
    if judged.empty:
        return table
    few = (
        judged[judged["remark"].isin((TOO_FEW, TOO_RARE, NO_ERROR))]["metric"]
        .groupby(level=0)
        .agg(list)
    )
    measured = table[FEW_DRAWS].str.split()
    flagged = [
        " ".join(dict.fromkeys(few_here + few.get(place, [])))
        for place, few_here in measured.items()
    ]
    return table.assign(**{FEW_DRAWS: flagged})


def cell_tests(
    table: pd.DataFrame, axes: Axes, correlations: pd.DataFrame, judged: pd.DataFrame
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
    # If the spread of the draws approaches the accuracy of the exact values, z in standard errors
    # is meaningless.
    known = judged["se"] > 10 * judged["accuracy"] * judged["exact"].abs()
    tested = dict(list(judged[(judged["test"] == T_TEST) & known].groupby(point_names, sort=False)))
    matrices = dict(list(correlations.groupby(point_names, sort=False)))
    rows = []
    for point, cell in table.groupby(point_names, sort=False):
        trials = int(cell["trials"].iloc[0])
        # An experiment without queries has one row per trial.
        rows_in_all = trials * int(cell.get("n_queries", pd.Series(1, cell.index)).iloc[0])
        if point not in tested or rows_in_all < _PER_DIRECTION:
            continue
        values, matrix = tested[point], matrices[point]
        order = list(zip(matrix["scaling"], matrix["metric"], strict=True))
        chosen = [
            order.index(name) for name in zip(values["scaling"], values["metric"], strict=True)
        ]
        z = ((values["measured"] - values["exact"]) / values["se"]).to_numpy()
        correlation = np.stack(list(matrix["correlations"]))[np.ix_(chosen, chosen)]
        scarce = values["effective_draws"] < MIN_DRAWS_OF_FOURTH_POWERS
        error = (values["error"] / values["se"]).where(scarce, 1.0).to_numpy()
        directions, statistic = _leading(
            z, correlation, error, most=max(1, trials // _PER_DIRECTION)
        )
        ratio = statistic * (trials - directions) / (directions * (trials - 1))
        rows.append(
            {
                **dict(zip(point_names, point, strict=True)),
                "trials": trials,
                "values": len(z),
                "directions": directions,
                "statistic": _six_digits(statistic),
                "p_value": _six_digits(special.fdtrc(directions, trials - directions, ratio)),
            }
        )
    return pd.DataFrame(rows, columns=[*point_names, *names(_TEST)])


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
    directions = directions[:, ::-1][:, : min(int((shares > _MIN_SHARE).sum()), most)]
    spread = error[:, None] * directions
    return directions.shape[1], float(
        ((z @ directions) ** 2 / (spread * (correlation @ spread)).sum(axis=0)).sum()
    )


def _six_digits(value: Any) -> float:
    """A number rounded to six significant digits; further ones differ between machines."""
    return float(f"{value:.6g}")


def _verdict_columns(experiment: Experiment) -> tuple[Column, ...]:
    """The columns of verdicts: the axes and the scaling of a value, then the verdict."""
    treatment = [
        column for column in experiment.table_columns if column.name in ("scaling", "divisor")
    ]
    return (*axis_columns(experiment.cell), *treatment, *_VERDICT)


_VERDICT = columns_of_text(
    f"""
    trials int independent draws
    metric str name of the measured value, a column of the sweep's table
    measured float measured value
    se float standard error of the measured value between draws
    exact float exact value
    accuracy float relative error of measured and exact values, apart from that of the draws
    error float? standard error in the test: not below the least one that theory allows, nor below the accuracy
        := max(se, least error, accuracy |exact|); empty if it is infinite
    z float? difference between measured and exact value in units of error := (measured - exact) / error
    effective_draws float? effective number of draws behind the mean; empty if the metric has no limit
        := (distance from the nearer limit / error)^2, a quarter of it for a root mean square; for the measured or the
        exact value, whichever is further
    test str {T_TEST}: Student's t; {BOUND}: a bound that always holds, Chernoff's for a mean of bounded draws or
        Chebyshev's for a mean of known variance; {NONE}: not tested
    p_value float? probability that chance gives a difference at least this large, or its upper bound
    remark str? reason why t does not judge: {FEW_TRIALS}; {TOO_FEW}; {TOO_RARE} of {_MAX_TRIALS:g} trials; or
        {NO_ERROR}
    """
)
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
        VERDICTS,
        needs=frozenset({FEW_DRAWS}),
        columns=_verdict_columns,
        derive=lambda results: verdicts(results.experiment, results.measured, results.cells()),
    ),
    Derived(
        TESTS,
        needs=frozenset({"correlations"}),
        columns=lambda experiment: (*axis_columns(experiment.cell), *_TEST),
        derive=lambda results: cell_tests(
            results.measured, results.axes, results[CORRELATIONS], results[VERDICTS]
        ),
        source=CORRELATIONS,
    ),
)
