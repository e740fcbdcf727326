"""Tables as CSV and JSON."""

import argparse
import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sdpa.tools.listing import Row

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


def _plain(value: Any) -> Any:
    """A number rounded; None for one that is not finite."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
