"""The experiment depth beside stacks of wide layers, and its tables of theory beside numbers of the
review.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments.analysis.depth import first_layer_curves, with_map
from experiments.kinds.depth import EXPERIMENT, LAYERS, Cell, measure, tabulate
from experiments.measuring.experiment import MEASURED
from sdpa import Scaling, softmax, theory
from sdpa.theory.overlap import mean_cosine, next_cosine
from tests.shipped import RESULTS, shipped_only

RULES = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2")))
CELL = Cell(d_k=32, n_keys=12, scaling=RULES, token_cosine=0.3, residual=0.5, layers=3)
TRIALS = 400


@pytest.fixture(scope="module")
def tables():
    return tabulate(CELL, measure(CELL, TRIALS, np.random.default_rng(8)))


def test_the_first_layer_has_its_exact_values(tables):
    """Five standard errors of six values: a false alarm in 200,000 runs, if reseeded."""
    for row, rule in zip(tables[MEASURED], RULES, strict=True):
        for metric in EXPERIMENT.metrics:
            if metric.exact:
                exact = metric.exact.value(theory, replace(CELL, scaling=(rule,)))
                assert abs(row[metric.name] - exact) < 5 * row[f"{metric.name}_se"], metric.name


def test_overlaps_of_flat_rows_may_lie_below_equal_weights():
    """Two rows that look at different keys overlap by less than 1 / n_keys; their mean overlap is
    not less.
    """
    cell = Cell(d_k=32, n_keys=12, scaling=(Scaling.parse("d_k^1"),), token_cosine=0.0)
    rows = [
        tabulate(cell, measure(cell, 4, np.random.default_rng(seed)))[MEASURED][0]
        for seed in range(20)
    ]
    (overlap,) = (metric for metric in EXPERIMENT.metrics if metric.name == "overlap")
    assert overlap.limits(cell).low <= min(row["overlap"] for row in rows) < 1 / 12


def explicit(rng, divisor, width=1024):
    """The mean cosine after each layer of one stack with tokens of that width."""
    n, shares = CELL.n_keys, (math.sqrt(0.3), math.sqrt(0.7))
    tokens = shares[0] * rng.standard_normal((1, width)) + shares[1] * rng.standard_normal(
        (n, width)
    )
    for _ in range(CELL.layers):
        tokens *= math.sqrt(width) / np.linalg.norm(tokens, axis=1, keepdims=True)
        q, k = (
            tokens @ rng.standard_normal((width, CELL.d_k)) / math.sqrt(width) for _ in range(2)
        )
        values = tokens @ rng.standard_normal((width, width)) / math.sqrt(width)
        tokens = CELL.residual * tokens + softmax(q @ k.T / divisor) @ values
        units = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
        yield (np.square(units.sum(axis=0)).sum() - n) / (n * (n - 1))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_layers_of_infinite_width_are_like_wide_ones(tables, rule):
    """Five standard errors, and 0.01 for the finite width."""
    rng = np.random.default_rng(4)
    drawn = np.array([list(explicit(rng, rule.divisor(32, 12))) for _ in range(40)])
    layers = [row for row in tables[LAYERS] if row["scaling"] == rule.name]
    for row, cosines in zip(layers, drawn.T, strict=True):
        error = math.hypot(row["cosine_se"], cosines.std() / math.sqrt(len(cosines)))
        assert abs(row["cosine"] - cosines.mean()) < 5 * error + 0.01


def test_mean_cosines_are_above_the_ratio_of_means():
    """Those of frozen rows, within five standard errors and 1% of the second order."""
    cell = Cell(d_k=512, n_keys=64, scaling=(Scaling.parse("d_k^1/4"),), token_cosine=0.3)
    (row,) = tabulate(cell, measure(cell, 200, np.random.default_rng(6)))[MEASURED]
    at = 0.3, 512**0.25, 64
    assert abs(row["cosine"] - mean_cosine(*at)) < 5 * row["cosine_se"] + 0.01 * row["cosine"]
    assert row["cosine"] - 5 * row["cosine_se"] > next_cosine(*at)


@shipped_only
def test_shipped_layers_are_as_far_from_both_laws_as_stated():
    """docs/theory.md, at p = 0.3: C / S up to 8% low, and the second order within 2%."""
    rows = pd.read_csv(RESULTS / "depth.csv")
    at = [
        (p, math.sqrt(d_k) / c, n)
        for p, d_k, c, n in rows[["token_cosine", "d_k", "divisor", "n_keys"]].values
    ]
    ratios, second = (
        np.array([law(*one) for one in at]) / rows["cosine"] for law in (next_cosine, mean_cosine)
    )
    assert 0.06 < 1 - ratios.min() < 0.08
    assert abs(second - 1).max() < 0.02


def test_tables_of_theory_have_the_numbers_of_one_layer():
    """At beta = 1.5, p = 0.3 and 512 keys, the limit of Giorlandino and Goldt is 1; at beta_c it is
    0.
    """
    cell = Cell(d_k=64, n_keys=512, scaling=RULES, token_cosine=0.3)
    curves = first_layer_curves([cell]).set_index("ratio")
    assert curves.loc[1.0, ["collision", "collision_limit"]].tolist() == pytest.approx(
        [0.2490, 0.0], abs=5e-5
    )
    assert curves.loc[2.0, "cosine_limit"] == pytest.approx(0.3 / (0.3 + 0.7 * 0.5))
    beta_c = math.sqrt(2 / 0.7)
    between = np.interp(1.5 / beta_c, curves.index, curves["ratio_of_means"])
    assert between == pytest.approx(next_cosine(0.3, 1.5 * math.sqrt(math.log(512)), 512), abs=1e-3)
    once = next_cosine(0.3, 1.0, 64, 1.0)
    root = Cell(64, 64, RULES[1:], token_cosine=0.3, residual=1.0, layers=2)
    found = with_map(pd.DataFrame({"layer": [1, 2]}), [root])["cosine_map"]
    assert found.tolist() == pytest.approx([once, next_cosine(once, 1.0, 64, 1.0)])
