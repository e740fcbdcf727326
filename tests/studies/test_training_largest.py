"""The largest scores of decoders in training."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from experiments.studies.training import largest
from sdpa import softmax
from tests.shipped import RESULTS, shipped_only


@pytest.fixture
def short(monkeypatch):
    """Two arms of a small decoder that trains for 40 steps, clipped above 3."""
    usual, no_limit = largest.TRAINED["no division"]
    cell = replace(usual, steps=40, layers=1, n_keys=16)
    arms = {"no division": (cell, no_limit), "clipped": (cell, 3.0)}
    for name, value in {"TRAINED": arms, "_EVERY": 1, "_RUNS": 1}.items():
        monkeypatch.setattr(largest, name, value)


@pytest.mark.usefixtures("short")
def test_clipped_scores_stay_near_the_largest_one():
    table = largest.tabulate()
    none, clipped = (rows["largest_score"] for _, rows in table.groupby("arm", sort=False))
    assert none.max() > 2 * 3.0 > clipped.max() > 3.0


def test_values_of_a_block_are_those_of_its_rows():
    rng = np.random.default_rng(0)
    scores = np.tril(rng.standard_normal((2, 1, 9, 9)))
    hidden = np.where(np.tri(9, dtype=bool), scores, -np.inf)
    values = largest._values(SimpleNamespace(scaled=hidden, weights=softmax(hidden)))
    rows = [scores[i, 0, n - 1, :n] for i in range(2) for n in range(2, 10)]
    spread = np.sqrt(np.mean([row.var(ddof=1) for row in rows]))
    drawn = rng.standard_normal((100_000, sum(map(len, rows)))).max(axis=1)
    assert values["largest_score"] == max(map(max, rows))
    assert values["largest_score_exact"] == pytest.approx(spread * drawn.mean(), rel=0.01)


@shipped_only
@pytest.mark.parametrize("arm", largest.TRAINED)
def test_the_first_steps_of_the_shipped_table_are_those_of_today(arm):
    """To the rounding of single precision, in which decoders train."""
    table = pd.read_csv(RESULTS / largest.PATH).query("arm == @arm").set_index("step")
    steps = [0, largest._EVERY]
    runs = [itertools.islice(largest._of_run(arm, seed), 2) for seed in range(largest._RUNS)]
    again = pd.DataFrame(itertools.chain(*runs)).groupby("step").mean(numeric_only=True)
    pd.testing.assert_frame_equal(
        again, table.loc[steps, again.columns], rtol=1e-4, check_dtype=False
    )
