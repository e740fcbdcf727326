"""Tests of the power of d_k at which the mean largest weight stays the same."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

from experiments.analysis.slopes import steady_powers
from sdpa.theory import attention_expectations

POWERS = np.array([1 / 3, 1 / 2, 2 / 3, 5 / 6, 1])


def table_of(growth, reach=0.0, d_k=(16, 64), powers=POWERS):
    """A main table in which L of max_weight grows by growth(p) from one d_k to the next, each with the given reach."""

    def weight(odds):
        return (1 / 5 + np.exp(odds)) / (1 + np.exp(odds))

    rows = []
    for step, width in enumerate(d_k):
        for p in powers:
            low, middle, high = weight(step * growth(p) + reach * np.array([-1, 0, 1]))
            rows.append(
                {"d_k": width, "n_keys": 5, "n_queries": 3, "scaling": f"d_k^{p}", "exponent": p}
                | {"max_weight": middle, "max_weight_low": low, "max_weight_high": high, "max_weight_exact": middle}
            )
    return pd.DataFrame(rows)


@pytest.mark.parametrize("power", [0.4, 0.7, 0.95])
def test_the_power_is_where_the_growth_is_zero(power):
    """A cubic growth is interpolated exactly; of two d_k of reach 0.01 each, and slope -2, the interval is known."""
    found = steady_powers(table_of(lambda p: -2 * (p - power) - (p - power) ** 3)).iloc[0]
    assert found["power"] == pytest.approx(power, abs=1e-4)
    assert found["power_exact"] == pytest.approx(power, abs=1e-4)
    assert (found["from_d_k"], found["to_d_k"]) == (16, 64)


@pytest.mark.parametrize("power", [0.5, 0.58])
def test_the_interval_follows_from_the_errors_of_both_widths(power):
    """At a rule, the reach of both over the slope; between two rules, which share draws, somewhat more, never less."""
    found = steady_powers(table_of(lambda p: -2 * (p - power), reach=0.01)).iloc[0]
    for reach in (found["power_high"] - found["power"], found["power"] - found["power_low"]):
        assert 1 <= reach / (np.hypot(0.01, 0.01) / 2) < 1.3


@pytest.mark.parametrize("growth", [lambda p: 1.5 - p, lambda p: np.cos(12 * p)])
def test_a_power_outside_the_sweep_is_empty(growth):
    """The second growth falls through 0 by chance and is above 0 at the largest power."""
    found = steady_powers(table_of(growth))
    assert found[["power", "power_low", "power_high", "power_exact"]].isna().all(axis=None)


def test_saturated_rows_do_not_count():
    """At the smallest two of six powers, the largest weight is 1 in both widths."""
    table = table_of(lambda p: 0.7 - p, powers=np.array([0, 0.25, 0.5, 0.75, 1, 1.25]))
    names = [name for name in table if name.startswith("max_weight")]
    table.loc[table["exponent"] < 0.5, names] = 1.0
    assert steady_powers(table).iloc[0]["power"] == pytest.approx(0.7, abs=1e-4)
    table.loc[table["exponent"] == 0.5, names] = 1.0
    assert np.isnan(steady_powers(table).iloc[0]["power"])


def test_the_power_is_that_of_a_search():
    """Between 64 and 256, exact values of independent rows: the interpolated power against a root of the theory."""

    def weight(d_k, p):
        return attention_expectations(d_k, 32, d_k**p).max_weight

    weights = [weight(d_k, p) for d_k in (64, 256) for p in POWERS]
    names = ["max_weight", "max_weight_low", "max_weight_high"]
    table = table_of(lambda p: p, d_k=(64, 256)).assign(n_keys=32, **dict.fromkeys(names, weights))
    root = optimize.brentq(lambda p: weight(256, p) - weight(64, p), 1 / 3, 1)
    assert steady_powers(table).iloc[0]["power"] == pytest.approx(root, abs=2e-3)
