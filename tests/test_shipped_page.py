"""The page in results/: whole, small, and made of the tables, captions and published statements beside it."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.folders import drawn_texts
from experiments.page import provenance
from experiments.page.index import few_rows, opening
from experiments.page.parts import STATEMENTS_CSV, pictures
from sdpa.theory import attention_expectations
from tests.page_text import as_shown, assert_whole, words
from tests.shipped import CONFIG, RESULTS, shipped_only, tables_of_results

PAGE = RESULTS / "index.html"
LARGEST = 3_000_000


@shipped_only
def test_it_is_whole_small_and_asks_for_nothing():
    assert_whole(PAGE.read_text(encoding="utf-8"), RESULTS)
    assert PAGE.stat().st_size < LARGEST


@shipped_only
def test_the_sentences_of_the_first_screen_hold():
    """Each sentence of index.html.j2 about the shipped config, with its numbers, on the tables and in theory."""
    tables = tables_of_results()
    found = {name: float(value) for name, value in opening(tables).items()}
    assert len(found) == 6
    text = (Path(__file__).parents[1] / "experiments" / "page" / "index.html.j2").read_text(encoding="utf-8")
    assert set(re.findall(r"{{ opening\.(\w+) }}", text)) == set(found)
    measured = tables["dimension"]["measured"].set_index("scaling")
    root = measured.loc["d_k^1/2"]
    # "It keeps the variance of the scores at 1 for every d_k. Without it, the variance is d_k."
    assert (found["score_variance_scaled"], found["score_variance_unscaled"]) == (1, 512)
    assert ((root["score_variance_low"] < 1.02) & (root["score_variance_high"] > 0.98)).all()
    unscaled = measured.loc["unscaled"]
    np.testing.assert_allclose(unscaled["score_variance"], unscaled["d_k"], rtol=0.02)
    # "So the softmax is about equally sharp at every width."
    for name, divisor in (("scaled", 512**0.5), ("unscaled", 1)):
        assert found[f"max_weight_{name}"] == float(f"{attention_expectations(512, 64, divisor).max_weight:.3g}")
    assert root["max_weight"].max() < 1.1 * root["max_weight"].min()
    assert unscaled["max_weight"].max() > 3 * unscaled["max_weight"].min()
    # "The median of |J|_F is larger with the division only above d_k = ..."
    ratios = tables["crossing"]["ratios"].query("norm == 'jacobian' and statistic == 'median'")
    for n_keys in (64, 4096):
        of_keys = ratios[ratios["n_keys"] == n_keys]
        above = of_keys["d_k"] > found[f"crossing_{n_keys}"]
        assert (of_keys.loc[above, "ratio"] < 1).all()
        assert (of_keys.loc[~above, "ratio"] > 1).all()
        assert above.sum() > 2 < (~above).sum()


@shipped_only
def test_the_shipped_page_is_that_of_the_shipped_results():
    """Captions, rows, fingerprints, statements and config are those of the files beside it."""
    tables = tables_of_results()
    plain = words(PAGE.read_text(encoding="utf-8"))
    drawn = pictures(CONFIG, RESULTS)
    assert min(map(len, drawn.values())) > 0
    for path in (path for paths in drawn.values() for path in paths):
        caption = as_shown(drawn_texts(path).caption)
        assert caption in plain or path.stem == "slide", path
    _, rows = few_rows(tables["dimension"]["measured"], ["max_weight"])
    assert all(as_shown(row[-1]) in plain for row in rows)
    made = provenance.provenance(CONFIG, RESULTS, tables, {})
    for value in (made["verdict"], *(value for sweep in made["sweeps"] for value in sweep.values())):
        assert as_shown(value) in plain
    statements = pd.read_csv(RESULTS / STATEMENTS_CSV, keep_default_na=False, dtype=str)
    for _, row in statements.iterrows():
        for name in ("statement", "note", "source"):
            assert as_shown(row[name]) in plain or row[name] in plain, row["id"]
    assert "incomplete results" not in plain
