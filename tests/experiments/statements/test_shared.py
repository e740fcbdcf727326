"""Computations that statements share, against other ways to compute the same."""

import numpy as np
import pytest

from experiments.statements.answer import parse_claimed
from experiments.statements.shared import least_likely, share_beyond, tempered, variance_of_unit_vectors


def test_the_least_likely_of_several_draws_is_judged_by_their_number():
    assert least_likely([0.2, 0.01, 0.7]) == pytest.approx(0.03)
    assert least_likely(iter([0.6, 0.9])) == 1.0


def test_the_origin_of_a_wrong_softmax_is_found():
    halved = np.exp([0.625, 0.4, -0.1])
    printed = " ".join(f"{weight:.2f}" for weight in halved / halved.sum())
    assert "divided by 2" in tempered([1.25, 0.8, -0.2], parse_claimed(printed))
    assert "not the softmax of any multiple" in tempered([1.0, 0.0, -1.0], parse_claimed("0.20 0.20 0.60"))


def test_scores_beyond_a_bound_are_those_of_a_simulation():
    q, k = np.random.default_rng(0).standard_normal((2, 100_000, 8))
    assert (abs((q * k).sum(axis=1)) > 4).mean() == pytest.approx(share_beyond(4.0, 8), abs=0.005)


@pytest.mark.parametrize("d", [3, 8, 64, 512])
def test_products_of_unit_vectors_have_the_variance_that_symmetry_gives(d):
    """The d squared cosines with orthonormal axes sum to 1."""
    assert variance_of_unit_vectors(d) == pytest.approx(1 / d, rel=1e-9)
