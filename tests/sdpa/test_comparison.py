"""The comparison of one draw: by plain loops, against published numbers, and its exact values against many draws."""

import math

import numpy as np
import pytest
from scipy import stats

from sdpa import Scaling, compare_scaling

# As an article prints them for five queries and keys of RandomState(42): d_k; deviation of scores unscaled and scaled,
# mean largest weight unscaled and scaled.
PRINTED = [
    (4, (1.56, 0.78), (0.6048, 0.4355)),
    (16, (3.00, 0.75), (0.8633, 0.4592)),
    (64, (8.66, 1.08), (0.7493, 0.4398)),
    (256, (13.47, 0.84), (1.0000, 0.4961)),
    (512, (20.79, 0.92), (1.0000, 0.4842)),
]


@pytest.mark.parametrize(("d_k", "deviations", "largest"), PRINTED)
def test_the_legacy_generator_gives_the_published_numbers(d_k, deviations, largest):
    drawn = compare_scaling(d_k, rng=np.random.RandomState(42))
    sides = drawn.unscaled, drawn.scaled
    assert tuple(round(side.score_std, 2) for side in sides) == deviations
    assert tuple(round(side.max_weight, 4) for side in sides) == largest


@pytest.mark.parametrize(("scaling", "divisor"), [("d_k^1/2", math.sqrt(7)), (Scaling.parse("d_k^1"), 7.0), (2.5, 2.5)])
def test_both_sides_are_those_of_plain_loops(scaling, divisor):
    drawn = compare_scaling(7, n_queries=3, n_keys=5, scaling=scaling, seed=11)
    rng = np.random.default_rng(11)
    q, k = rng.standard_normal((3, 7)), rng.standard_normal((5, 7))
    assert (drawn.d_k, drawn.unscaled.divisor, drawn.scaled.divisor) == (7, 1.0, pytest.approx(divisor))
    for side, over in ((drawn.unscaled, 1.0), (drawn.scaled, divisor)):
        scores = [[sum(q[i] * k[j]) / over for j in range(5)] for i in range(3)]
        weights = [[math.exp(s) / sum(math.exp(t) for t in row) for s in row] for row in scores]
        every = [s for row in scores for s in row]
        variance = sum((s - sum(every) / 15) ** 2 for s in every) / 15
        np.testing.assert_allclose(side.scores, scores, rtol=1e-12)
        np.testing.assert_allclose(side.weights, weights, rtol=1e-12)
        assert side.score_std == pytest.approx(math.sqrt(variance))
        assert side.max_weight == pytest.approx(sum(max(row) for row in weights) / 3)
        assert side.entropy == pytest.approx(sum(stats.entropy(row) for row in weights) / 3)


def test_exact_values_are_the_means_over_many_draws():
    """500 draws of 3 queries and 5 keys, within 4.5 standard errors: chance goes so far once in 150,000."""
    draws = [compare_scaling(2, n_queries=3, n_keys=5, seed=seed) for seed in range(500)]
    for name in ("unscaled", "scaled"):
        sides = [getattr(draw, name) for draw in draws]
        for metric in ("max_weight", "entropy"):
            values = np.array([getattr(side, metric) for side in sides])
            error = values.std() / math.sqrt(len(values))
            assert abs(values.mean() - getattr(sides[0], f"exact_{metric}")) < 4.5 * error
        squares = np.array([(side.scores**2).mean() for side in sides])
        assert abs(squares.mean() - sides[0].exact_score_std ** 2) < 4.5 * squares.std() / math.sqrt(len(squares))
    assert draws[0].scaled.exact_score_std == pytest.approx(1)
