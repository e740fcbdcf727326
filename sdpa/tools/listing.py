"""Tables as text; a table is a sequence of rows, and a row has a value for each name."""

import math
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sdpa._arrays import Array

Columns = Mapping[str, Array]  # by name, each with a value for every row
Row = Mapping[str, Any]  # a value for each name
_WIDTH = 100  # of lines of words
_MOST_LINES = 20


def rows_of(columns: Columns) -> list[Row]:
    """The rows of columns."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def wrapped(text: str) -> str:
    """The lines of a text, folded to the width of a terminal."""
    return "\n".join(textwrap.fill(line, _WIDTH) for line in text.splitlines())


def listed(table: Sequence[Row], columns: Mapping[str, tuple[str, str]]) -> str:
    """One line for each of the first rows, below the headings of its columns, and their legend.

    By heading, a column has a field of a row, as `str.format` takes it, and a meaning. NaN is a dash,
    and so is a value that the row has not.

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
        known = defaultdict(lambda: math.nan, row)
        fields = [field.format_map(known).replace("nan", "–") for field, _ in columns.values()]
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
