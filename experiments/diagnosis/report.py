"""The table of a diagnosis on the terminal: sizes, and one line for each of the sharpest heads."""

import io
import math
from collections.abc import Callable, Hashable
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from experiments.diagnosis.labels import UNSCALED, indices
from experiments.diagnosis.table import NO_MASK
from experiments.harness.wording import counted

MOST_LINES = 20
_WIDEST = 1000  # of the table, whose lines must not be cut
_SMALLEST, _SCIENTIFIC_FROM = 0.01, 1e4  # beyond these a number has a power of ten
_MOST_ROWS = 100_000  # more are shown in thousands
_UNKNOWN = "–"
_LEGEND = (
    "In brackets: exact values of Gaussian rows of the same lengths and variance. Spread: standard deviation of the"
    " scaled scores within rows. Variance ratio: their variance over that of independent entries. Saturated: share of"
    " rows with a weight above 0.99. Unit power: the power of d_k that would give the rows the variance 1."
)
_NO_ERRORS = "No standard errors: there is one sequence. Several need an axis named batch."
_SWAPPED = "More heads than keys: if q has the axes (..., position, head, d_k), save q.swapaxes(-3, -2), k likewise."

Row = dict[Hashable, Any]


def sizes(table: pd.DataFrame) -> str:
    """The sizes and options of a table of a diagnosis, in words, with a warning if two axes look swapped."""
    first = table.iloc[0]
    divisors = " to ".join(dict.fromkeys(f"{value:.4g}" for value in (table["divisor"].min(), table["divisor"].max())))
    rule = str(first["scaling"])
    parts = [
        counted(len(table), "head"),
        f"{_range(table['sequences'], 'sequence')} of {_range(table['n_queries'], 'query', 'queries')} and"
        f" {_range(table['n_keys'], 'key')}",
        f"d_k = {_range(table['d_k'])}",
        rule if rule == UNSCALED else f"divisor {rule}" if rule == divisors else f"divisor {rule} = {divisors}",
        "no mask" if first["mask"] == NO_MASK else f"{first['mask']} mask",
    ]
    swapped = "head" in table and table["head"].nunique() > table["n_keys"].max()
    return ", ".join(parts) + (f"\n{_SWAPPED}" if swapped else "")


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
    if len(table) > len(shown):
        lines.append(f"and {counted(len(table) - len(shown), 'less sharp head')}")
    return "\n".join(lines)


def remarks(table: pd.DataFrame) -> str:
    """The meaning of the columns of `sharpest`, and a remark on missing standard errors."""
    lines = [_LEGEND]
    if (table["sequences"] == 1).any():
        lines.append(_NO_ERRORS)
    return "\n".join(lines)


def _range(numbers: pd.Series, noun: str = "", plural: str = "") -> str:
    """The range of whole numbers with their noun.

    >>> _range(pd.Series([64, 64]), "key"), _range(pd.Series([16, 512])), _range(pd.Series([1]), "query", "queries")
    ('64 keys', '16 to 512', '1 query')
    """
    low, high = numbers.min(), numbers.max()
    text = f"{low}" if low == high else f"{low} to {high}"
    return f"{text} {noun if high == 1 else plural or noun + 's'}" if noun else text


def _digits(value: float) -> str:
    """A number of any size to two digits.

    >>> _digits(0.0173), _digits(5.68), _digits(1.0), _digits(123.4), _digits(2e-13), _digits(math.nan)
    ('0.017', '5.7', '1.0', '123', '2e−13', '–')
    """
    if math.isnan(value):
        return _UNKNOWN
    if value and not _SMALLEST <= value < _SCIENTIFIC_FROM:
        return f"{value:.0e}".replace("-", "−")
    return f"{value:.0f}" if value >= 100 else f"{value:#.2g}".removesuffix(".")


def _count(number: int) -> str:
    """A number of at most five characters.

    >>> _count(99_999), _count(4_194_304)
    ('99999', '4194k')
    """
    return f"{number}" if number < _MOST_ROWS else f"{number / 1000:.0f}k"


def _fixed(value: float) -> str:
    """A number with two decimals."""
    return _UNKNOWN if math.isnan(value) else f"{value:.2f}".replace("-", "−")


def _effects(row: Row) -> str:
    ratio, *effects = (_digits(row[name]) for name in ("variance_ratio", "length_effect", "alignment_effect"))
    return f"{ratio} = {' x '.join(effects)}"


def _with_gaussian(name: str) -> Callable[[Row], str]:
    """A value, and in brackets that of Gaussian rows."""
    return lambda row: f"{_fixed(row[name])} ({_fixed(row[f'{name}_exact'])})"


# Headings of the columns after those that number heads, and the text of a row below each.
_COLUMNS: dict[str, Callable[[Row], str]] = {
    "rows": lambda row: _count(row["rows"]),
    "spread": lambda row: _digits(math.sqrt(row["row_variance"])),
    "variance ratio =\nlength x alignment": _effects,
    "largest\nweight": _with_gaussian("max_weight"),
    "entropy\nshare": _with_gaussian("entropy_share"),
    "satu-\nrated": lambda row: f"{row['saturated_rows']:.0%}",
    "first\nkey": lambda row: _fixed(row["first_key_weight"]),
    "|J|_F\nmed.": lambda row: _digits(row["jacobian_norm_median"]),
    "unit\npower": lambda row: _fixed(row.get("unit_exponent", math.nan)),
}
