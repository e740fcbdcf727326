"""Plain captions: the sizes, inputs and trials of the rows that a figure shows, those that it leaves
out, and how to read it.
"""

from collections.abc import Sequence

import pandas as pd

from experiments.analysis.results import SweepAxes
from experiments.declarations.figure import READING, Figure, Lines
from experiments.figures.shown import Shown, panels_of
from experiments.figures.words import listed, short
from experiments.measuring.experiment import MEASURED
from experiments.measuring.metric import FEW_DRAWS

_PALE = "Pale: exact values."
_NONE = pd.Series(dtype=float)
HOLLOW = "Hollow points: too few draws for a reliable interval."


def plain_caption(figure: Figure, shown: Shown) -> str:
    """The sizes, inputs and trials of the rows shown, and the note of the figure."""
    return " ".join(filter(None, [sizes(shown), _note(figure, shown)]))


def sizes(shown: Shown) -> str:
    """The sizes, inputs and trials of the rows shown, and what is left out, as sentences."""
    found = [_of_rows(shown.rows, shown.results.axes)] if len(shown.rows) else []
    if shown.left_out:
        found.append(f"Not drawn: {shown.left_out}.")
    return " ".join(filter(None, found))


def _of_rows(table: pd.DataFrame, axes: SweepAxes) -> str:
    """The axes of rows with their values, and their trials, as a sentence."""
    partial = _not_crossed(table, axes)
    named = [
        f"{name} = {listed(list(table[name].unique()))}"
        for name in axes.among(table)
        if name not in partial
        and (name == "inputs" or list(table[name].unique()) != [axes.usual[name]])
    ]
    if partial:
        named.append(f"{len(table[partial].drop_duplicates())} cases of {listed(partial)}")
    trials = table["trials"].agg(["min", "max"]).unique() if "trials" in table else []
    count = f"; {' to '.join(map(short, trials))} trials" if len(trials) else ""
    return f"{', '.join(named)}{count}." if named else ""


def _note(figure: Figure, shown: Shown) -> str:
    """The note of a figure, with the sentences of which its drawing has what they speak of."""
    tables = {kind: shown.beside(kind) for kind in shown.results}
    tables[figure.lines.table if figure.lines else MEASURED] = shown.rows
    found = [figure.note, *(said for said, holds in figure.when.items() if holds(tables))]
    if READING in figure.note:
        parts = _drawn(figure.lines or figure.metrics, shown)
        if any(part.get(f"{metric}_exact", _NONE).notna().any() for metric, part in parts):
            found.append(_PALE)
        if hollow(figure.lines or figure.metrics, shown):
            found.append(HOLLOW)
    return " ".join(found)


def hollow(drawn: Lines | Sequence[str], shown: Shown) -> bool:
    """True if a point of lines, or of metrics in all rows shown, has too few draws."""
    parts = _drawn(drawn, shown)
    return any(metric in flagged.split() for metric, part in parts for flagged in part[FEW_DRAWS])


def _drawn(drawn: Lines | Sequence[str], shown: Shown) -> list[tuple[str, pd.DataFrame]]:
    """Each metric of lines, or of all rows shown, with its rows."""
    if isinstance(drawn, Lines):
        panels = panels_of(drawn, shown.rows, shown.results.axes)
        return [(panel.metric, part) for panel, part in panels]
    return [(metric, shown.rows) for metric in drawn]


def _not_crossed(table: pd.DataFrame, axes: SweepAxes) -> list[str]:
    """The axes whose values do not all occur with each combination of the others.

    >>> axes = SweepAxes({"d_k": None, "key_std": 1.0})
    >>> _not_crossed(pd.DataFrame({"d_k": [4, 8, 4, 8], "key_std": [1.0, 1.0, 2.0, 2.0]}), axes)
    []
    >>> _not_crossed(pd.DataFrame({"d_k": [4, 8, 4], "key_std": [1.0, 1.0, 2.0]}), axes)
    ['d_k', 'key_std']
    >>> _not_crossed(pd.DataFrame({"d_k": [4, 8]}), axes)
    []
    """
    cells = table[axes.among(table)].drop_duplicates()
    return [
        name
        for name in axes.varied(cells)
        if len(cells)
        != cells[name].nunique()
        * len({*cells.drop(columns=name).itertuples(index=False, name=None)})
    ]
