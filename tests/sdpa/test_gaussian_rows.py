"""Values of many Gaussian rows by interpolation, against the integrals of each row."""

import numpy as np
import pytest

from sdpa.theory import GaussianRow
from sdpa.theory.gaussian_rows import gaussian_rows


def exact(sigma, n_keys):
    row = GaussianRow(sigma, n_keys)
    return [row.max_weight(), row.entropy(), row.jacobian_square(), row.max_weight_survival(0.99)]


def test_rows_of_any_spread_and_length_have_the_values_of_their_integrals():
    """Lengths on both sides of those that share integrals; more lengths than nodes in two of these."""
    rng = np.random.default_rng(0)
    lengths = [*range(2, 10), 13, 64, 128, 129, 500, 2048, 2049, 30000, *range(20, 29), *range(300, 309)]
    n_keys = rng.permutation(np.repeat(lengths, 2))
    sigma = np.exp(rng.uniform(np.log(1e-4), np.log(40), len(n_keys)))
    found = gaussian_rows(sigma, n_keys)
    expected = np.array([exact(float(s), int(n)) for s, n in zip(sigma, n_keys, strict=True)])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found[:, [0, 2]], expected[:, [0, 2]], rtol=1e-5, atol=1e-15)


@pytest.mark.parametrize("n_keys", [2, 7, 1000])
def test_equal_scores_have_equal_weights(n_keys):
    found = gaussian_rows(np.zeros(1), np.array([n_keys]))
    np.testing.assert_allclose(found, [[1 / n_keys, np.log(n_keys), (1 - 1 / n_keys) / n_keys, 0]], rtol=1e-12)


def test_no_rows_have_no_values():
    assert gaussian_rows(np.empty(0), np.empty(0, int)).shape == (0, 4)
