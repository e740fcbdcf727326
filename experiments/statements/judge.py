"""The one rule that derives a verdict and its severity from the claimed and the computed values.

No statement has a verdict of its own making: `verdict` and `severity` depend only on the declared rule, the claimed
numbers, the answer, and the cut-offs of `experiments.statements.cutoffs`.
"""

import math
from collections.abc import Sequence
from typing import Literal

from experiments.statements.answer import Answer, Claimed
from experiments.statements.cutoffs import ABOUT, SLIP_UNITS, UNLIKELY
from experiments.statements.verdicts import FAULTY, Severity, Verdict

Rule = Literal["true", "digits", "about", "count", "shape", "draw"]

_HALF = 0.5 + 1e-6  # of a unit of the last digit, plus the rounding of doubles
_UNIT = 1 + 1e-6


def verdict(rule: Rule | None, claimed: Sequence[Claimed], answer: Answer) -> tuple[Verdict, float]:
    """The verdict on a statement and the largest error of its numbers (NaN without numbers).

    `true`: a statement that is true in every tested case `holds`; it is `wrong` if true in none, and `misleading` if
    true in some. `digits`: the numbers are as printed (`reproduced`), each within one unit of its last digit (`to
    rounding`), or `wrong`. `about`: the numbers are as printed (`reproduced`), each within 5% (`approximately`), or
    `wrong`; between 0 and 1, 5% refers to the distance from the nearer end. `count`: whole numbers are `reproduced` or
    `wrong`. `shape`: shapes `hold` if they are as stated. `draw`: numbers of a random draw without a known recipe are
    `within sampling error` of their exact law unless a draw as far from it has a probability below 1%. Without a rule:
    `open`.

    Args:
        rule: the declared rule; None for an open statement.
        claimed: the numbers of the statement.
        answer: the computed numbers in the same order, or the tested cases.

    Raises:
        ValueError: an answer that does not match the rule, such as a wrong number of numbers.

    >>> verdict("digits", [Claimed.parse("0.44")], Answer((0.4449,)))[0]
    'reproduced'
    >>> verdict("digits", [Claimed.parse("0.44")], Answer((0.4451,)))[0]
    'to rounding'
    >>> verdict("true", [], Answer(cases={"with 4 keys": True, "with 64 keys": False}))
    ('misleading', nan)
    """
    if rule is None:
        return "open", math.nan
    if rule == "true":
        if not answer.cases:
            raise ValueError("expected cases for a statement that is true or not, got none")
        found = answer.cases.values()
        return ("holds" if all(found) else "misleading" if any(found) else "wrong"), math.nan
    if len(claimed) != len(answer.numbers):
        raise ValueError(f"expected {len(claimed)} computed numbers, got {len(answer.numbers)}")
    errors = _errors(claimed, answer)
    return _of_numbers(rule, claimed, errors, answer.p_value), max(errors)


def _of_numbers(rule: Rule, claimed: Sequence[Claimed], errors: Sequence[float], p_value: float | None) -> Verdict:
    """The verdict under a rule about numbers, from their absolute errors; `draw` looks only at the p-value.

    Half a unit of the last digit, the limit of `reproduced`, includes the rounding of doubles.
    """
    if rule == "draw":
        if p_value is None:
            raise ValueError("expected a p-value for a random draw, got none")
        return "within sampling error" if p_value >= UNLIKELY.value else "wrong"
    if rule in ("count", "shape"):
        return "wrong" if any(errors) else "reproduced" if rule == "count" else "holds"
    half = [_HALF * number.unit for number in claimed]
    if _all_within(errors, half):
        return "reproduced"
    if rule == "digits":
        return "to rounding" if _all_within(errors, [_UNIT * number.unit for number in claimed]) else "wrong"
    near = [max(ABOUT.value * number.size, limit) for number, limit in zip(claimed, half, strict=True)]
    return "approximately" if _all_within(errors, near) else "wrong"


def severity(
    found: Verdict, of_mistake: Severity | None, claimed: Sequence[Claimed], answer: Answer
) -> Severity | None:
    """The severity of a wrong or misleading statement; none for another verdict.

    A declared `wrong number` becomes a `slip` if every number is within 5% and 3 units of its last digit. Other
    declared severities stay, however close the numbers are.

    Args:
        found: the verdict.
        of_mistake: the severity of a mistake in this statement, unless it is a slip in the last digit.
        claimed: the numbers of the statement.
        answer: the correct numbers.
    """
    if found not in FAULTY:
        return None
    limits = [min(SLIP_UNITS.value * number.unit, ABOUT.value * abs(number.value)) for number in claimed]
    close = claimed and _all_within(_errors(claimed, answer), limits)
    return "slip" if of_mistake == "wrong number" and close else of_mistake


def _errors(claimed: Sequence[Claimed], answer: Answer) -> list[float]:
    """The absolute difference between each claimed and computed number."""
    return [abs(number.value - right) for number, right in zip(claimed, answer.numbers, strict=True)]


def _all_within(errors: Sequence[float], limits: Sequence[float]) -> bool:
    return all(error <= limit for error, limit in zip(errors, limits, strict=True))
