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

from sdpa.heads.table import Row
from sdpa.scaling import Scaling

_WIDTH = 100  # of lines of words
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


def rule(text: str) -> str:
    """The name of a scaling rule, as the type of an option, whose name then precedes an error."""
    try:
        return Scaling.parse(text).name
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def tell(given: argparse.Namespace, text: str, table: Sequence[Row]) -> None:
    """Print the text, or the table with `--json`, and write the file that an option names."""
    rows = [{name: _plain(value) for name, value in row.items()} for row in table]
    print(json.dumps(rows, indent=1, allow_nan=False) if given.json else text)
    if given.csv:
        with given.csv.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0]], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def wrapped(text: str) -> str:
    """The lines of a text, folded to the width of a terminal."""
    return "\n".join(textwrap.fill(line, _WIDTH) for line in text.splitlines())


def legend(meanings: Mapping[str, str]) -> str:
    """A line for each heading of a table."""
    return "\n".join(f"{heading}: {text}" for heading, text in meanings.items())


def _plain(value: Any) -> Any:
    """A number rounded; None for one that is not finite."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def aligned(table: Sequence[Row]) -> str:
    """The table in columns, each flush right below its name, with numbers of 4 digits.

    >>> print(aligned([{"head": 0, "largest": 0.25}, {"head": 11, "largest": 1 / 3}]))
    head largest
       0    0.25
      11  0.3333
    """
    lines = [[*table[0]], *([*map(_short, row.values())] for row in table)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        " ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in lines
    )


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
