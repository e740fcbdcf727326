"""An example as text of at most 100 columns: sentences and aligned numbers."""

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.examples.steps import Step

WIDTH = 100


def text(title: str, source: str, steps: "Sequence[Step]") -> str:
    """The whole example, its steps numbered from 1."""
    lines = [title, f"From: {source}"]
    for place, (_, says, table, digits) in enumerate(steps, start=1):
        shown = table.map(lambda value, digits=digits: number(value, digits))
        numbers = shown.to_string(line_width=WIDTH - 3)
        lines += ["", wrapped(f"{place}. {says} ({len(table)} x {table.shape[1]})"), textwrap.indent(numbers, "   ")]
    return "\n".join(lines)


def wrapped(line: str) -> str:
    """A line, wrapped between words."""
    if len(line) <= WIDTH:
        return line
    return textwrap.fill(line, WIDTH, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False)


def number(value: float, digits: int) -> str:
    """A number with this many decimals; with a power of ten if it would show as zero or have too many digits.

    >>> number(-0.25, 2), number(3.7e-44, 4), number(0.0, 1), number(float("-inf"), 2)
    ('−0.25', '3.7e−44', '0.0', '−∞')
    """
    fixed = f"{value:.{digits}f}".replace("inf", "∞")
    lost = value != 0 and math.isfinite(value) and float(fixed) == 0
    large = 1e6 <= abs(value) < math.inf
    return (f"{value:.1e}" if lost else f"{value:.{digits}e}" if large else fixed).replace("-", "−")
