"""Tables as text, CSV and JSON; a table is a sequence of rows, and a row has a value for each
name.
"""

import argparse
import csv
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sdpa.tools.heads.table import Row

_WIDTH = 100  # of lines of words
_MOST_LINES = 20
_DIGITS = 10  # of a number in a file; further ones may differ between machines


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of all commands for their table."""
    parser.add_argument("--csv", type=_table, metavar="FILE", help="also write the table as CSV")
    parser.add_argument("--json", action="store_true", help="print the table as JSON alone")


def _table(text: str) -> Path:
    """The file of a table: no array that the command reads has such a name."""
    if not text.endswith(".csv"):
        raise argparse.ArgumentTypeError(f"expected a name that ends in .csv, got {text}")
    return Path(text)


def tell(given: argparse.Namespace, text: str, table: Sequence[Row]) -> None:
    """Print the text, or the table with `--json`, and write the file that an option names."""
    rows = [{name: _plain(value) for name, value in row.items()} for row in table]
    print(json.dumps(rows, indent=1, allow_nan=False) if given.json else text)
    if given.csv:
        with given.csv.open("w", encoding="utf-8", newline="") as file:
            # the axes and errors of layers may differ
            names = dict.fromkeys(name for row in rows for name in row)
            writer = csv.DictWriter(file, names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def wrapped(text: str) -> str:
    """The lines of a text, folded to the width of a terminal."""
    return "\n".join(textwrap.fill(line, _WIDTH) for line in text.splitlines())


def listed(table: Sequence[Row], columns: Mapping[str, tuple[str, str]]) -> str:
    """One line for each of the first rows, below the headings of its columns, and their legend.

    By heading, a column has a field of a row, as `str.format` takes it, and a meaning. NaN is a dash.

    >>> print(listed([{"head": 3, "top": 1 / 3}, {"head": 11, "top": 1}], {"share": ("{top:.2f}", "of all")}))
    head  share
       3   0.33
      11   1.00
    <BLANKLINE>
    share: of all
    """
    names = indices(table)
    lines = [[*names, *columns]]
    for row in table[:_MOST_LINES]:
        fields = [field.format(**row).replace("nan", "–") for field, _ in columns.values()]
        lines.append([str(row.get(name, "")) for name in names] + fields)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = ["  ".join(map(str.rjust, line, widths)) for line in lines]
    if rest := len(table[_MOST_LINES:]):
        shown.append(f"Further heads, not shown: {rest}")
    legend = [f"{heading}: {meaning}" for heading, (_, meaning) in columns.items()]
    return "\n".join([*shown, "", *legend])


def indices(table: Sequence[Row]) -> list[str]:
    """The names that number heads, such as layer and head; none of a single head."""
    return [name for name in ("layer", "head") if any(name in row for row in table)]


def _plain(value: Any) -> Any:
    """A number rounded; None for one that is not finite."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
