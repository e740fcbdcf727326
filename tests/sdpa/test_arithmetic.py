"""Rounded rows against plain loops that round after every operation; probabilities out of range by
other routes.
"""

import math

import ml_dtypes
import numpy as np
import pytest

from sdpa.arithmetic import FORMATS, Arithmetic
from sdpa.theory import UnknownError, out_of_range, rounding_loss

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


@pytest.mark.parametrize(
    ("d_k", "n_keys", "divisor", "name", "prescale"),
    [
        (3, 2, 1.0, "float8_e4m3fn", 1.0),
        (64, 300, 80.0, "float8_e5m2", 64.0),
        (512, 64, 1.0, "float8_e5m2", 64.0),
    ],
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


def test_unknown_formats_and_lengths_are_refused():
    with pytest.raises(UnknownError, match="8 bits"):
        rounding_loss(64, 8, 8.0, HALF)
    with pytest.raises(UnknownError, match="near the threshold"):
        out_of_range(10_000, 10**8, 1000.0, HALF)
