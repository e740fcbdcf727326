"""The panels of a picture of lines, as data: the rows of each, as it shows them, its title, and its
lines with their labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

import numpy as np
import pandas as pd

from experiments.figures.words import (
    distinguishing_axes,
    divided,
    is_number,
    label_axes,
    listed,
    short,
    spoken,
    values_of,
)
from experiments.kinds.declarations import CASES, Lines, Panel
from experiments.kinds.support import Tables, rows_of
from experiments.measuring.intervals import MIN_TRIALS
from experiments.measuring.metric import FEW_DRAWS, Metric
from experiments.tables.crossings import NORM_STATISTICS, NORMS
from experiments.tables.results import Results
from experiments.tables.rows import sizes_of
from sdpa._arrays import FloatArray

EQUAL = "equal"  # the column of the value of equal weights
_CROSSING = {
    f"{metric}{suffix}": (norm, statistic)
    for norm, (metric, times_divisor) in NORMS.items()
    for statistic, suffix in NORM_STATISTICS.items()
    if not times_divisor
}
_LOG_FROM = 8  # a positive quantity with a range above this factor gets a logarithmic axis
_MOST_RULES = 4  # beside each other
_MOST_CASES = 9  # panels of cases
_LETTERS = 36  # of a line of a title


@dataclass(frozen=True)
class Line:
    """Rows along x.

    Attributes:
        value: of `by`, which gives the line its colour, unless the title has it.
        place: of its marker and dashes among those of the figure.
        words: for both; the first are empty if the title has them.
    """

    rows: pd.DataFrame
    value: object
    place: int
    words: tuple[str, str]


@dataclass(frozen=True)
class ShownPanel:
    """A panel with what it shows.

    Attributes:
        declared: its metric and scale.
        rows: with values as they are drawn; with `EQUAL`, if the panel marks equal weights.
        title: the metric, and the value, rule or case that the panel is of.
        beside: the metric, where the title does not have it; else empty.
        x_label: the name of x, with the axes that change along it.
        crossing: the exact d_k where the metric unscaled equals that with d_k^1/2, if x is d_k and
            there is one.
    """

    declared: Panel
    rows: pd.DataFrame
    lines: Sequence[Line]
    title: str
    beside: str
    x_label: str
    crossing: float | None


def panels_of(
    picture: Lines, x: str, rows: pd.DataFrame, results: Results
) -> tuple[pd.DataFrame, list[ShownPanel]]:
    """The rows that some panel draws, and the panels from left to right and from top to bottom.

    Args:
        x: the axis along which lines go.
        rows: of the table of the picture.
    """
    known = rows[rows[x].notna()]
    if known.empty:
        return known, []
    pairs = _PanelBuilder(picture, x, known, results).panel_rows()
    drawn = [index for _, part in pairs for index in part.index]
    whole = _PanelBuilder(picture, x, rows[rows.index.isin(drawn)], results)
    return whole.rows, [whole.panel(*pair) for pair in pairs]


@dataclass(frozen=True)
class _PanelBuilder:
    """A picture of lines along x with its rows."""

    lines: Lines
    x: str
    rows: pd.DataFrame
    results: Results

    @property
    def along(self) -> list[str]:
        """The axes by which the rows of one case differ."""
        return [self.x, *self.lines.separating]

    def panel_rows(self) -> list[tuple[Panel, pd.DataFrame]]:
        """Each panel with its rows."""
        lines, rows = self.lines, self.rows
        known = [panel for panel in lines.panels if panel.metric in rows]
        if lines.facet_by == CASES:
            names = self.results.axes.among(rows, *self.along)
            most = _MOST_CASES // len(known)
            pairs = [(panel, group) for group in _groups(rows, names)[:most] for panel in known]
        else:
            groups = _groups(rows, lines.facet_by)[:_MOST_RULES] if lines.facet_by else [rows]
            pairs = [(panel, group) for panel in known for group in groups]
        return [(panel, _panel_rows(group, panel)) for panel, group in pairs]

    def panel(self, panel: Panel, part: pd.DataFrame) -> ShownPanel:
        """A panel of a part of the rows."""
        results, metric = self.results, panel.metric
        drawn = _as_drawn(part, panel, self.rows[metric].min(), results.metrics)
        title, beside = self._title(panel, part.iloc[0])
        lines, along = self._lines(drawn)
        also = f" (also differing: {listed([*map(spoken, along)])})" if along else ""
        has_crossing = self.x == "d_k" and metric in _CROSSING
        crossing = _only_crossing(results, *_CROSSING[metric]) if has_crossing else None
        x_label = f"{spoken(self.x)}{also}"
        return ShownPanel(panel, drawn, lines, title, beside, x_label, crossing)

    def _title(self, panel: Panel, first: pd.Series) -> tuple[str, str]:
        """The title of a panel: its metric, the value of an axis that it chooses, and its rule or
        case; and a metric that all panels have, to stand beside them.
        """
        lines, axes = self.lines, self.results.axes
        metric = panel.title or self.results.metrics[panel.metric].title
        if lines.facet_by == CASES:
            varied = axes.varied(self.rows, *self.along)
            usual = "defaults" if varied else ""
            case = values_of(first, label_axes(first, varied, axes)) or usual
            is_alone = bool(case) and len(lines.panels) == 1
            phrases = [case] if is_alone else [metric, case]
            title = "\n".join(line for phrase in phrases for line in wrap(phrase, _LETTERS))
            return title, metric if is_alone else ""
        phrases = [metric]
        if panel.only:
            axis, _ = panel.only
            phrases.append(f"{axis} {short(first[axis])}")
        if lines.facet_by:
            phrases.append(divided(first[lines.facet_by]))
        return "\n".join(wrap(", ".join(phrases), _LETTERS)), ""

    def _lines(self, part: pd.DataFrame) -> tuple[list[Line], list[str]]:
        """The lines of a panel, and the axes that change along them with x, as n_heads does with
        d_model.

        There is one per value of `by` (its colour) and combination of the other axes (its marker and
        dashes). If the title has `by`, colours are free. Of rows along d_model, by `scaling`:

            scaling    d_model   n_heads   mask          varied      n_heads and mask
            unscaled   64        1         none          also        n_heads: one value at each d_model
            unscaled   128       2         none          separating  mask: two values at the same d_model
            unscaled   64        1         causal
            unscaled   128       2         causal        lines       unscaled none, unscaled causal

        `separating` is what has more than one value at the same x and `by`: without it, a line
        would have two points above one x. `places` numbers its combinations over all panels, so that
        one has the same marker and dashes in each. `fixed` are axes that do not vary: where the title
        has `by`, lines name those of an unusual value.
        """
        x, by, axes = self.x, self.lines.by, self.results.axes
        is_titled = self.lines.facet_by == by
        # one legend for all panels
        whole = part if self.lines.facet_by == CASES else self.rows
        varied = axes.varied(whole, *self.along)
        per_point = whole.groupby([x, by])
        separating = [name for name in varied if per_point[name].nunique().max() > 1]
        fixed = [
            name
            for name in axes.among(part, x, *varied)
            if is_titled and axes.usual[name] is not None
        ]
        places = whole.groupby([*separating, lambda _: 0], sort=False).ngroup()
        lines = []
        for (value, *_), own in part.groupby([by, *separating], sort=False):
            first = own.iloc[0]
            names = [*label_axes(first, separating, axes), *distinguishing_axes(first, fixed, axes)]
            others = values_of(first, names) or ("plain attention" if separating else "")
            words = value if by == "scaling" else f"{spoken(by)} = {short(value)}"
            ordered = own.sort_values(x) if is_number(own[x]) else own
            lines.append(
                Line(ordered, value, places[first.name], ("" if is_titled else words, others))
            )
        return lines, [name for name in varied if name not in separating]


def _only_crossing(tables: Tables, norm: str, statistic: str) -> float | None:
    """The exact d_k where a norm unscaled equals that with d_k^1/2; None unless the sweep has
    exactly one, and measures it with its interval.
    """
    if "crossings" not in tables:  # a sweep of few d_k
        return None
    rows = rows_of(tables, "crossings", norm=norm, statistic=statistic, level=1.0)
    ends = ["crossing", "crossing_low", "crossing_high", "crossing_exact"]
    known = rows.dropna(subset=ends)
    return known["crossing_exact"].item() if len(rows) == len(known) == 1 else None


def spans_widely(values: FloatArray) -> bool:
    """True if the values are positive and span more than a factor of 8.

    >>> spans_widely(np.array([1, 9])), spans_widely(np.array([0, 9])), spans_widely(np.array([1, 8]))
    (True, False, False)
    """
    known = values[~np.isnan(values)]
    return bool(known.size and known.min() > 0 and known.max() / known.min() > _LOG_FROM)


def _groups(rows: pd.DataFrame, by: str | list[str]) -> list[pd.DataFrame]:
    """The rows with each value, or combination of values, in their order."""
    return [group for _, group in rows.groupby(by, sort=False)]


def _panel_rows(rows: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    """The rows of a panel among those of its group."""
    if panel.only and len(rows):
        axis, choose = panel.only
        value = choose(rows[axis].unique(), key=abs)
        rows = rows[rows[axis] == value]
    if panel.over == "exact":
        rows = rows[rows["scaling"] == rows["scaling"].iloc[0]]  # all divide the same scores
    return rows


def _as_drawn(
    rows: pd.DataFrame, panel: Panel, least: float, metrics: Mapping[str, Metric]
) -> pd.DataFrame:
    """The rows of a panel, with its metric and the ends of its interval as it shows them; `least` is
    the least value of the figure.
    """
    metric = panel.metric
    ends = [f"{metric}_low", f"{metric}_high"]
    if ends[0] not in rows:
        rows = _with_ends(rows, panel)
    if panel.over:
        exact = f"{metric}_exact"
        is_exact = panel.over == "exact"
        whole = rows[exact] if is_exact else _end(rows, metrics[metric], panel.over)
        columns = rows.columns.intersection([metric, *ends, exact])
        rows = rows.assign(**rows[columns].div(whole, axis=0))
    if panel.equal:
        rows = rows.assign(**{EQUAL: _end(rows, metrics[metric], panel.equal)})
    if least > panel.top:
        return rows
    return rows.assign(**rows[[metric, *ends]].clip(upper=panel.top))


def _with_ends(rows: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    """Rows with a mean and a law, or with their roots, the mean two standard errors below and above,
    and whether their trials are few.
    """
    metric, law = panel.metric, f"{panel.metric}_law"
    values = rows[[metric, law]]
    error = 2 * rows[f"{metric}_se"]
    if panel.root:
        values = np.sqrt(values)
        error = error / (2 * values[metric])  # the derivative of the root
    ends = {f"{metric}_low": values[metric] - error, f"{metric}_high": values[metric] + error}
    few = np.where(rows["trials"] < MIN_TRIALS, metric, "")
    return rows.assign(**values, **ends, **{FEW_DRAWS: few})


def _end(rows: pd.DataFrame, metric: Metric, end: str) -> pd.Series:
    """An end of the range of a metric in each row."""
    return pd.Series(getattr(metric.limits(sizes_of(rows)), end), rows.index, float)
