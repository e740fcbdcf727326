"""The experiment on one page against the suite: two programs that share no code."""

import re

import numpy as np
import pytest
from scipy import stats

from experiments import one_page
from tests.shipped import ROOT, tables_of_results

TABLES = tables_of_results()
COLUMNS = {
    "variance of a score": "score_variance",
    "largest weight": "max_weight",
    "entropy, nats": "entropy",
    "median |dL/dq|": "query_gradient_norm_median",
}
ALARM = 1e-4  # the probability of an alarm without a cause, at most (Bonferroni)


def disagreements(table):
    """Rows of the page's table whose value is too far from that of the sweep `dimension`."""
    suite = TABLES["dimension"].measured.set_index(["d_k", "scaling"])
    found = []
    for row in table.itertuples():
        column = COLUMNS[row.metric]
        there = suite.loc[(row.d_k, row.scaling)]
        error = (there[f"{column}_high"] - there[f"{column}_low"]) / (2 * 1.96)
        t = (row.value - there[column]) / np.hypot(row.se, error)
        if 2 * stats.t.sf(abs(t), one_page.GROUPS - 1) < ALARM / len(table):
            found.append(row)
    return found


@pytest.fixture(scope="module")
def table():
    return one_page.experiment()


def test_the_page_measures_what_the_suite_measures(table):
    assert len(table) == len(one_page.WIDTHS) * len(one_page.EXPONENTS) * len(COLUMNS)
    assert not disagreements(table)


@pytest.mark.parametrize("metric", COLUMNS)
def test_a_factor_of_five_percent_is_found(table, metric):
    wrong = table.assign(value=table.value.where(table.metric != metric, 1.05 * table.value))
    assert disagreements(wrong)


def test_the_page_draws_four_panels(table, tmp_path):
    one_page.draw(table, tmp_path / "one_page.png")
    assert (tmp_path / "one_page.png").stat().st_size > 20_000


def test_the_page_is_short_and_imports_nothing_of_the_suite():
    text = (ROOT / "experiments" / "one_page.py").read_text()
    assert text.count("\n") <= 80
    imported = set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE))
    assert imported == {"sys", "collections", "numpy", "pandas", "seaborn"}
