"""The rule for verdicts and severities, at the edges of what it lets pass."""

import pytest

from experiments.statements.answer import Answer, Claimed, parse_claimed
from experiments.statements.judge import severity, verdict
from experiments.statements.verdicts import FAULTY, SEVERITIES, VERDICTS, rank


def judged(rule, claimed: str, *computed: float) -> str:
    return verdict(rule, parse_claimed(claimed), Answer(numbers=computed))[0]


def test_printed_digits_have_a_unit():
    assert parse_claimed("9.8197e-01 -45") == (Claimed(0.98197, pytest.approx(1e-5)), Claimed(-45.0, 1.0))


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
        ("512", "digits", 517.9, "wrong"),
        ("512", "about", 517.9, "approximately"),
        ("100", "about", 105, "approximately"),
        ("100", "about", 105.1, "wrong"),
        ("-100", "about", -104, "approximately"),
        ("0.9999", "about", 0.99963, "wrong"),
        ("0.9999", "about", 0.95, "wrong"),
        ("0.0001", "about", 0.05, "wrong"),
        ("0.90", "about", 0.9049, "reproduced"),
        ("0.90", "about", 0.9051, "wrong"),
        ("0.500", "about", 0.524, "approximately"),
        ("0.500", "about", 0.526, "wrong"),
        ("1.0", "about", 0.96, "reproduced"),
        ("1.0", "about", 0.94, "wrong"),
        ("3", "count", 2, "wrong"),
        ("3", "count", 3, "reproduced"),
        ("4", "shape", 4, "holds"),
        ("4", "shape", 5, "wrong"),
    ],
)
def test_numbers_are_judged_by_the_digits_that_are_shown(claimed, rule, right, expected):
    found, error = verdict(rule, parse_claimed(claimed), Answer(numbers=(right,)))
    assert found == expected
    assert error == pytest.approx(abs(float(claimed) - right), abs=1e-15)
    assert judged(rule, f"{claimed} 1", right, 1.0) == expected


@pytest.mark.parametrize(
    ("found", "expected"), [((True, True), "holds"), ((True, False), "misleading"), ((False, False), "wrong")]
)
def test_statements_are_judged_by_their_cases(found, expected):
    assert verdict("true", (), Answer(cases={str(i): case for i, case in enumerate(found)}))[0] == expected


@pytest.mark.parametrize("value", ["0.9", "0.99", "0.999", "0.9999"])
@pytest.mark.parametrize("off", [0.0, 0.04, 0.06, 0.6])
def test_an_approximation_of_a_weight_and_of_what_it_leaves_is_judged_alike(value, off):
    """The tolerance near 1 is that near 0: 0.999 for 0.9995 is as far off as 0.001 for 0.0005."""
    left = f"{1 - float(value):.{len(value) - 2}f}"
    right = float(left) * (1 - off)
    assert judged("about", value, 1 - right) == judged("about", left, right)


def test_a_draw_is_judged_by_its_law():
    claimed = parse_claimed("1.6")
    assert verdict("draw", claimed, Answer(numbers=(1.5,), p_value=0.01))[0] == "within sampling error"
    assert verdict("draw", claimed, Answer(numbers=(1.5,), p_value=0.0099))[0] == "wrong"


def test_without_a_rule_a_statement_is_open():
    assert verdict(None, (), Answer())[0] == "open"


@pytest.mark.parametrize(
    ("claimed", "rule", "answer", "problem"),
    [
        ("1 2", "digits", Answer(numbers=(1.0,)), "expected 2 computed numbers, got 1"),
        ("", "true", Answer(), "expected cases"),
        ("1", "draw", Answer(numbers=(1.0,)), "expected a p-value"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(claimed, rule, answer, problem):
    with pytest.raises(ValueError, match=problem):
        verdict(rule, parse_claimed(claimed), answer)


@pytest.mark.parametrize(
    ("claimed", "right", "expected"),
    [
        ("0.9999", 0.99963, "slip"),  # 2.7 units of the last digit
        ("0.9999", 0.99958, "wrong number"),  # 3.2 units
        ("0.32", 0.3037, "wrong number"),  # 1.6 units, but more than 5%
        ("22", 20.79, "wrong number"),
    ],
)
def test_a_wrong_number_is_a_slip_if_it_is_close(claimed, right, expected):
    numbers, answer = parse_claimed(claimed), Answer(numbers=(right,))
    assert severity("wrong", "wrong number", numbers, answer) == expected
    assert severity("wrong", "conceptual error", numbers, answer) == "conceptual error"
    assert severity("to rounding", "wrong number", numbers, answer) is None


@pytest.mark.parametrize("stated", SEVERITIES)
def test_a_statement_without_numbers_has_the_severity_of_its_declaration(stated):
    answer = Answer(cases={"here": False})
    assert severity("wrong", stated, (), answer) == severity("misleading", stated, (), answer) == stated
    assert severity("holds", stated, (), answer) is None


def test_statements_rank_by_severity_then_wrong_before_misleading_then_open_then_right():
    ranks = [rank(found, grave) for grave in SEVERITIES for found in FAULTY]
    ranks += [rank("open", ""), *(rank(right, "") for right in VERDICTS if right not in (*FAULTY, "open"))]
    assert ranks == sorted(set(ranks))
