"""Agreement of theory, sampler and error bars: three tests of each sweep and of all sweeps
together, and the alarm.

The verdicts, cell tests and crossings of sweeps come in; an `Agreement` comes out. Its tests are:
all cells together (Fisher), each metric under each rule summed over cells, and the furthest single
value. They promise a false alarm in at most 1 of 1,000 runs; docs/methods.md reports the measured
rates.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import special

from experiments.analysis.derived import TESTS, VERDICTS, fold
from experiments.analysis.results import Results
from experiments.analysis.verdicts import BOUND, NONE, T_TEST, is_resolved
from experiments.analysis.written import as_written
from experiments.errors import counted

# At most this share of all honest runs of a config raises the alarm; each test accounts for a third
# of it.
ALARM = 1e-3
# A single value that t judges raises the alarm beyond this many errors. At 20 trials chance does so
# to 1 in 900,000.
SURE = 7.0
_SMALLEST = 1e-300  # of a p-value, so that its logarithm is finite
_SHOWN = 5
_GAPS = {BOUND: "tested only by a bound", NONE: "not tested"}
_UNKNOWN = "without a known exact value"
_COLUMNS = [
    *("key", "where", "metric", "scaling", "which", "trials", "test", "z", "p_value"),
    *("normal", "of_own_error", "multiple", "weight"),
]


@dataclass(frozen=True)
class Agreement:
    """The tests of one or more sweeps.

    Attributes:
        cells: the tested cells, with their p_value.
        values: the tested values, each once, with `normal`, the normal score of their p_value, and
            `of_own_error`, the normal score by the error of the draws alone; NaN unless the exact
            value is precise enough for it.
        gaps: numbers of values that t does not judge, by their state.
    """

    cells: pd.DataFrame
    values: pd.DataFrame
    gaps: Mapping[str, int]

    @property
    def by_t(self) -> pd.DataFrame:
        """The values that Student's t judges; by chance, their normal scores follow N(0, 1)."""
        return self.values[self.values["test"] == T_TEST]

    @property
    def p_cells(self) -> float:
        """Fisher's combination of the cells' p-values; cells are independent draws.

        Of k cells, -2 sum ln p has a chi-squared law with 2 k degrees of freedom if each p is
        uniform. 1 without cells.
        """
        if self.cells.empty:
            return 1.0
        logarithms = np.log(self.cells["p_value"].clip(lower=_SMALLEST))
        statistic = -2 * logarithms.sum()
        return float(special.chdtrc(2 * len(logarithms), statistic))

    @cached_property
    def rules(self) -> pd.DataFrame:
        """One row for each metric under each scaling: sum of w z over its cells, over sqrt(sum of
        w^2), and p_value.

        A fault that shifts a metric by the same share everywhere shifts z by that share of w =
        |exact| / error. If the exact values are 0, all cells have the same weight.

        Student's t of a skewed mean of m effective draws is biased by about -1 / sqrt(m). Over k
        cells this adds up to sqrt(k / m), so the k cells with the most draws enter only if each has
        k times the draws that a single cell needs. The sum is then biased by a tenth of its error.
        """
        # A score metric has the same z-score under every divisor; the table lists it under the
        # first scaling.
        table = fold(self.by_t, ["metric", "scaling"], _summed, ["cells", "z"])
        distance = table["z"].abs().astype(float)
        return table.assign(p_value=2 * special.ndtr(-distance))

    @property
    def p_rules(self) -> float:
        """The smallest p-value of a metric under a scaling, adjusted for their number; 1 without
        values.
        """
        return _sidak(self.rules["p_value"])

    @property
    def p_furthest(self) -> float:
        """The smallest p-value of a single value, adjusted for their number; 1 without values."""
        return _sidak(self.values["p_value"])

    @cached_property
    def p_value(self) -> float:
        """All three together: three times the smallest p-value, at most 1 (Bonferroni)."""
        return min(1.0, 3 * min(self.p_cells, self.p_rules, self.p_furthest))

    @property
    def disagrees(self) -> bool:
        """True if chance separates measured and exact values so far in under 0.1% of runs, or one
        lies 7 errors off.
        """
        alone = self.alarming(self.values).any()
        return bool(self.p_value < ALARM or alone)

    def alarming(self, rows: pd.DataFrame) -> pd.Series:
        """True for each value that raises the alarm even if all others agree.

        Its p-value, adjusted for the number of values (`_sidak`), is below a third of the alarm's,
        or t judges it and it lies 7 errors off.

        Args:
            rows: values with test, z and p_value, such as the verdicts of these sweeps.
        """
        count = max(1, len(self.values))
        least = -np.expm1(np.log1p(-ALARM / 3) / count)
        is_far = (rows["test"] == T_TEST) & (rows["z"].abs() >= SURE)
        return (rows["p_value"] < least) | is_far

    def verdict(self) -> str:
        """The agreement of all values, in a few words with one p-value; empty if t judges no
        value.
        """
        if self.by_t.empty:
            return ""
        values = f"{counted(len(self.values), 'measured value')} with exact ones"
        if len(self.cells):
            values += f" in {counted(len(self.cells), 'cell')}"
        p_value = f"p = {self.p_value:.2g} as corrected for several tests"
        if self.p_value == 1:  # the most that the correction allows
            p_value += ": no sign of a difference"
        return f"{values} ({p_value}; an alarm below {ALARM:g})"

    def gaps_in_short(self) -> str:
        """The numbers of `gaps` in words; empty if t judges every value."""
        return ", ".join(f"{number} {state}" for state, number in self.gaps.items() if number)

    def alarm(self) -> str:
        """The message of an alarm, with up to five rows of each test; empty if measured and exact
        values agree.
        """
        if not self.disagrees:
            return ""
        title = "measured and exact values disagree"
        if self.p_value < ALARM:
            title += f": chance separates them so far with p = {self.p_value:.2g}"
        lines = [
            title,
            *_worst(self.values, "{metric} of {where}: z = {z:+.2f}, p = {p_value:.2g}"),
            *_worst(self.rules, "{metric}, {scaling}, all cells: z = {z:+.2f}"),
            *_worst(self.cells, "cell {where}: p = {p_value:.2g}"),
        ]
        return "\n  ".join(lines)


def _worst(rows: pd.DataFrame, text: str) -> list[str]:
    """The rows with the smallest p-values, as text with a format field for each column."""
    worst = rows.sort_values("p_value", kind="stable").head(_SHOWN)
    return [text.format(**row) for row in worst.to_dict("records")]


def _summed(judged: pd.DataFrame) -> Iterator[dict[str, float]]:
    """The row of `Agreement.rules` of one metric under one scaling."""
    ordered = judged.sort_values("multiple", ascending=False, kind="stable")
    has_draws = ordered["multiple"] >= np.arange(1, len(ordered) + 1)
    group = ordered[has_draws]
    weights = group["weight"].to_numpy()
    if not weights.any():
        weights = np.ones(len(group))
    norm = np.sqrt(weights @ weights)
    yield {"cells": len(group), "z": float(weights @ group["normal"] / norm)}


def agreement(sweeps: Iterable[Results]) -> Agreement:
    """The tests of these sweeps; cells that several sweeps share (and so their draws) count
    once.
    """
    cells = []
    values = []
    gaps: Counter[str] = Counter()
    for one in sweeps:
        if TESTS in one:
            tests = one[TESTS]
            cells.append(_named(one, tests, tests[["trials", "p_value"]]))
        unknown = len(one.measured) * len(one.metrics)
        if VERDICTS in one:
            judged = one[VERDICTS]
            tested = judged[judged["test"] != NONE]
            values.append(_values(one, tested))
            found = Counter(judged["test"])
            gaps.update({name: found[test] for test, name in _GAPS.items() if found[test]})
            unknown -= len(judged)
        gaps[_UNKNOWN] += unknown
    # A score metric has the same z-score under every divisor.
    distinct = _distinct(values, ["key", "scaling", "metric"], ["key", "metric", "which"])
    return Agreement(_distinct(cells, ["key"]), distinct, gaps)


def agreement_tables(whole: Agreement) -> Results:
    """The tables behind the figures of all sweeps together; none if no value can be compared with
    theory.

    Args:
        whole: the agreement of all sweeps.

    Returns:
        `cells` and `z_scores`, the tested cells and the values that t judges, and `agreement`, one
        row with verdict, in words, and disagrees.
    """
    if whole.cells.empty or whole.by_t.empty or whole.by_t["of_own_error"].isna().all():
        return Results(None, {})
    together = pd.DataFrame([{"verdict": whole.verdict(), "disagrees": whole.disagrees}])
    return Results(None, {"cells": whole.cells, "z_scores": whole.by_t, "agreement": together})


def _values(results: Results, judged: pd.DataFrame) -> pd.DataFrame:
    """The tested values of a sweep, from their verdicts; `key` and `which` identify equal values of
    several rows or sweeps.
    """
    scaling = judged.get("scaling", pd.Series(np.nan, judged.index))
    distance = judged["measured"] - judged["exact"]
    own = distance / judged["se"].where(is_resolved(judged))
    p_of_own = 2 * special.stdtr(judged["trials"] - 1, -own.abs())
    enough = {name: metric.min_draws for name, metric in results.metrics.items()}
    free = [name for name, metric in results.metrics.items() if metric.scale_free]
    is_free = judged["metric"].isin(free)
    multiple = judged["effective_draws"] / judged["metric"].map(enough)
    columns = judged[["metric", "trials", "z", "test", "p_value"]].assign(
        scaling=scaling,
        # Multiples of the required effective draws; a metric without limits is symmetric.
        multiple=multiple.fillna(np.inf),
        normal=_normal_score(judged["z"], judged["p_value"]),
        which=judged["z"].astype(str).where(is_free, scaling),
        of_own_error=_normal_score(own, p_of_own),
        weight=judged["exact"].abs() / judged["error"],
    )
    return _named(results, judged, columns)


def _normal_score(z: pd.Series, p_value: pd.Series) -> pd.Series:
    """The score on the side of z with this p-value under N(0, 1): z of few trials follows Student's
    t.
    """
    return -np.sign(z) * special.ndtri((p_value / 2).clip(lower=_SMALLEST))


def _named(results: Results, rows: pd.DataFrame, columns: pd.DataFrame) -> pd.DataFrame:
    """Columns of rows, with `where`, their name, and `key`, which rows of the same draws share."""
    where = pd.Series(results.name, rows.index)
    for name in results.axes.varied(rows):
        values = rows[name].map(as_written).astype(str)
        where += f", {name} = " + values
    if "scaling" in rows:
        where += ", " + rows["scaling"]
    key = pd.Series(results.experiment.name, rows.index)
    for name in results.axes.among(rows):
        key += " " + rows[name].map(as_written).astype(str)  # also of no rows
    return columns.assign(where=where, key=key)


def _distinct(frames: list[pd.DataFrame], *same: list[str]) -> pd.DataFrame:
    """All distinct rows of tables with `trials`; among those that agree in the columns of `same`,
    the one with the most trials.
    """
    if not any(len(frame) for frame in frames):
        return pd.DataFrame(columns=_COLUMNS, dtype=float)
    rows = pd.concat(frames).sort_values("trials", ascending=False, kind="stable")
    for columns in same:
        rows = rows.drop_duplicates(columns)
    return rows.reset_index(drop=True)


def _sidak(p_values: pd.Series) -> float:
    """1 - (1 - p)^n of the smallest p of n tests (Sidak): adjusted for their number; an upper
    bound, as they depend. 1 without tests.

    >>> round(_sidak(pd.Series([0.01, 0.5])), 6)
    0.0199
    """
    smallest = p_values.min()
    if not smallest < 1:
        return 1.0
    log_of_none = len(p_values) * np.log1p(-smallest)
    return float(-np.expm1(log_of_none))
