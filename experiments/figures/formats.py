"""Weights and gradients that a number format rounds to 0, over d_k and n_keys."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import by_scaling, first_combination, fixed, plain, span, under
from experiments.figures.caption_text import differ, listed
from experiments.figures.crossing_text import three_digits
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import INK, note, panels, sequential
from experiments.figures.title_text import more, parts, shared
from experiments.harness.figures import Default

_RULES = 2
_LIGHT_FROM = 0.55  # beyond this share of the way to the darkest colour, letters are white
_LARGEST_MAP = 8  # most rows or columns of a map with numbers in its cells
_SHARES = {
    "zero_weights": "weights that are 0",
    "zero_gradient_rows": "queries whose gradient is 0",
    "wrong_gradient_rows": "queries whose gradient is wrong by more than half of its length",
    "overflowing_rows": "rows whose e^s overflows unless the maximum is subtracted",
    "zero_gradients": "gradients to scores that are 0",
    "subnormal_weights": "weights above 0, below the smallest normal number",
}
_FINE = ("zero_gradients", "subnormal_weights")  # shown for rules that keep nearly all weights
_LOST = {"zero_weights": "weights", "wrong_gradient_rows": "gradients"}  # in a title
_SMALL, _SMALL_FINE = 0.001, 0.01  # a share, or a fine one, below it everywhere has no maps
_MIN_SIZE = 8.0, 2.5  # inches: for the title and the note


def plot(tables: Tables) -> Drawing:
    """A row of maps, one for each format, for each share of the first two rules that reaches 0.1% somewhere."""
    table, _ = _first_map(tables)
    shown = list(_rows(table))
    formats = _formats(table, shown)
    high = 1.05 + 0.42 * table["n_keys"].nunique()
    width, rest = _MIN_SIZE
    size = max(width, 1.2 + 2.2 * len(formats)), rest + high * len(shown)
    figure, grid = panels(len(shown), len(formats), size)
    for axes, (scaling, share, rows) in zip(grid, shown, strict=True):
        for ax, name in zip(axes, formats, strict=True):
            _plot_map(ax, rows[rows["arithmetic"] == name], share)
            ax.set_title(f"\n\n{name}")
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
        f"{_omitted(table, shown, formats)} Queries, keys, scores, weights and gradients are rounded to the format; "
        "sums, quotients and exponentials to single precision (in float64 to double), after subtracting the maximum. "
        "Gradients to the weights are standard normal.",
    )
    return figure


def _first_map(tables: Tables) -> tuple[pd.DataFrame, str]:
    """The rows of the first combination of the axes that a map does not show, and its name in words."""
    return first_combination(tables["measured"], "d_k", "n_keys", "arithmetic")


def _groups(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each of the first two rules."""
    return list(by_scaling(table, "n_keys").items())[:_RULES]


def _rows(table: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """The rule, share and rows of each row of maps."""
    found = False
    for scaling, rows in _groups(table):
        for share in _shares(rows):
            if rows[share].max() >= (_SMALL_FINE if share in _FINE else _SMALL):
                found = True
                yield scaling, share, rows
    if not found:
        scaling, rows = _groups(table)[0]
        yield scaling, "zero_weights", rows


def _shares(rows: pd.DataFrame) -> list[str]:
    """The shares that matter for a rule: the fine ones only if no format rounds 0.1% of its weights to 0."""
    loses_weights = rows["zero_weights"].max() >= _SMALL
    return [share for share in _SHARES if not (share in _FINE and loses_weights)]


def _formats(table: pd.DataFrame, shown: list[tuple[str, str, pd.DataFrame]]) -> list[str]:
    """The formats with a share above 0 in a row of maps; all formats if there is none."""
    formats: list[str] = table["arithmetic"].unique().tolist()
    some = [
        name for name in formats if any(rows.loc[rows["arithmetic"] == name, share].any() for _, share, rows in shown)
    ]
    return some or formats


def _omitted(table: pd.DataFrame, shown: list[tuple[str, str, pd.DataFrame]], formats: list[str]) -> str:
    """The formats and shares that have no maps because they are small everywhere, as sentences."""
    drawn = {(scaling, share) for scaling, share, _ in shown}
    parts = [
        f"{under(scaling)}, {_SHARES[share]} ({_percent(rows[share].max())})"
        for scaling, rows in _groups(table)
        for share in _shares(rows)
        if (scaling, share) not in drawn
    ]
    zero = [name for name in table["arithmetic"].unique() if name not in formats]
    text = f" {listed(zero)}: 0 in all of these maps." if zero else ""
    return f"{text} Without maps, with their largest value: {'; '.join(parts)}." if parts else text


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

    >>> _percent(0.0), _percent(1e-5), _percent(0.0063), _percent(0.42), _percent(0.9999), _percent(1.0)
    ('0', '<0.1%', '0.6%', '42%', '>99%', '100%')
    """
    if 0 < share < 0.0005:
        return "<0.1%"
    if 0.995 < share < 1:
        return ">99%"
    return f"{100 * share:.{1 if share < 0.095 else 0}f}%" if share else "0"


def caption(tables: Tables) -> str:
    """Where half of the weights are 0, the largest shares of queries without a right gradient, and the fine shares."""
    table, where = _first_map(tables)
    sentences = [_halves(tables["zero_limits"], table)] if "zero_limits" in tables else []
    queries = (table["trials"] * table["n_queries"]).min()
    lost = [f"{under(scaling)}, {_lost(rows)}" for scaling, rows in _groups(table)]
    sizes = f"{span(table, 'd_k')}{_of_keys(table)}, largest shares of {queries} queries in a cell{where}"
    sentences.append(
        f"{sizes} whose gradient is 0, or wrong by more than half of its length (95% intervals of shares above 0 "
        f"within ±{_reach(table):.0%}): {'; '.join(lost)}."
    )
    for scaling, rows in _groups(table):
        most = {share: _most(rows, share) for share in _FINE if share in _shares(rows)}
        fine = [f"{_SHARES[share]}: {found}" for share, found in most.items() if found]
        if fine:
            sentences.append(f"Largest shares {under(scaling)} of {'; of '.join(fine)}.")
    return " ".join(sentences)


def _of_keys(table: pd.DataFrame) -> str:
    """The range of the number of keys, in words."""
    n_keys = sorted(table["n_keys"].unique())
    text = f" with {n_keys[0]} to {n_keys[-1]} keys" if len(n_keys) > 1 else f" with {n_keys[0]} keys"
    is_whole = len(table[["d_k", "n_keys"]].drop_duplicates()) == table["d_k"].nunique() * len(n_keys)
    return text if is_whole else f"{text} (not every combination)"


def _halves(limits: pd.DataFrame, table: pd.DataFrame) -> str:
    """The exact d_k from which on half of the weights are 0, for each rule, format and number of keys, in words."""
    axes = [name for name in limits if name in table]
    rows = limits.merge(table[axes].drop_duplicates(), on=axes)
    n_keys = rows["n_keys"].unique()
    parts = []
    for scaling, of_rule in _groups(rows):
        found = [
            f"{listed([three_digits(d_k) if d_k > 0 else 'none' for d_k in halves])} in {name}"
            for name, halves in of_rule.groupby("arithmetic", sort=False)["half_zero_d_k"]
            if halves.notna().any()
        ]
        none = f"none up to {plain(of_rule['searched_to'].min())}"
        parts.append(f"{under(scaling)}, {'; '.join(found) or none}")
    keys = f"{listed([plain(n) for n in n_keys])} keys"
    return f"The d_k at which half of the weights of {keys} are 0 (exact): {'; '.join(parts)}."


def _lost(rows: pd.DataFrame) -> str:
    """The largest shares of gradients that are 0 and that are wrong, by format, in words."""
    shares = rows.groupby("arithmetic", sort=False)[["zero_gradient_rows", "wrong_gradient_rows"]].max()
    some = shares[shares.any(axis=1)]
    clauses = [f"{_percent(zero)} and {_percent(wrong)} in {name}" for name, (zero, wrong) in some.T.items()]
    return listed(clauses) if clauses else "none"


def _reach(table: pd.DataFrame) -> float:
    """The largest distance of an end of an interval from its share, of gradients that are 0 or wrong; 0 if none is."""
    return max(
        (
            float((table[f"{share}{end}"] - table[share]).abs()[table[share] > 0].max())
            for share in ("zero_gradient_rows", "wrong_gradient_rows")
            for end in ("_low", "_high")
            if table[share].any()
        ),
        default=0.0,
    )


def _most(rows: pd.DataFrame, share: str) -> str:
    """The largest share of each format with any, in words; empty if there is none."""
    most = rows.groupby("arithmetic", sort=False)[share].max()
    return listed([f"{_percent(value)} in {name}" for name, value in most[most > 0].items()]) if most.any() else ""


def title(tables: Tables) -> str:
    """The one of the first two rules under which rounding loses more weights or gradients, if one clearly does."""
    return shared(_loses_more(part) for part in parts(tables["measured"], "d_k", "n_keys", "arithmetic"))


def _loses_more(table: pd.DataFrame) -> str:
    """The finding for one combination of the other axes; empty if each rule loses more in some cell, or none does."""
    groups = _groups(table)
    if len(groups) < _RULES:
        return ""
    (one, rows), (other, others) = groups
    ours, theirs = _more_lost(rows, others), _more_lost(others, rows)
    if ours and not theirs:
        return more(f"Rounding loses more {listed(ours)}", one, other)
    return more(f"Rounding loses more {listed(theirs)}", other, one) if theirs and not ours else ""


def _more_lost(rows: pd.DataFrame, others: pd.DataFrame) -> list[str]:
    """The quantities of which a rule clearly loses more than another in some cell, for the same draws."""
    ours, theirs = (table.sort_values(["arithmetic", "n_keys", "d_k"]) for table in (rows, others))
    pairs = [(ours.iloc[i], theirs.iloc[i]) for i in range(len(rows))]
    return [
        what
        for share, what in _LOST.items()
        if any(one[f"{share}_low"] > other[f"{share}_high"] and differ(one, other, share) for one, other in pairs)
    ]


FIGURE = Figure(
    shows="Weights and gradients that number formats round to zero",
    of="rounding",
    tables=("measured", "zero_limits"),
    metrics=(
        "zero_weights",
        "zero_gradient_rows",
        "wrong_gradient_rows",
        "overflowing_rows",
        "zero_gradients",
        "subnormal_weights",
    ),
    default=Default(),
    plot=plot,
    caption=caption,
    title=title,
)
