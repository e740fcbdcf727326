"""The one rule that makes a verdict, and its severity, of what was claimed and what was computed."""

import math
import re
from dataclasses import dataclass
from typing import Literal

from experiments.statements.answers import Answer
from experiments.statements.cutoffs import ABOUT, SLIP_UNITS, UNLIKELY
from experiments.statements.order import MISLEADING, NUMBER, OPEN, SLIP, WRONG, Severity

Rule = Literal["digits", "about", "count", "shape", "draw", "true", "training"]

_HALF = 0.5 + 1e-6  # of a unit of the last digit, and what rounding of doubles may add
_UNIT = 1 + 1e-6
_NUMBER = re.compile(r"[-+]?\d+(?:\.(?P<decimals>\d+))?(?:e(?P<power>[-+]?\d+))?")


@dataclass(frozen=True)
class Claimed:
    """A number as it is printed: its value, and the unit of its last digit."""

    value: float
    unit: float

    @classmethod
    def parse(cls, text: str) -> "Claimed":
        """From digits as printed: 0.44, 100, 9.8197e-01."""
        match = _NUMBER.fullmatch(text)
        if match is None:
            raise ValueError(f"expected a number as printed, got {text!r}")
        return cls(float(text), 10.0 ** (int(match["power"] or 0) - len(match["decimals"] or "")))

    @property
    def size(self) -> float:
        """What a relative error refers to: the number, or between 0 and 1 its distance from the nearer of them.

        0.9999 and 0.0001 say the same of two weights; 0.95 is no approximation of the one, nor 0.05 of the other.
        """
        return min(self.value, 1 - self.value) if 0 <= self.value <= 1 else abs(self.value)


def verdict(claimed: str, rule: Rule, answer: Answer) -> tuple[str, float]:
    """The verdict on a statement and the largest error of its numbers (NaN without numbers).

    `digits`: the numbers are as printed (`reproduced`), each within one unit of its last digit (`to rounding`), or
    `wrong`. `about`: the numbers are as printed (`reproduced`), each within 5% (`approximately`), or `wrong`; between 0
    and 1 these are 5% of the distance from the nearer end. `count`: whole numbers are `reproduced` or `wrong`.
    `shape`: shapes that are as stated `hold`. `draw`: numbers of a random draw whose recipe is not given
    are `within sampling error` of their exact law unless so far a draw has a probability below 1%. `true`: a statement
    that is true in every case tested `holds`, in none is `wrong`, in some is `misleading`. `training`: `open`.

    Raises:
        ValueError: an answer that does not fit the rule, such as another number of numbers.
    """
    if rule == "training":
        return OPEN, math.nan
    if rule == "true":
        if not answer.cases:
            raise ValueError("expected cases for a statement that is true or not, got none")
        held = list(answer.cases.values())
        return ("holds" if all(held) else MISLEADING if any(held) else WRONG), math.nan
    numbers = _numbers(claimed)
    if len(numbers) != len(answer.numbers):
        raise ValueError(f"expected {len(numbers)} computed numbers, got {len(answer.numbers)}")
    away = _errors(numbers, answer)
    if rule == "draw":
        if answer.p_value is None:
            raise ValueError("expected a p-value for a random draw, got none")
        return ("within sampling error" if answer.p_value >= UNLIKELY else WRONG), max(away)
    exact = {"count": "reproduced", "shape": "holds"}
    if rule in exact:
        return (exact[rule] if not any(away) else WRONG), max(away)
    half = [_HALF * number.unit for number in numbers]
    near = [number.unit * _UNIT if rule == "digits" else ABOUT * number.size for number in numbers]
    name = "to rounding" if rule == "digits" else "approximately"
    for found, limits in (("reproduced", half), (name, map(max, near, half))):
        if all(error <= limit for error, limit in zip(away, limits, strict=True)):
            return found, max(away)
    return WRONG, max(away)


def severity(found: str, stated: Severity, claimed: str, answer: Answer) -> str:
    """How grave it is that a statement is wrong or misleading; empty for another verdict.

    Args:
        found: the verdict.
        stated: the severity that a mistake in this statement has, if it is no slip in the last digit.
        claimed: the numbers of the statement.
        answer: what they should be.
    """
    if found not in (WRONG, MISLEADING):
        return ""
    numbers = _numbers(claimed)
    limits = [min(SLIP_UNITS * number.unit, ABOUT * abs(number.value)) for number in numbers]
    close = all(error <= limit for error, limit in zip(_errors(numbers, answer), limits, strict=True))
    return SLIP if stated == NUMBER and numbers and close else stated


def _numbers(claimed: str) -> list[Claimed]:
    return [Claimed.parse(word) for word in claimed.split()]


def _errors(numbers: list[Claimed], answer: Answer) -> list[float]:
    return [abs(number.value - right) for number, right in zip(numbers, answer.numbers, strict=True)]
