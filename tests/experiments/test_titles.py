"""Titles say what their tables support, and nothing where these support nothing."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from experiments.figures import (
    assumptions,
    calibration,
    correlation,
    formats,
    initialisation,
    rules,
    slide,
    speed,
)
from experiments.figures.figure import load_figure
from experiments.figures.title_text import MOST_WORDS
from experiments.harness.figures import declarations

TRIALS = 50


def rows(values, metric="max_weight", *, error=0.001, **columns):
    """Rows of a measured table, with these values of a metric and relative errors."""
    table = pd.DataFrame({metric: np.asarray(values, dtype=float), **columns, "trials": TRIALS, "few_draws": ""})
    return table.assign(**{f"{metric}_se": error * table[metric], f"{metric}_exact": math.nan})


def by_rule(along, **weights):
    """Rows along an axis under some rules: values for each rule, whose names start in the order of RULES."""
    (axis, values), *_ = along.items()
    parts = [rows(found, scaling=RULES[name], **{axis: values}) for name, found in weights.items()]
    return pd.concat(parts, ignore_index=True)


RULES = {"plain": "unscaled", "root": "d_k^1/2", "third": "d_k^1/3", "eight": "8", "sixteen": "16"}
D_K = {"d_k": [4, 64, 512]}
N_KEYS = {"n_keys": [16, 256, 4096]}


@pytest.mark.parametrize("name", declarations())
def test_what_a_figure_shows_is_a_short_title_too(name):
    shows = load_figure(name).shows
    assert len(shows.split()) <= MOST_WORDS
    assert not re.search(r"\d", shows)


SHARPER = "Without sqrt(d_k), wider queries and keys sharpen attention"


@pytest.mark.parametrize(
    ("plain", "root", "expected"),
    [
        ([0.3, 0.8, 0.9], [0.1, 0.1, 0.1], SHARPER),
        ([0.3, 0.8, 0.9], [0.3, 0.2, 0.1], SHARPER),
        ([0.3, 0.8, 0.9], [0.1, 0.2, 0.4], "Wider queries and keys sharpen attention even with sqrt(d_k)"),
        ([0.9, 0.8, 0.3], [0.1, 0.1, 0.1], ""),
        ([0.3, 0.9, 0.5], [0.1, 0.1, 0.1], ""),
        ([0.300, 0.301, 0.302], [0.1, 0.1, 0.1], ""),
        ([0.3, math.nan, 0.9], [0.1, 0.1, 0.1], ""),
    ],
)
def test_the_slide_names_what_rises(plain, root, expected):
    assert slide.title({"measured": by_rule(D_K, plain=plain, root=root)}) == expected


def test_the_slide_claims_only_what_holds_for_every_combination():
    found = by_rule(D_K, plain=[0.3, 0.8, 0.9], root=[0.1, 0.1, 0.1])
    other = by_rule(D_K, plain=[0.3, 0.3, 0.3], root=[0.1, 0.1, 0.1])
    assert slide.title({"measured": pd.concat([found.assign(n_keys=16), found.assign(n_keys=64)])}) == SHARPER
    assert slide.title({"measured": pd.concat([found.assign(n_keys=16), other.assign(n_keys=64)])}) == ""
    assert slide.title({"measured": by_rule(D_K, third=[0.3, 0.8, 0.9])}) == ""
    assert slide.title({"measured": by_rule({"d_k": [4]}, plain=[0.3], root=[0.1])}) == ""


def rules_title(along=N_KEYS, **weights):
    table = by_rule(along, **weights).assign(correlation=0.0, entropy=1.0)
    return rules.title({"measured": table})


def test_rules_name_the_one_whose_weights_change_least():
    least = "The largest weight of longer rows changes least"
    assert rules_title(plain=[0.8, 0.8, 0.7], root=[0.3, 0.1, 0.01]) == f"{least} unscaled"
    assert rules_title(plain=[0.8, 0.8, 0.1], root=[0.3, 0.3, 0.3]) == f"{least} under d_k^1/2"
    assert rules_title(plain=[0.8, 0.8, 0.1], eight=[0.3, 0.3, 0.3]) == f"{least} under a constant"
    assert rules_title(plain=[0.8, 0.8, 0.7], root=[0.8, 0.8, 0.7]) == ""
    assert rules_title(plain=[0.8, 0.8, 0.7]) == ""
    assert rules_title(eight=[0.3, 0.3, 0.3], sixteen=[0.8, 0.8, 0.1]) == ""
    assert rules_title({"n_keys": [16]}, plain=[0.8], root=[0.3]) == ""


def steady(*powers, reach=0.01, correlations=(0.0, 0.5), pairs=1):
    """A table of powers between two d_k, at these correlations."""
    table = pd.DataFrame({"correlation": correlations, "power": powers, "power_exact": math.nan})
    table = table.assign(power_low=table["power"] - reach, power_high=table["power"] + reach, d_k=8)
    return pd.concat([table.assign(from_d_k=8 * 2**i, to_d_k=16 * 2**i) for i in range(pairs)]).drop(columns="d_k")


def test_every_positive_correlation_raises_the_power():
    need = "Positively correlated queries and keys need a higher power of d_k here"
    assert correlation.title({"steady": steady(0.5, 1.0, pairs=2)}) == need
    assert correlation.title({"steady": steady(0.5, 0.5, 1.0, correlations=(-0.5, 0.0, 0.5))}) == need
    both = pd.concat([steady(0.5, 1.0), steady(0.5, 0.5).assign(from_d_k=1)])
    unclear = [both, steady(0.5, 1.0, reach=0.3), steady(0.5, math.nan), steady(1.0, 0.5)]
    unclear += [steady(0.5, 1.0, correlations=ends) for ends in ((-0.5, 0.0), (-0.5, 0.5), (0.1, 0.5))]
    for table in (*unclear, steady(0.5, 0.51, 1.0, correlations=(0.0, 0.1, 0.5))):
        assert correlation.title({"steady": table}) == ""
    assert correlation.title({}) == ""


def schemes(**variances):
    """Variances of scores of schemes at two widths, under d_k^1/2; unscaled they all grow."""
    parts = [
        rows(found, "score_variance", scaling=rule, scheme=name, d_model=[256, 2048])
        for name, values in variances.items()
        for rule, found in (("unscaled", [1, 64]), ("d_k^1/2", values))
    ]
    return {"measured": pd.concat(parts, ignore_index=True)}


def test_schemes_that_keep_their_variance_under_their_own_rule_are_counted():
    keep = "meant for d_k^1/2 keep score variance in wider models"
    assert initialisation.title(schemes(xavier=[1, 1], kaiming=[2, 2], t5=[9, 1])) == f"All schemes {keep}"
    assert initialisation.title(schemes(xavier=[1, 1], kaiming=[2, 2], gpt2=[1, 9])) == f"Most schemes {keep}"
    assert initialisation.title(schemes(xavier=[1, 1], gpt2=[1, 9], mup=[1, 1])) == ""
    assert initialisation.title(schemes(xavier=[1, 1], mup=[1, 1])) == ""
    narrow = schemes(xavier=[1, 1], kaiming=[2, 2])["measured"]
    assert initialisation.title({"measured": narrow[narrow["d_model"] == 256]}) == ""


def rounded(plain, root, share="zero_weights"):
    """Shares that are lost in two cells, unscaled and under d_k^1/2."""
    table = by_rule({"d_k": [8, 512]}, plain=plain, root=root).rename(columns={"max_weight": share})
    table = table.assign(arithmetic="float16", n_keys=16)
    for name in ("zero_weights", "wrong_gradient_rows"):
        values = table[name] if name in table else 0 * table[share]
        table = table.assign(**{name: values, f"{name}_low": values - 0.02, f"{name}_high": values + 0.02})
        table[f"{name}_se"] = 0.01
    return {"measured": table}


def test_formats_name_the_rule_that_loses_more():
    assert formats.title(rounded([0.1, 0.9], [0, 0])) == "Rounding loses more weights unscaled than under d_k^1/2"
    swapped = formats.title(rounded([0, 0], [0.1, 0.9], "wrong_gradient_rows"))
    assert swapped == "Rounding loses more gradients under d_k^1/2 than unscaled"
    assert formats.title(rounded([0.1, 0.9], [0.5, 0])) == ""
    assert formats.title(rounded([0, 0.03], [0, 0])) == ""
    alone = rounded([0.1, 0.9], [0, 0])["measured"].query("scaling == 'unscaled'")
    assert formats.title({"measured": alone}) == ""


def changed(*weights, **axes):
    count = len(weights)
    means = {"query_mean": np.arange(count) / 10, "inputs": "gaussian", "d_k": 64, **axes}
    return {"measured": rows(weights, scaling="d_k^1/2", **means)}


def test_assumptions_sharpen_or_flatten():
    assert assumptions.title(changed(0.1, 0.2, 0.3)) == "All changed assumptions sharpen attention under d_k^1/2"
    assert assumptions.title(changed(0.1, 0.2, 0.3, 0.1)) == "Some changed assumptions sharpen attention under d_k^1/2"
    assert assumptions.title(changed(0.3, 0.2, 0.1, 0.3)).startswith("Some changed assumptions flatten attention")
    both = "Some changed assumptions sharpen attention under d_k^1/2, others flatten it"
    assert assumptions.title(changed(0.2, 0.1, 0.3, 0.3)) == both
    for same in (changed(0.1, 0.1, 0.1), changed(0.1), changed(0.1, math.nan), changed(0.1, 0.2, d_k=[8, 64])):
        assert assumptions.title(same) == ""
    assert assumptions.title(changed(0.1, 0.105, 0.096)) == assumptions.title(changed(0.1, 0.105)) == ""
    assert assumptions.title(changed(0.1, 0.2, 0.096, 0.096)).startswith("Some changed assumptions sharpen")


def test_calibration_follows_the_alarm():
    for alarm, word in ((True, "differ by more than chance"), (False, "as their errors predict")):
        assert word in calibration.title({"agreement": pd.DataFrame({"disagrees": [alarm]})})


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [([1, 1, 1], "In every cell"), ([1, 1, 3], "In most cells"), ([1, 3, 3], None), ([1.95, 1.95, 1.95], None)],
)
def test_speed_names_the_share_of_cells(seconds, expected):
    ratios = pd.DataFrame({"suite": seconds, "article, powers": 2.0, "article, products": math.nan})
    found = speed.title({"ratios": ratios})
    assert found == (f"{expected}, the suite is faster than the article's ways" if expected else "")
