"""Bands of learning rates against hand-solved tables, SciPy's exact binomial intervals, and simulated coverage."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.analysis.bands import band_width, bands
from experiments.harness.tables import read_sweep
from experiments.statistics.intervals import share_interval
from experiments.training import EXPERIMENT

RATES = (0.01, 0.1, 1.0)


def table_of(solved, rates=RATES, steps=None, losses=None, trials=20, **axes) -> pd.DataFrame:
    """A main table of one rule: the shares of runs that solve, the steps that they take, and the losses, by rate."""
    rows = pd.DataFrame({"learning_rate": rates, "solved": solved, "trials": trials})
    rows["steps_to_solve"] = [30.0 if share > 0.5 else math.nan for share in solved] if steps is None else steps
    rows["final_loss"] = 1.0 if losses is None else losses
    for name in ("solved", "steps_to_solve", "final_loss"):
        rows[f"{name}_low"], rows[f"{name}_high"] = rows[name] - 0.25, rows[name] + 0.25
    rows["solved_low"], rows["solved_high"] = (rows[f"solved_{end}"].clip(0, 1) for end in ("low", "high"))
    usual = {"task": "recall", "d_k": 7, "scaling": "d_k^1/2", "exponent": 0.5, "divisor": math.sqrt(7)}
    return rows.assign(**usual | axes)


def width_of(rates, shares, trials) -> tuple[float, float, float]:
    """The width of a band from the shares of that many independent runs at each rate."""
    shares, trials = np.asarray(shares, dtype=float), np.broadcast_to(trials, len(shares))
    ends = [
        share_interval(share, 0.0 if share in (0, 1) else math.sqrt(share * (1 - share) / (n - 1)), n, 1)
        for share, n in zip(shares.tolist(), trials.tolist(), strict=True)
    ]
    return band_width(np.asarray(rates, dtype=float), shares, *np.transpose(ends))


def band(*arguments, **options) -> dict:
    (row,) = bands(table_of(*arguments, **options)).to_dict("records")
    return row


@pytest.mark.parametrize(
    ("rates", "decades"),
    [
        ((0.01, 0.1, 1.0), (1, 1, 1)),
        ((0.001, 0.01, 1.0), (1, 1.5, 2)),
        ((0.1, 1.0), (1, 1)),
        ((0.0001, 0.001, 0.1, 0.1 * math.sqrt(10)), (1, 1.5, 1.25, 0.5)),
    ],
)
def test_each_rate_stands_for_the_decades_nearest_to_it(rates, decades):
    trials = np.full(len(rates), 5)
    for i, expected in enumerate(decades):
        width, *_ = width_of(rates, np.eye(len(rates))[i], trials)
        assert width == pytest.approx(expected, rel=1e-12)
    width, low, high = width_of(rates, np.ones(len(rates)), trials)
    assert width == high == pytest.approx(sum(decades), rel=1e-12)
    assert low < width


def test_its_interval_sums_the_squared_distances_of_the_intervals_of_the_shares():
    trials, counts, decades = (5, 20, 7), (2, 20, 0), (1, 1.5, 2)
    shares = [count / n for count, n in zip(counts, trials, strict=True)]
    ends = [stats.binomtest(*each).proportion_ci(method="exact") for each in zip(counts, trials, strict=True)]
    below, above = (
        math.sqrt(sum((d * (p - end[side])) ** 2 for d, p, end in zip(decades, shares, ends, strict=True)))
        for side in (0, 1)
    )
    width, low, high = band_width(np.array([0.001, 0.01, 1.0]), np.array(shares), *np.transpose(ends))
    assert width == pytest.approx(0.4 + 1.5, rel=1e-12)
    assert (low, high) == pytest.approx((max(width - below, 0), width + above), rel=1e-9)


# Shares of runs that solve at seven rates, half a decade apart: bands with steep, slanting or no edges.
BANDS = {
    "steep": (0, 0, 1, 1, 1, 0, 0),
    "slanting": (0.05, 0.3, 0.8, 0.95, 0.8, 0.3, 0.05),
    "one edge": (0, 0, 0.1, 0.7, 1, 1, 1),
    "every run": (1,) * 7,
    "no run": (0,) * 7,
    **{f"{share} at every rate": (share,) * 7 for share in (0.02, 0.1, 0.5, 0.9)},
}


def coverage(shares, trials: int) -> float:
    """Part of 1,000 simulated intervals that hold the true width; the runs are independent, at each rate too."""
    rng, rates, shares = np.random.default_rng(trials), 10.0 ** (np.arange(7) / 2), np.array(shares, dtype=float)
    held = 0
    for _ in range(1000):
        _, low, high = width_of(rates, rng.binomial(trials, shares) / trials, trials)
        held += low - 1e-12 <= 0.5 * shares.sum() <= high + 1e-12
    return held / 1000


@pytest.mark.parametrize("trials", [5, 20])
@pytest.mark.parametrize("shares", BANDS.values(), ids=BANDS)
def test_intervals_hold_the_width_of_a_band(shares, trials):
    """At 95% fewer than 920 of 1,000 have a probability of 0.00003."""
    assert coverage(shares, trials) >= 0.92


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"solved": (0.2, 0.8, 0.6), "steps": (10, 40, 20)}, 0.1),  # most runs solve
        ({"solved": (1, 1, 0.8), "steps": (40, 30, 10)}, 0.1),  # the fewest steps
        ({"solved": (1, 1, 1), "steps": (30, 30, 30), "losses": (0.3, 0.2, 0.1)}, 1.0),  # the smallest loss
        ({"solved": (0, 0, 0), "losses": (1.9, 2.0, 1.8)}, 1.0),
        ({"solved": (0.4, 0.4, 0.2), "losses": (1.5, 1.4, 1.3)}, 0.1),  # no median of the steps
        ({"solved": (0.5, 0.5, 0), "steps": (math.nan, 35, math.nan)}, 0.1),
        ({"solved": (0, 0, 0)}, 0.01),  # the first of several alike
    ],
)
def test_the_best_rate_solves_most_often_then_soonest_then_with_the_smallest_loss(changed, expected):
    table = table_of(**changed)
    for rows in (table, table.iloc[::-1]):  # in any order
        (found,) = bands(rows).to_dict("records")
        assert found["best_rate"] == expected
        best = table.set_index("learning_rate").loc[expected]
        for name in ("solved", "steps_to_solve", "final_loss"):
            for end in ("", "_low", "_high"):
                assert found[f"{name}{end}"] == pytest.approx(best[f"{name}{end}"], nan_ok=True)


def test_a_sweep_gets_its_bands_and_its_learning_curves(tiny):
    config, folder = tiny
    (sweep,) = (sweep for sweep in config.sweeps if sweep.name == "training")
    tables = read_sweep(folder, config, sweep)
    measured, found, curves = (tables[kind] for kind in ("measured", "bands", "learning_curves"))
    axes = ["task", "d_k", "scaling"]
    assert found[axes].to_numpy().tolist() == measured[axes].drop_duplicates().to_numpy().tolist()
    assert len(found) == 2 * 2 * 2
    recorded = [steps for cell in sweep.cells() for _ in cell.scaling for steps in cell.recorded_steps]
    assert curves["step"].tolist() == recorded
    assert set(EXPERIMENT.beside["history"]) < set(curves)
    # The mean over runs before training is that of the main table.
    starts = curves[curves["step"] == 0]
    np.testing.assert_allclose(starts["max_weight"], measured["max_weight_before"], rtol=1e-9)
    np.testing.assert_allclose(starts["max_weight_se"], measured["max_weight_before_se"], rtol=1e-9)
