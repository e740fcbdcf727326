"""Ratios of gradient norms on the plane of d_k and n_keys, and where they cross 1.

The ratio is the unscaled norm over the norm under d_k^1/2, from the tables `ratios` and `crossings` of
`experiments.analysis.crossings`. Where it is below 1, gradients are smaller without the division.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.analysis.crossings import (
    EQUAL,
    NORMS,
    SCALED,
    STATISTICS,
    UNSCALED,
    no_crossings,
    of_first_map,
)
from experiments.figures.axes import first_combination, fixed, other_axes, plain, under
from experiments.figures.caption_text import listed
from experiments.figures.crossing_text import NORM_NAMES, crossing_list, crossings_of, of_norm
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import INK, diverging, note, panels
from experiments.figures.title_text import parts, shared
from experiments.harness.figures import Default

_TITLE_NORMS = ("jacobian", "query_gradient")
_SHOWN_FACTOR = 16  # a ratio this far from 1 has the strongest colour
_SMALLEST_NUMBER = 0.005
_WHITE_FROM = 0.75  # beyond this share of the way to that colour, numbers are white instead of black
_SIZE, _PANEL_INCHES, _INCHES_PER_NUMBER = (11, 6.4), 3.0, 0.3


def plot(tables: Tables) -> Drawing:
    """One row of maps per statistic and one column per norm, each with the line where the ratio is 1.

    A sweep without ratios, because it lacks one of the rules or varies no d_k, gets a drawing of the reason.
    """
    figure, grid = panels(len(STATISTICS), len(NORMS), _SIZE, sharex=True, sharey=True)
    if "ratios" not in tables:
        for ax in (ax for axes in grid for ax in axes):
            ax.set_axis_off()
        grid[0][0].text(0, 0.5, _reason(tables["measured"]), transform=grid[0][0].transAxes)
        return figure
    ratios, crossings, _ = _first_map(tables)
    image: Any = None
    for axes, statistic in zip(grid, STATISTICS, strict=True):
        for ax, (norm, name) in zip(axes, NORM_NAMES.items(), strict=True):
            image = _plot_map(ax, of_norm(ratios, norm, statistic), crossings_of(crossings, (norm, statistic, EQUAL)))
            ax.set_title(f"{statistic} of {name.replace('|J|_F', '$|J|_F$')}")
    for ax in grid[-1]:
        ax.set_xlabel("d_k")
    for axes in grid:
        axes[0].set_ylabel("n_keys")
    bar = figure.colorbar(image, ax=[ax for axes in grid for ax in axes], fraction=0.03, pad=0.01, aspect=40)
    ticks = [1 / 16, 1 / 4, 1, 4, 16]
    bar.set_ticks([float(np.log(tick)) for tick in ticks], labels=["≤ 1/16", "1/4", "1", "4", "≥ 16"])
    note(
        figure,
        f"{fixed(tables['measured'], 'd_k', 'n_keys')} Colour and number: the {UNSCALED} norm divided by the norm "
        f"under {SCALED}; red: the {UNSCALED} norm is larger, blue: it is smaller. Points: d_k at which the ratio "
        "falls through 1, with 95% intervals where these exceed the marker; pale lines join them. Dashed: prediction "
        "of theory, where there is one. divisor\u00a0·\u00a0|dL/dq| is without the factor 1/divisor of the chain rule.",
    )
    return figure


def _reason(table: pd.DataFrame) -> str:
    """The reason for an empty drawing."""
    missing = [name for name in (UNSCALED, SCALED) if name not in set(table["scaling"])]
    return f"no values {listed([under(name) for name in missing])}" if missing else "no ratios along a single d_k"


def _first_map(tables: Tables) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Ratios and crossings of the first combination of the axes that no map shows, and its name in words.

    With few d_k there are no crossings, and their table is empty.
    """
    _, where = first_combination(tables["measured"], "d_k", "n_keys")
    crossings = of_first_map(tables["crossings"]) if "crossings" in tables else no_crossings(tables["measured"])
    return of_first_map(tables["ratios"]), crossings, where


def _plot_map(ax: Axes, ratios: pd.DataFrame, crossings: pd.DataFrame) -> Any:
    """Ratios as colours and numbers, in cells of equal size regardless of the steps between d_k or n_keys."""
    shown = ratios.pivot_table(index="n_keys", columns="d_k", values="ratio", dropna=False)
    strongest = np.log(_SHOWN_FACTOR)
    image = ax.imshow(
        np.log(shown), origin="lower", aspect="auto", cmap=diverging(), vmin=-strongest, vmax=strongest, alpha=0.85
    )
    d_k, n_keys = shown.columns.to_numpy(dtype=float), shown.index.to_numpy(dtype=float)
    step = -(-len(d_k) * _INCHES_PER_NUMBER // _PANEL_INCHES)
    columns = np.arange(len(d_k))[:: max(1, int(step))]
    for (row, column), ratio in np.ndenumerate(shown.to_numpy()):
        if column in columns and np.isfinite(ratio):
            ink = "white" if abs(np.log(ratio)) > _WHITE_FROM * strongest else "black"
            x, side = _label_place(column, len(d_k), narrow=step > 1)
            ax.annotate(_short(ratio), (x, row - 0.3), ha=side, va="center", fontsize=7.5, color=ink)
    ax.set_xticks(columns, [plain(value) for value in shown.columns[columns]], fontsize=8)
    ax.set_yticks(range(len(n_keys)), map(plain, shown.index))
    _plot_line(ax, crossings, d_k, n_keys)
    return image


def _label_place(column: int, columns: int, *, narrow: bool) -> tuple[float, str]:
    """The place of a cell's number and its aligned side; a number wider than its cell stays on the map.

    Args:
        column: index of the cell's column.
        columns: number of columns.
        narrow: True if numbers are wider than cells.

    Returns:
        x in units of cells, and the horizontal alignment.
    """
    if narrow and column == 0:
        return -0.4, "left"
    return (columns - 0.6, "right") if narrow and column == columns - 1 else (column, "center")


def _short(ratio: float) -> str:
    """A ratio, short enough for a cell; empty below 0.005.

    >>> _short(12.3), _short(0.456), _short(0.0123), _short(0.001)
    ('12', '0.46', '0.01', '')
    """
    if ratio >= 1:
        return f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0f}"
    return f"{ratio:.2f}" if ratio >= _SMALLEST_NUMBER else ""


def _plot_line(ax: Axes, crossings: pd.DataFrame, d_k: Any, n_keys: Any) -> None:
    """The line where the ratio is 1, in units of cells: measured with its interval, and by the law.

    Args:
        ax: the axes of the map, with cells of equal size.
        crossings: one row per n_keys.
        d_k, n_keys: the values of columns and rows, in order; between them, places are linear in the logarithm.
    """
    y = np.interp(np.log(crossings["n_keys"]), np.log(n_keys), range(len(n_keys)))

    def place(values: pd.Series) -> Any:
        inside = values.where((values >= d_k[0]) & (values <= d_k[-1]))
        return np.interp(np.log(inside), np.log(d_k), range(len(d_k)))

    x = place(crossings["crossing"])
    low, high = (place(crossings[f"crossing_{end}"].fillna(crossings["crossing"])) for end in ("low", "high"))
    look = {"color": INK, "marker": "o", "markersize": 3.5, "linestyle": "", "capsize": 2, "elinewidth": 1}
    ax.errorbar(x, y, xerr=[x - low, high - x], **look)
    ax.plot(x, y, color=INK, linewidth=1.2, alpha=0.35)
    ax.plot(place(crossings["law"]), y, color=INK, linestyle="--", linewidth=1.2)


def caption(tables: Tables) -> str:
    """The d_k at which the medians and root mean squares of both norms are equal under both rules."""
    if "ratios" not in tables:
        return f"No ratio of {UNSCALED} norms to norms under {SCALED}: {_reason(tables['measured'])}."
    if "crossings" not in tables:
        return f"Ratios of {UNSCALED} norms to norms under {SCALED}; too few d_k to tell where they are equal."
    _, crossings, where = _first_map(tables)
    clauses = []
    for statistic in STATISTICS:
        for norm in ("jacobian", "query_gradient"):
            rows = crossings_of(crossings, (norm, statistic, EQUAL))
            exact = ", exact" if rows["crossing_exact"].notna().any() else ""
            clauses.append(f"{crossing_list(rows)} ({statistic} of {NORM_NAMES[norm]}{exact})")
    keys = listed([plain(n_keys) for n_keys in sorted(crossings["n_keys"].unique())])
    opening = f"With {keys} keys{where}, {UNSCALED} gradient norms fall below those under {SCALED}"
    return f"{opening} at d_k = {'; '.join(clauses)}."


def title(tables: Tables) -> str:
    """The side of the median norms on which the unscaled ones are, and the growth of the crossings with n_keys."""
    if "ratios" not in tables:
        return "No ratios of unscaled to scaled gradients"
    ratios, crossings = tables["ratios"], tables.get("crossings", no_crossings(tables["measured"]))
    others = other_axes(ratios, "d_k", "n_keys")
    each = parts(ratios, "d_k", "n_keys")
    of_maps = [crossings[(crossings[others] == part.iloc[0][others]).all(axis=1)] for part in each]
    return shared(map(_side, each, of_maps))


def _side(ratios: pd.DataFrame, crossings: pd.DataFrame) -> str:
    """The finding for one combination of the other axes; empty if the sweep does not contain all crossings."""
    typical = ratios[(ratios["statistic"] == "median") & ratios["norm"].isin(_TITLE_NORMS)]
    if (typical["ratio_low"] > 1).all():
        return "Typical unscaled gradients are larger than scaled ones at every width"
    if (typical["ratio_high"] < 1).all():
        return "Typical unscaled gradients are smaller than scaled ones at every width"
    found = [crossings_of(crossings, (norm, "median", EQUAL)) for norm in _TITLE_NORMS]
    if any(rows.empty or rows["crossing"].isna().any() for rows in found):
        return ""
    if all(map(_grows, found)):
        return "Typical unscaled gradients fall below scaled ones at widths growing with n_keys"
    return "In wide heads, typical unscaled gradients fall below scaled ones"


def _grows(crossings: pd.DataFrame) -> bool:
    """True if crossings grow with n_keys by more than their intervals, for at least two n_keys."""
    low, high = crossings["crossing_low"].to_numpy(), crossings["crossing_high"].to_numpy()
    return len(low) > 1 and bool((low[1:] > high[:-1]).all())


FIGURE = Figure(
    shows="Ratios of unscaled to scaled gradients over d_k and n_keys",
    of="saturation",
    tables=("measured", "ratios", "crossings"),
    metrics=("jacobian_norm_median", "query_gradient_norm_median", "jacobian_norm", "query_gradient_norm"),
    default=Default(varied=("d_k", "n_keys"), rules=("unscaled", "d_k^1/2")),
    plot=plot,
    caption=caption,
    title=title,
)
