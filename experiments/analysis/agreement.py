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

import numpy as np
import pandas as pd
from scipy import special

from experiments.analysis.crossings import off_law
from experiments.analysis.derived import TESTS, VERDICTS, fold
from experiments.analysis.results import Results
from experiments.analysis.verdicts import BOUND, NONE, T_TEST
from experiments.analysis.written import as_written
from experiments.errors import Problem, counted

# At most this share of all honest runs of a config raises the alarm; each test accounts for a third
# of it.
ALARM = 1e-3
# A single value that t judges raises the alarm beyond this many errors. At 20 trials chance does so
# to 1 in 900,000.
SURE = 7.0
_SMALLEST = 1e-300  # of a p-value, so that its logarithm is finite
_SHOWN = 5
_STATES = {NONE: "not tested", BOUND: "tested only by a bound"}


class DisagreementError(Problem):
    """Measured and exact values differ by more than chance explains; the message names the rows."""


@dataclass(frozen=True)
class Agreement:
    """The tests of one or more sweeps.

    Attributes:
        cells: the tested cells, with their p_value.
        values: the tested values, each once, with `normal`, the normal score of their p_value, and
            `of_own_error`, the normal score of their distance in standard errors between draws,
            regardless of the least error.
        gaps: numbers of values that t does not judge, by the reason.
        off_law: crossings of medians far from the law of theory, in words.
    """

    cells: pd.DataFrame
    values: pd.DataFrame
    gaps: Mapping[str, int]
    off_law: tuple[str, ...] = ()

    @property
    def by_t(self) -> pd.DataFrame:
        """The values that Student's t judges; by chance, their normal scores follow N(0, 1)."""
        return self.values[self.values["test"] == T_TEST] if len(self.values) else self.values

    @property
    def p_cells(self) -> float:
        """Fisher's combination of the cells' p-values; cells are independent draws.

        Of k cells, -2 sum ln p has a chi-squared law with 2 k degrees of freedom if each p is
        uniform. 1 without cells.
        """
        if self.cells.empty:
            return 1.0
        logarithms = np.log(self.cells["p_value"].clip(lower=_SMALLEST))
        return float(special.chdtrc(2 * len(logarithms), -2 * logarithms.sum()))

    @property
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
        return table.assign(p_value=2 * special.ndtr(-table["z"].abs().astype(float)))

    @property
    def p_rules(self) -> float:
        """The smallest p-value of a metric under a scaling, adjusted for their number; 1 without
        values.
        """
        return _sidak(self.rules["p_value"]) if len(self.values) else 1.0

    @property
    def p_furthest(self) -> float:
        """The smallest p-value of a single value, adjusted for their number; 1 without values."""
        return _sidak(self.values["p_value"]) if len(self.values) else 1.0

    @property
    def p_value(self) -> float:
        """All three together: three times the smallest p-value, at most 1 (Bonferroni)."""
        return min(1.0, 3 * min(self.p_cells, self.p_rules, self.p_furthest))

    @property
    def disagrees(self) -> bool:
        """True if chance separates measured and exact values so far in under 0.1% of runs, or one
        lies 7 errors off.

        Also true if a crossing of medians is far from its law, the only test of medians.
        """
        alone = len(self.values) > 0 and self.alarming(self.values).any()
        return bool(self.p_value < ALARM or alone or self.off_law)

    def alarming(self, rows: pd.DataFrame) -> pd.Series:
        """True for each value that raises the alarm even if all others agree.

        Its p-value, adjusted for the number of values (`_sidak`), is below a third of the alarm's,
        or t judges it and it lies 7 errors off.

        Args:
            rows: values with test, z and p_value, such as the verdicts of these sweeps.
        """
        least = -np.expm1(np.log1p(-ALARM / 3) / max(1, len(self.values)))
        return (rows["p_value"] < least) | ((rows["test"] == T_TEST) & (rows["z"].abs() >= SURE))

    def verdict(self) -> str:
        """The agreement of all values, in a few words with one p-value; empty if t judges no
        value.
        """
        if self.by_t.empty:
            return ""
        cells = f" in {counted(len(self.cells), 'cell')}" if len(self.cells) else ""
        values = f"{counted(len(self.values), 'measured value')} with exact ones{cells}"
        word = (
            ", no sign of a difference" if self.p_value == 1 else ""
        )  # the most that the correction allows
        return f"{values} (p = {self.p_value:.2g}{word}; an alarm below {ALARM:g})"

    def gaps_in_short(self) -> str:
        """The numbers of `gaps` in words, without the reasons; empty if t judges every value."""
        short: Counter[str] = Counter()
        for state, number in self.gaps.items():
            short[state.split(" (")[0]] += number
        return ", ".join(f"{number} {state}" for state, number in short.items() if number)

    def raise_alarm(self) -> None:
        """Raise `DisagreementError` if measured and exact values disagree, with up to five rows of
        each test.
        """
        if not self.disagrees:
            return
        chance = (
            f": chance separates them so far with p = {self.p_value:.2g}"
            if self.p_value < ALARM
            else ""
        )
        lines = [*self.off_law]
        for frame, text in (
            (self.values, "{metric} of {where}: z = {z:+.2f}, p = {p_value:.2g}"),
            (
                self.rules if len(self.values) else self.values,
                "{metric}, {scaling}, all cells: z = {z:+.2f}",
            ),
            (self.cells, "cell {where}: p = {p_value:.2g}"),
        ):
            worst = frame.nsmallest(_SHOWN, "p_value") if len(frame) else frame
            lines += [text.format(**row) for row in worst.to_dict("records")]
        raise DisagreementError(
            "\n  ".join([f"measured and exact values disagree{chance}", *lines])
        )


def _summed(judged: pd.DataFrame) -> Iterator[dict[str, float]]:
    """The row of `Agreement.rules` of one metric under one scaling."""
    ordered = judged.sort_values("multiple", ascending=False, kind="stable")
    group = ordered[(ordered["multiple"] >= np.arange(1, len(ordered) + 1)).to_numpy()]
    weights = group["weight"].to_numpy() if group["weight"].any() else np.ones(len(group))
    yield {"cells": len(group), "z": float(weights @ group["normal"] / np.sqrt(weights @ weights))}


def agreement(sweeps: Iterable[Results]) -> Agreement:
    """The tests of these sweeps; cells that several sweeps share (and so their draws) count
    once.
    """
    sweeps = list(sweeps)
    cells = [
        _named(one, one[TESTS], one[TESTS][["trials", "p_value"]]) for one in sweeps if TESTS in one
    ]
    values = [_values(one) for one in sweeps if VERDICTS in one]
    # A score metric has the same z-score under every divisor.
    distinct = _distinct(
        [_distinct(values, ["key", "scaling", "metric"])], ["key", "metric", "which"]
    )
    gaps: Counter[str] = Counter()
    for one in sweeps:
        judged = (
            one[VERDICTS][["test", "remark"]]
            if VERDICTS in one
            else pd.DataFrame(columns=["test", "remark"])
        )
        for (test, remark), count in (
            judged[judged["test"] != T_TEST].value_counts(sort=False).items()
        ):
            gaps[f"{_STATES[test]} ({remark})"] += count
        gaps["without a known exact value"] += len(one.measured) * len(one.metrics) - len(judged)
    far = tuple(
        f"{one.name}: {line}"
        for one in sweeps
        if "crossings" in one
        for line in off_law(one["crossings"])
    )
    return Agreement(_distinct(cells, ["key"]), distinct, gaps, far)


def agreement_tables(sweeps: Iterable[Results]) -> Results:
    """The tables behind the figures of all sweeps together; none if no value can be compared with
    theory.

    Returns:
        `cells` and `z_scores`, the tested cells and the values that t judges, and `agreement`, one
        row with verdict, in words, and disagrees.
    """
    whole = agreement(sweeps)
    if whole.cells.empty or whole.by_t.empty or whole.by_t["of_own_error"].isna().all():
        return Results(None, {})
    together = pd.DataFrame([{"verdict": whole.verdict(), "disagrees": whole.disagrees}])
    return Results(None, {"cells": whole.cells, "z_scores": whole.by_t, "agreement": together})


def _values(results: Results) -> pd.DataFrame:
    """The tested values of a sweep; `key` and `which` identify equal values of several rows or
    sweeps.
    """
    judged = results[VERDICTS]
    judged = judged[judged["test"] != NONE]
    judged = judged.assign(scaling=judged.get("scaling", np.nan))
    # The normal score that corresponds to a z-score of few trials, which follows Student's t.
    normal = -np.sign(judged["z"]) * special.ndtri((judged["p_value"] / 2).clip(lower=_SMALLEST))
    own = (judged["measured"] - judged["exact"]) / judged["se"].where(judged["se"] > 0)
    tails = special.stdtr(judged["trials"] - 1, -own.abs()).clip(lower=_SMALLEST)
    enough = {name: metric.min_draws for name, metric in results.metrics.items()}
    scale_free = judged["metric"].isin(
        [name for name, metric in results.metrics.items() if metric.scale_free]
    )
    columns = judged[["scaling", "metric", "trials", "z", "test", "p_value"]].assign(
        # Multiples of the required effective draws; a metric without limits is symmetric.
        multiple=(judged["effective_draws"] / judged["metric"].map(enough)).fillna(np.inf),
        normal=normal,
        which=judged["z"].astype(str).where(scale_free, judged["scaling"]),
        of_own_error=-np.sign(own) * special.ndtri(tails),
        weight=judged["exact"].abs() / judged["error"],
    )
    return _named(results, judged, columns)


def _named(results: Results, rows: pd.DataFrame, columns: pd.DataFrame) -> pd.DataFrame:
    """Columns of rows, with `where`, their name, and `key`, which rows of the same draws share."""
    axes = results.axes.among(rows)
    parts = [
        f"{name} = " + rows[name].map(as_written) for name in axes if len(rows[name].unique()) > 1
    ]
    if "scaling" in rows and rows["scaling"].notna().all():
        parts.append(rows["scaling"])
    where = pd.Series(results.name, index=rows.index)
    for part in parts:
        where = where + ", " + part
    points = (map(as_written, point) for point in rows[axes].itertuples(index=False))
    key = [" ".join([results.experiment.name, *point]) for point in points]
    return columns.assign(where=where, key=pd.Series(key, index=rows.index, dtype=str)).reset_index(
        drop=True
    )


def _distinct(frames: list[pd.DataFrame], same: list[str]) -> pd.DataFrame:
    """All distinct rows of tables with `trials`; among those that agree in `same`, the one with the
    most trials.
    """
    if not any(len(frame) for frame in frames):
        return pd.DataFrame()
    rows = pd.concat(frames).sort_values("trials", ascending=False, kind="stable")
    return rows.drop_duplicates(same).reset_index(drop=True)


def _sidak(p_values: pd.Series) -> float:
    """1 - (1 - p)^n of the smallest p of n tests (Sidak): adjusted for their number; an upper
    bound, as they depend.

    >>> round(_sidak(pd.Series([0.01, 0.5])), 6)
    0.0199
    """
    return (
        float(-np.expm1(len(p_values) * np.log1p(-p_values.min()))) if p_values.min() < 1 else 1.0
    )
