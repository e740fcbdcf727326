"""Short forms of whole numbers: powers and ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.harness.yaml_text import with_power, with_range


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("4..512*2", [4, 8, 16, 32, 64, 128, 256, 512]),
        ("16..64+16", [16, 32, 48, 64]),
        ("2^2..2^9*2", [4, 8, 16, 32, 64, 128, 256, 512]),
        ("4 .. 64 * 4", [4, 16, 64]),
        ("8..8*2", [8]),
        ("0..4+2", [0, 2, 4]),
        (8, [8]),
        ("gaussian", ["gaussian"]),
    ],
)
def test_a_range_stands_for_its_values_and_all_else_for_itself(text, values):
    assert with_range(text) == values


FORM = "expected a range such as 4..512*2 or 16..64+16"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4..500*2", "expected a range that ends at one of its values, such as 256"),
        ("16..65+16", "expected a range that ends at one of its values, such as 64"),
        ("2^2..500*2", "expected a range that ends at one of its values, such as 256"),
        ("4..512*1", f"{FORM}, which grows from its start to its end"),
        ("0..512*2", f"{FORM}, which grows from its start to its end"),
        ("4..512+0", f"{FORM}, which grows from its start to its end"),
        ("512..4*2", f"{FORM}, which grows from its start to its end"),
        ("4..512", FORM),
        ("4..512*1.5", FORM),
        ("-4..512*2", FORM),
        ("1..999999999999+1", "expected a range of at most 100000 values"),
    ],
)
def test_another_range_is_refused_with_the_nearest_end(text, message):
    with pytest.raises(ValueError, match=r"^expected a range") as refused:
        with_range(text)
    assert str(refused.value) == message


@given(st.integers(1, 10**6), st.integers(2, 10), st.integers(0, 5), st.integers(1, 50))
def test_every_range_that_ends_at_a_value_is_read(first, factor, count, step):
    powers = [first * factor**i for i in range(count + 1)]
    assert with_range(f"{first}..{powers[-1]}*{factor}") == powers
    sums = [first + i * step for i in range(count + 1)]
    assert with_range(f"{first}..{sums[-1]}+{step}") == sums


@pytest.mark.parametrize(
    ("text", "value"), [("2^6", 64), ("10^0", 1), ("2^-1", "2^-1"), ("2^", "2^"), ("02^3", "02^3"), ("8", "8"), (8, 8)]
)
def test_a_power_stands_for_its_number_and_all_else_for_itself(text, value):
    assert with_power(text) == value
