"""A diagnosis on the terminal: its sizes, a line for each of the sharpest heads, and fixed sentences with numbers."""

import io
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from experiments.diagnosis.table import indices

MOST_LINES = 20
_WIDEST = 1000  # of the table, whose lines must not be cut
_LEGEND = (
    "In brackets: exact values of Gaussian rows of the same lengths and variance. Spread: standard deviation of the"
    " scaled scores within rows. Variance ratio: their variance over that of independent entries. Saturated: share of"
    " rows with a weight above 0.99. Unit power: the power of d_k that would give the rows the variance 1."
)
_NO_ERRORS = "No standard errors: there is one sequence. Several need an axis named batch."
_SWAPPED = "More heads than keys: if q has the axes (..., position, head, d_k), save q.swapaxes(-3, -2), k likewise."
_HALF = 0.5  # most rows, most of the weight
_APART = 0.05  # entropy shares closer than this count as equally sharp
_NARROW, _WIDE = 0.5, 2.0  # spreads far from 1
# Agreement with Gaussian rows says little below this spread, because the rows of most laws agree there. With 16 to 256
# keys of width 64, the entropy shares of a sink (queries and first key of mean 1) and of lognormal entries are about
# 0.05 to 0.2 from theirs at 0.8, and at most 0.035 at 0.4.
_FLAT = 0.8

Row = dict[Hashable, Any]


def sizes(table: pd.DataFrame) -> str:
    """The sizes and options of a table of a diagnosis, with a warning if two axes look swapped."""
    named = {"queries": "n_queries", "keys": "n_keys", "d_k": "d_k", "sequences": "sequences", "divisor": "divisor"}
    parts = [f"{name} {_range(table[column])}" for name, column in named.items()]
    first = table.iloc[0]
    swapped = "head" in table and table["head"].nunique() > table["n_keys"].max()
    text = f"Heads {len(table)}, {', '.join(parts)} ({first['scaling']}), mask {first['mask']}"
    return f"{text}\n{_SWAPPED}" if swapped else text


def sharpest(table: pd.DataFrame) -> str:
    """One line for each of the sharpest heads, below the headings of its columns; many axes make the lines long."""
    shown = table.sort_values("entropy_share", kind="stable").head(MOST_LINES)
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    named = indices(shown)
    for heading in [*named, *_COLUMNS]:
        grid.add_column(heading, justify="right", no_wrap=True, vertical="bottom")
    for _, row in shown.iterrows():
        values = row.to_dict()
        grid.add_row(*(str(values[name]) for name in named), *(text(values) for text in _COLUMNS.values()))
    console = Console(file=io.StringIO(), width=_WIDEST, color_system=None)
    with console.capture() as captured:
        console.print(grid)
    lines = [line.rstrip() for line in captured.get().rstrip("\n").split("\n")]
    rest = len(table) - len(shown)
    return "\n".join([*lines, *([f"Less sharp heads, not shown: {rest}"] if rest else [])])


def remarks(table: pd.DataFrame) -> str:
    """The meaning of the columns of `sharpest`, and a remark on missing standard errors."""
    return f"{_LEGEND}\n{_NO_ERRORS}" if (table["sequences"] == 1).any() else _LEGEND


def summary(table: pd.DataFrame) -> list[str]:
    """Those of six sentences whose condition holds for at least one head, with the number of such heads."""
    spread, divisor = np.sqrt(table["row_variance"]), table["unit_divisor"]
    apart = (table["entropy_share"] - table["entropy_share_exact"]).abs()
    saturated, far, first = table["saturated_rows"], (spread < _NARROW) | (spread > _WIDE), table["first_key_weight"]
    unit = f"{divisor[far].median():.4g}; in use is {_range(table['divisor'])}"
    unknown = divisor.isna() | table["variance_ratio"].isna()
    conditions = (
        (saturated > _HALF, "with a weight above 0.99 in most rows", f"largest share of rows {saturated.max():.2f}"),
        (far, f"with a spread below {_NARROW:g} or above {_WIDE:g}", f"median divisor for the spread 1: {unit}"),
        (apart > _APART, f"more than {_APART:g} from the entropy share of Gaussian rows", f"at most {apart.max():.2f}"),
        (
            spread < _FLAT,
            f"with a spread below {_FLAT:g}, too flat to differ from Gaussian rows",
            f"at least {spread.min():.3g}",
        ),
        (first > _HALF, "with most weight on the first key, an attention sink", f"largest weight {first.max():.2f}"),
        (unknown, "without some numbers (nan)", "equal scores in each row, or equal entries of q or k"),
    )
    return [
        f"Heads {what}: {chosen.sum()} of {len(table)} ({more})." for chosen, what, more in conditions if chosen.any()
    ]


def _range(numbers: pd.Series) -> str:
    """The smallest and the largest number, or the only one."""
    return " to ".join(dict.fromkeys(f"{number:.4g}" for number in (numbers.min(), numbers.max())))


def _with_gaussian(name: str) -> Callable[[Row], str]:
    """A value, and in brackets that of Gaussian rows."""
    return lambda row: f"{row[name]:.2f} ({row[f'{name}_exact']:.2f})"


# Headings of the columns after those that number heads, and the text of a row below each.
_COLUMNS: dict[str, Callable[[Row], str]] = {
    "rows": lambda row: str(row["rows"]),
    "spread": lambda row: f"{row['row_variance'] ** 0.5:.3g}",
    "variance ratio =\nlength x alignment": lambda row: (
        f"{row['variance_ratio']:.3g} = {row['length_effect']:.3g} x {row['alignment_effect']:.3g}"
    ),
    "largest\nweight": _with_gaussian("max_weight"),
    "entropy\nshare": _with_gaussian("entropy_share"),
    "satu-\nrated": lambda row: f"{row['saturated_rows']:.0%}",
    "first\nkey": lambda row: f"{row['first_key_weight']:.2f}",
    "|J|_F\nmed.": lambda row: f"{row['jacobian_norm_median']:.3g}",
    "unit\npower": lambda row: f"{row['unit_exponent']:.2f}",
}
