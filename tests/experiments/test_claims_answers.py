"""Answers of claims against other ways to compute the same, and verdicts that change with what they are about."""

import math

import numpy as np
import pandas as pd
import pytest

from experiments.claims import laws, quantities, training
from experiments.claims.data import chosen
from experiments.claims.quantities import MEDIAN
from sdpa import ScaledDotProductAttention, softmax

CUT = chosen()
NORMS = (MEDIAN, "jacobian_norm_exact", "query_gradient_norm_exact")
BARE, ROOT, LARGE = {"scaling": "unscaled"}, {"scaling": "d_k^1/2"}, {"d_k": 4096}
STEPS = ["steps_to_solve", "steps_to_solve_low", "steps_to_solve_high"]
FAILED = {"solved": 0.0, "solved_low": 0.0, "solved_high": 0.46, **dict.fromkeys(STEPS, math.nan)}
LATE = {"solved": 1.0, "solved_low": 0.54, "solved_high": 1.0, **dict(zip(STEPS, (300, 290, 310), strict=True))}


@pytest.mark.parametrize("d", [3, 8, 64, 512])
def test_products_of_unit_vectors_have_the_variance_that_symmetry_gives(d):
    """The d squared cosines with orthonormal axes sum to 1."""
    assert laws.variance_of_unit_vectors(d) == pytest.approx(1 / d, rel=1e-9)


def test_two_scaled_scores_differ_as_in_a_simulation():
    """Three standard errors of the median, of 100,000 draws: one false alarm in 400, at one seed."""
    q, one, other = np.random.default_rng(0).standard_normal((3, 100_000, 8))
    ratio = np.exp(abs((q * (one - other)).sum(axis=1)) / 8**0.5)
    assert np.median(ratio) == pytest.approx(laws.median_ratio(8, 8**0.5), rel=0.02)


@pytest.mark.parametrize("shared", [False, True])
def test_a_draw_in_twenty_has_a_deviation_with_a_p_value_below_one_twentieth(shared):
    """The share of 2,000 draws has a standard error of 0.005."""
    rng, queries, d = np.random.default_rng(0), 40, 16
    q = rng.standard_normal((2000, queries, 1, d))
    k = rng.standard_normal((2000, 1 if shared else queries, 8, d))
    deviations = np.sqrt(((q @ k.swapaxes(-1, -2)) ** 2).mean(axis=(1, 2, 3)))
    p_values = [laws.deviation_p_value(d, deviation, queries, shared=shared) for deviation in deviations]
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.02)


def test_dependence_without_correlation_is_found():
    same = np.random.default_rng(0).standard_normal(1000)
    assert laws.dependence(np.stack([same, abs(same)])) > 0.9 > 0.1 > abs(laws.correlation(np.stack([same, abs(same)])))


def test_the_origin_of_a_wrong_softmax_is_found():
    halved = " ".join(f"{weight:.2f}" for weight in softmax([0.625, 0.4, -0.1]))
    assert "divided by 2" in quantities.tempered([1.25, 0.8, -0.2], halved)
    assert "not the softmax of any multiple" in quantities.tempered([1.0, 0.0, -1.0], "0.20 0.20 0.60")


def test_the_error_of_a_ratio_of_medians_follows_from_their_intervals():
    """(low / high, high / low) as half a width of two standard errors: (6/2 - 3/3) / 4 = 0.5."""
    ends = {"unscaled": (3.0, 4.4, 6.0), "d_k^1/2": (2.0, 2.5, 3.0)}
    names = (f"{MEDIAN}_low", MEDIAN, f"{MEDIAN}_high")
    plane = pd.MultiIndex.from_product([quantities.WIDTHS, quantities.KEYS, ends], names=["d_k", "n_keys", "scaling"])
    rows = [dict(zip(names, ends[scaling], strict=True)) for _, _, scaling in plane]
    found = quantities.ratios_of_medians({"phase": pd.DataFrame(rows, index=plane).reset_index()})
    assert set(found.to_numpy().ravel()) == {"1.8"}


def times(factor: float):
    return lambda values: factor * values


@pytest.mark.parametrize(
    ("name", "table", "where", "values", "expected"),
    [
        # A slope is judged by its exact value, not by the last digit of a measured one.
        ("qa-18", "dimension/slopes", {}, {"slope": times(1.01)}, "reproduced"),
        ("qa-18", "dimension/slopes", {}, {"slope_exact": times(1.01)}, "wrong"),
        ("qa-16", "dimension", {"d_k": 512}, {"score_variance": times(1.05)}, "wrong"),
        ("qa-17", "dimension", {"d_k": 512}, {"score_variance": times(1.05)}, "wrong"),
        ("lesson-24", "dimension", {"d_k": 512} | BARE, {"score_variance": times(1.05)}, "misleading"),
        ("qa-21", "powers", {"d_k": 512}, {"score_variance": times(1.05)}, "misleading"),
        ("notebook-18", "phase", BARE | LARGE, dict.fromkeys(NORMS, times(1e-6)), "holds"),
        ("notebook-18", "phase", BARE | LARGE, {MEDIAN: times(1e16)}, "wrong"),
        *(("textbook-15", "phase", ROOT | LARGE | {"n_keys": 64}, {norm: times(0.8)}, "misleading") for norm in NORMS),
        ("article-50", "phase", {}, {"saturated_rows_exact": 0.995}, "holds"),
        ("article-50", "phase", {"n_keys": 64}, {"saturated_rows_exact": 0.995}, "misleading"),
        ("qa-12", "phase", {}, {"saturated_rows_exact": 0.01}, "misleading"),
        ("qa-12", "phase", {}, {"max_weight_exact": 0.95}, "misleading"),
        ("lesson-22", "training", BARE, FAILED, "holds"),
        ("lesson-22", "training", BARE, LATE, "wrong"),
        ("notebook-19b", "training", {}, LATE, "wrong"),
        ("notebook-19b", "training", ROOT | {"initial": "small"}, LATE, "holds"),  # not those of the source
        ("textbook-13", "training", BARE, LATE, "wrong"),
        ("textbook-13", "training", BARE, FAILED, "holds"),
        ("article-54", "training", ROOT | {"task": "recall"}, {"max_weight_after_low": 0.45}, "misleading"),
        ("article-54", "training", ROOT | {"task": "pair"}, {"max_weight_after_high": 0.96}, "misleading"),
        ("article-54", "training", ROOT | {"task": "pair"}, FAILED, "misleading"),
        ("lesson-05", "training", ROOT, {"asked_weight_after_low": 0.5}, "wrong"),
        ("lesson-05", "training", BARE | {"task": "recall"}, {"asked_weight_before_high": 1.0}, "misleading"),
    ],
)
def test_a_verdict_follows_the_measured_tables(tables, judged, name, table, where, values, expected):
    rows = tables[table].copy()
    chosen_rows = (rows[list(where)] == list(where.values())).all(axis=1)
    assert chosen_rows.any()
    for column, value in values.items():
        rows.loc[chosen_rows, column] = value(rows.loc[chosen_rows, column]) if callable(value) else value
    assert judged(name, **{table: rows})[0] == expected


def far(own):
    """The article's comparison with deviations five times as large, and weights of a half."""
    return lambda d_k: (5 * own(d_k)[0], 5 * own(d_k)[1], 0.5, own(d_k)[3])


@pytest.mark.parametrize(
    ("name", "module", "attribute", "change", "expected"),
    [
        ("article-27", laws, "variances", lambda own: lambda: 1.05 * own(), "misleading"),
        *((name, laws, "comparison", far, "misleading") for name in ("article-123", "article-125", "article-131")),
        ("qa-37", laws, "layer", lambda _: lambda *_: ScaledDotProductAttention(6, 4, 4, seed=99), "wrong"),
        ("article-16", laws, "SCHEMES", lambda own: {name: own[name] for name in ("lecun", "xavier")}, "holds"),
        # Weights of scores five times as far apart are sharpened in every row.
        ("lesson-28", quantities, "CAT_WEIGHTS", lambda _: softmax(5 * quantities.CAT_SCORES), "holds"),
        ("lesson-37", quantities, "CAT_WEIGHTS", lambda _: np.array([[7, 1, 1, 1], [1, 7, 1, 1]] * 2) / 10, "wrong"),
        ("article-13", quantities, "SESSION", lambda _: quantities.ABC, "misleading"),
    ],
)
def test_a_verdict_follows_its_inputs(judged, monkeypatch, name, module, attribute, change, expected):
    monkeypatch.setattr(module, attribute, change(getattr(module, attribute)))
    assert judged(name)[0] == expected


def test_both_rules_are_judged_at_the_rates_that_other_runs_choose(tables):
    """Rates come from runs with a step more, whose draws are others, and lie on both sides of a failing rule's best."""
    bands, rows = tables["rates/bands"], tables["training"]
    runs = training.setups({**tables, "rates/bands": bands.assign(best_rate=bands["lowest_rate"])})
    assert len(runs.words) == len(rows[training.AXES].drop_duplicates())
    lowest = rows.groupby([*training.AXES, "scaling"])["learning_rate"].min()
    for _, row in pd.concat([runs.unscaled, runs.scaled]).iterrows():
        assert row["best_rate"] == lowest[*row[training.AXES], row["scaling"]]
    chosen_rates = tables["rates"].assign(steps=tables["rates"]["steps"] - 1)
    both = chosen_rates.merge(rows, on=[*training.AXES, "learning_rate", "scaling"])
    assert len(both) == len(chosen_rates)
    assert (both["max_weight_before_x"] != both["max_weight_before_y"]).all()
    failing = bands[bands["solved"] == 0]
    assert failing["best_rate"].between(failing["lowest_rate"], failing["highest_rate"], inclusive="neither").all()
