"""The page in results/: self-contained, small, and made of the tables, captions and published statements beside it."""

import numpy as np
import pandas as pd

from experiments.claims.data import sources
from experiments.claims.judge import SEVERITIES
from experiments.examples import example_names
from experiments.figures.figure import load_figure
from experiments.folders import diagnosis_path, drawn_texts, example_path, figure_path
from experiments.harness.figures import declarations
from experiments.harness.tables import read_sweep
from experiments.page import opening, provenance
from experiments.page.entries import OF_OPENING, entries
from tests.page_text import as_shown, assert_self_contained, words
from tests.shipped import CONFIG, RESULTS, shipped_only, tables_of_results

PAGE = RESULTS / "index.html"
LARGEST = 2_000_000


def test_it_is_whole_and_asks_for_nothing():
    assert_self_contained(PAGE.read_text(encoding="utf-8"))


@shipped_only
def test_it_is_small():
    assert PAGE.stat().st_size < LARGEST


@shipped_only
def test_no_first_screen_without_what_it_says():
    """Each sentence goes when the table does not show it; with none of them there is nothing to say."""
    config = CONFIG
    tables = {sweep.name: read_sweep(RESULTS, config, sweep) for sweep in config.sweeps}
    heads = [statement.head for statement in opening.effects(config.sweeps, tables)]
    assert heads[0] == "It keeps the variance of the scores at 1 for every d_k."
    assert len(heads) == 4
    assert len(opening.non_effects(config.sweeps, tables)) == 3
    table = tables["dimension"]["measured"]
    root = table["scaling"] == "d_k^1/2"

    def heads_with(**other: dict[str, pd.DataFrame]) -> list[str]:
        now = tables | other
        return [s.head for s in (*opening.effects(config.sweeps, now), *opening.non_effects(config.sweeps, now))]

    def changed(rows: pd.Series, metric: str, factor: np.ndarray | float) -> list[str]:
        moved = table.assign(**{metric: table[metric].where(~rows, table[metric] * factor)})
        return heads_with(dimension={"measured": moved})

    assert heads[0] not in changed(root, "score_variance", table["d_k"].to_numpy())
    assert heads[2] == "Other powers of d_k do not keep the largest weight constant."
    assert heads[1] not in changed(root, "max_weight", table["d_k"].to_numpy() / 100)
    assert heads[2] not in changed(table["scaling"] == "d_k^1/3", "max_weight", 1 / table["max_weight"].to_numpy())
    smaller, average, _ = (statement.head for statement in opening.non_effects(config.sweeps, tables))
    assert average not in changed(table["scaling"] == "unscaled", "jacobian_norm", 1e-3)
    of_map = tables["crossing"]
    uncrossed = of_map["crossings"].assign(crossing=np.nan, ratio_at_largest=2.0)
    assert heads[3] not in heads_with(crossing=of_map | {"crossings": uncrossed})
    assert smaller not in heads_with(crossing=of_map | {"ratios": of_map["ratios"].assign(ratio_low=0.9)})
    rows_alone = [sweep for sweep in config.sweeps if sweep.name in ("single_rows", "dot_products")]
    assert opening.effects(rows_alone, tables) == opening.non_effects(rows_alone, tables) == []


def test_the_topics_name_entries_that_are_found_wrong():
    published = {name: entry for entry in entries(RESULTS) for name in entry.ids.split()}
    for name in [*(name for figure in declarations() for name in load_figure(figure).corrects), *OF_OPENING]:
        assert published[name].verdict in ("wrong", "misleading"), name
    ranks = [entry.rank for entry in entries(RESULTS)]
    assert ranks == sorted(ranks)
    graves = [entry.severity for entry in entries(RESULTS) if entry.severity]
    assert graves == sorted(graves, key=SEVERITIES.index)
    assert not any(entry.severity for entry in entries(RESULTS)[len(graves) :])


def test_published_statements_on_the_page_show_sources_and_severities():
    text = words(PAGE.read_text(encoding="utf-8"))
    for source in sources().values():
        assert source.citation in text
    assert PAGE.read_text(encoding="utf-8").count('<span class="severity">') >= sum(
        bool(entry.severity) for entry in entries(RESULTS)
    )


@shipped_only
def test_the_shipped_page_is_that_of_the_shipped_results():
    """As far as is known without the drawings, which are not committed: captions, fingerprints, statements."""
    config = CONFIG
    text = words(PAGE.read_text(encoding="utf-8"))
    figures = [(sweep.name, figure) for sweep in config.sweeps for figure in sweep.figures]
    captions = [figure_path(RESULTS, sweep, figure, ".txt") for sweep, figure in figures]
    captions += [example_path(RESULTS, name, ".txt") for name in example_names()]
    for path in [*captions, diagnosis_path(RESULTS, "heads.txt")]:
        assert as_shown(drawn_texts(path).caption) in text, path
    tables_of_results()
    tables, problems = provenance.sound_tables(config, RESULTS, incomplete=False)
    made = provenance.provenance(config, RESULTS, tables, problems)
    for sweep in made.sweeps:
        assert sweep.measuring in text
        assert sweep.tables in text
    assert as_shown(made.verdict) in text
    assert "incomplete results" not in text
