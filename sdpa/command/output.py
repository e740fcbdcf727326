"""Tables as text, CSV and JSON; a table is a sequence of rows, and a row has a value for each
name.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdpa.scaling import Scaling

Row = Mapping[str, Any]
_WIDTH = 100  # of lines of words
_DIGITS = 10  # of a number in a file; further ones may differ between machines


def add_arrays(parser: argparse.ArgumentParser) -> None:
    """The options for a mask, and for the axes of q."""
    add = parser.add_argument
    masks = "none, causal, window-N, local-N, a file with a mask, or both: causal,FILE"
    add("--mask", metavar="MASK", help=masks)
    add("--axes", metavar="NAMES", help="axes of q but the last, such as batch,position,head")
    add("--heads", type=_count, metavar="H", help="heads that the last axis of q has together")


def _count(text: str) -> int:
    """A whole number from 1."""
    if not re.fullmatch("[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text}")
    return int(text)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of all commands for their table."""
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the table as CSV")
    parser.add_argument("--json", action="store_true", help="print the table as JSON alone")


def rule(text: str) -> str:
    """The text of a scaling rule, as the type of an option, whose name then precedes an error."""
    try:
        Scaling.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def check(given: argparse.Namespace, inputs: Iterable[Path]) -> None:
    """ValueError if an output would not be a CSV, has no folder, or would replace one of the
    inputs.
    """
    if given.csv and given.csv.suffix.lower() != ".csv":
        raise ValueError(f"--csv: expected a name that ends in .csv, got {given.csv}")
    named = [path for path in (given.csv, getattr(given, "plot", None)) if path]
    for path in named:
        if path.is_dir() or not path.parent.is_dir():
            raise ValueError(f"expected a new file in a folder that exists, got {path}")
    read = {path.resolve() for path in inputs}
    if replaced := [path for path in named if path.resolve() in read]:
        raise ValueError(f"expected outputs beside the inputs, got {replaced[0]} as both")


def tell(given: argparse.Namespace, text: str, table: Sequence[Row]) -> None:
    """Print the text, or the table with `--json`, and write the files that the options name."""
    print(as_json(table) if given.json else text)
    if given.csv:
        given.csv.write_text(as_csv(table), encoding="utf-8")


def rows_of(columns: Mapping[str, Any]) -> list[Row]:
    """The rows of a table of columns.

    >>> rows_of({"head": [0, 1], "entropy": [0.5, 0.25]})
    [{'head': 0, 'entropy': 0.5}, {'head': 1, 'entropy': 0.25}]
    """
    values = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def wrapped(text: str) -> str:
    """The lines of a text, folded to the width of a terminal."""
    return "\n".join(textwrap.fill(line, _WIDTH) for line in text.splitlines())


def as_csv(table: Sequence[Row]) -> str:
    """The table with a line of names; an unknown number is an empty field.

    >>> as_csv([{"head": 0, "entropy": 1 / 3}, {"head": 1, "entropy": math.nan}])
    'head,entropy\\n0,0.3333333333\\n1,\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table[0])
    writer.writerows(map(_plain, row.values()) for row in table)
    return text.getvalue()


def as_json(table: Sequence[Row]) -> str:
    """The rows as a list of objects; an unknown number is null."""
    rows = [{name: _plain(value) for name, value in row.items()} for row in table]
    return json.dumps(rows, indent=1, allow_nan=False)


def _plain(value: Any) -> Any:
    """A number without the type of NumPy, rounded; None for one that is not finite."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, float):
        return plain
    return float(f"{plain:.{_DIGITS}g}") if math.isfinite(plain) else None


def aligned(table: Sequence[Mapping[str, str]]) -> str:
    """The table in columns, each flush right below its name.

    >>> print(aligned([{"head": "0", "largest": "0.25"}, {"head": "11", "largest": "1"}]))
    head largest
       0    0.25
      11       1
    """
    lines = [[*table[0]], *([*row.values()] for row in table)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        " ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in lines
    )
