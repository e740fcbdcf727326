"""An example as text of at most 100 columns: headings, explanations, and aligned numbers."""

import itertools
import math
import textwrap
from collections.abc import Iterator, Sequence

from experiments.examples.example import Matrix, Step

WIDTH = 100
_INDENT, _GAP = "   ", "  "
_SCIENTIFIC_FROM = 1e6
_BARS = "·▁▂▃▄▅▆▇█"


def text(title: str, source: str, steps: Sequence[Step]) -> str:
    """The whole example.

    Args:
        title, source: of the example.
        steps: numbered from 1, each with its heading, its explanation and its numbers.
    """
    lines = [title, f"From: {source}"]
    for number, step in enumerate(steps, start=1):
        lines += ["", f"{number}. {step.heading}"]
        lines += textwrap.wrap(step.text, WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
        if step.matrix:
            lines += matrix_lines(step.matrix)
    return "\n".join(lines)


def wrapped(line: str) -> str:
    """A line, wrapped between words."""
    if len(line) <= WIDTH:
        return line
    return textwrap.fill(line, WIDTH, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False)


def number(value: float, digits: int) -> str:
    """A number with this many decimals; with a power of ten if it would show as zero or have too many digits.

    >>> number(-0.25, 2), number(3.7e-44, 4), number(0.0, 1), number(float("-inf"), 2)
    ('−0.25', '3.7e−44', '0.0', '−∞')
    """
    if math.isinf(value):
        shown = "∞" if value > 0 else "-∞"
    else:
        fixed = f"{value:.{digits}f}"
        lost = value != 0 and float(fixed) == 0
        shown = f"{value:.1e}" if lost else f"{value:.{digits}e}" if abs(value) >= _SCIENTIFIC_FROM else fixed
    return shown.replace("-", "−")


def matrix_lines(matrix: Matrix) -> Iterator[str]:
    """A matrix with its names, in blocks of columns that fit the width."""
    cells = [[number(float(value), matrix.digits) for value in row] for row in matrix.values]
    columns = [[name, *values] for name, values in zip(matrix.columns, zip(*cells, strict=True), strict=True)]
    if matrix.bars:
        columns.append(["strip", *(_strip([float(value) for value in row]) for row in matrix.values)])
    names = ["", *matrix.rows]
    label = max(map(len, names))
    room = WIDTH - len(_INDENT) - label
    for block in _blocks(columns, room):
        for i, name in enumerate(names):
            values = (f"{_GAP}{column[i]:>{max(map(len, column))}}" for column in block)
            yield f"{_INDENT}{name:<{label}}{''.join(values)}".rstrip()


def _blocks(columns: list[list[str]], room: int) -> Iterator[list[list[str]]]:
    """The columns in groups no wider than the available width; a wider column stands alone."""
    ends = list(itertools.accumulate(max(map(len, column)) + len(_GAP) for column in columns))
    start = 0
    while start < len(columns):
        before = ends[start - 1] if start else 0
        stop = max(sum(end - before <= room for end in ends), start + 1)
        yield columns[start:stop]
        start = stop


def _strip(values: Sequence[float]) -> str:
    """A bar in eighths for each number from 0 to 1; a dot where it rounds to zero."""
    return "".join(_BARS[round(value * 8)] for value in values)
