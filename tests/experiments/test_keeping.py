"""Titles of figures state what their tables support, and another table gets another title."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from experiments.figures.figure import Tables, load_figure
from experiments.figures.keeping import change, keeps, relative_change, stays
from experiments.figures.title_text import fitting
from experiments.harness.tables import read_sweep
from tests.shipped import CONFIG, RESULTS, shipped_only

SHIPPED = {
    "variance": ("dimension", "Only d_k^1/2 keeps the variance of scores level at every width"),
    "saturation": ("dimension", "Only d_k^1/2 keeps attention almost equally sharp at every width"),
    "metrics": ("dimension", "Only d_k^1/2 keeps attention almost equally sharp whatever the d_k"),
    "gradients": ("dimension", "Unscaled, the typical |dL/dq| rises, then falls with d_k; its r.m.s. rises"),
    "powers": ("powers", "Only d_k^1/2 keeps the largest weight almost equal at both widths"),
    "length": ("length", "Longer rows spread attention over more keys under every rule here"),
    "phase": ("phase", "Unscaled, wide heads attend to few keys; under d_k^1/2, to many"),
    "freezing": ("phase", "The longer the rows, the more sharply they freeze"),
    "map": ("crossing", "Typical unscaled gradients fall below scaled ones at widths growing with n_keys"),
    "causal": ("causal", "A causal mask sharpens short rows and hardly changes long ones"),
    "distribution": ("dot_products", "Scores have heavier tails than normal ones, less so in wide heads"),
    "rows": ("single_rows", "In this draw, wide heads mostly favour one key only unscaled"),
}


@cache
def shipped(figure: str) -> Tables:
    sweep = next(sweep for sweep in CONFIG.sweeps if sweep.name == SHIPPED[figure][0])
    return read_sweep(RESULTS, CONFIG, sweep)


def heading(figure: str, measured: pd.DataFrame, **others: pd.DataFrame) -> str:
    """The title of the shipped tables with another measured table and others."""
    return load_figure(figure).heading(shipped(figure) | {"measured": measured} | others)


def measured(figure: str) -> pd.DataFrame:
    return shipped(figure)["measured"]


def swapped(table: pd.DataFrame, column: str, *pair: object) -> pd.DataFrame:
    return table.assign(**{column: table[column].replace(dict(zip(pair, reversed(pair), strict=True)))})


@shipped_only
@pytest.mark.parametrize("figure", SHIPPED)
def test_titles_of_the_shipped_figures(figure):
    assert load_figure(figure).heading(shipped(figure)) == SHIPPED[figure][1]


@shipped_only
@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        ("variance", "Only unscaled attention keeps the variance of scores level at every width"),
        ("saturation", "Only unscaled attention keeps attention almost equally sharp at every width"),
        ("gradients", "Under d_k^1/2, typical and r.m.s. |dL/dq| part as d_k grows"),
        ("phase", "Under d_k^1/2, wide heads attend to few keys; unscaled, to many"),
        ("rows", "In this draw, wide heads mostly favour one key only under d_k^1/2"),
    ],
)
def test_a_finding_belongs_to_the_rule_that_shows_it(figure, expected):
    assert heading(figure, swapped(measured(figure), "scaling", "unscaled", "d_k^1/2")) == expected


@shipped_only
@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        ("variance", "The divisor d_k^1/2 keeps the variance of scores level at every width"),
        ("saturation", "The divisor d_k^1/2 keeps attention almost equally sharp at every width"),
        ("powers", "The divisor d_k^1/2 keeps the largest weight almost equal at both widths"),
        ("gradients", "The divisor d_k^1/2 keeps the typical |dL/dq| almost level at every width"),
        ("length", "Longer rows spread attention over more keys"),
        ("phase", "The divisor d_k^1/2 keeps entropy almost level at every width"),
        ("causal", "A causal mask sharpens short rows and hardly changes long ones"),
        ("rows", "In this draw, wide heads spread their weight over several keys"),
        ("map", "No ratios of unscaled to scaled gradients"),
    ],
)
def test_one_rule_is_compared_with_no_other(figure, expected):
    table = measured(figure)
    one = table[table["scaling"] == "d_k^1/2"]
    tables = {kind: rows for kind, rows in shipped(figure).items() if kind not in ("ratios", "crossings")}
    assert load_figure(figure).heading(tables | {"measured": one}) == expected


@shipped_only
@pytest.mark.parametrize(
    ("figure", "metric", "expected"),
    [
        ("powers", "max_weight", "No rule here keeps the largest weight equal at both widths"),
        ("phase", "entropy", "No rule here keeps entropy level at every width"),
    ],
)
def test_a_finding_holds_for_all_combinations_of_other_axes(figure, metric, expected):
    table = measured(figure)
    exact = f"{metric}_exact"
    shrinking = {name: table[name] / table["d_k"] for name in (metric, f"{metric}_se", exact)}
    whole = pd.concat([table, table.assign(correlation=0.5, **shrinking)])
    assert heading(figure, whole) == expected


@shipped_only
def test_one_of_two_keys_always_has_half_of_the_weight():
    table = measured("rows")
    two = table[table["key"].isin(table["key"].unique()[:2])]
    assert heading("rows", two) == load_figure("rows").shows


@shipped_only
def test_freezing_counts_cells_and_rules():
    table = measured("freezing")
    cells = len(table.drop_duplicates(["d_k", "n_keys"]))
    assert len(table) == 2 * cells
    assert f"the entropies of {cells} cells under 2 rules" in load_figure("freezing").caption(shipped("freezing"))


@shipped_only
@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        ("variance", "Score variance against d_k, with predicted powers and fitted slopes"),
        ("saturation", "Largest weight, entropy and share of saturated rows against d_k"),
        ("metrics", "Metrics that are not zero, along the first varied axis"),
        ("gradients", "Gradient norms against d_k: medians beside root mean squares"),
        ("powers", "Larger exponents make attention less sharp"),
        ("phase", "Where attention gathers on few keys: entropy over d_k and n_keys"),
        ("rows", "In this draw, rows mostly favour one key only unscaled"),
        ("distribution", "Scores have heavier tails than normal ones"),
    ],
)
def test_a_single_d_k_has_no_course(figure, expected):
    table = measured(figure)
    assert heading(figure, table[table["d_k"] == table["d_k"].max()]) == expected


@shipped_only
@pytest.mark.parametrize("figure", ["variance", "saturation", "metrics", "gradients", "powers", "phase"])
def test_missing_values_support_no_finding(figure):
    table = measured(figure)
    values = [name for name in table if name.startswith(("score_variance", "max_weight", "entropy", "query_grad"))]
    unknown = table.assign(**dict.fromkeys(values, np.nan))
    single = heading(figure, unknown[unknown["d_k"] == unknown["d_k"].max()])
    assert heading(figure, unknown) in (single, "Metrics against the exponent p of the divisor d_k^p")


@shipped_only
def test_errors_hide_a_finding():
    table = measured("saturation")
    noisy = table.assign(max_weight_exact=np.nan, max_weight_se=table["max_weight"])
    assert heading("saturation", noisy) == "Largest weight, entropy and share of saturated rows against d_k"


@shipped_only
def test_every_combination_of_other_axes_counts():
    table = measured("variance")
    scale = np.where(table["scaling"] == "d_k^1/2", table["d_k"], 1.0)
    other = table.assign(n_keys=128, score_variance_exact=table["score_variance_exact"] * scale)
    assert heading("variance", pd.concat([table, other], ignore_index=True)) == (
        "No rule here keeps the variance of scores level at every width"
    )


@shipped_only
def test_rules_that_depend_on_the_length_may_keep_the_largest_weight():
    table = measured("length")
    level = table.assign(max_weight_exact=np.where(table["scaling"] == "d_k^1/3", 0.3, table["max_weight_exact"]))
    assert heading("length", level) == "Only d_k^1/3 keeps the largest weight level in longer rows"
    falling = table.assign(entropy_exact=-table["entropy_exact"])
    assert heading("length", falling) == "Entropy and largest weight against the number of keys"


@shipped_only
def test_powers_need_rules_that_are_powers():
    table = measured("powers")
    assert heading("powers", table.assign(exponent=np.nan)) == "No rule of this sweep is a power of d_k"
    single = table[table["d_k"] == 64].assign(max_weight_exact=0.5)
    assert heading("powers", single) == "Metrics against the exponent p of the divisor d_k^p"


@shipped_only
@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.1, 1.2, "Typical unscaled gradients are larger than scaled ones at every width"),
        (0.8, 0.9, "Typical unscaled gradients are smaller than scaled ones at every width"),
        (0.9, 1.1, SHIPPED["map"][1]),
    ],
)
def test_the_map_tells_the_side_of_the_medians(low, high, expected):
    ratios = shipped("map")["ratios"].assign(ratio_low=low, ratio_high=high)
    assert heading("map", measured("map"), ratios=ratios) == expected


@shipped_only
def test_the_map_claims_only_what_holds_for_every_combination():
    ratios, described = shipped("map")["ratios"], "Ratios of unscaled to scaled gradients over d_k and n_keys"
    other = ratios.assign(correlation=0.5, ratio_low=1.1, ratio_high=1.2)
    assert heading("map", measured("map"), ratios=pd.concat([ratios, other], ignore_index=True)) == described


@shipped_only
def test_the_map_tells_whether_crossings_grow_with_n_keys():
    found = shipped("map")["crossings"]
    falls = "In wide heads, typical unscaled gradients fall below scaled ones"
    assert heading("map", measured("map"), crossings=found[found["n_keys"] == 16]) == falls
    mirrored = found.assign(n_keys=found["n_keys"].max() - found["n_keys"])
    assert heading("map", measured("map"), crossings=mirrored) == falls
    missing = found.assign(crossing=found["crossing"].where(found["n_keys"] > 16))
    described = "Ratios of unscaled to scaled gradients over d_k and n_keys"
    assert heading("map", measured("map"), crossings=missing) == described


@shipped_only
def test_the_mask_may_sharpen_all_rows_or_none():
    table = measured("causal")
    short = table[table["n_keys"] <= 128]
    assert heading("causal", short) == "A causal mask sharpens attention"
    assert heading("causal", swapped(table, "mask", "none", "causal")) == "Attention with and without a causal mask"
    little = table.assign(max_weight_exact=np.where(table["mask"] == "causal", 0.303, 0.3))
    assert heading("causal", little) == "Attention with and without a causal mask"
    both = pd.concat([table, little.assign(correlation=0.5)], ignore_index=True)
    assert heading("causal", both) == "Attention with and without a causal mask"
    assert heading("causal", table[table["mask"] == "none"]) == "Attention along the number of keys"


@shipped_only
def test_normal_tails_are_not_called_heavy():
    table = measured("distribution")
    normal = table.assign(score_kurtosis_exact=0.0)
    assert heading("distribution", normal) == "Distribution of one score, measured and exact, and its excess kurtosis"
    equal = table.assign(score_kurtosis_exact=1.0)
    assert heading("distribution", equal) == "Scores have heavier tails than normal ones"


@shipped_only
def test_curves_that_do_not_sharpen_are_only_described():
    curves = shipped("freezing")["curves"]
    mirrored = curves.assign(n_keys=curves["n_keys"].max() - curves["n_keys"])
    title = load_figure("freezing").heading
    assert (
        title(shipped("freezing") | {"curves": mirrored})
        == "Entropy and sum of squared weights against the spread of scores"
    )
    assert title({"measured": measured("freezing")}) == "No curves of entropy against the spread of scores"


@pytest.mark.parametrize(
    ("values", "error", "expected"),
    [
        ([1.0, 1.0001, 1.0], 0.001, "none"),
        ([1.0, 1.05, 1.0], 0.001, "small"),
        ([1.0, 1.2, 1.0], 0.001, "large"),
        ([0.0, 0.0], 0.0, "none"),
        ([1.0, 1.2], 0.1, "unclear"),
        ([1.0, 1.1], 0.01, "unclear"),
        ([1.0], 0.0, "unclear"),
        ([1.0, np.nan], 0.001, "unclear"),
    ],
)
def test_a_change_is_as_large_as_errors_allow(values, error, expected):
    table = pd.DataFrame({"m": values, "m_se": error, "trials": 1000, "few_draws": ""})
    assert change(table, "m") == expected
    assert change(table.assign(few_draws="m"), "m") == "unclear"
    if len(values) > 1:
        assert change(table.assign(few_draws="m", m_exact=[1.0] * len(values)), "m") == "none"


def test_limits_of_a_change_count_errors_and_exact_values():
    noisy = pd.DataFrame({"m": [1.0, 1.05], "m_se": 0.1, "trials": 50, "few_draws": ""})
    least, most = relative_change(noisy, "m")
    assert least < 0 < 0.05 / 1.05 < most
    assert not stays(noisy, "m")
    known = noisy.assign(m_exact=[1.0, 1.05])
    assert relative_change(known, "m") == pytest.approx((0.05 / 1.05, 0.05 / 1.05))
    assert stays(known, "m")
    for unknown in (noisy[:1], noisy.assign(m=[1.0, np.nan]), noisy.assign(few_draws="m"), noisy.assign(trials=1)):
        assert np.isnan(relative_change(unknown, "m")).all()


def lines(**rules: tuple[float, float]) -> pd.DataFrame:
    """A table of the largest weight at two d_k under each rule."""
    sizes = {"n_keys": 64, "exponent": np.nan, "trials": 1000, "max_weight_se": 1e-9, "few_draws": ""}
    return pd.DataFrame(
        [
            {"d_k": d_k, "scaling": rule, "max_weight": value, **sizes}
            for rule, values in rules.items()
            for d_k, value in zip((4, 64), values, strict=True)
        ]
    )


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"d_k^1/2": (1, 1), "8": (1, 2)}, "Only d_k^1/2 keeps x level here"),
        ({"8": (1, 1), "d_k^1/2": (1, 2)}, "Only a constant divisor keeps x level here"),
        ({"8": (1, 1), "16": (1, 2)}, "One rule keeps x level here"),
        ({"8": (1, 1), "16": (1, 1), "d_k^1/2": (1, 2)}, "Several rules keep x level here"),
        ({"d_k^1/2": (1, 1.05), "8": (1, 2)}, "Only d_k^1/2 keeps x almost level here"),
        ({"d_k^1/2": (1, 1), "8": (1, np.nan)}, "The divisor d_k^1/2 keeps x level here"),
        ({"d_k^1/2": (1, 1), "8": (1, 1)}, "Every rule keeps x level here"),
        ({"d_k^1/2": (1, 1), "d_k^1": (1, 1), "8": (1, 2)}, "The divisors d_k^1/2 and d_k^1 keep x level here"),
        ({"d_k^1/2": (1, 1), "unscaled": (1, 1), "8": (1, 2)}, "Unscaled attention and d_k^1/2 keep x level here"),
        ({"d_k^1/2": (1, 3), "8": (1, 2)}, "No rule here keeps x level here"),
        ({"d_k^1/2": (1, 3)}, "The divisor d_k^1/2 does not keep x level here"),
        ({"d_k^1/2": (1, 3), "8": (1, np.nan)}, ""),
    ],
)
def test_rules_keep_a_metric_or_not(rules, expected):
    assert keeps(lines(**rules), "d_k", "max_weight", "x {}level", "here") == expected


def test_a_finding_about_many_rules_stays_short():
    many = lines(**{f"d_k^{p}": (1, 1) for p in range(1, 8)}, unscaled=(1, 2))
    assert keeps(many, "d_k", "max_weight", "the variance {}level", "at every width") == (
        "Several rules keep the variance level at every width"
    )
    assert fitting("much " * 13) == ""
