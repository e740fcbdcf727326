"""The vocabulary of declarations: a figure with its caption and finding, as data.

Nothing here loads pandas or a package for drawing, so that the config may read the declarations.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from experiments.kinds.support import Numbers, Tables
from experiments.measuring.experiment import MEASURED

# The axes that a sentence speaks of: one value, values that a sweep must have among its own, or ()
# for any.
Needs: TypeAlias = Mapping[str, object]

READING = "bars: 95% intervals, where larger than the points"
HOLLOW = "hollow: few draws"
# Clauses on how to read a picture, each with the condition that it has what the clause speaks of.
When: TypeAlias = Mapping[str, Callable[[Tables], bool]]
# The metrics of the question, which SWEEP.csv has of experiments that measure rows of attention.
METRICS_OF_ROWS = (
    "score_variance",
    "max_weight",
    "entropy",
    "jacobian_norm_median",
    "query_gradient_norm_median",
)
CASES = "cases"  # each combination of the axes that are neither along x nor coloured


@dataclass(frozen=True)
class Panel:
    """One metric along the x axis of a figure of lines.

    Attributes:
        metric: its column; the column's interval and exact values belong to it. In a table without
            intervals, they reach two standard errors. A column `_law` gives lines without exact
            values.
        title: instead of the metric's.
        floor: the lower end of the y axis, if no value is below it; the axis then is linear. Without
            it, a wide range makes the axis logarithmic.
        top: the highest value, unless all are above it; larger ones stand there.
        equal: the end of the metric's range that equal weights reach, to mark it.
        only: an axis, and `min` or `max` for the rows of its weakest or strongest value, which the
            title names, unless there is a panel for each case.
        over: what divides it: `high` for the upper end of its range, or `exact` for its exact value,
            under the first rule alone.
        root: True for the square root of a mean square.
    """

    metric: str
    title: str = ""
    floor: float | None = None
    top: float = math.inf
    equal: Literal["", "low", "high"] = ""
    only: tuple[str, Callable[..., float]] | None = None
    over: Literal["", "high", "exact"] = ""
    root: bool = False


@dataclass(frozen=True)
class Lines:
    """A picture of metrics along an axis: points with 95% intervals, lines of exact values, a panel
    per metric.

    Attributes:
        x: the axis, `exponent` or `layer`. If it is empty or an axis of one value, lines go along the
            first axis of several that is not `separating`, or along `by`.
        panels: in rows of `columns`.
        size: width and height in inches; with `facet_by`, those of a panel.
        by: what distinguishes lines by colour, `scaling` or an axis of numbers; all other varied
            axes distinguish them by markers.
        facet_by: `scaling` for rows of panels, one column for each of the first four rules; with `by`
            the same, colours distinguish all other lines. `cases` for panels of each combination of
            the other axes, at most nine in all.
        columns: panels in a row; 0 for one row.
        shares: True for panels that share the y axis along their row; with `facet_by`, they always
            do.
        table: the kind of table whose rows are drawn, `measured` or a derived one.
    """

    x: str
    panels: tuple[Panel, ...]
    size: tuple[float, float]
    by: str = "scaling"
    facet_by: str = ""
    columns: int = 0
    shares: bool = False
    table: str = MEASURED

    @property
    def separating(self) -> list[str]:
        """The axes that separate lines and panels of one case, beside their metrics."""
        return [self.by, *(panel.only[0] for panel in self.panels if panel.only)]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Title and sentence of a figure, with the numbers that its tables have to give.

    Attributes:
        sweep: the one that they are about; empty for a table of no sweep.
        title: a plain sentence of at most twelve words that the other one supports.
        sentence: one idea in at most thirty words, with a format field for each number that an edit
            of the sweep can change; `{d_k.least}` and `{d_k.most}` for sizes.
        numbers: those of the sentence, from the tables of the sweep; None unless their intervals
            show each word of direction in title and sentence.
        reads: the derived tables that `numbers` needs.
        needs: the axes and rules that title and sentence speak of, and what else they take for
            granted, such as the sizes of a named setup.
    """

    sweep: str = ""
    title: str
    sentence: str
    numbers: Callable[[Tables], Numbers]
    reads: tuple[str, ...] = ()
    needs: Needs = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure: what it shows, and how.

    Attributes:
        name: of its files; a figure without `lines` is drawn by the entry of this name in `OWN_DRAWINGS`.
        shows: the plain title: what is plotted, in at most twelve words.
        of: the experiment whose sweeps it shows, one drawing for each sweep.
        metrics: the columns of the measured table that it shows, as the page orders them; by
            default those of the panels.
        lines: the picture, if it is one of lines.
        rules: the scaling rules to show, if the table has them all; otherwise all of the table.
        along: without `lines`, axes along which the rows shown differ; the others have their first
            combination. Empty for all rows.
        cases: with `along`, the most combinations of the other axes and of the rules; 0 for the
            first combination of the other axes under each rule.
        note: clauses of the grey line on how to read the picture.
        when: further clauses for tables with what they speak of.
        finding: title and sentence for one sweep; any other sweep has the plain title.
    """

    name: str
    shows: str
    of: str = ""  # set by the folder of its experiment
    metrics: tuple[str, ...] = ()
    lines: Lines | None = None
    rules: tuple[str, ...] = ()
    along: tuple[str, ...] = ()
    cases: int = 0
    note: str = ""
    when: When = field(default_factory=dict)
    finding: Finding | None = None

    def __post_init__(self) -> None:
        if self.lines and not self.metrics:
            panel_metrics = dict.fromkeys(panel.metric for panel in self.lines.panels)
            object.__setattr__(self, "metrics", tuple(panel_metrics))
