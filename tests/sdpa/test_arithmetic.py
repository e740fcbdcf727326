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
from sdpa.theory.formats import weight_below
from tests.plain_formats import by_loops

NAMES = tuple(FORMATS)


@pytest.mark.parametrize("name", NAMES)
def test_the_limits_of_a_format_are_those_of_its_type(name):
    found, known = Arithmetic.parse(name), ml_dtypes.finfo(name)
    assert (found.digits, found.largest) == (known.nmant + 1, float(known.max))
    assert (found.smallest_normal, found.smallest) == (
        float(known.smallest_normal),
        float(known.smallest_subnormal),
    )
    assert found.round(found.smallest) > 0
    assert found.round(found.smallest / 2) == 0  # a tie: to the even digit
    assert found.round(1 - 2.0 ** -(found.digits + 1)) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("spread", "divisor"), [(1.0, 1.7), (3.0, 1.0), (9.0, 1.0)])
def test_equals_loops_that_round_after_every_operation(name, spread, divisor):
    """20 rows of 7 keys.

    Sums in another order differ by an accumulator's last digits, which may tip the last digit of a
    score s. This changes its weight by about |s| times that digit.
    """
    arithmetic, rng = Arithmetic.parse(name), np.random.default_rng(7)
    q, k, g = (spread * rng.standard_normal(s) for s in ((20, 5), (7, 5), (20, 7)))
    keys = arithmetic.round(k)
    products = arithmetic.product(arithmetic.round(q), keys.T)
    found = rounded_rows(products, keys, arithmetic.round(g), divisor, arithmetic)
    unit = 2.0 ** (1 - arithmetic.digits)
    zeros = 0
    for i in range(20):
        expected = by_loops(q[i], k, g[i], divisor, name)
        for values, loops in zip(found, expected, strict=True):
            tolerance = 4 * unit * max(1.0, np.abs(expected[0]).max())
            np.testing.assert_allclose(
                values[i], loops, rtol=tolerance, atol=tolerance * np.abs(loops).max()
            )
        for values, loops in zip(found[1:3], expected[1:3], strict=True):
            assert (values[i] == 0).tolist() == (loops == 0).tolist()
            zeros += (loops == 0).sum()
    has_zeros = (
        name != "float64"
        if spread == 9.0
        else spread == 3.0 and (name == "float16" or "float8" in name)
    )
    assert (zeros > 20) == has_zeros


def test_masked_keys_have_no_weight_and_infinite_scores_are_lost():
    half = Arithmetic.parse("float16")
    keys, gradient = half.round([[300.0], [1.0], [2.0]]), half.round([[1.0, -1.0, 0.5]])
    products = half.product(half.round([[1.0]]), keys.T)
    hidden = np.array([[False, True, True]])
    rows = rounded_rows(products, keys, gradient, 1.0, half, hidden)
    alone = rounded_rows(products[:, 1:], keys[1:], gradient[:, 1:], 1.0, half)
    assert rows.weights.tolist() == [[0.0, *alone.weights[0].tolist()]]
    assert rows.query_gradient.tolist() == alone.query_gradient.tolist()
    lost = rounded_rows(half.product(half.round([[400.0]]), keys.T), keys, gradient, 1.0, half)
    assert np.isinf(lost.scores[0, 0])
    assert np.isnan(lost.weights).any()


@pytest.mark.parametrize(
    ("d_k", "n_keys", "divisor"), [(8, 16, 1.0), (64, 40, 2.0), (512, 64, 1.0)]
)
@pytest.mark.parametrize("name", NAMES)
def test_probabilities_out_of_range_agree_with_simulated_rows(d_k, n_keys, divisor, name):
    """20,000 rows of a key and query of their own: within 5 standard errors or three events."""
    arithmetic, rng = Arithmetic.parse(name), np.random.default_rng(5)
    prescale = 256.0 if name.startswith("float8") else 1.0
    law = PairLaw(query_mean=0.6, query_std=1.5, key_std=0.8)
    length = np.sqrt(rng.noncentral_chisquare(d_k, d_k * 0.4**2, 20_000)) * 1.5
    s = 0.8 * length[:, None] * rng.standard_normal((20_000, n_keys)) / divisor
    log_w = special.log_softmax(s, axis=1)
    top = log_w.argmax(axis=1)
    others = log_w.copy()
    others[np.arange(len(s)), top] = -np.inf
    before = s - s.max(axis=1, keepdims=True) if arithmetic.has_8_bits else log_w
    exact = out_of_range(d_k, n_keys, divisor, arithmetic, law, prescale=prescale)
    for found, value in (
        (
            (before < math.log(arithmetic.smallest) - math.log(2 * prescale)).mean(axis=1),
            exact.tiny_weights,
        ),
        (
            special.logsumexp(others, axis=1) < -(arithmetic.of_products.digits + 1) * math.log(2),
            exact.nearly_one_rows,
        ),
        (s.max(axis=1) > math.log(arithmetic.largest), exact.large_rows),
    ):
        assert abs(found.mean() - value) <= 5 * found.std() / math.sqrt(len(s)) + 3 / len(s)


@pytest.mark.parametrize("prescale", [1.0, 64.0])
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(
    ("d_k", "n_keys", "divisor"), [(3, 2, 1.0), (64, 40, 2.0), (64, 300, 80.0), (512, 64, 1.0)]
)
def test_rounding_loss_agrees_with_simulated_rows(d_k, n_keys, divisor, name, prescale):
    """20,000 rows of spreads 0.1 to 23, within 5 standard errors; false alarms of all 16 cases
    below 1e-5.
    """
    rng = np.random.default_rng(6)
    s = np.sqrt(rng.chisquare(d_k, (20_000, 1))) * rng.standard_normal((20_000, n_keys)) / divisor
    e = np.exp(s - s.max(axis=1, keepdims=True))
    rounded = (prescale * e).astype(getattr(ml_dtypes, name)).astype(float) / prescale
    lost = 1 - rounded.sum(axis=1) / e.sum(axis=1)
    exact = rounding_loss(d_k, n_keys, divisor, name, prescale=prescale)
    assert abs(lost.mean() - exact) <= 5 * lost.std() / math.sqrt(len(lost))


def test_causal_rows_average_over_lengths():
    half, law = Arithmetic.parse("float16"), PairLaw()
    rows = [out_of_range(64, n, 1.0, half, law) for n in (2, 3, 4)]
    masked = out_of_range(64, 4, 1.0, half, law, shortest=1)
    assert masked.tiny_weights == pytest.approx(sum(row.tiny_weights for row in rows) / 4)
    assert masked.nearly_one_rows == pytest.approx(
        (1 + sum(row.nearly_one_rows for row in rows)) / 4
    )
    assert masked.large_rows > sum(row.large_rows for row in rows) / 4


def test_unknown_laws_are_refused():
    half, constant = Arithmetic.parse("float16"), PairLaw(query_mean=1e6, query_std=1e-6)
    for law in (PairLaw(key_mean=1.0), PairLaw(correlation=0.5), PairLaw(normalize="l2"), constant):
        with pytest.raises(UnknownError):
            out_of_range(8, 4, 1.0, half, law)
    with pytest.raises(UnknownError, match="8 bits"):
        rounding_loss(64, 8, 8.0, half)
    with pytest.raises(UnknownError, match="near the threshold"):
        weight_below(0.1, 1e8, -17.3)


@pytest.mark.parametrize("name", NAMES)
def test_one_entry_and_two_keys_agree_with_an_integral_over_q(name):
    """d_k = 1: given q = x, s_1 - s_2 is N(0, 2 x^2), and w_1 < t if it is below ln(t / (1 -
    t)).
    """
    arithmetic, std = Arithmetic.parse(name), 40.0
    found = out_of_range(1, 2, 1.0, arithmetic, PairLaw(query_std=std))

    def mean(function):
        """Over x = std |z| in pieces, as the integrands begin abruptly."""
        nodes, weights = np.polynomial.legendre.leggauss(200)
        ends = [0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 12.0]
        pieces = [
            ((b - a) / 2, (b - a) / 2 * nodes + (a + b) / 2) for a, b in itertools.pairwise(ends)
        ]
        return sum(
            half * weights @ (2 * stats.norm.pdf(z) * function(std * z)) for half, z in pieces
        )

    def below(log_t):
        odds = log_t - math.log1p(-math.exp(log_t))
        return mean(lambda x: special.ndtr(odds / (x * math.sqrt(2))))

    tiny = math.log(arithmetic.smallest) - math.log(2)
    if arithmetic.has_8_bits:  # e^(s_1 - s_2) is below t if the weight is below t / (1 + t)
        tiny -= math.log1p(math.exp(tiny))
    assert found.tiny_weights == pytest.approx(below(tiny), rel=1e-8)
    assert found.nearly_one_rows == pytest.approx(
        2 * below(-(arithmetic.of_products.digits + 1) * math.log(2)), rel=1e-8
    )
    above = math.log(arithmetic.largest)
    large = mean(lambda x: 1 - special.ndtr(above / x) ** 2)
    assert found.large_rows == pytest.approx(large, rel=1e-8)
