"""The curves of the freezing figure against two keys by direct integration, and the limits of many."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from experiments.analysis.laws import freezing_curves


@pytest.fixture(scope="module")
def curves() -> pd.DataFrame:
    grid = pd.MultiIndex.from_product([(2, 64, 512), (2, 30, 4096)], names=["d_k", "n_keys"]).to_frame(index=False)
    return freezing_curves(grid.assign(divisor=grid["d_k"] ** 0.25, query_std=1.0, key_std=1.0))


def test_two_keys_are_those_of_an_integral(curves):
    """The gap of two normal scores is normal: w = 1 / (1 + e^-x), x of variance 2 sigma^2."""
    for _, row in curves[curves["n_keys"] == 2].iloc[::9].iterrows():
        spread = np.sqrt(2) * row["ratio"] * np.sqrt(2 * np.log(2))

        def mean(f, spread=spread):
            w = lambda z: 1 / (1 + np.exp(-spread * z))  # noqa: E731
            return integrate.quad(lambda z: f(w(z)) * stats.norm.pdf(z), -12, 12, epsabs=1e-11, limit=500)[0]

        assert row["collision"] == pytest.approx(mean(lambda w: w**2 + (1 - w) ** 2), rel=1e-7)
        entropy = mean(lambda w: stats.entropy([w, 1 - w]))
        assert row["entropy_share"] == pytest.approx(entropy / np.log(2), rel=1e-7)


def test_the_limits_are_those_of_the_random_energy_model(curves):
    cold = curves["ratio"] > 1
    np.testing.assert_allclose(curves["collision_limit"], np.where(cold, 1 - 1 / curves["ratio"], 0))
    np.testing.assert_allclose(curves["entropy_share_limit"], np.where(cold, 0, 1 - curves["ratio"] ** 2))
    far = curves[(curves["ratio"] > 2) & (curves["n_keys"] == 4096)]
    assert (abs(far["collision"] - far["collision_limit"]) < 0.08).all()


def test_a_line_of_cells_is_no_map(curves):
    line = pd.DataFrame({"d_k": [2, 4, 8], "n_keys": 5, "divisor": 1.0, "query_std": 1.0, "key_std": 1.0})
    assert freezing_curves(line).empty
    assert list(freezing_curves(line).columns) == list(curves.columns)
