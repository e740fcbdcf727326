"""Weights and gradients that a number format rounds to 0, over d_k and n_keys."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import by_scaling, first_combination, fixed, plain, span, under
from experiments.figures.caption_text import listed
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import INK, note, panels, sequential
from experiments.harness.figures import Default

_RULES = 2
_LIGHT_FROM = 0.55  # beyond this share of the way to the darkest colour, letters are white
_LARGEST_MAP = 8  # most rows or columns of a map with numbers in its cells
_SHARES = {
    "zero_weights": "weights that are 0",
    "zero_gradient_rows": "queries without any gradient",
    "overflowing_rows": "rows whose e^s overflows unless the maximum is subtracted",
    "subnormal_weights": "weights above 0, below the smallest normal number",
}
_SMALL = 0.001  # a share below it everywhere has no maps


def plot(tables: Tables) -> Drawing:
    """A row of maps, one for each format, for each share of the first two rules that reaches 0.1% somewhere."""
    table, _ = _first(tables)
    formats = table["arithmetic"].unique()
    shown = list(_rows(table))
    high = 0.9 + 0.42 * table["n_keys"].nunique()
    figure, grid = panels(len(shown), len(formats), (1.2 + 2.2 * len(formats), 0.9 + high * len(shown)))
    for axes, (scaling, share, rows) in zip(grid, shown, strict=True):
        for ax, name in zip(axes, formats, strict=True):
            _plot_map(ax, rows[rows["arithmetic"] == name], share)
            ax.set_title(f"\n{name}")
        axes[0].set_ylabel("n_keys")
        above = axes[0].annotate(
            f"{under(scaling)}: {_SHARES[share]}",
            (0, 1),
            (0, 22),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=10.5,
            fontweight="bold",
        )
        above.set_in_layout(False)  # it runs on above the other maps
    for ax in grid[-1]:
        ax.set_xlabel("d_k")
    note(
        figure,
        f"{fixed(table, 'd_k', 'n_keys', 'arithmetic')} Colours and numbers: shares; blank: not measured."
        f"{_omitted(table, shown)} Queries, keys, scores, weights and gradients are rounded to the format; sums, "
        "quotients and exponentials to single precision (in float64 to double), after subtracting the maximum. "
        "Gradients to the weights are standard normal.",
    )
    return figure


def _first(tables: Tables) -> tuple[pd.DataFrame, str]:
    """The rows of the first combination of the axes that a map does not show, and its name in words."""
    return first_combination(tables["measured"], "d_k", "n_keys", "arithmetic")


def _groups(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each of the first two rules."""
    return list(by_scaling(table, "d_k").items())[:_RULES]


def _rows(table: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """The rule, share and rows of each row of maps; subnormal weights only under rules that keep nearly all weights."""
    found = False
    for scaling, rows in _groups(table):
        for share in _SHARES:
            if rows[share].max() >= _SMALL and not (share == "subnormal_weights" and _loses_weights(rows)):
                found = True
                yield scaling, share, rows
    if not found:
        scaling, rows = _groups(table)[0]
        yield scaling, "zero_weights", rows


def _loses_weights(rows: pd.DataFrame) -> bool:
    """True if a format rounds 0.1% of the weights to 0 somewhere."""
    return bool(rows["zero_weights"].max() >= _SMALL)


def _omitted(table: pd.DataFrame, shown: list[tuple[str, str, pd.DataFrame]]) -> str:
    """The shares that have no maps because they are small everywhere, as a sentence."""
    drawn = {(scaling, share) for scaling, share, _ in shown}
    parts = []
    for scaling, rows in _groups(table):
        small = [
            f"{text} ({_percent(rows[share].max())})"
            for share, text in _SHARES.items()
            if (scaling, share) not in drawn and rows[share].max() < _SMALL
        ]
        if small:
            parts.append(f"{under(scaling)}, {listed(small)}")
    return f" Without maps, with their largest value: {'; '.join(parts)}." if parts else ""


def _plot_map(ax: Axes, rows: pd.DataFrame, share: str) -> None:
    """A share over d_k and n_keys as colours and, in a small map, as numbers."""
    values = rows.pivot_table(index="n_keys", columns="d_k", values=share)
    # As cells, since equal images, such as those of 0 everywhere, would have one id on the page.
    x, y = (np.arange(size + 1) - 0.5 for size in values.shape[::-1])
    ax.pcolormesh(x, y, values, cmap=sequential(), vmin=0, vmax=1)
    if max(values.shape) <= _LARGEST_MAP:
        for place, value in np.ndenumerate(values.to_numpy()):
            look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
            if np.isfinite(value):
                colour = "white" if value > _LIGHT_FROM else INK
                ax.annotate(_percent(value), place[::-1], color=colour, **look)
    ax.set_xticks(range(values.shape[1]), map(plain, values.columns))
    ax.set_yticks(range(values.shape[0]), map(plain, values.index))


def _percent(share: float) -> str:
    """A share in per cent with two digits, with a sign for those that round to 0 or 100 per cent.

    >>> _percent(0.0), _percent(1e-5), _percent(0.0063), _percent(0.42), _percent(0.9999)
    ('0', '<0.1%', '0.6%', '42%', '>99%')
    """
    if 0 < share < 0.0005:
        return "<0.1%"
    if 0.995 < share < 1:
        return ">99%"
    return f"{100 * share:.{1 if share < 0.095 else 0}f}%" if share else "0"


def caption(tables: Tables) -> str:
    """Where formats leave queries without a gradient, weights of 0 or of fewer digits, and rows that overflow."""
    table, where = _first(tables)
    n_keys = sorted(table["n_keys"].unique())
    of_keys = f"{n_keys[0]} to {n_keys[-1]} keys" if len(n_keys) > 1 else f"{n_keys[0]} keys"
    if len(table[["d_k", "n_keys"]].drop_duplicates()) < table["d_k"].nunique() * len(n_keys):
        of_keys += " (not every combination)"
    queries = (table["trials"] * table["n_queries"]).min()
    lost, rounded, large = [], [], []
    for scaling, rows in _groups(table):
        lost.append(f"{under(scaling)}, {_by_format(rows, 'zero_gradient_rows', 'd_k')}")
        zeros = _by_format(rows, "zero_weights", "d_k")
        if rows["subnormal_weights"].any() and not _loses_weights(rows):
            zeros += f", but below the smallest normal number {_by_format(rows, 'subnormal_weights', 'n_keys')}"
        rounded.append(f"{under(scaling)}, {zeros}")
        large.append(f"{under(scaling)}, {_by_format(rows, 'overflowing_rows', 'd_k')}")
    return (
        f"{span(table, 'd_k')} with {of_keys}{where}, queries without any gradient, of {queries} in each cell: "
        f"{'; '.join(lost)}. Weights that are 0: {'; '.join(rounded)}. "
        f"Rows whose e^s overflows unless the maximum is subtracted: {'; '.join(large)}."
    )


def _by_format(rows: pd.DataFrame, share: str, axis: str) -> str:
    """The largest share in each format with any, and the least value of an axis that has it, in words."""
    clauses = []
    for name, of_format in rows.groupby("arithmetic", sort=False):
        if of_format[share].any():
            first = plain(of_format.loc[of_format[share] > 0, axis].min())
            clauses.append(f"{_percent(of_format[share].max())} in {name} (first at {axis} = {first})")
    formats = list(rows["arithmetic"].unique())
    none = "none in any format" if len(formats) > 1 else f"none in {formats[0]}"
    return f"up to {listed(clauses)}" if clauses else none


FIGURE = Figure(
    title="What number formats round to zero: weights and gradients over d_k and n_keys",
    of="rounding",
    tables=("measured",),
    metrics=("zero_weights", "zero_gradient_rows", "overflowing_rows", "subnormal_weights"),
    default=Default(),
    plot=plot,
    caption=caption,
)
