"""Numbers, and formulas of plain text, as HTML and Markdown."""

import os
import re
from collections.abc import Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from experiments.figures.formulas import html
from experiments.tables.all_results import AllResults

_NUMBERS = (
    (r"(?<![\w.)])-(?=\d)|(?<=\de)-(?=\d)", "−"),
    # A number begins a word; the digits of a commit, such as 55cfb400e508, do not.
    (r"(?<![\w.])([\d.]*\d)e(−?)\+?0*(\d{1,3})\b", "\\1\u00a0×\u00a010^\\2\\3"),
)


class Source(NamedTuple):
    """What a generated part of a Markdown page has: the shipped results, those of config.full.yaml, and
    the folder of the page, where links start.
    """

    shipped: AllResults
    full: AllResults
    page: Path

    def link(self, path: Path) -> str:
        """The path of a file from the page."""
        return os.path.relpath(path, self.page)


def digits(value: float) -> str:
    """A number with at most three digits, and commas between thousands.

    >>> digits(22.18), digits(10929.3), digits(4.584e11), digits(4096)
    ('22.2', '10,900', '4.58e+11', '4,096')
    """
    if isinstance(value, Integral):
        return f"{value:,}"
    if 1000 <= value < 1e7:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def typeset(text: str) -> Markup:
    """A sentence with indices, powers, powers of ten and typographic minus signs.

    >>> str(typeset("|J|_F under d_k^1/2 is -0.5 or 1e-07"))
    '|J|<sub>F</sub> under √<span class="root">d<sub>k</sub></span> is −0.5 or 1\xa0×\xa010<sup>−7</sup>'
    >>> str(typeset("Sweep d_k_of_two, sweep a_few"))
    'Sweep d_k_of_two, sweep a_few'
    >>> str(typeset("55cfb400e508 is no number, 2e+06 is one"))
    '55cfb400e508 is no number, 2\xa0×\xa010<sup>6</sup> is one'
    >>> str(typeset("score_mean at n_keys = 4 grows as d_k^(-1/3), |dL/dq|"))
    'score_mean at n<sub>keys</sub> = 4 grows as d<sub>k</sub><sup>−1/3</sup>, <span class="nowrap">|∂L/∂q|</span>'
    """
    text = str(Markup.escape(text))
    for pattern, typographic in _NUMBERS:
        text = re.sub(pattern, typographic, text)
    return Markup(html(text))


def markdown(
    head: Sequence[str],
    rows: Iterable[Iterable[object]],
    right: str = "",
) -> str:
    """A table in Markdown, with an `r` in `right` for a column that is aligned to the right; a |
    stays a character.

    >>> print(markdown(["a", "b"], [["|x|", 2]], "-r"))
    | a | b |
    |---|---:|
    | \\|x\\| | 2 |
    """
    sides = right.ljust(len(head), "-")
    marks = ["---:" if side == "r" else "---" for side in sides[: len(head)]]
    lines = [f"| {' | '.join(map(_escaped, row))} |" for row in (head, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(marks)}|", *lines[1:]])


def _escaped(field: object) -> str:
    return str(field).replace("|", "\\|")


def formulas(text: str) -> str:
    """A text with its formulas as the HTML that Markdown allows.

    >>> formulas("d_k^1/2 'here'")
    "√d<sub>k</sub> 'here'"
    """
    marked = re.sub("</?span[^>]*>", "", str(typeset(text)))
    return marked.replace("&#39;", "'").replace("&#34;", '"')


def code(text: str) -> str:
    """A text as code; nothing for an empty one."""
    return f"`{text}`" if text else ""
