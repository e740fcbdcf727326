"""Maps over d_k and n_keys, and heat maps of drawn rows: colours in cells of equal size, with
numbers or lines on them.

`OWN_DRAWINGS` says which figure each function draws, declared in `experiments.kinds.figures`.
"""

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from experiments.figures.shown import Shown, cases
from experiments.figures.style import DIVERGING, INK, SEQUENTIAL, Drawing, empty, panels
from experiments.figures.words import divided, short, values_of
from experiments.measuring.cells import CELL, Cell, Floats
from experiments.measuring.sampling import SampledCell
from experiments.tables.crossings import EQUAL, NORM_STATISTICS, NORMS
from experiments.tables.rows import sizes_of
from sdpa import PairLaw

_STRONGEST = np.log(16)  # of a ratio: this far from 1, it has the strongest colour
_MOST_NUMBERS = 5  # beside each other on a map
_CLEAR = 0.08  # of the width of a map, between a number and the bar in its row
_ASIDE = 0.3  # of a row, from its middle to a number off its bar
_NORM_TITLES = {
    "jacobian": "softmax Jacobian",
    "query_gradient": "gradient at a query",
    "undivided_query_gradient": "divisor times that",
}
_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
_LABEL_HEIGHT = 0.8  # share of a contour below its label
_FREEZING = "dashed: rows freeze, variance of scores = 2 ln n_keys"
_LIGHT_FROM = 0.55  # beyond this share, contours are white on the darker colours
_LUMINANCE = (0.2126, 0.7152, 0.0722)  # of linear red, green and blue (WCAG 2)
_DARK = 0.179  # white has more contrast than black on darker colours, and each at least 4.5 to 1
_MAX_COLUMNS = 4
_SIZES = ("d_k", "n_keys")
_MOST_TICKS = 16


def plot_plane(
    ax: Axes,
    values: pd.DataFrame,
    write: Callable[[float], str] | None = None,
    most: int = _MOST_TICKS,
    **look: object,
) -> AxesImage:
    """Values as colours in cells of equal size, with ticks, and numbers at each of them.

    Args:
        values: of the map; the names of its columns and its index become those of the axes.
        write: the number of a value; none for a map without numbers. Wide numbers at both ends stay
            on the map.
        most: of its ticks along x.
        look: keywords of `imshow`.
    """
    image = ax.imshow(values, origin="lower", aspect="auto", **look)
    height, width = values.shape
    every = -(-width // most)
    names = map(short, values.columns[::every])
    ax.set_xticks(range(0, width, every), names, fontsize=8)
    beside = -(-height // _MOST_TICKS)
    names = map(short, values.index[::beside])
    ax.set_yticks(range(0, height, beside), names)
    ax.tick_params(length=0)  # beside a number at the edge, a tick reads as its sign
    if ax.get_subplotspec().is_last_row():
        ax.set_xlabel(values.columns.name)
    if ax.get_subplotspec().is_first_col():
        ax.set_ylabel(values.index.name)
    if not write:
        return image
    ends = {0: ("left", -0.4), width - 1: ("right", 0.4)} if every > 1 else {}
    for (row, column), value in np.ndenumerate(values.to_numpy()):
        if column % every == 0 and np.isfinite(value):
            side, aside = ends.get(column, ("center", 0.0))
            ax.annotate(
                write(value),
                (column + aside, row),
                ha=side,
                va="center",
                fontsize=7.5,
                color=ink_on(image, value),
            )
    return image


def ink_on(image: AxesImage, value: float) -> str:
    """The colour of a number on the colour of its value in an image: the one with more contrast."""
    linear = np.power(image.to_rgba(value)[:3], 2.2)
    return "white" if np.dot(linear, _LUMINANCE) < _DARK else "black"


def pivoted(rows: pd.DataFrame, values: str) -> pd.DataFrame:
    """A column of a table over d_k and n_keys."""
    return rows.pivot_table(index="n_keys", columns="d_k", values=values, dropna=False)


def place(at: pd.Series | Floats, values: pd.Index) -> Floats:
    """Places of numbers on an axis of cells, linear in the logarithm between the values; NaN
    outside them.
    """
    logarithms = np.log(values.to_numpy(dtype=float))
    return np.interp(np.log(at), logarithms, range(len(values)), np.nan, np.nan)


def ratio_map(shown: Shown) -> Drawing:
    """Unscaled gradient norms over scaled ones (d_k^1/2), and where they cross 1: maps by statistic
    and norm.
    """
    ratios = shown.tables.get("ratios", pd.DataFrame())
    crossings = shown.tables.get("crossings", pd.DataFrame())
    if ratios.empty:
        return empty(
            "No ratios: they need values unscaled and divided by d_k^1/2, and several d_k."
        )
    kinds = [*itertools.product(NORM_STATISTICS, NORMS)]
    figure, axes = panels(len(kinds), len(NORMS), (10, 6), sharex=True, sharey=True)
    for ax, (statistic, norm) in zip(axes, kinds, strict=True):
        chosen = f"norm == {norm!r} and statistic == {statistic!r}"
        plane = pivoted(ratios.query(chosen), "ratio")
        image = plot_plane(
            ax,
            np.log(plane),
            _ratio,
            _MOST_NUMBERS,
            vmin=-_STRONGEST,
            vmax=_STRONGEST,
            cmap=DIVERGING,
            alpha=0.85,
        )
        if len(crossings):
            equal = crossings.query(f"{chosen} and level == {EQUAL}")
            _plot_crossings(ax, equal.sort_values("n_keys"), plane)
        ax.set_title(f"{_NORM_TITLES[norm]}, {statistic}")
    label = "size unscaled, over that divided by d_k^1/2"
    bar = figure.colorbar(image, ax=axes, label=label, fraction=0.03, pad=0.01, aspect=40)
    ticks = np.log([1 / 16, 1 / 4, 1, 4, 16])
    bar.set_ticks(ticks, labels=["≤ 1/16", "1/4", "1", "4", "≥ 16"])
    return figure


def _ratio(log: float) -> str:
    """A ratio, from its logarithm; the least in short."""
    ratio = np.exp(log)
    if ratio < 0.005:
        return "<.01"
    if ratio < 1:
        return f"{ratio:.2f}"
    return f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0f}"


def _plot_crossings(
    ax: Axes,
    crossings: pd.DataFrame,
    shown: pd.DataFrame,
) -> None:
    """The line where the ratio is 1, one point per n_keys: measured with its interval, and exact as a
    stroke. Numbers make room.
    """
    y = place(crossings["n_keys"], shown.index)
    ends = ("crossing", "crossing_low", "crossing_high", "crossing_exact")
    x, low, high, exact = (place(crossings[end], shown.columns) for end in ends)
    reach = np.where(np.isnan([low, high]), x, [low, high])
    wide = _CLEAR * len(shown.columns)
    for text, (at, row, left, right) in itertools.product(ax.texts, zip(x, y, *reach, strict=True)):
        column, height = text.xy
        if abs(height - row) < 0.5 and left - wide < column < right + wide:
            # away from the lines, which rise to the right
            text.xyann = column, height + (_ASIDE if column < at else -_ASIDE)
    ax.errorbar(x, y, xerr=abs(reach - x), fmt="o", color=INK, elinewidth=1)
    ax.plot(x, y, color=INK, alpha=0.35)
    ax.plot(exact, y, "--|", color=INK, markersize=9)


def phase(shown: Shown) -> Drawing:
    """Entropy of rows as a share of ln n_keys: a map for each case and rule, with contours."""
    axes = shown.results.axes
    groups = cases(shown.rows, axes, _SIZES)
    names = axes.varied(shown.rows, *_SIZES)
    columns = min(len(groups), 2)
    size = 10, 0.8 + 2.9 * -(-len(groups) // columns)
    figure, places = panels(len(groups), columns, size, sharex=True, sharey=True)
    whole = pivoted(shown.rows, "entropy")
    entropy = shown.results.metrics["entropy"]
    for ax, cells in zip(places, groups, strict=True):
        per_highest = 1 / entropy.limits(sizes_of(cells)).high
        measured = cells["entropy"] * per_highest
        exact = cells["entropy_exact"] * per_highest
        plane = pivoted(cells.assign(share=measured), "share").reindex_like(whole)
        image = plot_plane(ax, plane, cmap=SEQUENTIAL, vmin=0, vmax=1)
        if min(plane.shape) > 1:
            known = cells.assign(share=exact.fillna(measured))
            shares = pivoted(known, "share").reindex_like(whole)
            _plot_contours(ax, shares)
        first = cells.iloc[0]
        title = ", ".join(filter(None, [values_of(first, names), divided(first["scaling"])]))
        if min(plane.shape) > 1 and _plot_freezing(ax, first[CELL], plane):
            title += f"\n{_FREEZING}"
        ax.set_title(title)
    label = "entropy / ln n_keys"
    figure.colorbar(image, ax=places, label=label, fraction=0.03, pad=0.01, aspect=30)
    return figure


def _plot_contours(ax: Axes, shares: pd.DataFrame) -> None:
    """Lines of equal shares with their values, in units of cells."""
    levels = [level for level in _LEVELS if np.nanmin(shares) < level < np.nanmax(shares)]
    if not levels:
        return
    colours = ["white" if level > _LIGHT_FROM else INK for level in levels]
    lines = ax.contour(shares.to_numpy(), levels=levels, colors=colours, linewidths=0.9)
    # Labels stand high on their lines, away from the line of freezing, which crosses contours of
    # short rows.
    places = []
    for path in lines.get_paths():
        points = path.vertices
        upwards = points[np.argsort(points[:, 1])]
        if len(upwards):
            places.append(upwards[int(_LABEL_HEIGHT * len(upwards))])
    ax.clabel(lines, fmt="%g", fontsize=8.5, manual=places)


def _plot_freezing(
    ax: Axes,
    cell: Cell,
    shown: pd.DataFrame,
) -> bool:
    """The line query_std key_std d_k^(1/2 - p) = sqrt(2 ln n_keys), in the plane of a cell and its
    rule, if its entries are independent and Gaussian of mean 0; True if it crosses the map.
    """
    if not isinstance(cell, SampledCell) or cell.has_mask:
        return False
    law = cell.law
    exponent = cell.scaling[0].exponent
    spread = law.query_std * law.key_std
    is_gaussian = law == PairLaw(query_std=law.query_std, key_std=law.key_std)
    if is_gaussian and exponent is not None and exponent < 1 / 2:
        at = np.geomspace(shown.index[0], shown.index[-1], 50)
        power = 1 / (1 - 2 * float(exponent))
        freezing = (2 * np.log(at) / spread**2) ** power
        x = place(freezing, shown.columns)
        y = place(at, shown.index)
        ax.plot(x, y, "--", color=INK, linewidth=1.5)
        return bool(np.isfinite(x).any())
    return False


def rows(shown: Shown) -> Drawing:
    """One heat map of weights per d_k and scaling, of the first draw; darker is a larger weight."""
    table = shown.rows
    groups = list(table.groupby(["d_k", "scaling"], sort=False))
    columns = min(table["scaling"].nunique(), _MAX_COLUMNS)
    size = 9, 1.1 + 2.1 * -(-len(groups) // columns)
    figure, axes = panels(len(groups), columns, size, sharex=True, sharey=True)
    for ax, ((d_k, scaling), drawn) in zip(axes, groups, strict=True):
        weights = drawn.pivot_table(index="query", columns="key", values="weight")
        image = plot_plane(ax, weights, most=32 // columns, cmap=SEQUENTIAL, vmin=0, vmax=1)
        largest = weights.max(axis=1).mean()
        ax.set_title(f"d_k = {d_k}, {divided(scaling)}\nmean of largest: {largest:.2f}")
    axes[0].invert_yaxis()
    figure.colorbar(image, ax=axes, label="weight", shrink=0.8, pad=0.01, aspect=30)
    return figure
