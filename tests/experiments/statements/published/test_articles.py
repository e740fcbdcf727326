"""Statements of the article: its draws are judged by how far chance goes."""

import numpy as np
import pytest

from experiments.statements.published import article_comparison, article_sweep
from experiments.statements.published.article_session import exactly_one


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_sample_is_judged_by_how_far_chance_goes(judge, monkeypatch, factor):
    drawn = article_sweep.variances()
    assert judge("article-27") == "holds"
    monkeypatch.setattr(article_sweep, "variances", lambda: factor * drawn)
    assert judge("article-27") == "misleading"


@pytest.mark.parametrize("name", ["article-123", "article-125", "article-131"])
def test_a_table_of_draws_is_judged_by_how_far_chance_goes(judge, monkeypatch, name):
    """Deviations of 25 scores off by a quarter come by chance; five times as large, or weights of a half, do not."""
    assert judge(name) == "holds"
    own = article_comparison.comparison
    monkeypatch.setattr(
        article_comparison, "comparison", lambda d_k: (5 * own(d_k)[0], 5 * own(d_k)[1], 0.5, own(d_k)[3])
    )
    assert judge(name) == "misleading"


def test_a_row_that_does_not_sum_to_one_is_found():
    weights = np.full((2, 4), 0.25)
    assert all(exactly_one(weights).cases.values())
    assert not any(exactly_one(weights * (1 + 1e-13)).cases.values())
