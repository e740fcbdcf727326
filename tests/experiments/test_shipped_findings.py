"""Findings hold for the shipped tables, fail for larger errors, and are true of edited sweeps that
keep them.
"""

import re
from dataclasses import replace

import numpy as np
import pytest

from experiments.figures.captions import finding_of, words_of
from experiments.figures.draw import left_out
from experiments.figures.shown import shown
from experiments.kinds.figures import FIGURES
from experiments.kinds.support import exact_or_measured
from experiments.measuring.columns import as_json
from experiments.page.cards import cards
from experiments.tables.analyse import DERIVED_TABLES
from experiments.tables.results import Results
from tests.examples import EXAMPLES
from tests.shipped import OF_CONFIG, shipped_only

pytestmark = shipped_only

FINDINGS = {
    f"{figure.finding.sweep}/{name}": figure.finding
    for name, figure in FIGURES.items()
    if figure.finding
}
ROOT = "scaling == 'd_k^1/2'"
# Rows whose metric goes as a word says, with the metric, the axis along which they are sorted, and the
# rows with which they are compared.
CLAIMS = {
    name: claims
    for example in EXAMPLES.values()
    for name, claims in example.get("claims", {}).items()
}
DERIVED = {
    "share": lambda rows: 100 * exact_or_measured(rows, "entropy") / np.log(rows["n_keys"]),
    "of_first": lambda rows: (w := exact_or_measured(rows, "max_weight")) / w.iloc[0],
    "visible": lambda rows: rows["n_keys"] - rows["n_queries"] + 1,
    "after": lambda rows: rows["layer"] - 1,
    "top": lambda rows: 0 * rows["weight"] + rows.groupby("query")["weight"].max().mean(),
}
CONSTANTS = [0.9, 1]  # a cosine, and a variance
NUMBER = r"(at least |at most |within |varies by |)(\d[\d,]*)(\.\d+)?(%|-fold|)"
# Where a value lies beside its number, in units of the last digit; after other words, at most.
ROUNDED = {"": (-0.5, 0.5), "at least ": (0, 1)}


def tables_of(drawing):
    return OF_CONFIG[drawing.split("/")[0]]


def noisy(table):
    """A table whose intervals and standard errors say nothing."""
    ends = {"_low": -1e9, "_high": 1e9, "_se": 1e9}
    columns = {name: ends.get(name[name.rfind("_") :]) for name in table}
    return table.assign(**{name: end for name, end in columns.items() if end})


def edited(whole, axis, other):
    """Results with other values of an axis, and without the rows of the values that get none."""
    grids = [
        {**grid, axis: tuple(other[name] for name in map(as_json, grid[axis]) if name in other)}
        for grid in whole.sweep.grids()
    ]
    grids = [grid for grid in grids if grid[axis]]
    sweep = replace(whole.sweep, values=grids[0], variants=tuple(grids))
    tables = {
        kind: table[table[axis].isin(list(other))].replace({axis: other})
        for kind, table in whole.items()
        if axis in table
    }
    for derived in DERIVED_TABLES:
        if derived.kind in whole.keys() - tables.keys() and derived.applies_to(tables):
            made = derived.derive(Results(sweep, tables))
            tables |= {derived.kind: made} if len(made) else {}
    return Results(sweep, tables)


def edits(whole):
    """The results, and those of edits of one axis: fewer values, values in reverse order, and other
    numbers.
    """
    yield whole
    for axis, given in whole.sweep.spanned().items():
        values = sorted(map(as_json, given))
        fewer = [values[1:], values[:-1], values[:1], values[-1:], values[::2]]
        changes = [*zip(fewer, fewer, strict=True), (values, values[::-1])][: 6 * len(values[1:])]
        if not isinstance(values[0], str):
            changes.append((values, [value + 1 for value in values]))
        for old, new in changes:
            yield edited(whole, axis, dict(zip(old, new, strict=True)))


def line(tables, metric, x, where):
    """A metric of some rows along an axis, exact where known."""
    columns = {x, metric}.difference(DERIVED)
    table = next(table for table in tables.values() if columns <= {*table})
    rows = table.query(where)
    values = DERIVED[metric](rows) if metric in DERIVED else exact_or_measured(rows, metric)
    return values.set_axis(rows[x]).sort_index(kind="stable")


def judged(tables, word, metric, x, *wheres):
    """Whether the word is true, and the numbers that its sentence may print."""
    if word == "only":
        wheres = tuple(f"scaling == '{rule}'" for rule in tables.measured["scaling"].unique())
    lines = [line(tables, metric, x, where) for where in wheres]
    change = [values.max() / (values.min() or np.nan) for values in lines]
    level = [where for where, factor in zip(wheres, change, strict=True) if factor < 1.1]
    first, other = lines[0], lines[-1]
    more = first / other if word == "less" else first
    start, end = more.iloc[0], more.iloc[-1]
    holds = {
        "rises": start < end,
        "falls": start > end,
        "less": start > end > 1,
        "peaks": max(start, end) < first.max(),
        "spans": first.min() < 1 < first.max(),
        "above": first.min() > other.min(),
        "level": len(level) == 1,
        "only": level == [ROOT] and len(lines) > 1,
    }
    if word == "only":  # of the other rules, the least change
        (root,) = (i for i, where in enumerate(wheres) if where == ROOT)
        lines, change = [lines[root]], [change.pop(root), min(change)]
    factors = [start, end] if word == "less" else change
    numbers = [*factors, *(100 * (factor - 1) for factor in factors)]
    for values in lines:
        numbers += [values.min(), values.max(), values.iloc[0], values.iloc[-1]]
    return holds[word], numbers


@pytest.mark.parametrize("name", dict.fromkeys(drawing.split("/")[0] for drawing in FINDINGS))
def test_a_sentence_is_true_of_each_edited_sweep_that_keeps_it(name):
    """Numbers and directions, by another route."""
    for results in edits(tables_of(name)):
        if name != "language":  # whose history is of the best rates before the edit
            assert np.isfinite([card.curves.pair for card in cards({name: results})]).all()
        for figure in results.sweep.figures:
            if sentence := finding_of(FIGURES[figure], results)[0]:
                assert_true(sentence, results, CLAIMS[f"{name}/{figure}"])


def assert_true(sentence, results, claims):
    sizes = results.measured[[*results.axes.usual]].select_dtypes("number")
    known = []
    for claim in claims:
        holds, numbers = judged(results, *claim)
        assert holds, (sentence, claim)
        known += [*numbers, *(float(f"{number:.2g}") for number in numbers if number > 99)]
    words = re.sub(r"d_k\^\S+|gpt2", "", sentence)
    for bound, whole, decimals, unit in re.findall(NUMBER, words):
        number = float(whole.replace(",", "") + decimals)
        others = known if bound or unit else [*known, *CONSTANTS, *sizes.to_numpy().flat]
        low, high = ROUNDED.get(bound, (-1, 0))
        digits = 10.0 ** len(decimals[1:]) * (np.array(others) - number)
        assert ((low - 1e-9 <= digits) & (digits <= high + 1e-9)).any(), (sentence, number)


@pytest.mark.parametrize("drawing", FINDINGS)
def test_the_shipped_tables_support_title_and_sentence(drawing):
    sentence, reason = finding_of(FIGURES[drawing.split("/")[1]], tables_of(drawing))
    assert not reason
    assert len(FINDINGS[drawing].title.split()) <= 12
    assert len(sentence.replace(" = ", "=").split()) <= 30
    # Pages show what precedes the first full stop.
    assert sentence.find(". ") == -1 < sentence.find(".")
    assert not re.search(r"\bnan\b|\binf\b|{| \(", sentence)


@pytest.mark.parametrize("drawing", [name for name in FINDINGS if name != "single_rows/rows"])
def test_chance_supports_no_finding(drawing):
    tables = tables_of(drawing)
    noise = {kind: noisy(table) for kind, table in tables.items()}
    assert FINDINGS[drawing].numbers(noise) is None


def test_a_line_says_which_finding_is_lost_and_why():
    figure, whole = FIGURES["length"], tables_of("length")
    title, values = figure.finding.title, whole.sweep.values
    reverse = dict(zip(values["n_keys"], values["n_keys"][::-1], strict=True))
    several = replace(whole.sweep, values={**values, "d_k": (1024, 64, 256)})
    for results, reason in (
        (edited(whole, "n_keys", reverse), "its rows do not show this"),
        (Results(several, whole), "got d_k = 64, 256, 1024, expected one value"),
    ):
        (line,) = left_out([words_of(figure, shown(figure, results))] * 2, ())
        assert line.startswith(f'"{title}": length: {reason}. ')
    assert next(left_out([], ["length"])).startswith(
        "findings go by names, and no sweep is named length"
    )
    for other in ({"is_shipped": False}, {"name": "mine"}):
        assert finding_of(figure, Results(replace(whole.sweep, **other), whole)) == ("", "")
