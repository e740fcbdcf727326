import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdpa import Scaling
from sdpa.scaling import resolve_divisor


@given(st.fractions(-10, 10, max_denominator=1000), st.integers(1, 5000))
def test_any_rational_power_parses_back_to_itself(exponent, d_k):
    scaling = Scaling(exponent)
    assert Scaling.parse(scaling.name) == scaling
    assert scaling.divisor(d_k, 7) == pytest.approx(math.exp(math.log(d_k) * exponent))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("d_k^0", "unscaled"),
        ("d_k^2/4", "d_k^1/2"),
        ("d_k^0.5", "d_k^1/2"),
        ("d_k^3/3", "d_k^1"),
        ("d_k^-1/2", "d_k^-1/2"),
    ],
)
def test_spellings_of_one_rule_get_one_name(text, name):
    assert Scaling.parse(text).name == name


def test_dividing_by_the_square_root_is_the_power_one_half():
    assert Scaling.parse("d_k^1/2").divisor(d_k=36, n_keys=5) == 6.0
    assert Scaling.parse("d_k^1/2").exponent == Fraction(1, 2)


@pytest.mark.parametrize(
    "text", ["", "none", "sqrt(d_k)", "d_k", "d_k^", "d_k^1/0", "d_k^11", "d_k^x", "d_k^1/2 ", "1/2"]
)
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(ValueError, match="expected 'unscaled' or a power such as 'd_k\\^1/2'"):
        Scaling.parse(text)


@pytest.mark.parametrize("divisor", [0, -1.0, math.inf, math.nan])
def test_a_divisor_must_be_finite_and_positive(divisor):
    with pytest.raises(ValueError, match="finite and above 0"):
        resolve_divisor(divisor, d_k=4, n_keys=4)
