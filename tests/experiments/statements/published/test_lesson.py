"""Statements of the lesson: amplified differences, sharpened rows, products of unit vectors."""

import numpy as np
import pytest

from experiments.statements import cutoffs
from experiments.statements.published import lesson


def test_two_scaled_scores_differ_as_in_a_simulation():
    q, one, other = np.random.default_rng(0).standard_normal((3, 100_000, 8))
    ratio = np.exp(abs((q * (one - other)).sum(axis=1)) / 8**0.5)
    assert np.median(ratio) == pytest.approx(lesson.median_ratio(8, 8**0.5), rel=0.02)
    assert lesson.median_ratio(8, 8.0) < cutoffs.AMPLIFIED


def test_sharpening_does_not_depend_on_a_constant_added_to_the_scores(answer, judge, monkeypatch):
    """And a map that flattens, such as the square root, is found to."""
    before, scores = answer("lesson-28").cases, lesson.SCORES
    monkeypatch.setattr(lesson, "SCORES", scores + 5)
    assert answer("lesson-28").cases == before
    monkeypatch.setattr(lesson, "WEIGHTS", np.sqrt(scores - scores.min() + 0.1))
    assert judge("lesson-28") == "wrong"


def test_the_premise_of_the_ranges_is_that_of_the_variances(answer):
    """Unit vectors, whose products stay within 1, for both halves of one sentence."""
    computed, variances = answer("lesson-13").numbers, np.array([1 / 8, 1 / 64, 1 / 512])
    assert computed[:3] == pytest.approx(variances, rel=1e-5)
    assert computed[4::2] == pytest.approx(2 * variances**0.5, rel=1e-5)
    assert computed[3::2] == pytest.approx(-2 * variances**0.5, rel=1e-5)
