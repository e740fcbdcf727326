import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdpa import Scaling
from sdpa.scaling import FACTORS, resolve_divisor

EXPONENTS = st.fractions(-10, 10, max_denominator=1000)


@given(EXPONENTS, st.integers(1, 5000))
def test_any_rational_power_parses_back_to_itself(exponent, d_k):
    scaling = Scaling(powers=(("d_k", exponent),) if exponent else ())
    assert Scaling.parse(scaling.name) == scaling
    assert scaling.exponent == exponent
    assert scaling.divisor(d_k, 7) == pytest.approx(math.exp(math.log(d_k) * exponent))


@given(
    st.fractions(Fraction(1, 10), 10, max_denominator=10**6),
    st.tuples(EXPONENTS, EXPONENTS, EXPONENTS),
    st.integers(1, 5000),
    st.integers(2, 5000),
)
def test_any_product_parses_back_to_itself(constant, powers, d_k, n_keys):
    logarithms = (math.log(d_k), math.log(n_keys), math.log(math.log(n_keys)))
    scaling = Scaling(constant, tuple((name, power) for name, power in zip(FACTORS, powers, strict=True) if power))
    assert Scaling.parse(scaling.name) == scaling
    expected = math.log(constant) + math.fsum(power * of for power, of in zip(powers, logarithms, strict=True))
    assert math.log(scaling.divisor(d_k, n_keys)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("d_k^0", "unscaled"),
        ("1", "unscaled"),
        ("d_k/d_k", "unscaled"),
        ("d_k^2/4", "d_k^1/2"),
        ("d_k^0.5", "d_k^1/2"),
        ("d_k^3/3", "d_k^1"),
        ("d_k", "d_k^1"),
        ("d_k^-1/2", "1/d_k^1/2"),
        ("8", "8"),
        ("0.125", "0.125"),
        ("d_k/3", "1/3*d_k^1"),
        ("d_k^1/2*2", "2*d_k^1/2"),
        ("d_k^1/2*ln(n_keys)^-1", "d_k^1/2/ln(n_keys)"),
        ("d_k^1/2/0.43/ln(n_keys)", "1/0.43*d_k^1/2/ln(n_keys)"),
        ("ln(n_keys)*n_keys^1/2", "n_keys^1/2*ln(n_keys)"),
    ],
)
def test_spellings_of_one_rule_get_one_name(text, name):
    assert Scaling.parse(text).name == name


@pytest.mark.parametrize(
    ("text", "divisor", "exponent"),
    [
        ("unscaled", 1.0, 0),
        ("8", 8.0, None),
        ("n_keys^1/2", 4.0, None),
        ("d_k^1/2/ln(n_keys)", 8 / math.log(16), None),
        ("d_k^1/2/0.43/ln(n_keys)", 8 / 0.43 / math.log(16), None),
        ("d_k^1/3/7", 4 / 7, None),
    ],
)
def test_divisors_by_hand_for_64_wide_and_16_long(text, divisor, exponent):
    scaling = Scaling.parse(text)
    assert scaling.divisor(d_k=64, n_keys=16) == pytest.approx(divisor, rel=1e-15)
    assert scaling.exponent == exponent


def test_a_rule_without_a_divisor_for_one_key_is_refused_there():
    with pytest.raises(ValueError, match="expected a finite divisor above 0, got inf for d_k=4, n_keys=1"):
        Scaling.parse("d_k^1/2/ln(n_keys)").divisor(4, 1)
    with pytest.raises(ValueError, match=r"got 0\.0 for d_k=4, n_keys=1"):
        Scaling.parse("ln(n_keys)").divisor(4, 1)


def test_dividing_by_the_square_root_is_the_power_one_half():
    assert Scaling.parse("d_k^1/2").divisor(d_k=36, n_keys=5) == 6.0
    assert Scaling.parse("d_k^1/2").exponent == Fraction(1, 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "sqrt(d_k)",
        "d_k^",
        "d_k^1/0",
        "d_k^11",
        "d_k^x",
        "d_k^1/2 ",
        "0",
        "0*d_k",
        "*d_k",
        "d_k/",
        "d_kn_keys",
        "1/3/7/11/13/17/19/23/29/31",
    ],
)
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(ValueError, match="expected 'unscaled' or a product of numbers and powers"):
        Scaling.parse(text)


@pytest.mark.parametrize("divisor", [0, -1.0, math.inf, math.nan])
def test_a_divisor_must_be_finite_and_positive(divisor):
    with pytest.raises(ValueError, match="finite and above 0"):
        resolve_divisor(divisor, d_k=4, n_keys=4)
