"""Titles and captions of figures.

A finding gives a figure its title and first sentence. It belongs to one sweep of the shipped configs,
by name. Any other sweep has the plain title, and so has an edited one without the values or the effect
that the finding speaks of; the run then says why. The last line of a caption is grey: the sizes, inputs
and trials of the rows shown, those left out, and how to read the figure.
"""

import math
from collections.abc import Iterable, Iterator

import pandas as pd

from experiments.config.sweep import Sweep
from experiments.figures.picture import Words
from experiments.figures.shown import Shown
from experiments.figures.words import is_joined, listed, short, spoken
from experiments.kinds.declarations import HOLLOW, Figure, Needs
from experiments.kinds.support import is_few
from experiments.measuring.columns import Json, as_json, defaults
from experiments.measuring.metric import FEW_DRAWS
from experiments.tables.results import Results, SweepAxes

_ROWS = "n_queries"  # of a draw; their number changes errors, and no expectation
_FEW_AXES = 4  # that a title names
_MOST_WORDS = 45  # of a grey line


def words_of(figure: Figure, shown: Shown) -> Words:
    """Title and caption of a figure for the rows that it shows."""
    results = shown.results
    caption = plain_caption(figure, shown)
    sentence, reason = finding_of(figure, results)
    if figure.finding and sentence:
        return Words(figure.finding.title, f"{sentence}\n{caption}", True)
    shows = figure.shows[0].lower() + figure.shows[1:]
    lost = figure.finding.title if figure.finding and reason else ""
    return Words(f"{plain_title(results)}: {shows}", caption, False, lost, reason)


def mismatch(sweep: Sweep, needs: Needs) -> str:
    """The first reason why sentences are not about a sweep; empty if they are.

    Args:
        sweep: any sweep.
        needs: the axes and rules that the sentences speak of. Any other axis must be
            fixed, at its default if it has one.
    """
    usual = defaults(sweep.experiment.cell)
    for name, given in sweep.spanned().items():
        values = {*map(as_json, given)}
        if name in needs:
            needed = needs[name]
        elif name in usual and name != _ROWS:
            needed = as_json(usual[name])
        else:
            needed = "one value" if len(values) > 1 else ()
        is_given = values.issuperset(needed) if isinstance(needed, tuple) else values == {needed}
        if not is_given:
            expected = needed if isinstance(needed, tuple) else (needed,)
            return f"got {name} = {_ordered(values)}, expected {_ordered(expected)}"
    return ""


def _ordered(values: Iterable[Json]) -> str:
    """Values in order, numbers by size and before words.

    >>> _ordered({256, 64, 1024}), _ordered({"none", "causal"})
    ('64, 256, 1024', 'causal, none')
    """
    ordered = sorted(values, key=lambda value: (isinstance(value, str), value))
    return ", ".join(map(short, ordered))


def finding_of(figure: Figure, results: Results) -> tuple[str, str]:
    """The sentence of the finding of a figure, and the reason why a sweep lost it; one of both is
    empty, or both for results that no finding is about.
    """
    finding = figure.finding
    if not finding or not results.sweep.is_shipped or results.name != finding.sweep:
        return "", ""
    table = results.measured[[*results.axes.usual]]
    missing = [f"there is no table {kind}" for kind in finding.reads if kind not in results]
    missing += [f"the table lacks {name}" for name in results.lacking(figure.metrics)]
    # A size of some variants alone is not that of the rows that the sentence is about.
    partial = [
        f"not every variant has each {name}"
        for name in _not_crossed(table, results.axes)
        if f"{{{name}." in finding.sentence
    ]
    lacking = [mismatch(results.sweep, finding.needs), *missing, *partial]
    reason = next(filter(None, lacking), "")
    numbers = None if reason else finding.numbers(results)
    if numbers is None:
        return "", f"{results.name}: {reason or 'its rows do not show this'}"
    sizes = {name: values.agg(least="min", most="max") for name, values in table.items()}
    return finding.sentence.format(**sizes, **numbers).replace(" -", " −"), ""


def plain_title(results: Results) -> str:
    """The sweep and the axes that it varies, as `Sweep map over d_k and n_keys`.

    An axis of a table of a figure, such as the layer, is part of what the figure shows.
    """
    varied = [*map(spoken, results.axes.varied(results.measured))]
    few = len(varied) <= _FEW_AXES
    over = f" over {listed(varied) if few else f'{len(varied)} axes'}" if varied else ""
    return f"Sweep {results.name}{over}"


def plain_caption(figure: Figure, shown: Shown) -> str:
    """The grey line: the sizes, inputs and trials of the rows shown, what is left out, and how to read
    the picture. Its length is bounded.
    """
    results, rows = shown.results, shown.rows
    clauses = [
        figure.note,
        *(clause for clause, holds in figure.when.items() if holds(shown.tables)),
        *(_readings(shown) if shown.panels else ()),
    ]
    reading = "; ".join(filter(None, clauses))
    sentences = [
        f"Not drawn: {shown.left_out}." if shown.left_out else "",
        f"{reading[:1].upper()}{reading[1:]}." if reading else "",
    ]
    if len(rows):
        room = _MOST_WORDS - len(" ".join(["Sweep name:", *sentences]).split())
        sentences.insert(0, f"Sweep {results.name}: {extent(rows, results.axes, room)}")
    return " ".join(filter(None, sentences))


def _readings(shown: Shown) -> Iterator[str]:
    """Clauses on the exact values, equal weights and hollow points of lines."""
    metrics = [(panel.declared.metric, panel) for panel in shown.panels]
    exact = pd.concat(
        panel.rows.get(f"{metric}_exact", panel.rows[metric] * math.nan)
        for metric, panel in metrics
    )
    lines = (line.rows[shown.x] for panel in shown.panels for line in panel.lines)
    are_joined = any(map(is_joined, lines))
    if exact.notna().any():
        drawn = "lines" if are_joined else "strokes"
        missing = ", where theory has them" if exact.isna().any() else ""
        yield f"{drawn}: exact values{missing}"
    if any(panel.declared.equal for panel in shown.panels):
        yield "dotted: equal weights"
    if any(is_few(panel.rows[FEW_DRAWS], metric).any() for metric, panel in metrics):
        yield HOLLOW


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
