"""The one rule that derives a verdict and its severity from the claimed and the computed values.

No statement has a verdict of its own making: `verdict` and `severity` depend only on the declared rule, the claimed
numbers, the answer, and the cut-offs.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_RIGHT = ("reproduced", "to rounding", "approximately", "within sampling error", "holds")
FAULTY = ("wrong", "misleading")  # the verdicts that have a severity
VERDICTS = (*_RIGHT, *FAULTY, "open")
SEVERITIES = ("conceptual error", "wrong number", "overstatement", "slip")  # the gravest first
RULES = ("true", "digits", "about", "count", "shape", "draw")

_NUMBER = re.compile(r"[-+]?\d+(?:\.(?P<decimals>\d+))?(?:e(?P<power>[-+]?\d+))?")
_HALF = 0.5 + 1e-6  # of a unit of the last digit, plus the rounding of doubles
_UNIT = 1 + 1e-6


class Claimed(NamedTuple):
    """A printed number: its value, and the unit of its last digit, such as 0.01 for 0.44."""

    value: float
    unit: float


def parse_claimed(text: str) -> tuple[Claimed, ...]:
    """Printed numbers with blanks between them, none from an empty text; `ValueError` for anything else.

    >>> parse_claimed("9.8197e-01")
    (Claimed(value=0.98197, unit=1e-05),)
    """
    found = []
    for word in text.split():
        match = _NUMBER.fullmatch(word)
        if match is None:
            raise ValueError(f"expected a number as printed, got {word!r}")
        found.append(Claimed(float(word), 10.0 ** (int(match["power"] or 0) - len(match["decimals"] or ""))))
    return tuple(found)


@dataclass(frozen=True)
class Answer:
    """The result of the computation for a statement.

    numbers: the correct numbers of the statement, in its order.
    cases: the tested cases of the statement in words, each with whether the statement holds.
    p_value: for a random draw without a recipe: the probability of a draw as far from its exact law as the claimed one.
    """

    numbers: tuple[float, ...] = ()
    cases: Mapping[str, bool] = field(default_factory=dict)
    p_value: float | None = None


def verdict(rule: str, claimed: Sequence[Claimed], answer: Answer, cut: Mapping[str, float]) -> tuple[str, float]:
    """The verdict on a statement and the largest error of its numbers (NaN without numbers).

    `true`: a statement that is true in every tested case `holds`; it is `wrong` if true in none, and `misleading` if
    true in some. `digits`: the numbers are as printed (`reproduced`), each within one unit of its last digit (`to
    rounding`), or `wrong`. `about`: the numbers are as printed (`reproduced`), each within 5% (`approximately`), or
    `wrong`; between 0 and 1, 5% refers to the distance from the nearer end. `count`: whole numbers are `reproduced` or
    `wrong`. `shape`: shapes `hold` if they are as stated. `draw`: numbers of a random draw without a known recipe are
    `within sampling error` of their exact law unless a draw as far from it has a probability below 1%. Without a rule:
    `open`.

    Args:
        rule: one of `RULES`; empty for an open statement.
        claimed: the numbers of the statement.
        answer: the computed numbers in the same order, or the tested cases.
        cut: the cut-offs by name.

    Raises:
        ValueError: an answer that does not match the rule, such as a wrong number of numbers.
    """
    if not rule:
        return "open", math.nan
    if rule == "true":
        if not answer.cases:
            raise ValueError("expected cases for a statement that is true or not, got none")
        found = answer.cases.values()
        return ("holds" if all(found) else "misleading" if any(found) else "wrong"), math.nan
    if rule not in RULES:
        raise ValueError(f"expected one of the rules {', '.join(RULES)}, got {rule!r}")
    if len(claimed) != len(answer.numbers):
        raise ValueError(f"expected {len(claimed)} computed numbers, got {len(answer.numbers)}")
    errors = _errors(claimed, answer)
    return _of_numbers(rule, claimed, errors, answer.p_value, cut), max(errors)


def _of_numbers(
    rule: str, claimed: Sequence[Claimed], errors: Sequence[float], p_value: float | None, cut: Mapping[str, float]
) -> str:
    """The verdict under a rule about numbers, from their absolute errors; `draw` looks only at the p-value."""
    if rule == "draw":
        if p_value is None:
            raise ValueError("expected a p-value for a random draw, got none")
        return "within sampling error" if p_value >= cut["UNLIKELY"] else "wrong"
    if rule in ("count", "shape"):
        return "wrong" if any(errors) else "reproduced" if rule == "count" else "holds"
    half = [_HALF * number.unit for number in claimed]
    if _all_within(errors, half):
        return "reproduced"
    if rule == "digits":
        return "to rounding" if _all_within(errors, [_UNIT * number.unit for number in claimed]) else "wrong"
    # 0.9999 and 0.0001 say the same about two weights; 0.95 does not approximate the former, nor 0.05 the latter.
    sizes = [min(x, 1 - x) if 0 <= x <= 1 else abs(x) for x, _ in claimed]
    near = [max(cut["ABOUT"] * size, limit) for size, limit in zip(sizes, half, strict=True)]
    return "approximately" if _all_within(errors, near) else "wrong"


def severity(found: str, of_mistake: str, claimed: Sequence[Claimed], answer: Answer, cut: Mapping[str, float]) -> str:
    """The severity of a wrong or misleading statement; empty for another verdict.

    A declared `wrong number` becomes a `slip` if every number is within 5% and 3 units of its last digit. Other
    declared severities stay, however close the numbers are.
    """
    if found not in FAULTY:
        return ""
    limits = [min(cut["SLIP_UNITS"] * number.unit, cut["ABOUT"] * abs(number.value)) for number in claimed]
    close = claimed and _all_within(_errors(claimed, answer), limits)
    return "slip" if of_mistake == "wrong number" and close else of_mistake


def _errors(claimed: Sequence[Claimed], answer: Answer) -> list[float]:
    """The absolute difference between each claimed and computed number."""
    return [abs(number.value - right) for number, right in zip(claimed, answer.numbers, strict=True)]


def _all_within(errors: Sequence[float], limits: Sequence[float]) -> bool:
    return all(error <= limit for error, limit in zip(errors, limits, strict=True))
