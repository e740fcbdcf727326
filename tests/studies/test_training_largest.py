"""The largest scores of decoders in training."""

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
    cell = replace(largest.ARMS["no division"], steps=40, layers=1, n_keys=16)
    arms = {"no division": cell, "no division, QK-Clip": cell}
    for name, value in {"ARMS": arms, "_LARGEST": 3.0, "_EVERY": 1, "_RUNS": 1}.items():
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
def test_the_shipped_table_has_what_the_code_would_record():
    table = pd.read_csv(RESULTS / largest.PATH)
    assert [*table["arm"].unique()] == [*largest.ARMS]
    assert {*table["step"]} == {*range(0, 401, largest._EVERY)}
