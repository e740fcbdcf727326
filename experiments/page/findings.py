"""The findings: for every figure its caption, its key numbers with intervals, its drawing and a few table rows.

`Writer` reads tables, captions (.txt) and drawings (.svg) of a results folder; the template of the page shows the
`Section`s and `Finding`s that it makes. Numbers have as many digits as their intervals justify.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from experiments.analysis.agreement import Agreement, agreement
from experiments.analysis.bands import BEST_RATE, at_best_rates
from experiments.analysis.crossings import of_first_map
from experiments.analysis.derived import VERDICTS
from experiments.analysis.slopes import LEVEL
from experiments.examples import example_names
from experiments.figures.axes import is_number, plain, under, values_of, varied_axes
from experiments.figures.caption_text import listed, number
from experiments.figures.crossing_text import NORM_NAMES, crossing_rows, law_is_inside, three_digits
from experiments.figures.figure import load_figure
from experiments.figures.metric_lines import DECLARED
from experiments.figures.training_rows import main_rules
from experiments.folders import (
    ALL_SWEEPS,
    DIAGNOSIS,
    DIAGNOSIS_FIGURE,
    DIAGNOSIS_TABLE,
    EXAMPLES,
    diagnosis_path,
    drawn_texts,
    example_path,
    figure_path,
)
from experiments.harness.columns import axis_names, treatment_names
from experiments.harness.config import Config
from experiments.harness.discovery import unusual_axes, usual_values
from experiments.harness.figures import figures_of
from experiments.harness.grid import Sweep
from experiments.harness.paths import csv_name
from experiments.page.diagnosed import before_and_after
from experiments.page.entries import Entry, chosen
from experiments.page.numbers import exact_text, interval, plus_minus
from experiments.page.svg import Drawings
from experiments.page.usual import SweepTables
from experiments.training_metrics import TRAINING_METRICS

_COMMON = ("unscaled", "d_k^1/3", "d_k^1/2", "d_k^2/3", "d_k^1")
_TITLES = {metric.name: metric.title for metric in (*DECLARED.values(), *TRAINING_METRICS)}
_PAIR = ("unscaled", "d_k^1/2")
_MAX_ROWS, _MAX_SCALINGS, _FURTHEST = 12, 5, 5
_SLOPE_PLACES = 12  # beyond these, an exact slope is the noise of its sum


@dataclass(frozen=True)
class Field:
    """A field of a table: the measured value, and the exact value if it is known."""

    text: str
    exact: str = ""


@dataclass(frozen=True)
class Table:
    """A few rows of a CSV, or of several CSVs if `csv` is empty.

    Attributes:
        head: names of the columns.
        rows: the fields of each row, in the order of the head.
        of: number of rows of the whole table.
        csv: its file name.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Field]]
    of: int
    csv: str = ""


@dataclass(frozen=True)
class Finding:
    """A figure with its texts and numbers.

    Attributes:
        name: unique on the page.
        title: the heading.
        caption: the computed sentence.
        drawing: an SVG element; empty if the page has no room for it.
        png: path of the PNG from the folder of the page, which names a figure without room.
        numbers: sentences with values, intervals and exact values.
        table: a few rows of the table that it shows.
        corrections: published statements that the figure shows to be wrong or misleading.
    """

    name: str
    title: str
    caption: str
    drawing: str
    png: str
    numbers: Sequence[str] = ()
    table: Table | None = None
    corrections: Sequence[Entry] = ()


@dataclass(frozen=True)
class Section:
    """The findings of a sweep, its config and its tables; for all sweeps together, without name and config.

    Attributes:
        name: of the sweep.
        findings: one per figure.
        csvs: file names of its tables.
        config: YAML of a config with this sweep alone.
        law: the unusual inputs of all its rows, in words; empty if there are none.
    """

    name: str
    findings: Sequence[Finding]
    csvs: Sequence[str] = ()
    config: str = ""
    law: str = ""


@dataclass
class Writer:
    """Makes findings from the tables, captions and drawings of a results folder.

    Attributes:
        config: the config of the results.
        results: the folder.
        tables: the sound tables, by sweep and kind; a sweep without tables gets no section.
        published: the published statements, or none.
        drawings: collects what the drawings of the page share, and counts the room that they take.
    """

    config: Config
    results: Path
    tables: SweepTables
    published: Sequence[Entry]
    drawings: Drawings = field(default_factory=Drawings)

    def sections(self) -> Iterator[Section]:
        """One section for every sound sweep, and one for all together if a test compares values with theory."""
        for sweep in self.config.sweeps:
            if sweep.name in self.tables:
                of_sweep = self.tables[sweep.name]
                csvs = dict.fromkeys(csv_name(sweep.name, kind) for kind in of_sweep)
                findings = [self._finding(sweep, figure) for figure in sweep.figures]
                law = _law(of_sweep["measured"])
                yield Section(sweep.name, findings, tuple(csvs), config_block(self.config.seed, sweep), law)
        whole = agreement([sweep for sweep in self.config.sweeps if sweep.name in self.tables], self.tables)
        if whole.has_tests:
            verdicts = [csv_name(sweep, VERDICTS) for sweep, tables in self.tables.items() if VERDICTS in tables]
            yield Section("", [self._of_all(figure, whole) for figure in figures_of(ALL_SWEEPS)], tuple(verdicts))

    def diagnosis(self) -> Finding | None:
        """The shipped diagnosis; None for results without it."""
        table, png = (diagnosis_path(Path(), name) for name in (DIAGNOSIS_TABLE, f"{DIAGNOSIS_FIGURE}.png"))
        if not all((self.results / path).exists() for path in (table, png.with_suffix(".svg"))):
            return None
        numbers = [before_and_after(self.results / table)]
        return self._drawn(f"{DIAGNOSIS}-heads", png, numbers=numbers)

    def examples(self) -> list[Finding]:
        """The worked examples with drawings; none for results without published statements."""
        paths = {name: example_path(Path(), name, ".png") for name in example_names() if self.published}
        drawn = {name: png for name, png in paths.items() if (self.results / png).with_suffix(".svg").exists()}
        return [self._drawn(f"{EXAMPLES}-{name}", png) for name, png in drawn.items()]

    def _finding(self, sweep: Sweep, figure: str) -> Finding:
        """The finding of a figure of a sweep.

        Its numbers are laws beside crossings, slopes, or the first metric at the ends of the axes (and at the best
        learning rates, if the figure reads `bands`), by the tables that the figure reads.
        """
        declared, tables = load_figure(figure), self.tables[sweep.name]
        shown = declared.chosen(tables)
        if "crossings" in shown:
            crossings = of_first_map(shown["crossings"])
            numbers, table = list(_law_sentences(crossings)), _crossing_table(sweep, crossings)
        elif "bands" in shown:
            best = at_best_rates(tables["measured"], shown["bands"])
            numbers = list(_numbers(sweep, best, declared.metrics[0]))
            main = best[best["scaling"].isin(main_rules(best))]
            table = few_rows(sweep, main, (BEST_RATE, *declared.metrics), of=len(tables["measured"]))
        else:
            numbers = [_slope_sentence(shown["slopes"])] if "slopes" in shown else []
            numbers += [text for metric in declared.metrics[:1] for text in _numbers(sweep, tables["measured"], metric)]
            table = few_rows(sweep, tables["measured"], declared.metrics)
        corrections = chosen(self.published, declared.corrects)
        return self._figure(sweep.name, figure, numbers=numbers, table=table, corrections=corrections)

    def _of_all(self, figure: str, whole: Agreement) -> Finding:
        """The finding of a figure of all sweeps together, with the five values furthest from theory in their errors."""
        furthest = whole.by_t.assign(size=whole.by_t["z"].abs()).nlargest(_FURTHEST, "size")
        rows = [[Field(row["where"]), Field(row["metric"]), Field(number(row["z"]))] for _, row in furthest.iterrows()]
        head = ("value furthest from its exact one", "metric", "standard errors")
        every = sum(len(tables[VERDICTS]) for tables in self.tables.values() if VERDICTS in tables)
        table = Table(head, rows, every)
        gaps = [f"{gap}."[0].upper() + f"{gap}."[1:] for gap in whole.gaps]
        return self._figure(ALL_SWEEPS, figure, numbers=[f"{whole.summary()}.", *gaps], table=table)

    def _figure(self, sweep: str, figure: str, **more: Any) -> Finding:
        return self._drawn(f"{sweep}-{figure}", figure_path(Path(), sweep, figure, ".png"), **more)

    def _drawn(self, name: str, png: Path, **more: Any) -> Finding:
        """The finding of a drawing in the results folder."""
        path = self.results / png
        title, caption = drawn_texts(path)
        svg = path.with_suffix(".svg").read_text(encoding="utf-8")
        drawing = self.drawings.inline(svg)
        return Finding(name, title, caption, drawing, png.as_posix(), **more)


def _law(table: pd.DataFrame) -> str:
    """The inputs that all rows of a table share and that are not the usual ones, in words.

    >>> _law(pd.DataFrame({"d_k": [4, 8], "inputs": ["gaussian"] * 2, "mask": ["causal"] * 2, "key_mean": [0.0, 2.0]}))
    'mask = causal'
    """
    first, varied = table.iloc[0], varied_axes(table)
    return values_of(first, [name for name in unusual_axes(first.to_dict()) if name not in varied])


def config_block(seed: int, sweep: Sweep) -> str:
    """A sweep as a separate config, as YAML; only axes with their usual values are left out.

    Args:
        seed: the root seed of the config.
        sweep: the sweep.
    """
    treatments = treatment_names(sweep.experiment.cell)
    body = {
        name: value[0] if isinstance(value, list) and len(value) == 1 and name not in treatments else value
        for name, value in sweep.parameters().items()
        if value != [usual_values().get(name)]
    }
    whole = {"seed": seed, "sweeps": {sweep.name: body | {"figures": list(sweep.figures)}}}
    text: str = yaml.safe_dump(whole, sort_keys=False, default_flow_style=None, width=88)
    return text


def few_rows(sweep: Sweep, table: pd.DataFrame, metrics: Sequence[str], of: int | None = None) -> Table:
    """The rows at the ends of every axis, for common scalings if there are many: metrics ± half the 95% interval.

    Args:
        sweep: names the axes.
        table: its measured table, or some of its rows.
        metrics: columns to show after the axes and the scaling.
        of: number of rows of the measured table, if these are not all.

    Returns:
        At most 12 rows. With more than five scalings, only unscaled and d_k^1/3, 1/2, 2/3 and 1 count, if any is there.
    """
    varied = _varied(sweep, table)
    named = [*varied, *(["scaling"] if "scaling" in table else [])]
    shown = table
    for axis in varied:
        ends = _ordered(shown, axis)
        shown = shown[shown[axis].isin([ends[0], ends[-1]])]
    if "scaling" in shown and shown["scaling"].nunique() > _MAX_SCALINGS:
        common = shown["scaling"].isin(_COMMON)
        shown = shown[common] if common.any() else shown
    groups = shown.groupby(named, sort=False) if named else None
    shown = (shown if groups is None else groups.head(max(1, _MAX_ROWS // groups.ngroups))).head(_MAX_ROWS)
    rows = [
        [*(Field(plain(row[name])) for name in named), *(_cell(row, metric) for metric in metrics)]
        for _, row in shown.iterrows()
    ]
    head = [*named, *(title_of(metric, divided="scaling" in table) for metric in metrics)]
    return Table(head, rows, of or len(table), csv_name(sweep.name, "measured"))


def title_of(metric: str, *, divided: bool) -> str:
    """The name of a metric in text.

    Args:
        metric: its name.
        divided: False in a table without scalings, whose scores are undivided.

    >>> title_of("jacobian_norm", divided=True), title_of("score_variance", divided=False)
    ('Jacobian norm |J|_F, r.m.s.', 'score variance')
    """
    title = _TITLES[metric] if divided and metric in _TITLES else metric.replace("_", " ")
    return title.replace("$", "").replace("1-\\sum w^2", "1 − Σw²")


def _numbers(sweep: Sweep, table: pd.DataFrame, metric: str) -> Iterator[str]:
    """A metric with its 95% interval and exact value at the ends of the axes, unscaled and under d_k^1/2."""
    if f"{metric}_low" not in table:
        return
    varied = _varied(sweep, table)
    last = table
    for axis in varied:
        last = last[last[axis] == _ordered(last, axis)[-1]]
    if "scaling" in last:
        pair = last[last["scaling"].isin(_PAIR)]
        last = pair if len(pair) else last.iloc[[0]]
    named = [f"{axis} = {plain(last[axis].iloc[0])}" for axis in varied]
    named += ["the best learning rate"] if BEST_RATE in table else []
    where = f" at {listed(named)}" if named else ""
    values = [_with_interval(row, metric) for _, row in last.iterrows()]
    title = title_of(metric, divided="scaling" in table)
    yield f"{title[0].upper()}{title[1:]}{where}: {'; '.join(values)}."


def _with_interval(row: pd.Series, metric: str) -> str:
    """A metric of a row with its scaling, its 95% interval and its exact value, as far as these exist."""
    low, high = (float(row[f"{metric}_{end}"]) for end in ("low", "high"))
    half = (high - low) / 2
    scaling = f" {under(row['scaling'])}" if "scaling" in row else ""
    if pd.isna(row[metric]):
        return f"none{scaling}"
    exact = row.get(f"{metric}_exact")
    known = f", exactly {exact_text(float(exact), half)}" if exact is not None and pd.notna(exact) else ""
    if not half > 0:
        return f"{number(float(row[metric]))}{scaling}{known}"
    value, *text = interval(float(row[metric]), low, high)
    return f"{value}{scaling} (95% interval {text[0]} to {text[1]}{known})"


def _crossing_table(sweep: Sweep, crossings: pd.DataFrame) -> Table:
    """The d_k at which unscaled norms fall below norms under d_k^1/2, with 95% intervals, by n_keys."""
    head, rows = crossing_rows(crossings)
    return Table(head, [[Field(text) for text in row] for row in rows], len(rows), csv_name(sweep.name, "crossings"))


def _law_sentences(crossings: pd.DataFrame) -> Iterator[str]:
    """The laws of theory, and the number of intervals of measured crossings that contain them."""
    for (norm, statistic), rows in crossings.dropna(subset=["law", "crossing"]).groupby(
        ["norm", "statistic"], sort=False
    ):
        n_keys, laws = (
            listed([plain(value) for value in rows["n_keys"]]),
            listed([three_digits(law) for law in rows["law"]]),
        )
        inside = sum(law_is_inside(row) for _, row in rows.iterrows())
        yield (
            f"Theory predicts equal {statistic}s of {NORM_NAMES[norm]} at d_k = {laws} for {n_keys} keys;"
            f" {inside} of {len(rows)} lie in the 95% interval of the measured d_k."
        )


def _slope_sentence(slopes: pd.DataFrame) -> str:
    """The fitted slopes of the first five scalings, each with its interval and the exact slope."""
    clauses = []
    for _, row in slopes.head(_MAX_SCALINGS).iterrows():
        half = (row["slope_high"] - row["slope_low"]) / 2
        value, low, high = interval(row["slope"], row["slope_low"], row["slope_high"])
        slope = round(row["slope_exact"], _SLOPE_PLACES)
        exact = f", exactly {exact_text(slope, half)}" if math.isfinite(slope) else ""
        clauses.append(f"{value} {under(row['scaling'])} ({low} to {high}{exact})")
    return f"Slope of ln variance against ln d_k, with {LEVEL:.1%} intervals: {'; '.join(clauses)}."


def _varied(sweep: Sweep, table: pd.DataFrame) -> list[str]:
    """The axes of a sweep with more than one value in a table of its rows."""
    axes = axis_names(sweep.experiment.cell)
    return [name for name in axes if name in table and len(table[name].unique()) > 1]


def _ordered(table: pd.DataFrame, axis: str) -> list[Any]:
    """The values of an axis in order: numbers by size, names as the config lists them."""
    values = table[axis].unique().tolist()
    return sorted(values) if is_number(table, axis) else values


def _cell(row: pd.Series, metric: str) -> Field:
    """A metric of a row as value ± half its 95% interval, beside the exact value; both ends if one is the value."""
    value = row[metric]
    if pd.isna(value):
        return Field("–")
    if f"{metric}_low" not in row:
        return Field(plain(value) if isinstance(value, str | int) else number(float(value)))
    low, high = float(row[f"{metric}_low"]), float(row[f"{metric}_high"])
    if value in (low, high) and low < high:
        return Field(f"{number(float(value))} ({number(low)} to {number(high)})")
    half = (high - low) / 2
    exact = row.get(f"{metric}_exact")
    known = "" if exact is None or pd.isna(exact) else exact_text(float(exact), half)
    return Field(plus_minus(float(value), half), known)
