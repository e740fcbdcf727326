"""Metrics of a row of weights against hand-solved rows, SciPy, rational sums and the diagnostics of the same scores."""

import math

import numpy as np
import pytest
from scipy import stats

from sdpa import (
    collision,
    effective_keys,
    entropy,
    max_weight,
    participation,
    row_variance,
    softmax,
)

# The row, its largest weight, its entropy and its sum of squares, by hand.
SOLVED = [
    ([1.0], 1.0, 0.0, 1.0),
    ([0.0, 1.0, 0.0], 1.0, 0.0, 1.0),
    ([0.5, 0.0, 0.5], 0.5, math.log(2), 0.5),
    ([0.25] * 4, 0.25, math.log(4), 0.25),
    ([0.5, 0.25, 0.25], 0.5, 1.5 * math.log(2), 0.375),
]


@pytest.mark.parametrize(("row", "largest", "nats", "squares"), SOLVED)
def test_hand_solved_rows(row, largest, nats, squares):
    assert max_weight(row) == largest
    assert collision(row) == squares
    assert participation(row) == 1 / squares
    assert entropy(row) == pytest.approx(nats, rel=1e-15, abs=0)
    assert effective_keys(row) == pytest.approx(math.exp(nats), rel=1e-15)


def test_entropy_is_that_of_scipy_along_the_last_axis():
    weights = softmax(3 * np.random.default_rng(0).standard_normal((3, 5, 7)))
    np.testing.assert_allclose(entropy(weights), stats.entropy(weights, axis=-1), rtol=1e-13)
    assert entropy(weights).shape == max_weight(weights).shape == effective_keys(weights).shape == (3, 5)


def test_a_saturated_row_keeps_its_entropy():
    """a = 1 - r has -a ln a = r to first order, which 1 ln 1 would lose: 1 part in 70 at r = 1e-30."""
    assert entropy([1.0, 1e-30]) == pytest.approx(1e-30 * (1 - math.log(1e-30)), rel=1e-14, abs=0)


def test_the_variance_of_a_row_is_that_of_its_visible_scores():
    scores = 1e6 + 3 * np.random.default_rng(2).standard_normal((2, 3, 7))
    scores[0, 1, [0, 4, 6]] = scores[1, 2, 1:] = -np.inf
    found = row_variance(scores)
    assert found.shape == (2, 3)
    for draw, query in np.ndindex(2, 3):
        visible = [s for s in scores[draw, query] if s > -np.inf]
        expected = sum((s - math.fsum(visible) / len(visible)) ** 2 for s in visible) / len(visible)
        assert found[draw, query] == pytest.approx(expected, rel=1e-12, abs=0)
    np.testing.assert_array_equal(row_variance(scores[0, 0]), found[0, 0])
    np.testing.assert_allclose(row_variance(scores / 4), found / 16, rtol=1e-9)
    assert row_variance([1, 4]) == 2.25


@pytest.mark.parametrize("wrong", [[np.nan, 0.0, -np.inf], [np.inf, 0.0, 0.0], [-np.inf] * 3])
def test_a_row_without_variance_is_refused(wrong):
    with pytest.raises(ValueError, match=r"scores: expected every row to have a finite number.* row \(1\) has not"):
        row_variance([[0.0, 1.0, 2.0], wrong])


@pytest.mark.parametrize("function", [max_weight, entropy, effective_keys, collision, participation])
@pytest.mark.parametrize("rows", [[[0.5, 0.5], [0.5, 0.6]], [[0.5, 0.5], [1.5, -0.5]], [[0.5, 0.5], [np.nan, 1]]])
def test_rows_that_are_no_weights_are_refused(function, rows):
    with pytest.raises(ValueError, match=r"that sum to 1, got sum .* in row \(1\)"):
        function(rows)
