"""Measured values: the digits that they have in a note follow from their errors."""

import pandas as pd
import pytest

from experiments.harness.config import load_config
from experiments.statements.measured import MEDIAN, by_keys, measured_by_keys, ratio_errors
from experiments.statements.table import CONFIG as TABLE_CONFIG
from tests.shipped import CONFIG, shipped_only


def test_measured_values_have_the_digits_of_their_errors_and_exact_ones_three():
    values, errors = (pd.Series([x, y], index=[4, 1024]) for x, y in ((1.13e-5, 8.75), (7e-6, 0.5)))
    assert measured_by_keys(values, errors) == "1.1e−05 with 4 keys, 8.8 with 1024 keys"
    assert by_keys(values) == "1.13e-05 with 4 keys, 8.75 with 1024 keys"


def test_the_error_of_a_ratio_of_medians_follows_from_their_intervals():
    """(low / high, high / low) as half a width of two standard errors: (6/2 - 3/3) / 4."""
    ends = {"unscaled": (3.0, 6.0), "d_k^1/2": (2.0, 3.0)}
    rows = [
        {"d_k": 64, "n_keys": 4, "scaling": name, f"{MEDIAN}_low": low, f"{MEDIAN}_high": high}
        for name, (low, high) in ends.items()
    ]
    assert ratio_errors({"plane": pd.DataFrame(rows)}).to_numpy() == pytest.approx(0.5)


@shipped_only
def test_a_grid_of_the_shipped_config_has_the_same_trials_and_so_the_same_numbers():
    own, shipped = ({sweep.name: sweep for sweep in config.sweeps} for config in (load_config(TABLE_CONFIG), CONFIG))
    same = [name for name in own if name in shipped and own[name].cells() == shipped[name].cells()]
    assert same == ["dimension", "powers", "dot_products"]
    for name in same:
        assert own[name].trials == shipped[name].trials, name
