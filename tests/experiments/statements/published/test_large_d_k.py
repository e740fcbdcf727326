"""Statements on large d_k: judged over the (d_k, n_keys) plane, at one large d_k."""

import numpy as np
import pytest

from experiments.statements import cutoffs
from experiments.statements.measured import MEDIAN, ROOT_MEAN_SQUARES
from experiments.statements.published import large_d_k
from experiments.statements.published.large_d_k import d_k_of_a_tenth, overflowing_rows
from sdpa import theory

PEAKED, ALWAYS, SOFT, VANISH, HEALTHY = "qa-02", "article-50", "qa-12", "notebook-18", "textbook-15"
NORMS = (MEDIAN, *ROOT_MEAN_SQUARES)


def changed(tables, metrics, factor: float):
    """The plane with metrics of unscaled rows at the largest d_k multiplied."""
    plane = tables["plane"].copy()
    rows = (plane["scaling"] == "unscaled") & (plane["d_k"] == cutoffs.LARGE.value)
    plane.loc[rows, list(metrics)] *= factor
    return plane


def test_vanishing_gradients_are_judged_over_the_number_of_keys(tables, judge):
    assert judge(VANISH) == "misleading"
    assert judge(VANISH, plane=changed(tables, NORMS, 1e-6)) == "holds"
    assert judge(VANISH, plane=changed(tables, [MEDIAN], 1e16)) == "wrong"


def test_the_d_k_at_which_a_root_mean_square_falls_to_a_tenth_is_where_it_does():
    d_k = d_k_of_a_tenth(4)
    bare, scaled = (theory.attention_expectations(d_k, 4, divisor).jacobian_norm for divisor in (1.0, d_k**0.5))
    assert bare / scaled == pytest.approx(0.1, rel=1e-3)


def test_large_d_k_is_the_same_for_weights_and_gradients(tables, answer):
    assert tables["plane"]["d_k"].max() == cutoffs.LARGE.value
    for name in (PEAKED, VANISH, ALWAYS):
        assert all(f"d_k = {cutoffs.LARGE.value} " in condition for condition in answer(name).cases)


@pytest.mark.parametrize("metric", NORMS)
def test_scaled_gradients_that_shrink_are_found(tables, answer, metric):
    """Each of the norms at the largest d_k, with a single number of keys."""
    assert all(answer(HEALTHY).cases.values())
    plane = tables["plane"]
    corner = (plane["d_k"] == cutoffs.LARGE.value) & (plane["n_keys"] == 64) & (plane["scaling"] == "d_k^1/2")
    shrunk = plane.assign(**{metric: plane[metric].where(~corner, 0.8 * plane[metric])})
    (shrinks,) = (condition for condition, level in answer(HEALTHY, plane=shrunk).cases.items() if not level)
    assert shrinks.endswith("from d_k = 64 to 4096 with 64 keys")


def test_the_rows_that_overflow_are_those_of_a_simulation():
    rng, d_k, n_keys = np.random.default_rng(0), 512, 64
    lengths = np.sqrt(rng.chisquare(d_k, 20_000))
    largest = (lengths[:, None] * rng.standard_normal((len(lengths), n_keys))).max(axis=1)
    with np.errstate(over="ignore"):
        drawn = np.isinf(np.exp(largest.astype(np.float32))).mean()
    exact = overflowing_rows(d_k, n_keys, 1.0)
    assert drawn == pytest.approx(exact, abs=4 * (exact / len(lengths)) ** 0.5)


def test_numerical_stability_is_judged_by_the_rows_that_overflow(answer, monkeypatch):
    """At few keys a plain softmax hardly overflows; scaling would matter to a softmax that loses rows."""
    *plain, subtracting = answer("article-02").cases.values()
    assert plain == [False, False, True, True, True]
    assert not subtracting
    monkeypatch.setattr(large_d_k, "softmax", lambda scores: np.where(abs(scores) > 80, np.nan, 0.5))
    assert list(answer("article-02").cases.values())[-1]


def test_always_means_99_rows_in_100(tables, judge):
    assert judge(ALWAYS) == "wrong"
    plane = tables["plane"].assign(saturated_rows_exact=1.0)
    assert judge(ALWAYS, plane=plane) == "holds"
    assert judge(ALWAYS, plane=tables["plane"].assign(saturated_rows_exact=0.995)) == "holds"
    one = plane.assign(saturated_rows_exact=plane["saturated_rows_exact"].where(plane["n_keys"] == 64, 0.98))
    assert judge(ALWAYS, plane=one) == "misleading"


@pytest.mark.parametrize(("metric", "value"), [("saturated_rows_exact", 0.01), ("max_weight_exact", 0.95)])
def test_a_scaled_softmax_that_saturates_is_found(tables, judge, metric, value):
    assert judge(SOFT) == "holds"
    assert judge(SOFT, plane=tables["plane"].assign(**{metric: value})) != "holds"
