"""The exact values of attention rows: one table of laws and sizes against draws, and quadrature
over two keys.
"""

from math import isnan, log, sqrt

import numpy as np
import pytest
from scipy import special, stats

from sdpa import row_diagnostics, row_variance, softmax
from sdpa.pairs import PairLaw
from sdpa.theory import attention_expectations, divisor_for
from sdpa.theory.integrals import gauss_panels
from sdpa.theory.row_moments import RowMetrics
from tests.numerics import is_mean

SHIFTED = PairLaw(query_mean=0.6, key_mean=-1.5, query_std=0.8, key_std=1.4)
L2 = PairLaw(normalize="l2")
RMS = PairLaw(normalize="rms", query_std=3.0)
SQUARES = {
    "jacobian_square": "jacobian_norm",
    "key_gradient_square": "key_gradient_norm",
    "collision": "output_std",
    "query_gradient_square": "query_gradient_norm",
}


def squares_of(exact):
    """The expectations, with the norms as mean squares and by the names of `RowMetrics`."""
    squares = {
        name: getattr(exact, SQUARES.get(name, name))
        for name in (*RowMetrics._fields, "row_variance")
    }
    for name in SQUARES:
        squares[name] = squares[name] ** 2
    return squares


def direct(rows, scores, own):
    """Metrics of rows of scaled scores without a square."""
    names = "max_weight", "entropy", "jacobian_trace", "collision"
    own_weight = np.take_along_axis(softmax(scores), own[..., None], axis=-1)[..., 0]
    return {name: getattr(rows, name) for name in names} | {
        "row_variance": row_variance(scores),
        "own_weight": own_weight,
    }


DRAWS = 10_000


def drawn(d_k, n_keys, divisor, law, shortest=None):
    """Every metric of rows of the last query, or under a mask from the shortest row on, (draws,
    queries) each; norms as squares.
    """
    rng = np.random.default_rng(17)
    own = np.arange((shortest or n_keys) - 1, n_keys)
    k = law.keys(rng, (DRAWS, n_keys, d_k))
    q = law.queries(rng, k[:, own].shape, k[:, own])
    seen = np.arange(n_keys) <= own[:, None]
    rows = row_diagnostics(q @ k.mT, divisor, k, mask=seen)
    jacobian_square = rows.jacobian_norm**2
    scores = np.where(seen, q @ k.mT / divisor, -np.inf)
    return direct(rows, scores, np.broadcast_to(own, q.shape[:-1])) | {
        "jacobian_square": jacobian_square,
        "query_gradient_square": rows.weight_jacobian_norm**2,
        "saturated_rows": rows.max_weight > 0.99,
        "key_gradient_square": jacobian_square * np.vecdot(q, q) / divisor**2,
    }


# Independent entries; correlations, among them own keys beside a mean; normalized vectors; masks.
CASES = [
    (3, 12, 2.0, SHIFTED),
    (8, 4, 1.0, PairLaw(), 1),
    (8, 5, 2.0, PairLaw(correlation=-0.7, query_std=0.9, key_mean=0.7, key_std=1.1)),
    (16, 4, 4.0, PairLaw(correlation=0.6), 1),
    (3, 20, 0.2, RMS),
    (16, 4, 0.1, L2, 2),
]
RARE = 2e-4


@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws_agree(case):
    """Expectations within 5 standard errors of 10,000 draws at a fixed seed, or one saturated row
    in 1,000 draws (a false alarm of 1e-4 in all if reseeded).
    """
    expectations = attention_expectations(*case)
    assert expectations.value_gradient_norm == expectations.output_std  # with a query for each key
    exact = squares_of(expectations)
    for name, rows in drawn(*case).items():
        assert is_mean(rows.mean(axis=1), exact[name], within=RARE), name


def of_two_keys(gap):
    """The metrics of rows of two keys whose scores differ by `gap`, (rows, gaps)."""
    scores = np.stack([gap, np.zeros_like(gap)], axis=-1)
    own = np.zeros(gap.shape, int)
    rows = row_diagnostics(scores, 1.0)
    return direct(rows, scores, own) | {"jacobian_square": rows.jacobian_norm**2}


@pytest.mark.parametrize(
    "d_k, divisor, rho",
    [
        (2, 1.0, 0.0),
        (20, 4.0, -0.8),
        (2, 1.0, 1.0),
        (512, 1.0, 0.0),
        (4096, 64.0, 0.0),
        (3, 0.05, 0.0),
    ],
)
def test_two_keys_by_quadrature(d_k, divisor, rho):
    """Given |q|, the gap of the scores over sigma is x, of variance 2 - rho^2 around rho |q|. J has
    one eigenvalue b, along (1, -1) / sqrt(2), and the difference of the keys has d_k - 1 entries
    across q of the variance (2 - rho^2) key_std^2. For rho = 0, |K^T J|_F^2 is b^2 (x^2 / 2 + chi^2
    of d_k - 1) key_std^2.
    """
    query_mean = 0.0 if rho else 0.5
    law = PairLaw(correlation=rho, key_mean=3.0, query_std=0.8, key_std=1.5, query_mean=query_mean)
    of_square = stats.ncx2(d_k, d_k * (query_mean / 0.8) ** 2)
    length, weights = gauss_panels(np.linspace(0, sqrt(of_square.isf(1e-15)), 5), 100)
    length = length[:, None]
    of_length = 2 * length * of_square.pdf(length**2) * weights[:, None]
    sigma = 0.8 * 1.5 * length / divisor
    deviation = sqrt(2 - rho**2)
    tie = np.clip(-rho * length / deviation, -9, 9)
    end = np.full_like(tie, 9.0)
    z, weights = gauss_panels(np.hstack([-end, (tie - end) / 2, tie, (tie + end) / 2, end]), 100)
    chance = of_length * stats.norm.pdf(z) * weights
    x = rho * length + deviation * z

    rows = of_two_keys(sigma * x)
    square = rows["jacobian_square"]
    to_query = (1.5 / divisor) ** 2
    across = (d_k - 1) * (1 - rho**2 / 2)
    rows["query_gradient_square"] = to_query * square * (x**2 / 2 + across)
    rows["key_gradient_square"] = square * (0.8 * length / divisor) ** 2
    expected = {name: (chance * values).sum() for name, values in rows.items()}
    actual = squares_of(attention_expectations(d_k, 2, divisor, law))
    assert {name: actual[name] for name in expected} == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("gain", [1e-3, 1.5, 1e4])
def test_two_keys_on_a_sphere(gain):
    """d_k = 3, where t is uniform: the gap x of two scores has the density (2 gain - |x|) /
    (2 gain)^2. The mean of both cosines is uniform within 1 - |x| / (2 gain).
    """
    widest = 2 * gain
    ends = np.minimum([0.0, 3.0, 12.0, 45.0, widest], widest)
    x, weights = gauss_panels(np.unique([-ends, ends]), 100)
    chance = weights * (widest - abs(x)) / widest**2
    rows = of_two_keys(x[None])
    square = rows["jacobian_square"]
    half = x / widest
    across = 1 - (1 - abs(half)) ** 2 / 3 - half**2
    rows["query_gradient_square"] = square * (x**2 / 2 + across * gain**2)
    rows["key_gradient_square"] = square * gain**2
    expected = {name: (values @ chance).item() for name, values in rows.items()}
    expected["saturated_rows"] = max(1 - log(99) / widest, 0.0) ** 2
    actual = squares_of(attention_expectations(3, 2, 1 / gain, L2))
    assert actual == pytest.approx(expected, rel=1e-7, abs=1e-12)


def test_expectations_of_rare_rows_are_good_or_unknown():
    """Two keys of which one is the query: the other weight is 1 / (1 + e^(L^2 - L z)), L = |q|, z
    normal.

    At d_k = 60, its mean is 4e-10, and short queries carry it.
    """
    equal = PairLaw(correlation=1.0)
    z = np.linspace(-12, 16, 2001)
    length = np.linspace(1e-3, 20, 2000)[:, None]
    other = special.expit(length * (z - length))
    for d_k in (40, 60):
        density = stats.chi.pdf(length, d_k) * stats.norm.pdf(z)
        trace = (density * 2 * other * (1 - other)).sum() / density.sum()
        actual = attention_expectations(d_k, 2, 1.0, equal)
        assert actual.jacobian_trace == pytest.approx(trace, rel=1e-6)
    assert trace < 1e-9
    unknown = attention_expectations(80, 2, 1.0, equal)
    assert isnan(unknown.jacobian_trace)
    assert unknown.max_weight == pytest.approx(1)


def test_the_trace_of_many_keys_is_below_1():
    assert 1 - 1e-8 < attention_expectations(8, 1e9, 8.0).jacobian_trace < 1


def test_expectations_under_a_mask_are_means_over_the_lengths():
    """Long rows are interpolated between lengths."""
    masked = squares_of(attention_expectations(64, 263, 6.0, lengths=200))
    rows = [squares_of(attention_expectations(64, n, 6.0)) for n in range(200, 264)]
    mean = {name: np.mean([row[name] for row in rows]) for name in masked}
    assert masked == pytest.approx(mean, rel=1e-9, abs=1e-10)


UNEQUAL = PairLaw(spectrum=1.0, correlation=0.5)


REFUSED = {
    r"n_keys: expected a whole number of at least 2, got 64\.5": (64, 64.5, 8.0),
    "expected rows of 1 to 4 keys": (4, 4, 1.0, PairLaw(), 5),
    r"unknown if .* exceeds 1e\+09, got 1e\+300": (1, 2, 1e-300),
    "unknown for entries of unequal variance": (4, 4, 1.0, UNEQUAL),
    "gaussian entries of mean 0": (4, 4, 1.0, PairLaw(normalize="l2", key_mean=1.0)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_impossible_and_unknown_rows_are_refused_with_a_reason(message):
    with pytest.raises((TypeError, ValueError), match=message):
        attention_expectations(*REFUSED[message])


@pytest.mark.parametrize(
    "target, value, law",
    [
        ("max_weight", 0.3, PairLaw(query_mean=0.5, key_std=2.0)),
        ("entropy", 1.9, L2),
        ("row_variance", 0.5, PairLaw(key_mean=3.0, query_std=2.0)),
    ],
)
def test_the_divisor_gives_the_wanted_value(target, value, law):
    divisor = divisor_for(target, value, 16, 32, law)
    actual = attention_expectations(16, 32, divisor, law)
    assert getattr(actual, target) == pytest.approx(value, rel=1e-9)


def test_the_divisor_of_a_share_of_entropy_under_a_mask():
    divisor = divisor_for("entropy_share", 0.8, 64, 3, lengths=2)
    entropies = [attention_expectations(64, n, divisor).entropy for n in (2, 3)]
    assert sum(entropies) / log(2 * 3) == pytest.approx(0.8, rel=1e-9)
    with pytest.raises(ValueError, match=r"expected a value above \d.* and below 1, got 1.5"):
        divisor_for("entropy_share", 1.5, 16, 8)
