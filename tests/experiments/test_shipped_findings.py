"""Findings hold for the shipped tables, and fail for tables without their effect or with larger
errors.
"""

from dataclasses import replace
from functools import cache

import pandas as pd
import pytest

from experiments.config.sweep import Sweep
from experiments.figures.captions import plain_caption, words_of
from experiments.figures.shown import shown
from experiments.kinds.figures import FIGURES
from experiments.tables.results import Results
from experiments.tables.stored import Stored
from tests.shipped import CONFIG, RESULTS, shipped_only

pytestmark = shipped_only

FINDINGS = {
    f"{figure.finding.sweep}/{name}": figure.finding
    for name, figure in FIGURES.items()
    if figure.finding
}
SWEEPS = {sweep.name: sweep for sweep in CONFIG.sweeps}
# The axis whose values change places, so that the effect goes elsewhere.
REVERSED = {
    "length/length": "n_keys",
    "crossing/map": "n_keys",
    "correlation/correlation": "correlation",
    "causal/causal": "mask",
    "initialisation/initialisation": "scheme",
    "dot_products/distribution": "d_k",
}
# without intervals
EXACT = ("single_rows/rows",)


@cache
def tables_of(drawing: str) -> Results:
    sweep = drawing.partition("/")[0]
    return Stored(RESULTS, SWEEPS[sweep]).read()


def lost(results: Results) -> list[str]:
    """The figures that have lost their finding, with the reason."""
    figures = [FIGURES[name] for name in results.sweep.figures]
    found = [words_of(figure, shown(figure, results)) for figure in figures]
    return [words.lost for words in found if words.lost]


def swapped(table: pd.DataFrame, axis: str) -> pd.DataFrame:
    """A table with the values of an axis in reverse order."""
    if axis not in table:
        return table
    values = sorted(table[axis].unique())
    return table.assign(**{axis: table[axis].map(dict(zip(values, values[::-1], strict=True)))})


def noisy(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose intervals and standard errors say nothing."""
    ends = {"_low": -1e9, "_high": 1e9, "_se": 1e9}
    columns = {name: ends.get(name[name.rfind("_") :]) for name in table}
    return table.assign(**{name: end for name, end in columns.items() if end})


@pytest.mark.parametrize("drawing", FINDINGS)
def test_the_shipped_tables_support_title_and_sentence(drawing):
    """The sentence stands before the plain caption."""
    figure = FIGURES[drawing.partition("/")[2]]
    what = shown(figure, tables_of(drawing))
    title, caption, is_found, _ = words_of(figure, what)
    assert is_found
    assert len(title.split()) <= 12
    sentence = caption.removesuffix(f"\n{plain_caption(figure, what)}")
    assert sentence != caption
    assert sentence.endswith(".")
    # Pages show what precedes the first full stop.
    assert "r.m.s. " not in sentence
    assert not {"nan", "inf", "{"} & set(sentence.replace("{", " { ").split())


@pytest.mark.parametrize("drawing", FINDINGS)
def test_a_finding_fails_without_its_effect(drawing):
    tables = tables_of(drawing)
    if drawing == "assumptions/assumptions":
        rows = tables["measured"]
        level = rows.assign(
            **{f"max_weight{end}": rows["divisor"] for end in ("", "_low", "_high")}
        )
        changed = {**tables, "measured": level}
    else:
        changed = {
            kind: swapped(table, REVERSED.get(drawing, "scaling")) for kind, table in tables.items()
        }
    assert FINDINGS[drawing].numbers(changed) is None


@pytest.mark.parametrize("drawing", [name for name in FINDINGS if name not in EXACT])
def test_chance_supports_no_finding(drawing):
    tables = tables_of(drawing)
    noise = {kind: noisy(table) for kind, table in tables.items()}
    assert FINDINGS[drawing].numbers(noise) is None


def test_each_finding_is_about_a_figure_of_the_shipped_config():
    drawings = {f"{sweep.name}/{figure}" for sweep in CONFIG.sweeps for figure in sweep.figures}
    assert set(FINDINGS) <= drawings


def edited(name: str, **values: tuple) -> Sweep:
    return replace(SWEEPS[name], values={**SWEEPS[name].values, **values})


@pytest.mark.parametrize(
    ("sweep", "reason"),
    [
        (edited("dimension", d_k=(4, 7, 900)), None),
        (edited("dimension", n_keys=(64, 65)), "got n_keys = 64, 65"),
        (
            edited("dimension", scaling=SWEEPS["dimension"].values["scaling"][1:]),
            "expected scaling = unscaled",
        ),
        (edited("phase", n_queries=(8,), mask=("none", "causal")), "got mask = causal, none"),
    ],
)
def test_a_finding_is_lost_without_the_values_that_it_speaks_of(sweep, reason):
    found = lost(Results(sweep, tables_of(f"{sweep.name}/")))
    figures = sweep.figures if reason else ()
    assert found == [f"{sweep.name}/{figure} ({reason})" for figure in figures]


@pytest.mark.parametrize("other", [{"name": "mine"}, {"is_shipped": False}])
def test_a_finding_is_about_the_shipped_sweep_of_its_name_alone(other):
    whole = tables_of("dimension/saturation")
    mine = Results(replace(whole.sweep, **other), whole)
    assert not words_of(FIGURES["saturation"], shown(FIGURES["saturation"], mine)).is_found
    assert not lost(mine)


def test_a_finding_is_lost_if_its_tables_do_not_support_it():
    tables = tables_of("length/length")
    reverse = {kind: swapped(table, "n_keys") for kind, table in tables.items()}
    found = lost(Results(tables.sweep, reverse))
    assert found == ["length/length (its tables do not support it)"]
