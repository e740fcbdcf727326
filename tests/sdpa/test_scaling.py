"""Rules of scaling: names, divisors by hand, and refusals with hints."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdpa import Scaling
from sdpa.scaling import resolve_divisor

EXPONENTS = st.fractions(-10, 10, max_denominator=1000)
POWERS = {
    "d_k": st.fractions(0, 10, max_denominator=1000),
    "n_keys": EXPONENTS,
    "ln(n_keys)": EXPONENTS,
    "n_visible": EXPONENTS,
    "ln(n_visible)": EXPONENTS,
}


@given(st.fractions(Fraction(1, 10), 10, max_denominator=10**6), st.fixed_dictionaries(POWERS))
def test_any_product_parses_back_to_itself(constant, powers):
    in_order = tuple((factor, powers[factor]) for factor in POWERS if powers[factor])
    scaling = Scaling(constant, in_order)
    assert Scaling.parse(scaling.name) == scaling


NAMES = {
    "d_k^0": "unscaled",
    "1/8": "0.125",
    "0.3333333333333333": "1/3",  # as YAML has a third
    " sqrt ( d_k ) ": "d_k^1/2",
    "d_k/sqrt(d_k)": "d_k^1/2",
    "d_k/3": "1/3*d_k^1",
    "sqrt(4*d_k)": "sqrt(4*d_k)",
    "sqrt(d_k)/(0.43*ln(n_keys))": "d_k^1/2/0.43/ln(n_keys)",
    "ln(n_keys)*n_keys^1/2": "n_keys^1/2*ln(n_keys)",
    "1/n_visible^1/2": "1/n_visible^1/2",
}


@pytest.mark.parametrize("text", NAMES)
def test_spellings_of_one_rule_get_one_name(text):
    assert Scaling.parse(text).name == NAMES[text]


@pytest.mark.parametrize(
    ("text", "divisor", "exponent"),
    [
        ("d_k^1/2", 8.0, Fraction(1, 2)),
        ("2*sqrt(d_k)", 16.0, None),
        ("(d_k*n_keys)^(3/2)", 2.0**15, None),
        ("d_k^1/2/(1+0.5*ln(n_keys/4))^2", 8 / (1 + math.log(2)) ** 2, None),
        ("sqrt(2*d_k)", math.sqrt(128), None),
        ("(d_k - n_keys)^(1/2) + n_keys^-1/2", math.sqrt(48) + 1 / 4, None),
        ("floor(d_k / 24) * (n_visible + 1)", 34, None),
        ("ceil(d_k / 24) * max(2, min(n_keys, 5))", 15, None),
    ],
)
def test_divisors_by_hand_for_64_wide_and_16_long(text, divisor, exponent):
    scaling = Scaling.parse(text)
    assert scaling.divisor(d_k=64, n_keys=16) == pytest.approx(divisor, rel=1e-15)
    assert scaling.exponent == exponent


@pytest.mark.parametrize(
    ("text", "sizes", "message"),
    [
        ("d_k^1/2/ln(n_keys)", (4, 1), "inf for d_k=4, n_keys=1"),
        # The base is below 0.
        ("(1+0.5*ln(n_visible/64))^2", (4, 9, 1), "inf for d_k=4, n_keys=9, n_visible=1"),
    ],
)
def test_a_rule_without_a_divisor_for_one_key_is_refused_there(text, sizes, message):
    with pytest.raises(ValueError, match=f"expected a finite divisor above 0, got {message}$"):
        Scaling.parse(text).divisor(*sizes)


NONSENSE = [
    "",
    "0*d_k",
    "d_k^(1/0)",
    "2^d_k",
    "sqrt(d_k, 2)",
    "max(d_k)",
    "nan",
    "1/sqrt(dk)",
    "__import__('os')",
    "1" * 201,
]
# The end of the message after the text itself.
REFUSED = dict.fromkeys(NONSENSE, "") | {
    "d_k**1/2": "; put the exponent in brackets",
    "(0.1*ln(40)+1)^2/8": "; put the exponent in brackets",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_text_that_is_no_rule_is_refused_with_a_hint(text):
    message = "expected 'unscaled' or a formula of numbers, d_k, "
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


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("d_k^-1/2", "d_k^1/2"),
        ("8/d_k", "0.125*d_k^1"),
        ("(0.1*ln(40)+1)^2/sqrt(d_k)", "1/((0.1*ln(40)+1)^2/sqrt(d_k))"),
    ],
)
def test_a_factor_that_multiplies_is_refused_with_its_divisor(text, meant):
    with pytest.raises(ValueError, match="because the rule divides the scores") as refused:
        Scaling.parse(text)
    assert str(refused.value).endswith(f", got {text!r}; did you mean {meant}?")
