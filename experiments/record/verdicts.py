"""The one rule that makes a verdict of what was claimed and what was computed."""

import math
import re
from dataclasses import dataclass
from typing import Literal

from experiments.record.answers import Answer

Rule = Literal["digits", "about", "count", "shape", "draw", "true", "training"]
_ABOUT = 0.05
_UNLIKELY = 0.01
_HALF = 0.5 + 1e-6  # of a unit of the last digit, and what rounding of doubles may add
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


def verdict(claimed: str, rule: Rule, answer: Answer) -> tuple[str, float]:
    """The verdict on a statement and the largest error of its numbers (NaN without numbers).

    `digits`: the numbers are as printed (`reproduced`), each within one unit of its last digit (`to rounding`), or
    `wrong`. `about`: the same, with 5% instead of one unit. `count`: whole numbers are `reproduced` or `wrong`.
    `shape`: shapes that are as stated `hold`. `draw`: numbers of a random draw whose recipe is not given
    are `within sampling error` of their exact law unless so far a draw has a probability below 1%. `true`: a statement
    that is true in every case tested `holds`, in none is `wrong`, in some is `misleading`. `training`: `open`.

    Raises:
        ValueError: an answer that does not fit the rule, such as another number of numbers.
    """
    if rule == "training":
        return "open", math.nan
    if rule == "true":
        if not answer.cases:
            raise ValueError("expected cases for a statement that is true or not, got none")
        held = list(answer.cases.values())
        return ("holds" if all(held) else "misleading" if any(held) else "wrong"), math.nan
    numbers = [Claimed.parse(word) for word in claimed.split()]
    if len(numbers) != len(answer.numbers):
        raise ValueError(f"expected {len(numbers)} computed numbers, got {len(answer.numbers)}")
    away = [abs(number.value - right) for number, right in zip(numbers, answer.numbers, strict=True)]
    if rule in ("count", "shape"):
        right = {"count": "reproduced", "shape": "holds"}[rule]
        return (right if not any(away) else "wrong"), max(away)
    if rule == "draw":
        if answer.p_value is None:
            raise ValueError("expected a p-value for a random draw, got none")
        return ("within sampling error" if answer.p_value >= _UNLIKELY else "wrong"), max(away)
    if all(distance <= _HALF * number.unit for distance, number in zip(away, numbers, strict=True)):
        return "reproduced", max(away)
    allowed = [_ABOUT * abs(number.value) if rule == "about" else number.unit * (1 + 1e-6) for number in numbers]
    near = all(
        distance <= max(limit, _HALF * number.unit)
        for distance, limit, number in zip(away, allowed, numbers, strict=True)
    )
    return ("to rounding" if near else "wrong"), max(away)
