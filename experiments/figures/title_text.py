"""Words of titles: a title is a finding without numbers, and only what holds for the whole table is a finding.

Without a finding, a title is empty and `Figure.heading` says what the figure shows. `experiments.figures.keeping` tells
which differences count.
"""

from collections.abc import Iterable

import pandas as pd

from experiments.analysis.crossings import UNSCALED
from experiments.figures.axes import is_constant, other_axes

MOST_WORDS = 12


def fitting(*titles: str) -> str:
    """The first title of at most twelve words; empty if none is short enough.

    >>> fitting("a finding of " + "very " * 12 + "many words", "a short one")
    'a short one'
    """
    return next((title for title in titles if len(title.split()) <= MOST_WORDS), "")


def shared(findings: Iterable[str]) -> str:
    """The finding that all parts of a table share; empty if they do not, or if it is too long for a title.

    >>> shared(["It rises", "It rises"]), shared(["It rises", "It falls"]), shared([])
    ('It rises', '', '')
    """
    found = set(findings)
    return fitting(*found) if len(found) == 1 else ""


def parts(table: pd.DataFrame, *shown: str) -> list[pd.DataFrame]:
    """The rows of each combination of the axes that a figure does not show.

    Args:
        table: a measured or derived table.
        shown: the axes along which the rows of a part may differ; the scaling always may.
    """
    others = other_axes(table, *shown)
    return [rows for _, rows in table.groupby(others, sort=False)] if others else [table]


def rule_name(scaling: str) -> str:
    """The name of a scaling as a noun without numbers.

    >>> rule_name("unscaled"), rule_name("d_k^1/2"), rule_name("8")
    ('unscaled attention', 'd_k^1/2', 'a constant divisor')
    """
    if scaling == UNSCALED:
        return "unscaled attention"
    return "a constant divisor" if is_constant(scaling) else scaling


def has_own_name(scaling: str, scalings: Iterable[str]) -> bool:
    """True unless another one of these scalings has the same name in titles, as two constant divisors do.

    >>> has_own_name("8", ["8", "unscaled"]), has_own_name("8", ["8", "1000"])
    (True, False)
    """
    return all(other == scaling or rule_name(other) != rule_name(scaling) for other in scalings)


def titled(scaling: str) -> str:
    """The name of a scaling within a title, without the value of a constant divisor.

    >>> titled("unscaled"), titled("d_k^1/2"), titled("8")
    ('unscaled', 'under d_k^1/2', 'under a constant')
    """
    if scaling == UNSCALED:
        return scaling
    return "under a constant" if is_constant(scaling) else f"under {scaling}"


def opening(scaling: str) -> str:
    """The name of a scaling at the start of a title.

    >>> opening("unscaled"), opening("d_k^1/2"), opening("8")
    ('Unscaled', 'Under d_k^1/2', 'Under a constant')
    """
    name = titled(scaling)
    return name[0].upper() + name[1:]


def more(what: str, one: str, other: str) -> str:
    """A finding that compares two scalings; empty if they have the same name in titles.

    >>> more("Training needs more steps", "unscaled", "d_k^1/2"), more("It needs more", "8", "16")
    ('Training needs more steps unscaled than under d_k^1/2', '')
    """
    names = titled(one), titled(other)
    return f"{what} {' than '.join(names)}" if names[0] != names[1] else ""


def quantified(count: int, total: int, noun: str) -> str:
    """The subject of a finding about some of several.

    >>> [quantified(count, 4, "heads") for count in (1, 2, 3, 4)]
    ['Some heads', 'Half the heads', 'Most heads', 'All heads']
    """
    if 2 * count == total:
        return f"Half the {noun}"
    return f"{'All' if count == total else 'Most' if 2 * count > total else 'Some'} {noun}"
