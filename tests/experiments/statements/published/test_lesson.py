"""Statements of the lesson: amplified differences, sharpened rows, products of unit vectors."""

import numpy as np
import pytest

from experiments.statements import cutoffs
from experiments.statements.published import lesson
from sdpa import softmax


def test_two_scaled_scores_differ_as_in_a_simulation():
    q, one, other = np.random.default_rng(0).standard_normal((3, 100_000, 8))
    ratio = np.exp(abs((q * (one - other)).sum(axis=1)) / 8**0.5)
    assert np.median(ratio) == pytest.approx(lesson.median_ratio(8, 8**0.5), rel=0.02)
    assert lesson.median_ratio(8, 8.0) < cutoffs.AMPLIFIED.value


def test_sharpening_depends_on_the_table(answer, judge, monkeypatch):
    """Scores five times as far apart are sharpened in every row."""
    assert judge("lesson-28") == "wrong"
    scores = lesson.SCORES
    assert (lesson._largest_over_second(lesson.WEIGHTS) < lesson._largest_over_second(scores)).all()
    monkeypatch.setattr(lesson, "SCORES", 5 * scores)
    monkeypatch.setattr(lesson, "WEIGHTS", softmax(5 * scores))
    assert {name: true for name, true in answer("lesson-28").cases.items() if not true} == {}


def test_a_hub_leads_most_rows(judge, monkeypatch):
    """Two columns that lead two rows each mark no hub."""
    assert judge("lesson-37") == "holds"
    monkeypatch.setattr(lesson, "WEIGHTS", np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1]] * 2))
    assert judge("lesson-37") == "wrong"


def test_the_premise_of_the_ranges_is_that_of_the_variances(answer):
    """Unit vectors, whose products stay within 1, for both halves of one sentence."""
    computed, variances = answer("lesson-13").numbers, np.array([1 / 8, 1 / 64, 1 / 512])
    assert computed[:3] == pytest.approx(variances, rel=1e-5)
    assert computed[4::2] == pytest.approx(2 * variances**0.5, rel=1e-5)
    assert computed[3::2] == pytest.approx(-2 * variances**0.5, rel=1e-5)
