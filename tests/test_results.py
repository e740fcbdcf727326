"""The shipped tables and their page: whole, precise enough, and as theory, sentences and captions
say.
"""

import json
import re
from dataclasses import replace
from itertools import chain

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from experiments.commands.job import Job
from experiments.commands.measure import analyse_again
from experiments.config.errors import TableError
from experiments.config.loader import load_config
from experiments.figures.draw import pictures_of
from experiments.figures.words import short
from experiments.measuring.columns import axis_names, names
from experiments.measuring.processor import is_supported
from experiments.page.cards import cards
from experiments.page.pictures import pictures, study_pictures
from experiments.page.provenance import provenance
from experiments.page.quiz import questions
from experiments.page.sections import few_rows
from experiments.page.statements import read_statements
from experiments.running.files import checksum
from experiments.tables.all_results import AllResults
from experiments.tables.analyse import agreement, columns_of
from experiments.tables.layout import IDENTITY
from experiments.tables.reporter import Reporter
from experiments.tables.results import Results
from experiments.tables.stored import Stored
from sdpa.theory import attention_expectations
from tests.page_text import as_shown, assert_whole, words
from tests.shipped import CONFIG, OF_FULL, RESULTS, ROOT, shipped_only, tables_of_results

TABLES = tables_of_results()
PAGE = RESULTS / "index.html"
# of those that are there
OTHERS = "statements/*.csv", "examples/*.csv", "benchmarks/*.csv", "config.full/plan_outcomes.csv"
OTHERS += "config.full/arms.csv", "config.full/largest_scores.csv", "exact/*.csv"


def pictures_of_sweeps():
    for results in TABLES.values():
        yield from pictures_of(RESULTS, results)
    yield from pictures_of(OF_FULL.folder, OF_FULL["language"])


@pytest.mark.parametrize("sweep", CONFIG.sweeps, ids=lambda sweep: sweep.name)
def test_tables_are_whole_and_of_this_config(sweep):
    results = TABLES[sweep.name]
    declared = columns_of(results)
    for kind, table in results.items():
        written = pd.read_csv(Stored(RESULTS, sweep).csv(kind), nrows=0)
        assert [*written] == names((*IDENTITY, *declared[kind]))
        for column in declared[kind]:
            if not column.may_be_empty:
                assert table[column.name].notna().all()
                assert column.type == "str" or np.isfinite(table[column.name]).all()
    rows = results.measured.groupby(axis_names(sweep.experiment.cell), dropna=False).size()
    wanted = [cell.table_rows(sweep.trials) for cell in sweep.cells]
    assert sorted(rows) == sorted(wanted)


@pytest.mark.parametrize("path", [path for name in OTHERS for path in sorted(RESULTS.glob(name))])
def test_columns_of_other_tables_are_described(path):
    _, described = (ROOT / "results/columns.md").read_text().split("## Published statements")
    for column in pd.read_csv(path, nrows=0).columns:
        value = column.removesuffix("_low").removesuffix("_high")  # the ends of its interval
        assert f"`{value}`" in described, column


@shipped_only
def test_crossings_confirm_their_exact_values():
    """The line of the map, at every n_keys: a 95% interval within a factor of 1.25 to either side.

    Intervals 1.5 times as wide contain the exact values: P(|z| > 1.96 x 1.5) = 0.3% for each. Only
    the last crossing of |dL/dq|, near the largest d_k of the sweep, has no upper end, and that of
    |J|_F with four keys lies below the smallest.
    """
    of_norms = TABLES["crossing"]["crossings"].query(
        "statistic == 'median' and level == 1 and norm != 'undivided_query_gradient'"
    )
    medians = of_norms.dropna(subset="crossing")
    assert len(medians) == len(of_norms) - 1 == 2 * of_norms["n_keys"].nunique() - 1
    assert medians["crossing_high"].isna().sum() <= 1
    low, high, exact = (
        np.log(medians[f"crossing_{end}"] / medians["crossing"]) for end in ("low", "high", "exact")
    )
    assert (low > -np.log(1.25)).all()
    assert (high.dropna() < np.log(1.25)).all()
    assert exact.between(1.5 * low, 1.5 * high.fillna(np.inf)).all()


def test_measured_values_agree_with_the_exact_ones():
    """Every sweep by itself and all together: the alarm of `make check`."""
    for sweeps in (*([results] for results in TABLES.values()), TABLES.values()):
        assert not agreement(sweeps).alarm()


@shipped_only
def test_it_is_whole_and_asks_for_nothing():
    assert_whole(PAGE.read_text(), RESULTS)


@shipped_only
def test_a_card_tells_its_table_and_vanishes_with_its_finding():
    shown = {card.subject: card.curves for card in cards(TABLES)}
    assert [*shown] == ["Variance", "Saturation", "Gradients", "Training"]
    exact = [attention_expectations(512, 64, rule).max_weight for rule in ("unscaled", "d_k^1/2")]
    assert shown["Saturation"].pair == pytest.approx(exact, rel=1e-6)
    whole = TABLES["dimension"]
    level = dict.fromkeys(("max_weight", "max_weight_low", "max_weight_high"), 0.5)
    narrow = whole.measured.query("d_k < 512").assign(n_keys=4096, **level)
    edited = [*cards({"dimension": Results(whole.sweep, {**whole, "measured": narrow})})]
    assert [card.subject for card in edited] == ["Variance", "Gradients"]
    assert {card.curves.at for card in edited} == {"in textbook rows with d_k = 256 and 4,096 keys"}


@shipped_only
def test_the_quiz_has_the_numbers_of_theory_and_of_its_card():
    asked = [*questions([*cards(TABLES)])]
    numbers = [re.findall(r"[\d.]*\d", each.right) for each in asked]
    assert numbers[1:4] == [["512"], ["0.93", "0.11"], ["0.9996"]]
    best = TABLES["language"]["bands"].query("initial == 'unit'")["final_loss"]
    assert all(f"{loss:.2f}" in asked[6].why for loss in best)
    assert [*questions([])] == [*asked[:4], asked[5], *asked[7:]]


@shipped_only
def test_the_shipped_page_is_that_of_the_shipped_results():
    """Captions, also in pictures, rows, fingerprints, statements and config are those of the files beside
    it.
    """
    plain = words(PAGE.read_text(encoding="utf-8"))
    drawn = pictures(TABLES) | study_pictures(RESULTS)
    assert min(map(len, drawn.values())) > 0
    for shown in chain.from_iterable(drawn.values()):
        assert as_shown(shown.words.caption) in plain, shown.file
    for picture in pictures_of_sweeps():
        with Image.open(picture.path) as png:
            assert (png.info["Title"], png.info["Description"]) == picture.words[:2]
    _, rows = few_rows(TABLES["dimension"], ["max_weight"])
    assert all(f"{row[-1].text}exact {row[-1].exact}" in plain for row in rows)
    made = provenance(AllResults(CONFIG, RESULTS))
    codes = [sweep.pop("measuring code") for sweep in made.sweeps]
    assert all(code in plain for code in codes)  # also one that looks like a number
    for value in (made.check.verdict(), *(v for sweep in made.sweeps for v in sweep.values())):
        assert as_shown(value) in plain
    assert made.check.verdict() not in {sweep["check"] for sweep in made.sweeps}
    for statement in read_statements(RESULTS)["statement"]:
        assert as_shown(statement) in plain or statement in plain
    assert "incomplete results" not in plain


def test_few_rows_have_both_ends_of_every_axis():
    for results in TABLES.values():
        axes, rows = few_rows(results, [])
        for axis, shown in zip(axes, zip(*rows, strict=True), strict=True):
            ends = results.measured[axis].unique()[[0, -1]]
            assert {short(end) for end in ends} <= {value.text for value in shown}


@pytest.mark.slow
@shipped_only
@pytest.mark.skipif(
    not is_supported(), reason="pictures are the same to the byte beside AVX2 alone"
)
def test_the_shipped_tables_give_the_shipped_pictures():
    for picture in pictures_of_sweeps():
        assert picture.render() == [picture.path.read_bytes()], picture.path


@pytest.mark.parametrize(
    "config, folder", [("config.yaml", RESULTS), ("config.full.yaml", RESULTS / "config.full")]
)
def test_shipped_tables_are_those_of_their_config(config, folder):
    """Not those of an earlier config, as `plan` would say."""
    loaded = load_config(ROOT / config)
    shipped = [sweep for sweep in loaded.sweeps if (folder / f"{sweep.name}.json").exists()]
    assert shipped
    stale = {sweep.name: reason for sweep in shipped if (reason := Stored(folder, sweep).fault)}
    assert not stale, f"run these sweeps of {config} again"


@shipped_only
def test_an_analysis_that_would_lose_recorded_steps_is_refused(tmp_path):
    """Those of another best rate are in chunks alone."""
    [sweep] = (sweep for sweep in OF_FULL.config.sweeps if sweep.name == "language_cap")
    original, copy = Stored(OF_FULL.folder, sweep), Stored(tmp_path, sweep)
    copy.write(original.read(), json.loads(original.sidecar.read_bytes()))
    path, sidecar = copy.csv("measured"), json.loads(copy.sidecar.read_bytes())
    table = pd.read_csv(path)
    losses = [name for name in table if name.startswith("final_loss")]
    table.loc[table["final_loss"].idxmin(), losses] += 1
    table.to_csv(path, index=False)
    sidecar["sha256"]["measured"] = checksum(path)
    copy.sidecar.write_text(json.dumps(sidecar))
    job = Job(replace(OF_FULL.config, sweeps=(sweep,)), tmp_path, Reporter())
    with pytest.raises(TableError, match="got history, heads, which need the chunks"):
        analyse_again(job)
