"""Measured values beside exact ones: the table `verdicts`, and the check of sweeps together.

The z of a value is its distance from the exact one in standard errors between draws. Student's t
tests it, unless few draws carry the mean, or draws of heavy tails hide what they miss: then an
error bar says little. The check raises the alarm if the smallest p-value of n tests is below
0.001 / n (Bonferroni).
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from experiments.config.errors import counted
from experiments.kinds.support import is_few, significant
from experiments.measuring.cells import RULE_COLUMNS
from experiments.measuring.columns import Column
from experiments.measuring.experiment import AnyExperiment
from experiments.measuring.intervals import LEVEL, MIN_TRIALS
from experiments.measuring.metric import FEW_DRAWS, Exact, Metric
from experiments.tables.derived import VERDICTS, Derived
from experiments.tables.rows import sizes_of
from sdpa import LAWS

ALARM = 1e-3  # the share of honest runs that may raise it
MIN_TESTED_DRAWS = 400  # the tails of a mean of fewer effective draws are not those of Student's t
NOTHING_JUDGED = (
    f"no value is tested: this needs a known exact value, {MIN_TRIALS} trials and "
    f"{MIN_TESTED_DRAWS} effective draws"
)
# In rows of so many keys, few draws have the large sums of squared weights behind these means, and
# draws without them pass for precise.
_LONG_ROW, _DRAWS_OF_LONG_ROWS = 1000, 1600
# Of entries with a larger fourth moment, draws hide the rare squares behind a mean and its error.
_HEAVY = [name for name, law in LAWS.items() if law.moments[1] > 10]
_SHOWN = 5
_SMALLEST = 1e-300  # of a norm, so that its logarithm is finite
LEAST_MEDIAN = 1e-8  # the exact values of smaller ones have no stated error


def verdicts(experiment: AnyExperiment, table: pd.DataFrame) -> pd.DataFrame:
    """One row for every measured value with a known exact value, with the index of its row in a
    finished main table.
    """
    compared = []
    for metric in experiment.metrics:
        if metric.exact and metric.name in table:
            known = table[table[f"{metric.name}_exact"].notna()]
            if len(known):
                compared.append(_compared(known, metric, metric.exact))
    return pd.concat(compared).sort_index(kind="stable") if compared else pd.DataFrame()


def _compared(rows: pd.DataFrame, metric: Metric, exact: Exact) -> pd.DataFrame:
    """Rows of a main table with the comparison of one metric, and its p-value if t tests it."""
    name, is_quantile = metric.name, metric.kind == "quantile"
    # As arrays, because pandas takes a hundred times as long for as short columns as these.
    values = rows[[name, f"{name}_exact", f"{name}_low", f"{name}_high"]].to_numpy().T
    if is_quantile:
        values = np.log(np.maximum(values, _SMALLEST))
    measured, expected, low, high = values
    # Limits make an interval asymmetric. Over t, its end towards the exact value is the standard error.
    end = np.where(expected > measured, high, low)
    freedom = rows["trials"].to_numpy() - 1
    t = special.stdtrit(freedom, 0.5 + LEVEL / 2)
    size = 1.0 if is_quantile else np.abs(expected)
    error = np.maximum(np.abs(end - measured) / t, exact.accuracy * size)
    z = np.divide(measured - expected, error, out=np.zeros(len(rows)), where=error > 0)
    sizes = sizes_of(rows)
    draws = [metric.effective_draws(sizes, value, error) for value in (measured, expected)]
    is_long = metric.is_of_squares & (sizes.n_keys >= _LONG_ROW)
    needed = np.where(is_long, _DRAWS_OF_LONG_ROWS, max(MIN_TESTED_DRAWS, metric.min_draws))
    has_draws = np.minimum(*draws) >= needed
    is_tested = has_draws & ~is_few(rows[FEW_DRAWS], name)
    if "inputs" in rows:
        is_tested &= ~rows["inputs"].isin(_HEAVY)
    if is_quantile:
        is_tested &= expected > np.log(LEAST_MEDIAN)
    p_values = np.where(is_tested, 2 * special.stdtr(freedom, -np.abs(z)), np.nan)
    return rows.assign(
        metric=name,
        measured=rows[name],
        exact=rows[f"{name}_exact"],
        error=error,
        z=z.round(4) + 0.0,  # further decimals differ between machines; no -0.0
        p_value=[significant(p) for p in p_values],
    )


class Agreement(NamedTuple):
    """The tested values of one or more sweeps, and how many are not tested."""

    values: pd.DataFrame
    untested: int

    @property
    def p_value(self) -> float:
        """The smallest p-value times the number of tests, at most 1."""
        return min(1.0, len(self.values) * float(self.values["p_value"].min()))

    def verdict(self) -> str:
        """The agreement of all values, in a few words; empty if none is tested."""
        if self.values.empty:
            return ""
        values = f"{counted(len(self.values), 'measured value')} with those of theory"
        return f"{values} (p = {self.p_value:.2g}; an alarm below {ALARM:g})"

    def alarm(self) -> str:
        """The message of an alarm, with the furthest values; empty if all values agree."""
        if self.p_value >= ALARM:
            return ""
        worst = self.values.sort_values("p_value", kind="stable").head(_SHOWN)
        lines = [
            f"{row.metric} of {row.where}: z = {row.z:+.2f}, p = {row.p_value:.2g}"
            for row in worst.itertuples()
        ]
        return "\n  ".join([f"measured values and theory disagree, p = {self.p_value:.2g}", *lines])


_VERDICT = (
    *RULE_COLUMNS[::2],
    Column("trials", "int", "independent draws"),
    Column("metric", "str", "name of the measured value, a column of the sweep's table"),
    Column("measured", "float", "measured value"),
    Column("exact", "float", "exact value"),
    Column(
        "error",
        "float",
        "standard error between draws, from the end of the 95% interval on the side of the exact "
        "value, at least the error of the exact value; of medians, that of the logarithm",
        "max(|end - measured| / t, accuracy |exact|), or max(|ln(end / measured)| / t, accuracy)",
    ),
    Column(
        "z",
        "float",
        "difference between measured and exact value in units of error; of medians, that of their "
        "logarithms",
        "(measured - exact) / error, or ln(measured / exact) / error",
    ),
    Column(
        "p_value",
        "float",
        "probability that chance gives a difference at least this large (Student's t); empty if few "
        "draws carry the value, which then is not tested",
        may_be_empty=True,
    ),
)


TABLES = (
    Derived(
        VERDICTS,
        needs={FEW_DRAWS},
        own=_VERDICT,
        derive=lambda results: verdicts(results.experiment, results.measured),
        judge=lambda results: results[VERDICTS],
    ),
)
