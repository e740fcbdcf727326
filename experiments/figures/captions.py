"""Titles and captions of figures.

A finding gives a figure its title and first sentence. It belongs to one sweep of the shipped configs,
by name. Any other sweep has the plain title, and so has an edited one without the values or the effect
that the finding speaks of; `draw` then says why. The last line of a caption is grey: the sizes, inputs
and trials of the rows shown, those left out, and how to read the figure.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments.config.errors import counted
from experiments.config.sweep import Sweep
from experiments.figures.panels import ShownPanel, spans_widely
from experiments.figures.shown import Shown
from experiments.figures.words import is_joined, listed, short, spoken
from experiments.kinds.declarations import HOLLOW, Figure, Needs
from experiments.kinds.support import Numbers, is_few
from experiments.measuring.columns import as_json, axis_names, defaults
from experiments.measuring.metric import FEW_DRAWS
from experiments.tables.results import Results, SweepAxes

_ROWS = "n_queries"  # of a draw; their number changes errors, and no expectation
_FEW_AXES = 4  # that a title names
_MOST_WORDS = 45  # of a grey line
_THICKNESS = 0.015  # of a point, of the height of a panel


class Words(NamedTuple):
    """Title and caption of a figure.

    Attributes:
        title: of the finding, or the plain one.
        caption: the sentence of the finding, if any; and the grey line.
        is_found: True if they have the finding.
        lost: the figure, and the reason why a shipped sweep has lost the finding; else empty.
    """

    title: str
    caption: str
    is_found: bool
    lost: str


def words_of(figure: Figure, what: Shown) -> Words:
    """Title and caption of a figure for the rows that it shows."""
    results = what.results
    caption = plain_caption(figure, what)
    numbers, reason = finding_of(figure, results)
    if not figure.finding or numbers is None:
        lost = f"{results.name}/{figure.name} ({reason})" if reason else ""
        shows = figure.shows[0].lower() + figure.shows[1:]
        return Words(f"{plain_title(results)}: {shows}", caption, False, lost)
    table = results.measured[[*results.axes.usual]]
    sizes = {name: values.agg(least="min", most="max") for name, values in table.items()}
    sentence = figure.finding.sentence.format(**sizes, **numbers).replace(" -", " −")
    return Words(figure.finding.title, f"{sentence}\n{caption}", True, "")


def mismatch(sweep: Sweep, needs: Needs) -> str:
    """The first reason why sentences are not about a sweep; empty if they are.

    Args:
        sweep: any sweep.
        needs: the axes and rules that the sentences speak of. Any other axis must be
            fixed, at its default if it has one.
    """
    values = {name: {*map(as_json, given)} for name, given in sweep.spanned().items()}
    for name, needed in needs.items():
        if isinstance(needed, tuple):
            missing = [value for value in needed if value not in values[name]]
        else:
            missing = [needed] if values[name] != {needed} else []
        if missing:
            return f"expected {name} = {missing[0]}"
    usual = defaults(sweep.experiment.cell)
    for name in axis_names(sweep.experiment.cell):
        is_usual = name == _ROWS or name not in usual or values[name] == {as_json(usual[name])}
        if name not in needs and not (len(values[name]) == 1 and is_usual):
            return f"got {name} = {', '.join(sorted(map(str, values[name])))}"
    return ""


def finding_of(figure: Figure, results: Results) -> tuple[Numbers, str]:
    """The numbers of the finding of a figure; None unless these are the results that it is about, and
    support it. With None, the reason why a shipped sweep, edited or not, has lost it; else empty.
    """
    finding = figure.finding
    if not finding or not results.sweep.is_shipped or results.name != finding.sweep:
        return None, ""
    lacking = mismatch(results.sweep, finding.needs)
    missing = [f"expected a table {kind}" for kind in finding.reads if kind not in results]
    if lacking or missing:
        return None, lacking or missing[0]
    numbers = finding.numbers(results)
    return numbers, "its tables do not support it" * (numbers is None)


def plain_title(results: Results) -> str:
    """The sweep and the axes that it varies, as `Sweep map over d_k and n_keys`.

    An axis of a table of a figure, such as the layer, is part of what the figure shows.
    """
    varied = [*map(spoken, results.axes.varied(results.measured))]
    few = len(varied) <= _FEW_AXES
    over = f" over {listed(varied) if few else f'{len(varied)} axes'}" if varied else ""
    return f"Sweep {results.name}{over}"


def plain_caption(figure: Figure, what: Shown) -> str:
    """The grey line: the sizes, inputs and trials of the rows shown, what is left out, and how to read
    the picture. Its length is bounded.
    """
    results, rows = what.results, what.rows
    clauses = [
        figure.note,
        *(clause for clause, holds in figure.when.items() if holds(what.tables)),
        *(_readings(what) if what.panels else ()),
    ]
    reading = "; ".join(filter(None, clauses))
    found = [
        f"Not drawn: {what.left_out}." if what.left_out else "",
        f"{reading[:1].upper()}{reading[1:]}." if reading else "",
    ]
    if len(rows):
        room = _MOST_WORDS - len(" ".join(["Sweep name:", *found]).split())
        found.insert(0, f"Sweep {results.name}: {extent(rows, results.axes, room)}")
    return " ".join(filter(None, found))


def _readings(what: Shown) -> Iterator[str]:
    """Clauses on the exact values, equal weights, hollow points and hidden curves of lines."""
    metrics = [(panel.declared.metric, panel) for panel in what.panels]
    exact = pd.concat(
        panel.rows.get(f"{metric}_exact", panel.rows[metric] * math.nan)
        for metric, panel in metrics
    )
    lines = (line.rows[what.x] for panel in what.panels for line in panel.lines)
    are_joined = any(map(is_joined, lines))
    if exact.notna().any():
        drawn = "lines" if are_joined else "strokes"
        yield f"{drawn}: exact{' where known' * bool(exact.isna().any())}"
    if any(panel.declared.equal for panel in what.panels):
        yield "dotted: equal weights"
    if any(is_few(panel.rows[FEW_DRAWS], metric).any() for metric, panel in metrics):
        yield HOLLOW
    hidden = sum(_hidden(panel, what) for panel in what.panels)
    if hidden and are_joined:
        yield f"{counted(hidden, 'curve')} under others"


def _hidden(panel: ShownPanel, what: Shown) -> int:
    """The number of lines of a panel that lie on a later one at each of their points."""
    metric = panel.declared.metric
    alike = [each.rows[metric] for each in what.panels if each.declared == panel.declared]
    values = np.concatenate(alike)
    is_log = panel.declared.floor is None and spans_widely(values)
    scale = np.log if is_log else np.asarray
    near = _THICKNESS * np.ptp(scale(values[~np.isnan(values)]))
    tables = [line.rows.set_index(what.x) for line in panel.lines]
    exact = [rows.get(f"{metric}_exact", rows[metric]).fillna(rows[metric]) for rows in tables]
    curves = scale(pd.concat(exact, axis=1).to_numpy())
    apart = abs(curves[:, :, np.newaxis] - curves[:, np.newaxis]).max(axis=0)
    return int(np.triu(apart <= near, 1).any(axis=1).sum())


def extent(table: pd.DataFrame, axes: SweepAxes, most: int = 1000) -> str:
    """The axes of rows with their values, and their trials, as a sentence of at most so many words;
    those that vary come first.
    """
    partial = _not_crossed(table, axes)
    crossed = {name: list(table[name].unique()) for name in axes.among(table, *partial)}
    named = (
        [f"{len(table[partial].drop_duplicates())} cases of {listed(partial)}"] if partial else []
    )
    for name in sorted(crossed, key=lambda name: len(crossed[name]) == 1):
        if name == "inputs" or crossed[name] != [axes.usual[name]]:
            named.append(f"{name} = {listed(crossed[name])}")
    trials = table["trials"].agg(["min", "max"]).unique() if "trials" in table else []
    count = f"; {' to '.join(map(short, trials))} trials" if len(trials) else ""
    while len(named) > 1 and len(" ".join([*named, count]).split()) > most:
        named[-2:] = ["and more axes"]
    return f"{', '.join(named)}{count}." if named else ""


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
