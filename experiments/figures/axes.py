"""The axes of a panel: scales, ticks and their numbers; and labels of lines, at their ends or in a
legend.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    LogLocator,
    MaxNLocator,
    NullLocator,
    StrMethodFormatter,
)

from experiments.figures.formulas import latex
from experiments.figures.panels import spans_widely
from experiments.figures.style import INK
from experiments.figures.words import LETTERS_PER_INCH, divided, is_number, spoken
from sdpa._arrays import FloatArray

_EXPONENTS = {0: "0", 1 / 3: "1/3", 1 / 2: "1/2", 2 / 3: "2/3", 1: "1"}
_FEW_DECADES = 300
_LABEL_POINTS = 8.5
_LABEL_HEIGHT = 12  # in points, with space
_LONGEST_LABEL = 15  # letters
_LEGEND_LINE = 0.027  # its height in inches per point
_BESIDE_LABEL = 7  # letters: its marker, and the space to the next column


def scale_x(ax: Axes, values: pd.Series) -> None:
    """The scale of x, with ticks at its values; the name of the series is that of the axis.

    The last row of panels alone has names of exponents and categories.
    """
    is_last = ax.get_subplotspec().is_last_row()
    if values.name == "exponent":
        _mark_exponents(ax, values)
        ax.set_xlabel("exponent p of the divisor d_k^p" if is_last else "")
    elif not is_number(values):
        _name_categories(ax, values)
        ax.tick_params(axis="x", labelbottom=is_last)
        name = "divisor" if values.name == "scaling" else ax.get_xlabel()
        ax.set_xlabel(name if is_last else "")
    elif values.name == "layer":
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    else:
        _tick_numbers(ax, values)


def _mark_exponents(ax: Axes, exponents: pd.Series) -> None:
    """Ticks and dotted lines at the exponents that rules have names for."""
    if exponents.between(0, 1).all():
        ax.set_xticks([*_EXPONENTS], _EXPONENTS.values())
    for exponent in (1 / 3, 1 / 2, 2 / 3):
        ax.axvline(exponent, color=INK, linestyle=":", linewidth=0.8, zorder=0)


def _name_categories(ax: Axes, values: pd.Series) -> None:
    """Ticks with names aslant."""
    names = values.unique()
    ax.set_xticks(range(len(names)), [latex(spoken(name)) for name in names])
    for label in ax.get_xticklabels():
        label.set(rotation=35, ha="right", rotation_mode="anchor")
    ax.set_xlim(-0.5, len(names) - 0.5)


def _tick_numbers(ax: Axes, numbers: pd.Series) -> None:
    """Ticks at numbers; a logarithmic axis for sizes, which are whole numbers, for learning rates,
    and if the range is wide.

    Ticks that would touch their left neighbour are left out.
    """
    values = np.sort(numbers.unique())
    places = values
    is_size = values.dtype.kind in "iu" and values[0] > 0
    if is_size or numbers.name == "learning_rate" or spans_widely(values):
        ax.set_xscale("log", base=2)
        places = np.log2(values)
    texts = np.array([f"{value:g}" for value in values])
    letters = ax.get_window_extent().width / ax.figure.dpi * LETTERS_PER_INCH
    longest = max(map(len, texts))
    most = max(3, letters / (1 + longest))
    nearest = (places[-1] - places[0]) / most
    shown = [0]
    for i, place in enumerate(places):
        if place - places[shown[-1]] > nearest:
            shown.append(i)
    ax.set_xticks(values[shown], texts[shown])
    ax.xaxis.set_minor_locator(NullLocator())


def scale_y(
    ax: Axes,
    values: FloatArray,
    *,
    may_be_log: bool = True,
) -> None:
    """A y axis for some values, logarithmic if it may be and they are positive with a wide range."""
    if may_be_log and spans_widely(values):
        ax.set_yscale("log")
        plain_numbers(ax.yaxis)
    else:
        ax.ticklabel_format(axis="y", useOffset=False)


def plain_numbers(axis: Axis) -> None:
    """Plain numbers, such as 0.5, beside the ticks of a logarithmic axis, unless it spans many
    decades.
    """
    axis.set_minor_locator(NullLocator())  # a fifth of the time of a drawing
    low, high = axis.get_view_interval()
    if high < _FEW_DECADES * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))


def label_ends(axes: Sequence[Axes], *, are_rules: bool) -> bool:
    """Label lines beside their last points, in each panel that has them all and room for them; False
    if there is none. A single label has room if its line has a last point.
    """
    labels = [{bars.get_label() for bars in ax.containers} for ax in axes]
    whole = set.union(*labels)
    pairs = zip(axes, labels, strict=True)
    chosen = [ax for ax, own in pairs if own == whole and _has_room(ax)]
    look = {"textcoords": "offset points", "va": "center", "fontsize": _LABEL_POINTS}
    for line, label in (
        (bars[0], bars.get_label()) for panel in chosen for bars in panel.containers
    ):
        text = divided(label, "÷") if are_rules else label
        line.axes.annotate(text, line.get_xydata()[-1], (6, 0), color=line.get_color(), **look)
    return bool(chosen)


def _has_room(ax: Axes) -> bool:
    """True if labels at the ends of lines, which are known and at the same number x, are short and
    do not touch.
    """
    longest = max(len(bars.get_label()) for bars in ax.containers)
    ends = np.array([bars[0].get_xydata()[-1] for bars in ax.containers])
    if len(ends) == 1:
        return bool(np.isfinite(ends).all())
    if ax.xaxis.have_units() or longest > _LONGEST_LABEL or np.ptp(ends[:, 0]):
        return False
    heights = np.sort(ax.transData.transform(ends)[:, 1]) * 72 / ax.figure.dpi
    return bool((np.diff(heights) > _LABEL_HEIGHT).all())


def legend(
    ax: Axes,
    title: str = "",
    keys: dict[str, Line2D] | None = None,
) -> None:
    """A legend for the labelled lines above all axes of a figure, which grows; or for fewer keys, by
    label.
    """
    figure = ax.figure
    whole = {bars.get_label(): bars for panel in figure.axes for bars in panel.containers}
    lines = min(whole, keys or whole, key=len)
    letters = max(map(len, lines)) + _BESIDE_LABEL
    columns = min(len(lines), max(1, int(figure.get_figwidth() * LETTERS_PER_INCH / letters)))
    height = _LEGEND_LINE * _LABEL_POINTS * (math.ceil(len(lines) / columns) + bool(title))
    figure.set_figheight(figure.get_figheight() + height)
    figure.legend(
        lines.values(),
        lines,
        title=title,
        loc="outside upper left",
        ncols=columns,
        borderpad=0.3,
        fontsize=_LABEL_POINTS,
        title_fontsize=_LABEL_POINTS,
        alignment="left",
    )
