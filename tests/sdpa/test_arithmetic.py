"""Rounded rows against plain loops that round after every operation; probabilities out of range by
other routes.
"""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from scipy import special, stats

from sdpa import PairLaw
from sdpa.arithmetic import FORMATS, Arithmetic, rounded_rows
from sdpa.theory import UnknownError, out_of_range, rounding_loss
from tests.plain_formats import by_loops

HALF = Arithmetic.parse("float16")
ROWS = 20_000


@pytest.mark.parametrize("name", FORMATS)
def test_the_limits_of_a_format_are_those_of_its_type(name):
    found = Arithmetic.parse(name)
    known = ml_dtypes.finfo(name)
    assert found.digits == known.nmant + 1
    assert found.largest == float(known.max)
    assert found.smallest_normal == float(known.smallest_normal)
    assert found.smallest == float(known.smallest_subnormal)
    assert found.round(found.smallest / 2) == 0  # a tie: to the even digit
    assert found.round(1 - 2.0 ** -(found.digits + 1)) == 1


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("spread", "divisor"), [(1.0, 1.7), (9.0, 1.0)])
def test_equals_loops_that_round_after_every_operation(name, spread, divisor):
    """20 rows of 7 keys; the wide ones have weights of 0, except in float64.

    Sums in another order differ by an accumulator's last digits, which may tip the last digit of a
    score s. This changes its weight by about |s| times that digit.
    """
    arithmetic = Arithmetic.parse(name)
    rng = np.random.default_rng(7)
    q, k, g = (spread * rng.standard_normal(shape) for shape in ((20, 5), (7, 5), (20, 7)))
    keys = arithmetic.round(k)
    products = arithmetic.product(arithmetic.round(q), keys.T)
    found = rounded_rows(products, keys, arithmetic.round(g), divisor, arithmetic)
    unit = 2.0 ** (1 - arithmetic.digits)
    zeros = 0
    for i in range(20):
        expected = by_loops(q[i], k, g[i], divisor, name)
        tolerance = 4 * unit * max(1.0, np.abs(expected[0]).max())
        for values, loops in zip(found, expected, strict=True):
            least = tolerance * np.abs(loops).max()
            np.testing.assert_allclose(values[i], loops, rtol=tolerance, atol=least)
        for values, loops in zip(found[1:3], expected[1:3], strict=True):
            np.testing.assert_array_equal(values[i] == 0, loops == 0)
            zeros += (loops == 0).sum()
    if spread == 9.0:
        assert (zeros > 20) == (name != "float64")


def test_masked_keys_have_no_weight_and_infinite_scores_are_lost():
    keys = HALF.round([[300.0], [1.0], [2.0]])
    gradient = HALF.round([[1.0, -1.0, 0.5]])
    products = HALF.product(HALF.round([[1.0]]), keys.T)
    visible = np.array([[False, True, True]])
    rows = rounded_rows(products, keys, gradient, 1.0, HALF, visible)
    alone = rounded_rows(products[:, 1:], keys[1:], gradient[:, 1:], 1.0, HALF)
    assert rows.weights.tolist() == [[0.0, *alone.weights[0].tolist()]]
    assert rows.query_gradient.tolist() == alone.query_gradient.tolist()
    lost = rounded_rows(HALF.product(HALF.round([[400.0]]), keys.T), keys, gradient, 1.0, HALF)
    assert np.isinf(lost.scores[0, 0])
    assert np.isnan(lost.weights).any()


def nearly_one(arithmetic):
    """The logarithm of the sum of the other weights below which the largest rounds to 1."""
    return -(arithmetic.of_products.digits + 1) * math.log(2)


@pytest.mark.parametrize(("d_k", "n_keys", "divisor"), [(64, 40, 2.0), (512, 64, 1.0)])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn"])
def test_probabilities_out_of_range_agree_with_simulated_rows(d_k, n_keys, divisor, name):
    """20,000 rows of a key and query of their own: within 5 standard errors or three events."""
    arithmetic = Arithmetic.parse(name)
    prescale = 256.0 if arithmetic.has_8_bits else 1.0
    rng = np.random.default_rng(5)
    length = 1.5 * np.sqrt(rng.noncentral_chisquare(d_k, d_k * 0.4**2, (ROWS, 1)))
    s = 0.8 * length * rng.standard_normal((ROWS, n_keys)) / divisor
    log_w = np.sort(special.log_softmax(s, axis=1), axis=1)
    rounded = log_w - log_w[:, -1:] if arithmetic.has_8_bits else log_w
    tiny = rounded < math.log(arithmetic.smallest / (2 * prescale))
    others = special.logsumexp(log_w[:, :-1], axis=1)
    law = PairLaw(query_mean=0.6, query_std=1.5, key_std=0.8)
    exact = out_of_range(d_k, n_keys, divisor, arithmetic, law, prescale=prescale)
    found = {
        "tiny_weights": tiny.mean(axis=1),
        "nearly_one_rows": others < nearly_one(arithmetic),
        "large_rows": s.max(axis=1) > math.log(arithmetic.largest),
    }
    for share, values in found.items():
        error = 5 * values.std() / math.sqrt(ROWS) + 3 / ROWS
        assert abs(values.mean() - getattr(exact, share)) <= error, share


@pytest.mark.parametrize(("name", "prescale"), [("float8_e4m3fn", 1.0), ("float8_e5m2", 64.0)])
@pytest.mark.parametrize(
    ("d_k", "n_keys", "divisor"), [(3, 2, 1.0), (64, 300, 80.0), (512, 64, 1.0)]
)
def test_rounding_loss_agrees_with_simulated_rows(d_k, n_keys, divisor, name, prescale):
    """20,000 rows of spreads 0.1 to 23, within 5 standard errors; false alarms of all cases below
    1e-5.
    """
    rng = np.random.default_rng(6)
    length = np.sqrt(rng.chisquare(d_k, (ROWS, 1)))
    s = length * rng.standard_normal((ROWS, n_keys)) / divisor
    e = np.exp(s - s.max(axis=1, keepdims=True))
    rounded = (prescale * e).astype(getattr(ml_dtypes, name)).astype(float) / prescale
    lost = 1 - rounded.sum(axis=1) / e.sum(axis=1)
    exact = rounding_loss(d_k, n_keys, divisor, name, prescale=prescale)
    assert abs(lost.mean() - exact) <= 5 * lost.std() / math.sqrt(ROWS)


def test_causal_rows_average_over_lengths():
    rows = [out_of_range(64, n, 1.0, HALF) for n in (2, 3, 4)]
    tiny = sum(row.tiny_weights for row in rows)
    nearly_one_rows = 1 + sum(row.nearly_one_rows for row in rows)
    masked = out_of_range(64, 4, 1.0, HALF, shortest=1)
    assert masked.tiny_weights == pytest.approx(tiny / 4)
    assert masked.nearly_one_rows == pytest.approx(nearly_one_rows / 4)
    assert masked.large_rows > sum(row.large_rows for row in rows) / 4


@pytest.mark.parametrize(
    "law",
    [
        PairLaw(key_mean=1.0),
        PairLaw(correlation=0.5),
        PairLaw(normalize="l2"),
        PairLaw(query_mean=1e6, query_std=1e-6),
    ],
)
def test_unknown_laws_are_refused(law):
    with pytest.raises(UnknownError):
        out_of_range(8, 4, 1.0, HALF, law)


def test_unknown_formats_and_lengths_are_refused():
    with pytest.raises(UnknownError, match="8 bits"):
        rounding_loss(64, 8, 8.0, HALF)
    with pytest.raises(UnknownError, match="near the threshold"):
        out_of_range(10_000, 10**8, 1000.0, HALF)


def mean_over_queries(function, std):
    """E f(|q|) for one entry of q, in pieces, as the integrands begin abruptly."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    total = 0.0
    for low, high in itertools.pairwise([0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 12.0]):
        half = (high - low) / 2
        z = half * nodes + (low + high) / 2
        total += half * weights @ (2 * stats.norm.pdf(z) * function(std * z))
    return total


@pytest.mark.parametrize("name", FORMATS)
def test_one_entry_and_two_keys_agree_with_an_integral_over_q(name):
    """d_k = 1: given q = x, s_1 - s_2 is N(0, 2 x^2), and w_1 < t if it is below ln(t / (1 -
    t)).
    """
    arithmetic = Arithmetic.parse(name)
    std = 40.0

    def below(log_t):
        odds = log_t - math.log1p(-math.exp(log_t))
        return mean_over_queries(lambda x: special.ndtr(odds / (x * math.sqrt(2))), std)

    tiny = math.log(arithmetic.smallest) - math.log(2)
    if arithmetic.has_8_bits:  # e^(s_1 - s_2) is below t if the weight is below t / (1 + t)
        tiny -= math.log1p(math.exp(tiny))
    above = math.log(arithmetic.largest)
    large = mean_over_queries(lambda x: 1 - special.ndtr(above / x) ** 2, std)
    found = out_of_range(1, 2, 1.0, arithmetic, PairLaw(query_std=std))
    assert found.tiny_weights == pytest.approx(below(tiny), rel=1e-8)
    assert found.nearly_one_rows == pytest.approx(2 * below(nearly_one(arithmetic)), rel=1e-8)
    assert found.large_rows == pytest.approx(large, rel=1e-8)
