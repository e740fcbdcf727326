"""The experiment on one page against the suite: two programs that share no code."""

import os
import re
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments import one_page
from tests.shipped import ROOT, tables_of_results
from tests.suite_process import captured

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
    rows = []
    for row in table.itertuples():
        column = COLUMNS[row.metric]
        there = suite.loc[(row.d_k, row.scaling)]
        error = (there[f"{column}_high"] - there[f"{column}_low"]) / (2 * 1.96)
        t = (row.value - there[column]) / np.hypot(row.se, error)
        if 2 * stats.t.sf(abs(t), one_page.GROUPS - 1) < ALARM / len(table):
            rows.append(row)
    return rows


@pytest.fixture(scope="module")
def table():
    return one_page.experiment()


def test_the_page_measures_what_the_suite_measures(table):
    assert len(table) == len(one_page.WIDTHS) * len(one_page.EXPONENTS) * len(COLUMNS)
    assert not disagreements(table)


def test_each_point_has_its_interval(table, tmp_path):
    one_page.draw(table, tmp_path / "one_page.png")
    bars = [line[2][0].get_segments() for ax in plt.gcf().axes for line in ax.containers]
    lengths = np.ptp(np.array(bars)[..., 1], axis=-1)
    np.testing.assert_allclose(np.sort(lengths, axis=None), np.sort(2 * 1.96 * table.se))


def test_the_command_writes_a_table_beside_its_picture_on_one_thread(table, tmp_path):
    path, before = tmp_path / "mine.png", os.times()
    assert captured(sys.executable, one_page.__file__, path).returncode == 0
    spent = np.subtract(os.times(), before)
    assert spent[2:4].sum() < 1.1 * spent[4]  # time on processors, and elapsed
    pd.testing.assert_frame_equal(pd.read_csv(path.with_suffix(".csv")), table, rtol=1e-5)
    assert path.stat().st_size > 20_000


def test_help_measures_and_writes_nothing(tmp_path):
    ran = captured(sys.executable, one_page.__file__, "--help", cwd=tmp_path)
    assert ran.stdout.startswith("usage: ")
    assert not [*tmp_path.iterdir()]


def test_the_page_is_short_and_imports_nothing_of_the_suite():
    text = (ROOT / "experiments" / "one_page.py").read_text()
    assert text.count("\n") <= 85
    assert not re.search(r"^(import|from) (sdpa|experiments)", text, re.MULTILINE)
