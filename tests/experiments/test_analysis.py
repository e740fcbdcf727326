"""Exact columns and slopes against hand-made tables and another least-squares route."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

from experiments.analysis.exact import add_exact
from experiments.analysis.slopes import LEVEL, fit_slopes
from experiments.harness.tables import read_sweep


@pytest.fixture
def table(tiny) -> pd.DataFrame:
    config, folder = tiny
    return read_sweep(folder, config, config.sweeps[0])["rows"]


def test_slopes_are_those_of_an_iterative_fit(table):
    slopes = fit_slopes(table).set_index("scaling")
    for scaling, rows in table.groupby("scaling"):
        x, y = np.log(rows["d_k"]), np.log(rows["score_variance"])
        errors = rows["score_variance_se"] / rows["score_variance"]
        (_, slope), covariance = optimize.curve_fit(lambda x, a, b: a + b * x, x, y, sigma=errors, absolute_sigma=True)
        assert slopes.loc[scaling, "slope"] == pytest.approx(slope, abs=1e-7)
        assert slopes.loc[scaling, "slope_se"] == pytest.approx(np.sqrt(covariance[1, 1]), rel=1e-4)


def test_intervals_are_of_the_stated_level(table):
    slopes = fit_slopes(table)
    half = (slopes["slope_high"] - slopes["slope_low"]) / 2
    assert LEVEL == 0.999
    np.testing.assert_allclose(half / slopes["slope_se"], 3.2905267, rtol=1e-6)
    np.testing.assert_allclose(slopes["slope_exact"], 1 - 2 * slopes["exponent"])


def test_a_single_d_k_has_no_slope_and_other_axes_have_one_each(table):
    assert fit_slopes(table[table["d_k"] == 4]).empty
    twice = pd.concat([table, table.assign(n_keys=99)])
    assert len(fit_slopes(twice)) == 2 * table["scaling"].nunique()


def test_exact_columns_stand_behind_the_errors(table):
    measured = table.drop(columns=[name for name in table if name.endswith("_exact")])
    again = add_exact(measured)
    assert list(again.columns) == list(table.columns)
    unscaled = again[(again["scaling"] == "unscaled") & (again["d_k"] == 64)].iloc[0]
    assert unscaled["score_variance_exact"] == 64
    assert unscaled["score_kurtosis_exact"] == 6 / 64
    assert unscaled["score_mean_exact"] == 0
