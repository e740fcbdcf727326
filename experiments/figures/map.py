"""Gradient norms without the scale over those with it, on the plane of d_k and n_keys, and where they are equal."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.analysis.crossings import (
    EQUAL,
    NORMS,
    SCALED,
    STATISTICS,
    TENTH,
    UNSCALED,
    no_crossings,
    of_first_map,
)
from experiments.figures import Tables
from experiments.figures.style import INK, diverging, note, panels
from experiments.figures.words import first_combination, fixed, listed, number, plain, under

NAMES = {
    "jacobian": "|J|_F",
    "query_gradient": "|dL/dq|",
    "undivided_query_gradient": "divisor · |dL/dq|",
}
# The crossings that tables in text show: of which norm and statistic, and through which ratio.
Crossing = tuple[str, str, float]
CROSSINGS: tuple[Crossing, ...] = (
    ("jacobian", "median", EQUAL),
    ("jacobian", "median", TENTH),
    ("query_gradient", "median", EQUAL),
    ("query_gradient", "median", TENTH),
    ("undivided_query_gradient", "median", EQUAL),
    ("jacobian", "r.m.s.", EQUAL),
    ("query_gradient", "r.m.s.", EQUAL),
)
_LEVELS = {EQUAL: "equal", TENTH: "a tenth"}
_SHOWN_FACTOR = 16  # a ratio this far from 1 has the strongest colour
_SMALLEST_NUMBER = 0.005
_WHITE_FROM = 0.75  # of the way to that colour, letters are white
_SIZE, _PANEL_INCHES, _INCHES_PER_NUMBER = (11, 6.4), 3.0, 0.3


def draw(tables: Tables) -> Figure:
    """One row of maps per statistic, one column per norm, each with the line on which the ratio is 1."""
    figure, grid = panels(len(STATISTICS), len(NORMS), _SIZE, sharex=True, sharey=True)
    if "ratios" not in tables:
        for ax in (ax for axes in grid for ax in axes):
            ax.set_axis_off()
        grid[0][0].text(0, 0.5, _reason(tables["measured"]), transform=grid[0][0].transAxes)
        return figure
    ratios, crossings, _ = of_first(tables)
    image: Any = None
    for axes, statistic in zip(grid, STATISTICS, strict=True):
        for ax, (norm, name) in zip(axes, NAMES.items(), strict=True):
            image = _draw_map(ax, _kind(ratios, norm, statistic), crossings_of(crossings, (norm, statistic, EQUAL)))
            ax.set_title(f"{statistic} of {name}")
    for ax in grid[-1]:
        ax.set_xlabel("d_k")
    for axes in grid:
        axes[0].set_ylabel("n_keys")
    bar = figure.colorbar(image, ax=[ax for axes in grid for ax in axes], fraction=0.03, pad=0.01, aspect=40)
    ticks = [1 / 16, 1 / 4, 1, 4, 16]
    bar.set_ticks([float(np.log(tick)) for tick in ticks], labels=["≤ 1/16", "1/4", "1", "4", "≥ 16"])
    note(
        figure,
        f"{fixed(tables['measured'], 'd_k', 'n_keys')} Colour and number: the norm {UNSCALED} over the norm under "
        f"{SCALED}; red where it is the larger one {UNSCALED}, blue where it is the smaller one. Points: where the "
        "ratio falls through 1, with 95% intervals where these are wider; pale lines join them. Dashed: the law, where "
        "theory has one. divisor · |dL/dq| is without the factor 1/divisor of the chain rule.",
    )
    return figure


def _reason(table: pd.DataFrame) -> str:
    """Why there is nothing to draw."""
    missing = [name for name in (UNSCALED, SCALED) if name not in set(table["scaling"])]
    return f"no values {listed([under(name) for name in missing])}" if missing else "no ratios along a single d_k"


def of_first(tables: Tables) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Ratios and crossings of the first combination of the axes that no map shows, and the words that name it.

    Few d_k have no crossings; the table is empty then.
    """
    _, where = first_combination(tables["measured"], "d_k", "n_keys")
    crossings = of_first_map(tables["crossings"]) if "crossings" in tables else no_crossings(tables["measured"])
    return of_first_map(tables["ratios"]), crossings, where


def _kind(table: pd.DataFrame, norm: str, statistic: str) -> pd.DataFrame:
    return table[(table["norm"] == norm) & (table["statistic"] == statistic)]


def crossings_of(table: pd.DataFrame, crossing: Crossing) -> pd.DataFrame:
    """The rows of one kind of crossing, in order of n_keys."""
    norm, statistic, level = crossing
    kind = _kind(table, norm, statistic)
    return kind[kind["level"] == level].sort_values("n_keys")


def _draw_map(ax: Axes, ratios: pd.DataFrame, crossings: pd.DataFrame) -> Any:
    """Ratios as colours and numbers; in a cell beside its neighbours, whatever the steps between their sizes."""
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
            ink = "white" if abs(np.log(ratio)) > _WHITE_FROM * strongest else INK
            x, side = _label_place(column, len(d_k), narrow=step > 1)
            ax.annotate(_short(ratio), (x, row - 0.3), ha=side, va="center", fontsize=6.5, color=ink)
    ax.set_xticks(columns, [plain(value) for value in shown.columns[columns]], fontsize=8)
    ax.set_yticks(range(len(n_keys)), map(plain, shown.index))
    _draw_line(ax, crossings, d_k, n_keys)
    return image


def _label_place(column: int, columns: int, *, narrow: bool) -> tuple[float, str]:
    """Place of a cell's number and the side that is aligned there; a number wider than its cell stays on the map."""
    if narrow and column == 0:
        return -0.4, "left"
    return (columns - 0.6, "right") if narrow and column == columns - 1 else (column, "center")


def _short(ratio: float) -> str:
    """A ratio in as few characters as a cell has room for; nothing below 0.005.

    >>> _short(12.3), _short(0.456), _short(0.0123), _short(0.001)
    ('12', '0.46', '0.01', '')
    """
    if ratio >= 1:
        return f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0f}"
    return f"{ratio:.2f}" if ratio >= _SMALLEST_NUMBER else ""


def _draw_line(ax: Axes, crossings: pd.DataFrame, d_k: Any, n_keys: Any) -> None:
    """Where the ratio is 1, in cells from the first: measured with its interval, and by the law."""
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
        return f"No ratio of norms {UNSCALED} and under {SCALED}: {_reason(tables['measured'])}."
    if "crossings" not in tables:
        return f"Norms {UNSCALED} over those under {SCALED}; too few d_k to tell where they are equal."
    _, crossings, where = of_first(tables)
    clauses = []
    for statistic in STATISTICS:
        for norm in ("jacobian", "query_gradient"):
            rows = crossings_of(crossings, (norm, statistic, EQUAL))
            exact = ", exact" if rows["crossing_exact"].notna().any() else ""
            clauses.append(f"{falls(rows)} ({statistic} of {NAMES[norm]}{exact})")
    keys = listed([plain(n_keys) for n_keys in sorted(crossings["n_keys"].unique())])
    return f"With {keys} keys{where} {UNSCALED} norms fall below those under {SCALED} at d_k = {'; '.join(clauses)}."


def falls(crossings: pd.DataFrame) -> str:
    """The d_k of crossings of one kind, in order of n_keys: exact ones where they are known."""
    found = [_exact_text(row) or crossing_text(row) for _, row in crossings.iterrows()]
    largest = crossings["largest_d_k"].iloc[0]
    if set(found) == {f">{largest}"}:
        return f"none up to {largest}"
    return listed(found)


def crossing_text(row: pd.Series) -> str:
    """A crossing with the digits that its interval leaves; `>2048` or `<8` where it lies outside the sweep.

    A dash where no ratio is known.

    >>> row = {"level": 1.0, "crossing": 71.98, "crossing_low": 69.2, "crossing_high": 74.5, "ratio_at_largest": 0.1}
    >>> crossing_text(pd.Series(row))
    '72'
    """
    if np.isnan(row["ratio_at_largest"]):
        return "–"
    if np.isnan(row["crossing"]):
        below = row["ratio_at_largest"] > row["level"]
        return f">{plain(row['largest_d_k'])}" if below else f"<{plain(row['smallest_d_k'])}"
    ends = row[["crossing_low", "crossing_high"]].fillna(row["crossing"]).to_numpy(dtype=float)
    return number(float(row["crossing"]), float(ends[1] - ends[0]) / 4)


def _exact_text(row: pd.Series) -> str:
    return three_digits(row["crossing_exact"]) if pd.notna(row["crossing_exact"]) else ""


def three_digits(d_k: float) -> str:
    """A d_k that is not whole, to three digits.

    >>> three_digits(71.619), three_digits(1029.2)
    ('71.6', '1030')
    """
    return f"{float(f'{d_k:.3g}'):g}"


def with_ends(row: pd.Series) -> str:
    """A crossing, the ends of its interval with the same decimals, and the exact crossing where it is known.

    >>> row = {"level": 1.0, "crossing": 71.98, "crossing_low": 69.2, "crossing_high": 74.5, "ratio_at_largest": 0.1}
    >>> with_ends(pd.Series(row | {"crossing_exact": 71.6}))
    '72 (69 to 74; exactly 71.6)'
    """
    text = crossing_text(row)
    if pd.isna(row["crossing"]):
        return text
    places = len(text.partition(".")[2])
    low, high = (f"{row[f'crossing_{end}']:.{places}f}" for end in ("low", "high"))
    exact = f"; exactly {_exact_text(row)}" if _exact_text(row) else ""
    return f"{text} ({low.replace('nan', '?')} to {high.replace('nan', '?')}{exact})"


def law_is_inside(row: pd.Series) -> bool:
    """True if the law lies in the interval of the measured crossing, which may be open at an end of the sweep."""
    low, high = row["crossing_low"], row["crossing_high"]
    return bool((np.isnan(low) or low <= row["law"]) and (np.isnan(high) or row["law"] <= high))


def crossing_rows(crossings: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """The crossings that are shown in text as a table with a row per n_keys: its head and its rows."""
    columns = [[with_ends(row) for _, row in crossings_of(crossings, kind).iterrows()] for kind in CROSSINGS]
    keys = [plain(n_keys) for n_keys in sorted(crossings["n_keys"].unique())]
    head = [f"{statistic} of {NAMES[norm]}: {_LEVELS[level]}" for norm, statistic, level in CROSSINGS]
    return ["n_keys", *head], [list(row) for row in zip(keys, *columns, strict=True)]
