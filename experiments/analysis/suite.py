"""Do theory, sampler and error bars agree? One test of every sweep, one of all of them, and when to raise the alarm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from experiments.analysis.verdicts import MANY_TRIALS
from experiments.harness.grid import Sweep
from experiments.harness.paths import VERDICTS
from experiments.harness.problems import Problem
from experiments.harness.tables import DIGITS
from experiments.statistics.intervals import MIN_TRIALS

# Of all honest runs of a suite this share meets the alarm, at most: half by its cells, half by its furthest value.
ALARM = 1e-3
_SMALLEST = 1e-300  # of a p-value, so that its logarithm is a number
_SHOWN = 5

Tables = Mapping[str, pd.DataFrame]


class DisagreementError(Problem):
    """Measured and exact values are further apart than chance would part them; the message names the rows."""


@dataclass(frozen=True)
class Agreement:
    """The tests of one or more sweeps: `cells` and `z_scores` hold what was tested, each with its p_value."""

    cells: pd.DataFrame
    z_scores: pd.DataFrame
    apart: int  # values without a z-score

    @property
    def has_tests(self) -> bool:
        """True if there are cells and values to show beside what chance gives."""
        return not (self.cells.empty or self.z_scores.empty)

    @property
    def tail(self) -> pd.DataFrame:
        """The values of trials enough for the far tail of their z-scores."""
        return self.z_scores[self.z_scores["trials"] >= MANY_TRIALS] if len(self.z_scores) else self.z_scores

    @property
    def p_cells(self) -> float:
        """Fisher's combination of the cells' p-values; cells are independent draws."""
        if self.cells.empty:
            return 1.0
        logarithms = np.log(self.cells["p_value"].clip(lower=_SMALLEST))
        return float(special.chdtrc(2 * len(logarithms), -2 * logarithms.sum()))

    @property
    def p_furthest(self) -> float:
        """The smallest p-value of one value at the level of all (Sidak): an upper bound, as they depend."""
        if self.tail.empty:
            return 1.0
        return float(-np.expm1(len(self.tail) * np.log1p(-self.tail["p_value"].min())))

    @property
    def p_value(self) -> float:
        """Both together (Bonferroni)."""
        return min(1.0, 2 * min(self.p_cells, self.p_furthest))

    def summary(self) -> str:
        """What was tested and how it came out, in a line."""
        parts = []
        if len(self.cells):
            parts.append(f"{_count(self.cells, 'cell')} against theory p = {self.p_cells:.2g}")
        if len(self.tail):
            parts.append(f"furthest of {_count(self.tail, 'value')} {self.furthest(1)[0]} (p = {self.p_furthest:.2g})")
        if self.apart:
            parts.append(f"{self.apart} listed apart, without z")
        return ", ".join(parts)

    def furthest(self, count: int = _SHOWN) -> list[str]:
        """The values furthest from their exact ones, by name and with z."""
        rows = self.tail.nsmallest(count, "p_value")
        return [f"{row['metric']} of {row['where']}: z = {row['z']:+.2f}" for _, row in rows.iterrows()]

    def unlikeliest(self) -> list[str]:
        """The cells that agree least, by name and with their p-values."""
        rows = self.cells.nsmallest(_SHOWN, "p_value")
        return [f"{row['where']}: p = {row['p_value']:.2g}" for _, row in rows.iterrows()]

    def raise_alarm(self) -> None:
        """`DisagreementError`, with the rows that make it, if chance parts values so far in under 0.1% of runs."""
        if self.p_value < ALARM:
            head = f"measured and exact values disagree: chance parts them so far with p = {self.p_value:.2g}"
            values = [f"  {line}" for line in self.furthest()]
            raise DisagreementError("\n".join([head, *values, *(f"  cell {line}" for line in self.unlikeliest())]))


def agreement(sweeps: Sequence[Sweep], tables: Mapping[str, Tables]) -> Agreement:
    """The tests of these sweeps; what several sweeps share (the same cell is the same draws) counts once."""
    cells = [_cells(sweep, tables[sweep.name]["tests"]) for sweep in sweeps if "tests" in tables[sweep.name]]
    values = [_values(sweep, tables[sweep.name][VERDICTS]) for sweep in sweeps if VERDICTS in tables[sweep.name]]
    apart = sum(
        int(tables[sweep.name][VERDICTS]["z"].isna().sum()) for sweep in sweeps if VERDICTS in tables[sweep.name]
    )
    # A score metric has one z-score whatever its scores are divided by.
    distinct = _once([_once(values, ["key", "scaling", "metric"])], ["key", "metric", "z"])
    return Agreement(_once(cells, ["key"]), distinct, apart)


def suite_tables(sweeps: Sequence[Sweep], tables: Mapping[str, Tables]) -> dict[str, pd.DataFrame]:
    """What the figures of the whole suite are drawn from; empty if there is nothing to hold against theory."""
    whole = agreement(sweeps, tables)
    if not whole.has_tests:
        return {}
    p_values = {"p_cells": whole.p_cells, "p_furthest": whole.p_furthest, "p_value": whole.p_value}
    return {"cells": whole.cells, "z_scores": whole.z_scores, "agreement": pd.DataFrame([p_values])}


def _cells(sweep: Sweep, tests: pd.DataFrame) -> pd.DataFrame:
    """The tested cells of a sweep, with their names and what tells their draws from others."""
    axes = list(tests.columns[: list(tests.columns).index("trials")])
    named = tests[["trials", "p_value"]].assign(where=_where(sweep, tests, axes), key=_key(sweep, tests, axes))
    return named.reset_index(drop=True)


def _values(sweep: Sweep, rows: pd.DataFrame) -> pd.DataFrame:
    """The values of a sweep that have a z-score of more than a few trials, with their p-values."""
    judged = rows[rows["z"].notna() & (rows["trials"] >= MIN_TRIALS)]
    axes = list(rows.columns[1 : list(rows.columns).index("scaling")])
    where = _where(sweep, judged, axes)
    p_values = 2 * special.stdtr(judged["trials"] - 1, -judged["z"].abs())
    # What a z-score of few trials, which follows Student's t, is worth as a normal one.
    normal = -np.sign(judged["z"]) * special.ndtri(p_values / 2)
    columns = judged[["scaling", "metric", "trials", "z"]].assign(where=where, normal=normal, p_value=p_values)
    return columns.assign(key=_key(sweep, judged, axes)).reset_index(drop=True)


def _where(sweep: Sweep, rows: pd.DataFrame, axes: list[str]) -> pd.Series:
    """Rows by name: the sweep, the axes of which it has more than one value, and the scaling if there is one."""
    columns = [f"{name} = " + rows[name].map(_plain) for name in axes if len(rows[name].unique()) > 1]
    scaling = [rows["scaling"]] if "scaling" in rows and rows["scaling"].notna().all() else []
    where = pd.Series(sweep.name, index=rows.index)
    for column in [*columns, *scaling]:
        where = where + ", " + column
    return where


def _key(sweep: Sweep, rows: pd.DataFrame, axes: list[str]) -> pd.Series:
    """What the draws of a row depend on."""
    points = (map(_plain, point) for point in rows[axes].itertuples(index=False))
    return pd.Series([" ".join([sweep.experiment, *point]) for point in points], index=rows.index, dtype=str)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else DIGITS % value


def _once(frames: list[pd.DataFrame], same: list[str]) -> pd.DataFrame:
    """All rows, but of those that are the same only the one of most trials."""
    if not any(len(frame) for frame in frames):
        return pd.DataFrame()
    rows = pd.concat(frames).sort_values("trials", ascending=False, kind="stable")
    return rows.drop_duplicates(same).reset_index(drop=True)


def _count(rows: pd.DataFrame, noun: str) -> str:
    return f"{len(rows)} {noun}{'' if len(rows) == 1 else 's'}"
