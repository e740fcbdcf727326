"""Rules of scaling: names, divisors by hand, and refusals with hints."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdpa import Scaling
from sdpa.scaling import resolve_divisor


@given(st.fractions(0, 10, max_denominator=1000), st.floats(0.001, 1e6))
def test_powers_and_numbers_parse_back_to_themselves(exponent, number):
    power = Scaling.parse(f"d_k^({exponent})")
    assert Scaling.parse(power.name) == power
    assert power.divisor(d_k=7, n_keys=2) == pytest.approx(7**exponent, rel=1e-12)
    constant = Scaling.parse(repr(number))
    assert Scaling.parse(constant.name).divisor(d_k=7, n_keys=2) == number


NAMES = {
    "d_k^0": "unscaled",
    "1/8": "0.125",
    "128^1 / 2": "128^1/2",
    "0.3333333333333333": "1/3",
    "8.0": "8",
    " sqrt ( d_k ) ": "d_k^1/2",
    "d_k**0.5": "d_k^1/2",
    "d_k/sqrt(d_k)": "d_k^1/2",
    "d_k^1/2 / max(1, ln(n_keys)**2)": "d_k^1/2/max(1,ln(n_keys)^2)",
    "d_k^1/2/max(1,ln(n_keys)/ln(2048))": "d_k^1/2/max(1,ln(n_keys)/ln(2048))",  # 1 at few keys
}


@pytest.mark.parametrize("text", NAMES)
def test_spellings_of_a_number_or_power_get_one_name(text):
    assert Scaling.parse(text).name == NAMES[text]


@pytest.mark.parametrize(
    "text, divisor, exponent",
    [
        ("d_k^1/2", 8.0, Fraction(1, 2)),
        ("(d_k - n_keys)^(1/2) + n_keys^-1/2", math.sqrt(48) + 1 / 4, None),
        ("floor(d_k / 24) * (n_keys + 1)", 34, None),
        ("ceil(d_k / 24) * max(2, min(n_keys, 5))", 15, None),
    ],
)
def test_divisors_by_hand_for_64_wide_and_16_long(text, divisor, exponent):
    scaling = Scaling.parse(text)
    assert scaling.divisor(d_k=64, n_keys=16) == pytest.approx(divisor, rel=1e-15)
    assert scaling.exponent == exponent


@pytest.mark.parametrize("text", ["d_k^1/2/ln(n_keys)", "ln(n_keys)-1", "0*d_k"])
def test_a_rule_without_a_divisor_for_one_key_is_refused_there(text):
    with pytest.raises(ValueError, match=r"expected a finite divisor above 0, got .* for d_k=4"):
        Scaling.parse(text).divisor(4, 1)


NONSENSE = ["__import__('os')", "2^d_k", "max(d_k)", "d_k^1/2 # usual", "1" * 201]
# The end of the message after the text itself.
REFUSED = dict.fromkeys(NONSENSE, "") | {
    "d_k**1/2": "; put the exponent in brackets",
    "1/SQRT(d_k)": "; did you mean sqrt?",
    "(0.1*ln(40)+1)^2/8": "; put the exponent in brackets",
    "8*max": "",
    "sqrt": "; did you mean d_k^1/2?",
    "none": "; did you mean unscaled?",
    "log(n_keys)": "; did you mean ln(n_keys)?",
    "d_k^-1/2": "; did you mean d_k^1/2?",
    "(0.1*ln(40)+1)^2/sqrt(d_k)": "; did you mean 1/((0.1*ln(40)+1)^2/sqrt(d_k))?",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_text_that_is_no_rule_is_refused_with_a_hint(text):
    message = "expected ('unscaled' or a formula of numbers, d_k, |a divisor that does not fall)"
    with pytest.raises(ValueError, match=message) as refused:
        Scaling.parse(text)
    assert str(refused.value).endswith(f", got {text!r}{REFUSED[text]}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "divisor", [Fraction(1, 2), np.float32(0.5), "1/2", Scaling.parse("d_k^1/2/4"), "2/n_keys"]
)
def test_any_number_text_or_rule_is_a_divisor(divisor):
    """Also 1/sqrt(d_k), the gain sqrt(d_k) of unit vectors."""
    assert resolve_divisor(divisor, d_k=4, n_keys=4) == 0.5


@pytest.mark.parametrize(
    "scaling", [0, -8.0, math.nan, math.inf, None, True, np.ones((30, 30))], ids=repr
)
def test_any_other_divisor_is_refused(scaling):
    with pytest.raises((TypeError, ValueError), match=r"^scaling: expected .*, got ") as refused:
        resolve_divisor(scaling, d_k=4, n_keys=4)
    assert len(str(refused.value)) < 250
