"""Statements on the law of scores: what their verdicts depend on."""

import numpy as np
import pytest

from experiments.statements.published import initialisation
from experiments.statements.published.score_law import dependence


@pytest.mark.parametrize("name", ["notebook-12", "qa-18", "qa-19"])
def test_a_slope_is_judged_by_its_exact_value(tables, judge, name):
    """Not by the last digit of a measured one, which chance decides."""
    slopes = tables["dimension/slopes"]
    assert judge(name, **{"dimension/slopes": slopes.assign(slope=slopes["slope"] + 0.002)}) == "reproduced"
    assert judge(name, **{"dimension/slopes": slopes.assign(slope_exact=slopes["slope_exact"] + 0.002)}) == "wrong"


def test_terms_that_depend_without_being_correlated_are_found(judge):
    same = np.random.default_rng(0).standard_normal(1000)
    assert dependence(np.stack([same, -same])) == pytest.approx(1)
    assert dependence(np.stack([same, abs(same)])) > 0.9
    assert judge("notebook-11") == "holds"


@pytest.mark.parametrize(("names", "expected"), [(["lecun", "xavier"], "holds"), (["gpt2"], "wrong")])
def test_unit_variance_after_initialisation_depends_on_the_schemes(find, judge, monkeypatch, names, expected):
    """The Q&A and the article say the same of it, and are judged by the same test."""
    assert find("article-16") is find("qa-22b")
    assert judge("article-16") == "misleading"
    monkeypatch.setattr(initialisation, "SCHEMES", {name: initialisation.SCHEMES[name] for name in names})
    assert judge("article-16") == expected
