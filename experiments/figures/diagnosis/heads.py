"""Each head of a diagnosis beside Gaussian rows, and maps of all heads."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, ListedColormap, Normalize
from scipy import stats

from experiments.diagnosis.findings import beside_gaussian
from experiments.diagnosis.labels import indices, labels
from experiments.figures.caption_text import listed, number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.metric_lines import plain_numbers, plot_exact
from experiments.figures.style import INK, diverging, note, ordered_colours, panels, sequential
from experiments.figures.title_text import quantified
from experiments.harness.wording import counted

_FEW_LAYERS = 6  # with a name in the legend; more have a colour scale
_MOST_BARS = 200  # heads with intervals
_MOST_NUMBERS = {True: 12, False: 7}  # columns of a map with numbers in its cells, if it is wide and if not
_MOST_ROWS = 12  # likewise
_MOST_TICKS = 12
_WIDE = 1.6  # columns over rows from which the maps lie one above the other
_STEPS = {4: 2, 16: 4, 64: 8}  # between the ticks of a scale of ratios, by the factor of its strongest colours
_LIGHT_FROM = 0.55  # beyond this share of the way to the darkest colour, letters are white
_FLATTEST, _TALLEST = 0.12, {True: 0.36, False: 1.2}  # height of a map over its width, if it is wide and if not
_LOW = 0.2  # from this height over width on, the scale beside a map has room for all ticks
_UNKNOWN = "#dddddd"

Floats = npt.NDArray[np.float64]


class _Places(NamedTuple):
    """The cell of each head in a map, and the names of the rows and columns.

    Rows are layers and columns are heads; in general, columns are the last of the axes.
    """

    row: npt.NDArray[np.intp]
    column: npt.NDArray[np.intp]
    rows: list[str]
    columns: list[str]


def _places(heads: pd.DataFrame) -> _Places:
    *outer, last = indices(heads) or [""]
    by_row = heads[outer].astype(str).agg(", ".join, axis=1) if outer else pd.Series("", heads.index)
    row, rows = pd.factorize(by_row)
    column, columns = pd.factorize(heads[last] if last else by_row, sort=True)
    return _Places(row, column, list(map(str, rows)), list(map(str, columns)))


def plot(tables: Tables) -> Drawing:
    """Left, heads as points over exact curves; right, maps of the largest weight and of the variance ratio.

    A single head has no maps. Where layers have many heads, the maps lie one above the other.
    """
    heads = tables["heads"]
    places = _places(heads)
    shape = len(places.rows), len(places.columns)
    is_wide = shape[1] >= _WIDE * shape[0]
    if len(heads) == 1:
        figure, [[left]] = panels(1, 1, (6.5, 4.4))
    else:
        figure = Drawing(figsize=(10.5, 5.2 if is_wide else 4.8), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.3)) if is_wide else figure.add_gridspec(1, 3)
        left = figure.add_subplot(grid[:, 0])
        for i, metric in enumerate(_METRICS):
            ax = figure.add_subplot(grid[i, 1] if is_wide else grid[0, i + 1])
            ax.set_box_aspect(float(np.clip(shape[0] / shape[1], _FLATTEST, _TALLEST[is_wide])))
            has_room = shape[0] <= _MOST_ROWS and shape[1] <= _MOST_NUMBERS[is_wide]
            _plot_map(ax, heads, places, metric, with_numbers=has_room)
    _plot_points(left, tables)
    note(figure, _reading(tables))
    return figure


def _plot_points(ax: Axes, tables: Tables) -> None:
    """The entropy share of each head against the spread of its scores, over the exact curves."""
    heads, curves = tables["heads"], tables["curves"]
    for _, curve in curves.groupby(["n_queries", "n_keys", "mask"], sort=False):
        plot_exact(ax, curve["spread"].to_numpy(), curve["entropy_share"].to_numpy(), INK)
    ax.set_xscale("log")
    ax.set_xlim(curves["spread"].min(), curves["spread"].max())
    ax.set_ylim(-0.03, 1.03)
    plain_numbers(ax.xaxis)
    ax.set_xlabel("spread of the scaled scores within rows")
    ax.set_title("entropy share")
    spread, share = np.sqrt(heads["row_variance"]).to_numpy(), heads["entropy_share"].to_numpy()
    spread = np.maximum(spread, curves["spread"].min())  # a logarithmic axis has no place for equal scores
    colours = _colours(ax, heads)
    if _has_bars(heads):
        reach = np.minimum(_reach(heads, "row_variance") / (2 * spread), 0.9 * spread)  # below 0 has no logarithm
        look = {"linestyle": "", "ecolor": colours, "elinewidth": 1.2, "zorder": 2}
        ax.errorbar(spread, share, xerr=reach, yerr=_reach(heads, "entropy_share"), **look)
    size = float(np.clip(2000 / len(heads), 5, 40))
    ax.scatter(spread, share, s=size, c=colours, linewidths=0.4, edgecolors="white", zorder=3)


def _has_bars(heads: pd.DataFrame) -> bool:
    """True if some heads have standard errors, and the heads are so few that their intervals can be told apart."""
    return len(heads) <= _MOST_BARS and bool((heads["sequences"] > 1).any())


def _colours(ax: Axes, heads: pd.DataFrame) -> list[Any]:
    """The colour of each head, by its layer if there are layers and heads, with a legend or a colour scale."""
    *outer, _ = indices(heads) or [""]
    layer, layers = pd.factorize(heads[outer[0]], sort=True) if outer else (np.zeros(len(heads), int), [0])
    if len(layers) == 1:
        return [ordered_colours(1)[0]] * len(heads)
    palette = ordered_colours(len(layers))
    if len(layers) <= _FEW_LAYERS:
        for colour, name in zip(palette, layers, strict=True):
            ax.plot([], [], color=colour, marker="o", linestyle="", label=f"{outer[0]} {name}")
        ax.legend(loc="lower left", fontsize=9, handletextpad=0.2)
    else:
        scale = ScalarMappable(Normalize(-0.5, len(layers) - 0.5), ListedColormap(palette))
        shown = _shown(len(layers))
        bar = ax.figure.colorbar(scale, ax=ax, location="bottom", fraction=0.05, pad=0.02, aspect=40, label=outer[0])
        bar.set_ticks(shown, labels=[str(layers[i]) for i in shown])
        bar.ax.tick_params(length=0, labelsize=8)
        bar.outline.set_visible(False)
    return [palette[i] for i in layer]


def _reach(heads: pd.DataFrame, metric: str) -> Floats:
    """Half the 95% interval of a metric of each head; 0 where it is unknown."""
    freedom = np.maximum(heads["sequences"].to_numpy() - 1, 1)
    return np.asarray(np.nan_to_num(stats.t.isf(0.025, freedom) * heads[f"{metric}_se"].to_numpy()))


class _Shades(NamedTuple):
    """The colours of a map: its values on the scale of the colours, the colours, the range, and ticks with labels."""

    values: Floats
    colours: Colormap
    limits: tuple[float, float]
    ticks: dict[float, str]


def _shades_of_weights(weights: Floats) -> _Shades:
    return _Shades(weights, sequential(), (0, 1), {tick: f"{tick:g}" for tick in (0, 0.25, 0.5, 0.75, 1)})


def _shades_of_ratios(ratios: Floats) -> _Shades:
    """On a logarithmic scale with 1 in the middle, which ends at the first factor of `_STEPS` beyond all ratios."""
    logs = np.log(np.maximum(ratios, np.finfo(float).tiny))
    furthest = np.nanmax(np.abs(logs), initial=0.0)
    factor = next((factor for factor in _STEPS if furthest <= np.log(factor)), max(_STEPS))
    step, end = _STEPS[factor], float(np.log(factor))
    least, most = ("≤ ", "≥ ") if furthest > end else ("", "")
    labels_of_ticks = (f"{least}1/{factor}", f"1/{step}", "1", f"{step}", f"{most}{factor}")
    ticks = dict(zip((-end, -float(np.log(step)), 0.0, float(np.log(step)), end), labels_of_ticks, strict=True))
    return _Shades(np.clip(logs, -end, end), diverging(), (-end, end), ticks)


_METRICS: dict[str, tuple[str, Callable[[Floats], _Shades], Callable[[float], str]]] = {
    "max_weight": ("mean largest weight", _shades_of_weights, "{:.2f}".format),
    "variance_ratio": ("variance ratio", _shades_of_ratios, lambda ratio: number(ratio, 0.03 * ratio)),
}


def _plot_map(ax: Axes, heads: pd.DataFrame, places: _Places, metric: str, *, with_numbers: bool) -> None:
    """A metric of all heads as colours, with a scale of the same height, and as numbers if there is room."""
    title, shades_of, text = _METRICS[metric]
    values = np.full((len(places.rows), len(places.columns)), np.nan)
    values[places.row, places.column] = heads[metric]
    shades = shades_of(values)
    low, high = shades.limits
    colours = shades.colours.with_extremes(bad=_UNKNOWN)
    image = ax.imshow(shades.values, cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    bar = ax.figure.colorbar(image, cax=ax.inset_axes((1.02, 0, 0.025, 1)))
    every = 2 if ax.get_box_aspect() < _LOW else 1
    bar.set_ticks(list(shades.ticks)[::every], labels=list(shades.ticks.values())[::every])
    bar.ax.tick_params(labelsize=8)
    dark = np.abs(shades.values) > _LIGHT_FROM * high
    for place, value in np.ndenumerate(values):
        if with_numbers and np.isfinite(value):
            look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7}
            ax.annotate(text(float(value)), place[::-1], color="white" if dark[place] else INK, **look)
    _label(ax, heads, places)
    ax.set_title(title)


def _label(ax: Axes, heads: pd.DataFrame, places: _Places) -> None:
    """The names of some rows and columns, and of their axes."""
    *outer, last = indices(heads) or [""]
    flat = ax.get_box_aspect() <= _TALLEST[True]
    for axis, names, most in ((ax.xaxis, places.columns, _MOST_TICKS), (ax.yaxis, places.rows, _MOST_TICKS >> flat)):
        shown = _shown(len(names), most)
        axis.set_ticks(shown, [names[i] for i in shown], fontsize=8)
    ax.tick_params(length=0)
    ax.set_xlabel(last)
    ax.set_ylabel(", ".join(outer))
    for spine in ax.spines.values():
        spine.set_visible(False)


def _shown(count: int, most: int = _MOST_TICKS) -> list[int]:
    """The places that get a tick, at equal distances."""
    return list(range(0, count, -(-count // most)))


def _reading(tables: Tables) -> str:
    """A remark on how to read the figure."""
    heads, curves = tables["heads"], tables["curves"]
    kinds = curves[["n_keys", "mask"]].drop_duplicates()
    keys = listed([f"{row.n_keys} keys{' (causal mask)' * (row.mask == 'causal')}" for row in kinds.itertuples()])
    intervals = ", with 95% intervals where these exceed the marker" * _has_bars(heads)
    points = f"Points: heads{intervals}. Pale: exact, for Gaussian rows of {keys} and equal variances."
    ratio = "Variance ratio: variance within rows over that of independent entries; red: larger, blue: smaller."
    return f"{points} {ratio}" if len(heads) > 1 else points


def caption(tables: Tables) -> str:
    """The sharpest and the least sharp head beside Gaussian rows, and the range of the variance ratio."""
    heads = tables["heads"]
    names, share, exact = labels(heads), heads["entropy_share"].to_numpy(), heads["entropy_share_exact"].to_numpy()
    low, high = share.argmin(), share.argmax()
    if f"{share[low]:.2f}" == f"{share[high]:.2f}":
        subject = f"The entropy share of {counted(len(heads), 'head')} is {share[low]:.2f}"
        text = f"{subject}, where Gaussian rows of the same variance have {exact[low]:.2f}"
    else:
        ends = f"from {share[low]:.2f} ({names[low]}) to {share[high]:.2f} ({names[high]})"
        text = (
            f"The entropy shares of {len(heads)} heads go {ends}, where Gaussian rows of the same variance have"
            f" {exact[low]:.2f} and {exact[high]:.2f}"
        )
    ratios = heads["variance_ratio"].dropna()
    if ratios.empty:
        return f"{text}."
    times = " to ".join(dict.fromkeys(number(value, 0.03 * value) for value in (ratios.min(), ratios.max())))
    return f"{text}; the variance within rows is {times} times that of independent entries."


def title(tables: Tables) -> str:
    """The share of heads that are clearly sharper, or clearly less sharp, than Gaussian rows of the same variance."""
    beside, count = beside_gaussian(tables["heads"]), len(tables["heads"])
    sharper, flatter = int(beside.sharper.sum()), int(beside.flatter.sum())
    if sharper and flatter:
        return "Some heads are sharper than Gaussian rows, others less sharp"
    if not (sharper or flatter or beside.alike.all()):
        return ""
    subject = f"{quantified(sharper or flatter or count, count, 'heads')} are" if count > 1 else "This head is"
    word = "sharper than" if sharper else "less sharp than" if flatter else "as sharp as"
    return f"{subject} {word} Gaussian rows of equal variance"


FIGURE = Figure(
    shows="Heads beside Gaussian rows: entropy share, largest weight and variance within rows",
    of="diagnosis",
    tables=("heads", "curves"),
    plot=plot,
    caption=caption,
    title=title,
)
