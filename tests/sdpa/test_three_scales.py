"""The three scales of d_k and the frozen phase, beside simulated rows and exact expectations."""

from math import sqrt

import numpy as np
import pytest

from sdpa.theory import poisson_dirichlet as frozen
from sdpa.theory import three_scales as scales


@pytest.mark.parametrize("n_keys", [3, 64])
def test_half_the_gaps_of_drawn_scores_are_below_the_median(n_keys):
    """Five standard errors: a false alarm in 2,000,000 runs of a size, if reseeded."""
    rows = 10**6 // n_keys + 20_000
    scores = np.random.default_rng(n_keys).standard_normal((rows, n_keys))
    first, second = -np.partition(-scores, 1, axis=1)[:, :2].T
    below = (first - second < scales.median_gap(n_keys)).mean()
    assert abs(below - 0.5) < 5 * 0.5 / sqrt(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "errors"),
    [  # largest relative distance at 16, 64 and 2^20 keys
        ("largest", (0.27, 0.06, 0.008)),
        ("typical", (0.09, 0.05, 0.06)),
        ("typical_by_gap", (0.315, 0.10, 0.002)),
        ("typical_query", (0.15, 0.06, 0.006)),
        ("mean", (0.49, 0.08, 0.001)),
    ],
)
def test_laws_are_as_near_to_exact_values_as_stated(name, errors):
    """In docs/theory.md."""
    scale = scales.SCALES[name]
    for n_keys, error in zip((16, 64, 2**20), errors, strict=True):
        assert scale.law(n_keys) == pytest.approx(scale.exact(n_keys), rel=error)


def test_the_frozen_phase_is_that_of_drawn_poisson_dirichlet_weights():
    """Weights G_j^(-1/m) of the points G_j of a Poisson process, over their sum: five standard
    errors of 2,000 rows.

    The points left out have about the weight K^(1 - 1/m) for K points, 5e-4 at most here.
    """
    m = 0.25
    points = np.random.default_rng(5).exponential(size=(2000, 2000)).cumsum(axis=1)
    weights = points ** (-1 / m)
    weights /= weights.sum(axis=1, keepdims=True)
    s2, s3 = ((weights**p).sum(axis=1) for p in (2, 3))
    found = {
        frozen.entropy(m): -(weights * np.log(weights)).sum(axis=1),
        frozen.jacobian_square(m): s2 - 2 * s3 + s2**2,
        frozen.max_weight(m): weights[:, 0],
        frozen.share_above(m, 0.6): weights[:, 0] > 0.6,
    }
    for exact, rows in found.items():
        assert abs(rows.mean() - exact) < 5 * rows.std() / sqrt(len(rows)) + 2e-3
