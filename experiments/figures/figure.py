"""The vocabulary of figures: a figure is data, drawn as lines or by the function of its name in
`maps` or `curves`.

This module and `experiments.figures.declared` load no package for drawing, so that the config may
read the declarations.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    import matplotlib.figure

Drawing: TypeAlias = "matplotlib.figure.Figure"


@dataclass(frozen=True)
class Default:
    """The sweeps that get a figure without naming it; `Default()` holds for every sweep of its
    experiment.

    Attributes:
        varied: axes with more than one value in such a sweep.
        single: axes with exactly one value.
        rules: scaling rules that the sweep must include.
    """

    varied: tuple[str, ...] = ()
    single: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

    def holds(self, values: Mapping[str, Sequence[Any]]) -> bool:
        """True for a sweep with these values of the fields of its cells.

        >>> Default(varied=("d_k",), single=("n_keys",)).holds({"d_k": (4, 8), "n_keys": (64,)})
        True
        """
        return (
            all(len(values[name]) > 1 for name in self.varied)
            and all(len(values[name]) == 1 for name in self.single)
            and all(rule in map(str, values.get("scaling", ())) for rule in self.rules)
        )


@dataclass(frozen=True)
class Panel:
    """One metric along the x axis of a figure of lines.

    Attributes:
        metric: its column; the column's interval and exact values belong to it.
        title: instead of the metric's.
        like: a metric of another panel of its row, which then shares the y axis.
        floor: the lower end of the y axis, which then is linear; otherwise a wide range makes it
            logarithmic.
        equal: True to mark the value of equal weights, ln n_keys or 1/n_keys.
        only: an axis, and `min` or `max` for the rows of its weakest or strongest value, which the
            title names.
        is_logarithmic: True for a logarithmic y axis if the range is wide, also if the metric has
            none of its own.
        over: what divides it: `ln n_keys`, or `exact` for its exact value, under the first rule
            alone.
    """

    metric: str
    title: str = ""
    like: str = ""
    floor: float | None = None
    equal: bool = False
    only: tuple[str, Callable[..., Any]] | None = None
    is_logarithmic: bool = False
    over: Literal["", "ln n_keys", "exact"] = ""


@dataclass(frozen=True)
class Lines:
    """A picture of metrics along an axis: points with 95% intervals, pale bands of exact values, a
    panel per metric.

    Attributes:
        x: the axis, `exponent` or `scaling`; empty for the first axis with more than one value, or
            `scaling`.
        panels: in rows of `columns`.
        size: width and height in inches; with `beside`, those of a panel.
        by: what distinguishes lines by colour; all other varied axes distinguish them by markers.
        beside: rows of panels for this treatment, one column for each of its first three values.
        columns: panels in a row; 0 for one row.
        rules: the scaling rules to show, if the table has one of them; otherwise all.
        at_best: True for each rule at its best learning rate, with its band of learning rates if it
            has several.
    """

    x: str
    panels: tuple[Panel, ...]
    size: tuple[float, float]
    by: str = "scaling"
    beside: str = ""
    columns: int = 0
    rules: tuple[str, ...] = ()
    at_best: bool = False


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure: what it shows, and how.

    Attributes:
        name: of its files; a figure without `lines` is drawn by the function of this name.
        shows: the plain title: what is plotted, in at most twelve words.
        of: the experiment whose sweeps it shows, one drawing for each sweep; or `all-sweeps` (all
            sweeps together).
        metrics: the columns of the measured table that it shows; the page gives the values of the
            first.
        lines: the picture, if it is one of lines.
        note: sentences of the plain caption on how to read the picture.
        default: the sweeps that get it without naming it; none if a sweep must name it.
        is_slide: True if its PNG is a slide: large letters, and no caption.
    """

    name: str = ""
    shows: str
    of: str
    metrics: tuple[str, ...] = ()
    lines: Lines | None = None
    note: str = ""
    default: Default | None = None
    is_slide: bool = False
