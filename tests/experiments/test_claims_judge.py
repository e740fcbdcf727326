"""The rule for verdicts and severities, at the edges of what it lets pass."""

import pytest

from experiments.claims.data import chosen
from experiments.claims.judge import Answer, parse_claimed, severity, verdict

CUT = chosen()


def judged(rule: str, claimed: str, *computed: float, **answer) -> str:
    return verdict(rule, parse_claimed(claimed), Answer(computed, **answer), CUT)[0]


@pytest.mark.parametrize(
    ("claimed", "rule", "right", "expected"),
    [
        ("0.44", "digits", 0.4449, "reproduced"),
        ("0.44", "digits", 0.4451, "to rounding"),
        ("0.44", "digits", 0.45, "to rounding"),
        ("0.44", "digits", 0.4501, "wrong"),
        ("4.5000e-05", "digits", 4.50004e-5, "reproduced"),
        ("4.5000e-05", "digits", 4.503e-5, "wrong"),
        ("22.6", "about", 22.627, "reproduced"),
        ("100", "about", 105, "approximately"),
        ("100", "about", 105.1, "wrong"),
        ("0.9999", "about", 0.99963, "wrong"),
        ("0.9999", "about", 0.95, "wrong"),
        ("0.0001", "about", 0.05, "wrong"),
        ("0.500", "about", 0.524, "approximately"),
        ("1.0", "about", 0.96, "reproduced"),
        ("1.0", "about", 0.94, "wrong"),
        ("3", "count", 2, "wrong"),
        ("3", "count", 3, "reproduced"),
        ("4", "shape", 4, "holds"),
        ("4", "shape", 5, "wrong"),
    ],
)
def test_numbers_are_judged_by_the_digits_that_are_shown(claimed, rule, right, expected):
    assert judged(rule, claimed, right) == judged(rule, f"{claimed} 1", right, 1.0) == expected


def test_cases_draws_and_open_statements():
    for found, expected in (((True, True), "holds"), ((True, False), "misleading"), ((False, False), "wrong")):
        assert judged("true", "", cases=dict(enumerate(found))) == expected
    assert judged("draw", "1.6", 1.5, p_value=0.01) == "within sampling error"
    assert judged("draw", "1.6", 1.5, p_value=0.0099) == "wrong"
    assert judged("", "") == "open"


@pytest.mark.parametrize(("claimed", "rule", "found"), [("1 2", "digits", [1]), ("", "true", []), ("1", "draw", [1])])
def test_an_answer_that_does_not_fit_is_refused(claimed, rule, found):
    with pytest.raises(ValueError, match=r"expected (2 computed numbers|cases|a p-value)"):
        judged(rule, claimed, *found)


@pytest.mark.parametrize(
    ("claimed", "right", "expected"),
    [
        ("0.9999", 0.99963, "slip"),  # 2.7 units of the last digit
        ("0.9999", 0.99958, "wrong number"),  # 3.2 units
        ("0.32", 0.3037, "wrong number"),  # 1.6 units, but more than 5%
    ],
)
def test_a_wrong_number_is_a_slip_if_it_is_close(claimed, right, expected):
    numbers, answer = parse_claimed(claimed), Answer((right,))
    assert severity("wrong", "wrong number", numbers, answer, CUT) == expected
    assert severity("wrong", "conceptual error", numbers, answer, CUT) == "conceptual error"
    assert severity("to rounding", "wrong number", numbers, answer, CUT) == ""
