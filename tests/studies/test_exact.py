"""The tables of results/exact, by independent routes, and what their pictures say."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from experiments.config.paths import EXACT
from experiments.page import heads
from experiments.studies.exact import half_sums, length, own_key
from experiments.studies.exact.write import PICTURES
from sdpa import softmax
from tests.prose import agrees
from tests.shipped import OF_CONFIG, RESULTS, shipped_only

TABLES = {name: pd.read_csv(RESULTS / EXACT / f"{name}.csv") for name in PICTURES}
Z = np.linspace(-12, 12, 1201)
NORMAL = np.exp(-(Z**2) / 2) / np.exp(-(Z**2) / 2).sum()


def value(name, column, **axes):
    """The number of one row of a table."""
    table = TABLES[name]
    (number,) = table[(table[[*axes]] == pd.Series(axes)).all(axis=1)][column]
    return number


@pytest.mark.parametrize("name", PICTURES)
def test_shipped_tables_are_those_of_today(name, monkeypatch):
    """Of the own key, one width; other processors may round a sum in another way."""
    monkeypatch.setattr(own_key, "_WIDTHS", [64])
    table = TABLES[name].query("d_k == 64") if name == "own_key" else TABLES[name]
    table = table.reset_index(drop=True)
    actual = PICTURES[name].tabulate()
    if name == "half_sums":
        assert (abs(actual["lost"] - table["lost"]) <= table["lost_se"] / 10).all()
        actual, table = (each.drop(columns=["lost", "lost_se"]) for each in (actual, table))
    pd.testing.assert_frame_equal(actual, table, check_dtype=False, rtol=1e-9)


def mean_entropy(sigma, n_keys):
    """E H = E ln Z - sigma^2 (1 - E sum w^2) by Stein's identity, with the integral of Frullani, E ln Z
    = int (e^-t - E e^(-t Z)) du over u = ln t.
    """
    u = np.linspace(-110, 60, 6001)
    t = np.exp(u)
    products = np.exp(u[:, None] + sigma * Z)
    below = np.exp(-products)
    g, collision = below @ NORMAL, (products**2 * below) @ NORMAL
    step = u[1] - u[0]
    log_sum = (np.exp(-t) - g**n_keys).sum() * step
    squares = n_keys * (collision * g ** (n_keys - 1)).sum() * step
    return log_sum - sigma**2 * (1 - squares)


@pytest.mark.parametrize("n_keys, share", [(64, 0.5), (1024, 1.5), (2**20, 0.5), (2**20, 1)])
def test_entropies_are_those_of_another_formula(n_keys, share):
    actual = value("length", "entropy_share", n_keys=n_keys, share_of_critical=share)
    sigma = value("length", "score_std", n_keys=n_keys, share_of_critical=share)
    assert sigma == pytest.approx(share * np.sqrt(2 * np.log(n_keys)))
    assert actual * np.log(n_keys) == pytest.approx(mean_entropy(sigma, n_keys), rel=1e-6)


@pytest.mark.parametrize("n_keys", [64, 1024])
def test_outputs_are_as_simulated(n_keys):
    """Four standard errors: a false alarm in 16,000. At scores of no spread, the model is exact."""
    sigma = value("length", "score_std", n_keys=n_keys, share_of_critical=0.5)
    weights = softmax(sigma * np.random.default_rng(n_keys).standard_normal((4000, n_keys)))
    squares = (weights**2).sum(axis=1)
    exact = value("length", "output_rms", n_keys=n_keys, share_of_critical=0.5) ** 2
    assert abs(squares.mean() - exact) < 4 * squares.std() / np.sqrt(len(squares))
    at_none = {"n_keys": n_keys, "share_of_critical": 0}
    assert value("length", "output_rms_model", **at_none) == pytest.approx(n_keys**-0.5)


def test_lengths_part_beyond_half_of_the_critical_spread():
    apart = TABLES["length"].groupby("share_of_critical")["entropy_share"].agg(np.ptp)
    assert apart[:0.5].max() < 0.03
    assert apart[0.75:].min() > 0.1


@shipped_only
def test_the_own_key_is_that_of_the_sweep():
    """To 1e-6 of its exact values, whose nodes over |q| are finer, and to three errors of its draws."""
    table = TABLES["own_key"].set_index(["d_k", "correlation"])
    rules = {"weight_by_root": "d_k^1/2", "weight_by_width": "d_k^1"}
    measured = OF_CONFIG["correlation"].measured.set_index(["d_k", "correlation"])
    for column, rule in rules.items():
        both = measured[measured["scaling"] == rule].join(table[column], how="inner")
        assert len(both) == 15
        np.testing.assert_allclose(both[column], both["own_weight_exact"], rtol=1e-6)
        assert (abs(both[column] - both["own_weight"]) < 3 * both["own_weight_se"]).all()


def test_scores_with_the_own_key_turn_from_the_root_to_the_width():
    rng = np.random.default_rng(0)
    q, noise = rng.standard_normal((2, 100_000, 16))
    for rho in (0.1, 0.5):
        scores = (q * (rho * q + np.sqrt(1 - rho**2) * noise)).sum(axis=1)
        squares = scores**2
        expected = value("own_key", "own_rms", d_k=16, correlation=rho) ** 2
        assert abs(squares.mean() - expected) < 3 * squares.std() / np.sqrt(len(squares))
        mean = value("own_key", "own_mean", d_k=16, correlation=rho)
        assert abs(scores.mean() - mean) < 3 * scores.std() / np.sqrt(len(scores))


def test_only_the_root_lets_wide_heads_find_their_key():
    widest = TABLES["own_key"].query("d_k == 4096 and correlation >= 0.1")
    assert widest["weight_by_root"].min() > 0.8
    assert TABLES["own_key"]["weight_by_width"].max() < 0.03
    rises = TABLES["own_key"].query("correlation > 0").groupby("correlation")["weight_by_root"]
    assert all(each.is_monotonic_increasing for _, each in rises)


def rounded_by_definition(numbers, digits, least):
    """To that many binary digits, or multiples of the least number, ties to even."""
    numbers = numbers.astype(float)
    unit = np.maximum(2.0 ** (np.frexp(numbers)[1] - digits), least)
    return (np.rint(numbers / unit) * unit).astype(np.float32)


def test_rounding_is_to_the_nearest_number_and_ties_to_even():
    rng = np.random.default_rng(0)
    numbers = np.float32(2.0 ** rng.uniform(-20, 14, 100_000) * rng.choice([-1, 1], 100_000))
    ties = np.float32([257, 259, 1 + 2**-8, 1 + 3 * 2**-8, 2049, 2051])
    assert half_sums.to_bfloat16(ties).tolist() == [256, 260, 1, 1 + 2**-6, 2048, 2048]
    for name, digits, least in (("bfloat16", 8, 0), ("float16", 11, 2.0**-24)):
        expected = rounded_by_definition(numbers, digits, least)
        np.testing.assert_array_equal(half_sums.FORMATS[name](numbers), expected)


def test_losses_are_those_of_other_draws():
    """Rounded by definition, of other scores, within three errors of a difference."""
    rng = np.random.default_rng(1)
    for spread in (1, 2):
        scores = spread * rng.standard_normal((1024, 100))
        terms = np.exp(scores - scores.max(axis=0))
        for name, digits, least in (("bfloat16", 8, 0), ("float16", 11, 2.0**-24)):
            total = np.zeros(100)
            for term in rounded_by_definition(terms, digits, least):
                total = rounded_by_definition(total + term, digits, least)
            share = 1 - total / terms.sum(axis=0)
            row = {"format": name, "score_std": spread, "n_keys": 1024}
            error = np.hypot(share.std() / 10, value("half_sums", "lost_se", **row))
            assert abs(share.mean() - value("half_sums", "lost", **row)) < 3 * error


def test_equal_terms_stop_at_256_and_2048():
    for name, most in (("bfloat16", 256), ("float16", 2048)):
        for n_keys in (1024, 16384):
            lost = value("half_sums", "lost", format=name, score_std=0, n_keys=n_keys)
            assert lost == max(0, 1 - most / n_keys)


def test_published_losses_are_found():
    """Terms uniform on (0, 1); and, in float16, normal scores of sonos/tract#2586."""
    rng = np.random.default_rng(0)
    uniform = rng.random((16384, 50))
    actual = {n: half_sums.lost(uniform[:n], half_sums.to_bfloat16) for n in (64, 1024, 16384)}
    assert abs(actual[64].mean()) < 3 * actual[64].std() / np.sqrt(50)
    assert abs(actual[64]).max() > 0.013  # published, of a single sum
    assert actual[1024].mean() == pytest.approx(0.50, abs=0.01)
    assert actual[16384].mean() == pytest.approx(0.97, abs=0.005)
    scores = rng.standard_normal((4096, 50))
    for spread, published in ((0.5, 0.154), (1, 0.101), (2, 0.090)):
        terms = np.exp(spread * (scores - scores.max(axis=0)))
        lost = half_sums.lost(terms, half_sums.to_float16)
        assert abs(lost.mean() - published) < 3 * lost.std()


NUMBERS = {
    "length": [],
    "own_key": [
        value("own_key", "weight_by_root", d_k=4, correlation=0.2),
        value("own_key", "weight_by_root", d_k=4096, correlation=0.2),
        value("own_key", "weight_by_width", d_k=4096, correlation=0.2),
        1 / own_key.N_KEYS,
    ],
    "half_sums": [
        value("half_sums", "lost", format=name, score_std=1, n_keys=n_keys)
        for n_keys in (1024, 16384)
        for name in ("bfloat16", "float16")
    ],
}
LIMITS = {"length": ["75%"], "own_key": [], "half_sums": ["0.003%"]}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_says_what_its_table_has(name):
    words = PICTURES[name].WORDS
    sentence, grey = words.caption.split("\n")
    assert len(sentence.split()) <= 40
    assert len(grey.split()) <= 45
    printed = re.findall(r"[\d.]+%", sentence)
    for limit in LIMITS[name]:
        printed.remove(limit)
    assert len(printed) == len(NUMBERS[name])
    assert all(map(agrees, printed, NUMBERS[name]))


def test_limits_of_sentences_hold():
    for spread, n_keys in ((1, 7), (2, 2981)):
        assert round(np.exp(2 * spread**2)) == n_keys
        assert f"{n_keys:,} at" in length.WORDS.caption
        assert spread < np.sqrt(2 * np.log(n_keys + 1)) / 2
        for longer in (n_keys + 1, 10 * n_keys):
            assert mean_entropy(spread, longer) > 0.75 * np.log(longer)
    at_half = TABLES["length"].query("share_of_critical == 0.5")
    assert (at_half["limit"] == 0.75).all()
    assert round(at_half["entropy_share"].max(), 2) == 0.78
    assert TABLES["half_sums"].query("format == 'float32'").lost.abs().max() < 0.00003
    assert TABLES["half_sums"].query("format == 'bfloat16'").lost.max() > 0.5


@shipped_only
@pytest.mark.parametrize("name", PICTURES)
def test_shipped_pictures_are_small(name):
    assert len((RESULTS / EXACT / f"{name}.png").read_bytes()) <= 75_000


def test_lengths_beside_a_head_on_the_page_are_those_of_their_table():
    table, shares = TABLES["length"], json.loads(heads.PATH.read_text())["entropy_shares"]
    assert [*shares] == ["64", "1048576"]
    for n_keys, drawn in shares.items():
        rows = table[table["n_keys"] == int(n_keys)]
        places = np.linspace(0, 2, len(drawn))
        expected = np.interp(places, rows["share_of_critical"], rows["entropy_share"])
        np.testing.assert_allclose(drawn, expected, atol=0.001)
