"""Draws and rows in single precision against double precision and against the laws they follow."""

import math

import numpy as np
import pytest
from scipy import stats

from sdpa import row_diagnostics, row_tiles
from sdpa.inputs import single_normals


@pytest.fixture(scope="module")
def normals():
    """2^21 numbers of one call."""
    return single_normals(np.random.Generator(np.random.SFC64(11)), (2**21,)).astype(float)


def test_the_numbers_are_normal(normals):
    """Law and the first six moments within 5 errors: 1 in 200,000 seeds fails."""
    assert stats.kstest(normals, "norm").pvalue > 1e-6
    for power, moment, square in ((1, 0, 1), (2, 1, 3), (3, 0, 15), (4, 3, 105), (5, 0, 945), (6, 15, 10395)):
        error = math.sqrt((square - moment**2) / len(normals))
        assert abs((normals**power).mean() - moment) < 5 * error


def test_both_numbers_of_a_pair_are_independent(normals):
    """Products of powers of x and y within 5 errors: 1 in 200,000 seeds fails.

    A piece has 2^13 numbers x, then as many y from the same integers.
    """
    x, y = normals.reshape(-1, 2, 2**13).swapaxes(0, 1).reshape(2, -1)
    for a, b in ((1, 1), (2, 2), (1, 3), (3, 1)):
        even = {1: 1, 2: 3, 3: 15}  # E x^(2 a)
        expected = 1.0 if (a, b) == (2, 2) else 0.0
        error = math.sqrt((even[a] * even[b] - expected**2) / len(x))
        assert abs((x**a * y**b).mean() - expected) < 5 * error
    counts = np.histogram2d(np.hypot(x, y), np.arctan2(y, x), [np.sqrt(-2 * np.log(np.linspace(1, 1e-9, 9))), 8])[0]
    assert stats.chisquare(counts.ravel()).pvalue > 1e-6


class Integers:
    """A generator that returns given pairs of 32-bit integers, for u and for v."""

    def __init__(self, first, second):
        self.given = np.array([*first, *second], "<u4")

    def integers(self, low, high, size, dtype):
        assert (low, high, 2 * size) == (0, 2**64, len(self.given))
        return self.given.view("<u8").astype(dtype)


def test_pairs_follow_the_formula():
    """u = (first + (second mod 256 + 1/2) / 256) / 2^32 and v = signed second / 2^32, in double precision."""
    rng = np.random.default_rng(4)
    first, second = rng.integers(0, 2**32, (2, 500))
    first[:6] = [0, 0, 0, 1, 2**32 - 1, 2**31]
    second[:6] = [2**31, 2**31 - 1, 2**30 + 5, 0, 0, 7]
    signed = np.where(second < 2**31, second, second - 2.0**32)
    u, v = (first + (second % 256 + 0.5) / 256) / 2**32, signed / 2**32
    x, y = single_normals(Integers(first, second), (2, 500)).astype(float)
    radius = np.sqrt(-2 * np.log(u))
    # ln u of single precision is good to 2^-24 near u = 1.
    np.testing.assert_allclose(np.hypot(x, y), radius, rtol=3e-7, atol=4e-4)
    np.testing.assert_allclose(np.hypot(x, y)[radius > 0.1], radius[radius > 0.1], rtol=2e-5)
    np.testing.assert_allclose(np.cos(2 * np.pi * v) * np.hypot(x, y), x, atol=2e-6)
    np.testing.assert_allclose(np.sin(2 * np.pi * v) * np.hypot(x, y), y, atol=2e-6)
    assert np.hypot(x, y).max() == pytest.approx(math.sqrt(2 * 41 * math.log(2)), rel=1e-6)


@pytest.fixture(params=["exp2", "exp"])
def exponential(request, monkeypatch):
    """Both functions, whichever this machine prefers."""
    of = row_tiles.in_single_precision(has_simd_exp2=request.param == "exp2")
    assert of.function is getattr(np, request.param)
    monkeypatch.setitem(row_tiles._EXPONENTIALS, np.dtype(np.float32), of)


ROWS = ("max_weight", "entropy", "jacobian_trace", "jacobian_norm", "query_gradient_norm", "row_variance", "own_weight")


@pytest.mark.parametrize("spread", [0.1, 1.0, 8.0, 60.0])
@pytest.mark.parametrize(("n_keys", "d_k"), [(7, 11), (300, 5)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.usefixtures("exponential")
def test_rows_agree_with_double_precision(spread, n_keys, d_k, masked):
    """Relative errors of a few 2^-24, times the size of the scaled scores; |dL/dq| loses up to two digits more."""
    rng = np.random.default_rng(n_keys)
    keys = rng.standard_normal((3, n_keys, d_k)).astype(np.float32)
    queries = spread * rng.standard_normal((3, 6, d_k)).astype(np.float32)
    scores = queries @ keys.swapaxes(-1, -2)
    mask = rng.random(scores.shape) < 0.7 if masked else None
    more = {"mask": mask, "with_variance": True, "own_keys": rng.integers(0, n_keys, 6)}
    divisors = [0.5, 2.0, 30.0]
    single = row_diagnostics(scores, divisors, keys, **more)
    double = row_diagnostics(scores.astype(float), divisors, keys.astype(float), **more)
    size = 1 + np.abs(scores).max() / np.reshape(divisors, (3, 1, 1))
    for name in ROWS:
        found, expected = getattr(single, name), getattr(double, name)
        limit = (100 if name == "query_gradient_norm" else 4) * 2.0**-24 * size
        assert (np.abs(found - expected) <= limit * np.abs(expected) + 1e-38).all(), name


@pytest.mark.usefixtures("exponential")
def test_norms_of_saturated_rows_keep_their_range():
    """A remainder of e^-200 is 0 in single precision, but |J|_F = sqrt(2) r and |dL/dq| = r |k_1 - k_2| are not."""
    rows = row_diagnostics(np.float32([[200.0, 0.0]]), 1.0, keys=np.float32([[3.0], [1.0]]))
    assert rows.jacobian_norm.item() == pytest.approx(math.sqrt(2) * math.exp(-200), rel=1e-6)
    assert rows.query_gradient_norm.item() == pytest.approx(math.sqrt(2) * 2 * math.exp(-200), rel=1e-6)
    assert rows.max_weight.item() == 1
