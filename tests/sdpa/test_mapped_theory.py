"""Exact rows behind caps, beside sinks and under the sigmoid: against drawn rows, which other tests
compare with plain loops, and known rows.
"""

from math import isnan

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sdpa.masks import reach_of
from sdpa.pairs import PairLaw
from sdpa.row_maps import RowMap
from sdpa.theory import GaussianRow, UnknownError, mapped_expectations
from sdpa.theory.special.capped_rows import mapped_row
from tests.numerics import is_mean

DRAWS = 3000
SHAPED = PairLaw(query_mean=0.5, query_std=1.3, key_std=0.7)


def drawn(rng, d_k, n_keys, lengths, divisor, row_map, law):
    """The metrics of one drawn row of each length; norms as squares."""
    q = law.query_mean + law.query_std * rng.standard_normal((len(lengths), 1, d_k))
    k = law.key_std * rng.standard_normal((len(lengths), n_keys, d_k))
    hidden = np.arange(n_keys) >= np.reshape(lengths, (-1, 1, 1))
    scores = np.where(hidden, -np.inf, q @ k.mT / divisor)
    rows = row_map.rows(scores, k / divisor)
    norms = rows.jacobian_norm**2, rows.weight_jacobian_norm**2
    return [rows.visible_mass, rows.max_weight, rows.entropy, *norms]


@pytest.mark.parametrize(
    "row_map, d_k, n_keys, law, mask, n_queries",
    [
        (RowMap(softcap=0.2), 4, 5, SHAPED, "none", 5),
        (RowMap(softcap=3.0), 128, 100, PairLaw(), "none", 100),
        (RowMap(softcap=50.0, sink=0.0), 4, 5, SHAPED, "none", 5),
        (RowMap(softcap=4.0, normalizer="sigmoid"), 128, 100, PairLaw(), "none", 100),
        (RowMap(sink=1.5), 6, 3, PairLaw(), "causal", 3),
        (RowMap(), 6, 4, PairLaw(), "window-3", 3),
        (RowMap(normalizer="sigmoid"), 6, 4, PairLaw(), "local-2", 2),
    ],
)
def test_expectations_are_those_of_drawn_rows(row_map, d_k, n_keys, law, mask, n_queries):
    """Under a mask means over the lengths of rows; each but the entropy under sigmoid, which is
    unknown, within 5 standard errors of means of 3,000 rows: one comparison in 1.7 million fails by
    chance.

    A squared norm far from normal would fail more often; the seeds are fixed.
    """
    actual = mapped_expectations(d_k, n_keys, 1.1, law, row_map, mask, n_queries)
    lengths = np.resize(reach_of(mask).lengths(n_queries, n_keys), DRAWS)
    rows = drawn(np.random.default_rng([7, d_k]), d_k, n_keys, lengths, 1.1, row_map, law)
    exact = [*actual[:3], *(norm**2 for norm in actual[3:])]
    is_unknown = [False, False, row_map.normalizer == "sigmoid", False, False]
    assert np.isnan(exact).tolist() == is_unknown
    for value, of_rows in zip(exact, rows, strict=True):
        assert isnan(value) or is_mean(of_rows.ravel(), value, within=1e-9)


def test_a_high_sink_is_unknown():
    """Long queries, in the tail of their law, carry the norms beside it."""
    with pytest.raises(UnknownError, match="mass"):
        mapped_expectations(64, 2, 8.0, PairLaw(), RowMap(sink=12.0))


@pytest.mark.parametrize("sigma, n_keys", [(1e-3, 2), (4.0, 3), (40.0, 100)])
def test_rows_without_map_are_those_of_the_other_integrals(sigma, n_keys):
    """Within 1e-9, and also behind a cap that is so high, or beside a sink so low, that it does
    nothing.
    """
    row = GaussianRow(sigma, n_keys)
    known = 1.0, row.max_weight(), row.entropy(), row.jacobian_square(), row.score_gradient_square()
    for actual in (mapped_row(sigma, n_keys), mapped_row(sigma, n_keys, sink=-1e3)):
        assert_allclose(actual, known, atol=1e-9)
    assert_allclose(mapped_row(sigma, n_keys, softcap=1e6 * sigma), known, atol=1e-7)
