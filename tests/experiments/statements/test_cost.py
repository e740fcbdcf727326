"""The cost of attention: how it grows."""

import pandas as pd
import pytest
from experiments.analysis.growth import exponents

from tests.shipped import RESULTS


def test_the_growth_of_cost_is_fitted_to_the_larger_sizes():
    sizes = [64, 128, 256, 512, 1024]
    rows = [{"swept": "n", "n": n, "d_k": 8, "seconds": 3e-9 * n**2 + 1e-5, "peak_bytes": 8 * n**2} for n in sizes]
    (row,) = exponents(pd.DataFrame(rows)).to_dict("records")
    assert row["peak_bytes"] == pytest.approx(2)
    assert 1.9 < row["seconds"] < 2


def test_the_shipped_cost_grows_with_the_square_of_tokens_and_not_with_that_of_the_width():
    grown = exponents(pd.read_csv(RESULTS / "cost.csv")).set_index("swept")
    assert 1.7 < grown.loc["n", "seconds"] < 2.3
    assert 1.9 < grown.loc["n", "peak_bytes"] < 2.1
    assert grown.loc["d_k", "seconds"] < 1.2
