"""The d_k at which half of the weights round to 0, against simulated rows, and where there is none."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from experiments.analysis.laws import zero_limits
from experiments.harness.grid import axis_values
from experiments.rounding import Cell
from sdpa import LAWS, Scaling
from sdpa.arithmetic import FORMATS

UNSCALED, USUAL = Scaling.parse("unscaled"), Scaling.parse("d_k^1/2")
CELL = Cell(d_k=8, n_keys=16, n_queries=4, arithmetic=FORMATS["float16"], scaling=(UNSCALED,))


def limits(*cells: Cell) -> pd.DataFrame:
    rows = [{**axis_values(cell), "scaling": cell.scaling[0].name} for cell in cells]
    return zero_limits(pd.DataFrame(rows), cells)


def test_half_of_simulated_weights_are_below_half_the_smallest_number():
    """Of 20,000 rows, within 5 standard errors: 1 in 1.7 million seeds fails."""
    (d_k,) = limits(CELL)["half_zero_d_k"]
    rng = np.random.default_rng(1)
    scores = np.sqrt(2 * rng.gamma(d_k / 2, size=20_000))[:, None] * rng.standard_normal((20_000, 16))
    shifted = scores - scores.max(axis=1, keepdims=True)
    log_weights = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    shares = (log_weights < math.log(2.0**-25)).mean(axis=1)
    assert abs(shares.mean() - 0.5) < 5 * shares.std() / math.sqrt(20_000)


@pytest.mark.parametrize(
    "change",
    [{"scaling": (USUAL,)}, {"mask": "causal"}, {"inputs": LAWS["uniform"]}, {"key_mean": 1.0}, {"query_std": 1e-6}],
)
def test_there_is_none_where_weights_stay_or_theory_knows_nothing(change):
    (row,) = limits(dataclasses.replace(CELL, **change)).to_dict("records")
    assert math.isnan(row["half_zero_d_k"])
    assert row["searched_to"] == 2**20
