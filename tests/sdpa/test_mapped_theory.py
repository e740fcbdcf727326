"""Exact rows behind caps, beside sinks and under the sigmoid: against drawn rows, which other tests
compare with plain loops, and known rows.
"""

from math import isnan, sqrt

import numpy as np
import pytest
from numerics import is_mean
from scipy.special import roots_genlaguerre

from sdpa.masks import named_mask
from sdpa.pairs import PairLaw
from sdpa.row_maps import RowMap
from sdpa.theory import GaussianRow, UnknownError, attention_expectations, mapped_expectations
from sdpa.theory.capped_rows import mapped_row

DRAWS = 3000
MAPS = {
    "cap": RowMap(softcap=3.0),
    "narrow cap": RowMap(softcap=0.2),
    "sink": RowMap(sink=1.5),
    "cap and sink": RowMap(softcap=50.0, sink=0.0),
    "sigmoid": RowMap(normalizer="sigmoid"),
    "capped sigmoid": RowMap(softcap=4.0, normalizer="sigmoid"),
}
SIZES = [(4, 5, 1.0), (128, 100, 1.0)]
SHAPED = PairLaw(query_mean=0.5, query_std=1.3, key_std=0.7)


def drawn(rng, d_k, n_keys, lengths, divisor, row_map, law=PairLaw()):
    """The metrics of one drawn row of each length; norms as squares."""
    q = law.query_mean + law.query_std * rng.standard_normal((len(lengths), 1, d_k))
    k = law.key_std * rng.standard_normal((len(lengths), n_keys, d_k))
    hidden = np.arange(n_keys) >= np.reshape(lengths, (-1, 1, 1))
    scores = np.where(hidden, -np.inf, q @ k.mT / divisor)
    rows = row_map.rows(scores, k / divisor)
    norms = rows.jacobian_norm**2, rows.gradient_norm**2
    return [rows.visible_mass, rows.weights.max(axis=-1), rows.entropy, *norms]


def check(expected, rows):
    """Each mean but the entropy under sigmoid, which is unknown, within 5 standard errors of means
    of 3,000 rows: one comparison in 1.7 million fails by chance.

    A squared norm far from normal would fail more often; the seeds are fixed.
    """
    exact = [*expected[:3], *(norm**2 for norm in expected[3:])]
    assert not np.isnan(np.delete(exact, 2)).any()
    for value, of_rows in zip(exact, rows, strict=True):
        assert isnan(value) or is_mean(of_rows.ravel(), value, within=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", MAPS)
def test_expectations_are_those_of_drawn_rows(name, size):
    d_k, n_keys, divisor = size
    rng, row_map = np.random.default_rng([7, *name.encode()]), MAPS[name]
    law = SHAPED if d_k == 4 else PairLaw()
    found = mapped_expectations(d_k, n_keys, divisor, law, row_map)
    assert isnan(found.entropy) == (row_map.normalizer == "sigmoid")
    check(found, drawn(rng, d_k, n_keys, [n_keys] * DRAWS, divisor, row_map, law))


@pytest.mark.parametrize("name", ["sink", "sigmoid", "plain"])
@pytest.mark.parametrize(
    ("mask", "n_queries"),
    [
        ("causal", 4),
        ("window-1", 4),
        ("window-3", 3),
        ("local-2", 2),
    ],
)
def test_masked_rows_are_means_over_their_lengths(name, mask, n_queries):
    rng, row_map = np.random.default_rng(8), MAPS.get(name, RowMap())
    lengths = named_mask(mask, n_queries, 4).sum(axis=-1)
    found = mapped_expectations(6, 4, 1.5, PairLaw(), row_map, mask, n_queries)
    check(found, drawn(rng, 6, 4, np.resize(lengths, DRAWS), 1.5, row_map))


def test_a_high_sink_is_unknown():
    """In two dimensions a score has Laplace's law, so that E |J|^2 is near e^-sink / 3 for two keys;
    queries in the tail of their length carry it.
    """
    for sink, known in ((8.0, True), (30.0, False)):
        arguments = (2, 2, 1.0, PairLaw(), RowMap(sink=sink))
        if known:
            square = mapped_expectations(*arguments).jacobian_norm ** 2
            assert square == pytest.approx(np.exp(-sink) / 3, rel=0.2)
        else:
            with pytest.raises(UnknownError, match="mass"):
                mapped_expectations(*arguments)


@pytest.mark.parametrize("sigma", [1e-3, 0.7, 4.0, 40.0])
@pytest.mark.parametrize("n_keys", [2, 3, 100])
def test_rows_without_map_are_those_of_the_other_integrals(sigma, n_keys):
    """Within 1e-9, and also behind a cap that is so high, or beside a sink so low, that it does
    nothing.
    """
    row = GaussianRow(sigma, n_keys)
    known = 1.0, row.max_weight(), row.entropy(), row.jacobian_square(), row.score_gradient_square()
    for found in (mapped_row(sigma, n_keys), mapped_row(sigma, n_keys, sink=-1e3)):
        np.testing.assert_allclose(found, known, atol=1e-9)
    np.testing.assert_allclose(mapped_row(sigma, n_keys, softcap=1e6 * sigma), known, atol=1e-7)


def test_interpolation_changes_little_and_the_plain_map_is_known_for_more_laws():
    cap, sink = 5.0, 1.0
    nodes, weights = roots_genlaguerre(20, 300 / 2 - 1)
    for n_keys, bound in ((64, 1e-6), (2048, 1e-4)):
        found = mapped_expectations(300, n_keys, 1.3, PairLaw(), RowMap(cap, sink))
        rows = [mapped_row(sqrt(2 * x) / 1.3, n_keys, cap, sink) for x in nodes]
        means = weights / weights.sum() @ np.array(rows)
        gradient = sqrt(means[4] + 299 * means[3]) / 1.3
        expected = *means[:3], sqrt(means[3]), gradient
        np.testing.assert_allclose(found, expected, rtol=bound)
    law = PairLaw(normalize="l2")
    plain = mapped_expectations(8, 9, 0.1, law, RowMap())
    assert plain.max_weight == attention_expectations(8, 9, 0.1, law).max_weight
    for refused in (RowMap(sink=0.0), RowMap(normalizer="entmax")):
        with pytest.raises(UnknownError):
            mapped_expectations(8, 9, 0.1, law, refused)
    with pytest.raises(UnknownError, match="keys with a mean"):
        mapped_expectations(8, 9, 1.0, PairLaw(key_mean=1.0), RowMap(sink=0.0))
