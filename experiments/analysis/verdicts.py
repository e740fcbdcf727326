"""The distance of every measured value from its exact one, with the test that its draws allow.

A finished main table comes in; the derived table `verdicts`, with one row per value, comes out.
`experiments.analysis.agreement` combines the verdicts and raises the alarm; nothing here does.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from experiments.analysis.derived import (
    VERDICTS,
    Derived,
    after_axes,
    columns_of_text,
    evaluate,
    known_metrics,
    row_cells,
)
from experiments.analysis.written import significant
from experiments.measuring.columns import Column, names
from experiments.measuring.experiment import ACCURACY, Cell, Experiment
from experiments.measuring.intervals import LEVEL, MIN_SEPARATE_ROWS, Limits
from experiments.measuring.metric import FEW_DRAWS, Exact, Metric
from experiments.measuring.rules import Floats

T_TEST = "t"
BOUND = "bound"
NONE = "none"
FEW_TRIALS = "too few trials"
TOO_FEW = "too few effective draws"
TOO_RARE = "events too rare for any run"
NO_ERROR = "inputs have no moment behind its error"
_SMALLEST = 1e-300  # of a norm, so that its logarithm is finite
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
    declared = names(_columns(experiment))
    of_rows = pd.Series(row_cells(cells), table.index, dtype=object)
    frames: dict[str, pd.DataFrame] = {}
    # Means and shares before roots: the order of the rows of verdicts.csv.
    known = sorted(known_metrics(experiment), key=lambda pair: pair[0].kind == "root")
    for metric, exact in known:
        rows = table[table[f"{metric.name}_exact"].notna()]
        if len(rows):
            frames[metric.name] = _compared(rows, metric, exact, of_rows[rows.index])
    if not frames:
        return pd.DataFrame(columns=declared)
    for metric, _ in known:
        if metric.name in frames:
            like = frames[metric.draws_like or metric.name]
            _flag_few(frames[metric.name], metric, like["effective_draws"])
    rows = pd.concat(frames.values()).sort_index(kind="stable")  # the index is that of the table
    return _judged(rows)[declared]


def _compared(
    rows: pd.DataFrame, metric: Metric, exact: Exact, cells: Iterable[Cell]
) -> pd.DataFrame:
    """Rows of a main table with the comparison of one metric: its exact value, the error of its
    test, its effective draws and its bound.
    """
    measured = rows[metric.name]
    expected = rows[f"{metric.name}_exact"]
    se = _of_quantile(rows, metric) if metric.kind == "quantile" else rows[f"{metric.name}_se"]
    size = expected.abs().to_numpy()
    bounds = [exact.bound(cell) for cell in cells]
    relative = [max(ACCURACY, bound.relative) for bound in bounds]
    floors = [bound.floor for bound in bounds]
    accuracy = np.maximum(relative, _ratio(floors, size))
    allowed = np.where(size > 0, accuracy * size, floors)  # an exact value below its floor is 0
    root_trials = np.sqrt(rows["trials"].to_numpy())
    least = evaluate(exact.min_deviation, cells) / root_trials
    if metric.kind == "root":
        # Deviation of the mean square; that of its root x follows from d(x^2) = 2 x dx.
        least = _ratio(least, 2 * size)
    error = np.maximum.reduce([se.to_numpy(), least, allowed])
    frame = rows.assign(
        metric=metric.name,
        measured=measured,
        se=se,
        exact=expected,
        accuracy=accuracy,
        allowed=allowed,
        separate=rows["trials"] * [cell.separate_rows for cell in cells],
        error=error,
    )
    # If a value and its error are far too large, the exact value would seem to rest on few draws.
    draws = (metric.effective_draws(rows, value, frame["error"]) for value in (measured, expected))
    largest = evaluate(exact.max_deviation, cells) / root_trials
    return frame.assign(
        effective_draws=np.maximum(*draws),
        bound=_bound(frame, metric, metric.limits(rows), largest),
    )


def _of_quantile(rows: pd.DataFrame, metric: Metric) -> pd.Series:
    """The error of a quantile with which z = (ln measured - ln exact) / e.

    e is the half width of the logarithmic interval on the side of the exact value, over t.
    """
    value, low, high, exact = (
        np.log(rows[f"{metric.name}{end}"].clip(lower=_SMALLEST))
        for end in ("", "_low", "_high", "_exact")
    )
    end = high.where(exact > value, low)
    t = special.stdtrit(rows["trials"] - 1, 0.5 + LEVEL / 2)
    error = (end - value).abs() / t
    distance = value - exact
    is_apart = distance != 0
    mean = np.expm1(distance) / distance.where(is_apart, 1.0)
    return error * np.exp(exact) * mean.where(is_apart, 1.0)


def _ratio(x: npt.ArrayLike, y: Floats) -> Floats:
    """x / y where y > 0, else 0."""
    return np.divide(x, y, out=np.zeros(len(y)), where=y > 0)


def _bound(rows: pd.DataFrame, metric: Metric, limits: Limits, max_error: Floats) -> pd.Series:
    """The bound of the p-value: Chernoff's for values moved from their limits to 0 and 1, or else
    Chebyshev's.

    These are min(1, 2 e^(-T D)) with D of `verdicts`, and min(1, (max_error / distance)^2), with
    max_error that of the mean; NaN without two limits and a finite error. The part of a distance
    that the accuracy of both values explains is no evidence.
    """
    power = 2 if metric.kind == "root" else 1  # of the value that is a mean
    distance = rows["measured"] - rows["exact"]
    explained = distance.clip(-rows["allowed"], rows["allowed"])
    measured = (rows["exact"] + (distance - explained)) ** power
    exact = rows["exact"] ** power
    ratio = max_error / (measured - exact)
    chebyshev = (ratio**2).clip(upper=1).where(np.isfinite(max_error))
    low = np.power(limits.low, power)
    high = np.power(limits.high, power)
    width = np.broadcast_to(high - low, len(rows)).astype(float)
    if not np.isfinite(width).all():
        return chebyshev
    share = ((measured - low) / width).clip(0, 1)
    expected = ((exact - low) / width).clip(0, 1)
    divergence = special.rel_entr(share, expected) + special.rel_entr(1 - share, 1 - expected)
    chernoff = 2 * np.exp(-rows["trials"] * divergence)
    return chernoff.clip(upper=1).fillna(chebyshev)


def _flag_few(rows: pd.DataFrame, metric: Metric, draws: pd.Series) -> None:
    """Mark the rows of a metric whose draws are too few for Student's t, by reason."""
    is_few = ~(draws >= metric.min_draws)
    if metric.kind == "quantile":
        is_few |= rows[FEW_DRAWS].str.split().map(lambda names: metric.name in names)
    most = draws * (_MAX_TRIALS / rows["trials"])
    rows["few_trials"] = rows["trials"] < metric.min_trials
    rows["rare"] = is_few & (most < metric.min_draws)
    rows["few"] = is_few | (rows["separate"] < MIN_SEPARATE_ROWS)


def _judged(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with z, the test that the draws allow (t, or else a bound), its p-value, and why t
    does not judge.
    """
    # Without an error, for example if an exact value is 0 to the precision of a double, only a
    # bound judges. With an infinite one, nothing does.
    endless = np.isinf(rows["error"])
    distance = rows["measured"] - rows["exact"]
    z = pd.Series(_ratio(distance, rows["error"].to_numpy()), rows.index)
    by_t = ~rows["few_trials"] & ~rows["few"] & ~endless
    by_bound = ~by_t & rows["bound"].notna()
    of_t = 2 * special.stdtr(rows["trials"] - 1, -z.abs())
    judges = [by_t, by_bound]
    p_values = np.select(judges, [of_t, rows["bound"]], default=np.nan)
    reasons = {
        FEW_TRIALS: rows["few_trials"],
        NO_ERROR: endless,
        TOO_RARE: rows["rare"],
        TOO_FEW: rows["few"],
    }
    draws = rows["effective_draws"].replace(np.inf, np.nan)
    return rows.assign(
        error=rows["error"].where(~endless),
        z=(z.round(4) + 0.0).where(~endless),  # further decimals differ between machines; no -0.0
        effective_draws=[significant(value, 3) for value in draws],
        test=np.select(judges, [T_TEST, BOUND], default=NONE),
        p_value=[significant(value) for value in p_values],
        remark=np.select([*reasons.values()], [*reasons], default=""),
    )


def is_resolved(judged: pd.DataFrame) -> "pd.Series[bool]":
    """True where the error between draws is more than 10 times that of the exact value: only then
    a distance in such errors is about the draws.
    """
    return judged["se"] > 10 * judged["accuracy"] * judged["exact"].abs()


def flag_few_draws(table: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """The table after adding to `few_draws` the metrics with too few effective draws by theory.

    Draws that happen to miss the rare rows behind a mean also have a small spread; the exact value
    reveals this.

    Args:
        table: a finished main table.
        judged: its verdicts, with the same index.
    """
    unreliable = judged[judged["remark"].isin((TOO_FEW, TOO_RARE, NO_ERROR))]
    few = unreliable["metric"].groupby(level=0).agg(list)
    flagged = []
    for place, measured in table[FEW_DRAWS].str.split().items():
        metrics = dict.fromkeys([*measured, *few.get(place, [])])
        flagged.append(" ".join(metrics))
    return table.assign(**{FEW_DRAWS: flagged})


_VERDICT = columns_of_text(
    f"""
    trials int independent draws
    metric str name of the measured value, a column of the sweep's table
    measured float measured value
    se float standard error of the measured value between draws; for a median, from the end of its interval on the
        side of the exact value
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


def _columns(experiment: Experiment) -> tuple[Column, ...]:
    """The columns of verdicts: the axes and the scaling of a value, then the verdict."""
    columns = experiment.table_columns
    treatment = [column for column in columns if column.name in ("scaling", "divisor")]
    return after_axes([*treatment, *_VERDICT])(experiment)


TABLES = (
    Derived(
        VERDICTS,
        needs={FEW_DRAWS},
        columns=_columns,
        derive=lambda results: verdicts(results.experiment, results.measured, results.cells),
    ),
)
