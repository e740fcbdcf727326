"""Score variance along d_k.

Var[q.k / d_k^p] = d_k^(1 - 2p) query_std^2 key_std^2 is a straight line on logarithmic axes; its measured slope comes
from the table `slopes` of `experiments.analysis.slopes`, not from this module.
"""

import math

import pandas as pd
from matplotlib.axes import Axes

from experiments.analysis.slopes import LEVEL, shared_by_line
from experiments.figures.axes import by_scaling, first_combination, fixed, of_keys, span, under
from experiments.figures.caption_text import listed, measured, number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.keeping import keeps
from experiments.figures.metric_lines import label_lines, plot_metric, reach, reading, scale_x, scale_y, series
from experiments.figures.style import INK, note, panels
from experiments.harness.figures import Default

METRIC = "score_variance"
_LEVEL_WITHIN = 0.2  # a slope that may be 0 counts as level if its interval is narrower than this


def plot(tables: Tables) -> Drawing:
    """Left: measured variances above the exact d_k^(1 - 2p); right: their relative difference."""
    table = tables["measured"]
    figure, [[left, right]] = panels(1, 2, (9, 4), width_ratios=[2, 1])
    lines = series(table, "d_k")
    plot_metric(left, lines, "d_k", METRIC)
    scale_x(left, table, "d_k", log=True)  # so that a power of d_k is a straight line
    scale_y(left, table, METRIC, log=True)
    slopes = [_slope_of(line.rows.iloc[0], tables.get("slopes")) for line in lines]
    texts = [
        line.label + (f": slope {_interval(slope)}" if slope is not None else "")
        for line, slope in zip(lines, slopes, strict=True)
    ]
    label_lines(left, lines, "d_k", METRIC, texts)
    _plot_deviation(right, table)
    remark = f" Slopes: ± half the {LEVEL:.1%} interval." if "slopes" in tables else ""
    note(figure, f"{fixed(table, 'd_k')} {reading(table, METRIC)}{remark}")
    return figure


def _plot_deviation(ax: Axes, table: pd.DataFrame) -> None:
    """The relative difference between measured and exact variance in percent, with 95% intervals."""
    # Every scaling divides the same scores, so all share one relative deviation; the first scaling shows it.
    shared = table[table["scaling"] == table["scaling"].iloc[0]]
    percent = 100 / shared[f"{METRIC}_exact"]
    below, above = reach(shared, METRIC) * percent.to_numpy()
    shared = shared.assign(deviation=shared[METRIC] * percent - 100, below=below, above=above)
    ax.axhline(0, color=INK, linewidth=5, alpha=0.3)
    for line in series(shared, "d_k"):
        look = {"color": INK, "marker": line.marker, "capsize": 2, "linestyle": ""}
        ax.errorbar(line.rows["d_k"], line.rows["deviation"], line.rows[["below", "above"]].T.to_numpy(), **look)
    ax.set_title("measured / exact − 1 (%)")
    ax.set_xlabel("d_k")
    scale_x(ax, shared, "d_k", log=True)


def caption(tables: Tables) -> str:
    """The growth of the variance under each scaling: its slope, or its value if there is a single d_k."""
    table, where = first_combination(tables["measured"], "d_k")
    first_rows = [rows.iloc[0] for rows in by_scaling(table, "d_k").values()]
    slopes = [_slope_of(row, tables.get("slopes")) for row in first_rows]
    clauses = [_growth(slope) for slope in slopes if slope is not None]
    if not clauses:
        clauses = [f"is {measured(row, METRIC)} {under(row['scaling'])}" for row in first_rows]
    keys = f" with{of_keys(table)} keys" if of_keys(table) and "n_keys" not in where else ""
    return f"{span(table, 'd_k')}{keys}, the variance of the scores{where} {listed(clauses)}."


def _growth(slope: pd.Series) -> str:
    """The growth of the variance under a scaling in words, from the sign of its slope's interval.

    A slope that may be 0 counts as level only if its interval is narrower than 0.2.
    """
    power = f"d_k^{number(slope['slope'], slope['slope_se'])}"
    is_known = math.isfinite(slope["slope_exact"])
    exact = f" (exactly {slope['slope_exact']:.4g})".replace("-", "−") if is_known else ""
    if slope["slope_low"] > 0:
        return f"grows as {power} {under(slope['scaling'])}{exact}"
    if slope["slope_high"] < 0:
        return f"shrinks as {power} {under(slope['scaling'])}{exact}"
    level = slope["slope_high"] - slope["slope_low"] < _LEVEL_WITHIN
    return f"{'stays level' if level else 'has no clear slope'} {under(slope['scaling'])}"


def _slope_of(row: pd.Series, slopes: pd.DataFrame | None) -> pd.Series | None:
    """The fitted slope of the line that contains a row of the table."""
    if slopes is None:
        return None
    shared = shared_by_line(slopes)
    mine = slopes[(slopes[shared] == row[shared]).all(axis=1)]
    return mine.iloc[0] if len(mine) else None


def _interval(slope: pd.Series) -> str:
    """A slope and half its interval, to the first digit of the latter.

    >>> _interval(pd.Series({"slope": 0.9998, "slope_low": 0.9990, "slope_high": 1.0006}))
    '0.9998 ± 0.0008'
    """
    half = (slope["slope_high"] - slope["slope_low"]) / 2
    places = max(0, -math.floor(math.log10(half)))
    return f"{slope['slope']:z.{places}f} ± {half:.{places}f}".replace("-", "−")


def title(tables: Tables) -> str:
    """The scalings under which the variance does not depend on d_k."""
    return keeps(tables["measured"], "d_k", METRIC, "the variance of scores {}level", "at every width")


FIGURE = Figure(
    shows="Score variance against d_k, with predicted powers and fitted slopes",
    of="saturation",
    tables=("measured", "slopes"),
    metrics=("score_variance",),
    default=Default(varied=("d_k",)),
    corrects=("lesson-14", "article-16"),
    plot=plot,
    caption=caption,
    title=title,
)
