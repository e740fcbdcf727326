"""The one rule that derives a verdict and its severity from the claimed and the computed values.

No statement has a verdict of its own making: `verdict` and `severity` depend only on the declared
rule, the claimed numbers, the answer, and the cut-offs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from experiments.claims.cutoffs import Cutoffs
from experiments.measuring.rules import Floats

_RIGHT = ("reproduced", "to rounding", "approximately", "within sampling error", "holds")
FAULTY = ("wrong", "misleading")  # the verdicts that have a severity
VERDICTS = (*_RIGHT, *FAULTY, "open")
CONCEPTUAL_ERROR = "conceptual error"
WRONG_NUMBER = "wrong number"
OVERSTATEMENT = "overstatement"
SLIP = "slip"
SEVERITIES = (CONCEPTUAL_ERROR, WRONG_NUMBER, OVERSTATEMENT, SLIP)  # the gravest first
RULES = ("true", "digits", "about", "count", "shape", "draw")

_HALF = 0.5 + 1e-6  # of a unit of the last digit, plus the rounding of doubles
_UNIT = 1 + 1e-6


class Claimed(NamedTuple):
    """A printed number: its value, and the unit of its last digit, such as 0.01 for 0.44."""

    value: float
    unit: float


def parse_claimed(text: str) -> tuple[Claimed, ...]:
    """Printed numbers with blanks between them, none from an empty text.

    Raises:
        decimal.InvalidOperation: the text has something else.

    >>> parse_claimed("9.8197e-01")
    (Claimed(value=0.98197, unit=1e-05),)
    """
    numbers = map(Decimal, text.split())
    return tuple(Claimed(float(x), 10.0 ** int(x.as_tuple().exponent)) for x in numbers)


@dataclass(frozen=True)
class Answer:
    """The result of the computation for a statement.

    numbers: the correct numbers of the statement, in its order.
    cases: the tested cases of the statement in words, each with whether the statement holds.
    p_value: for a random draw without a recipe: the probability of a draw as far from its exact
        law as the claimed one.
    note: the text beside the answer; it starts with a capital and ends without a full stop.
    """

    numbers: tuple[float, ...] = ()
    cases: Mapping[str, bool] = field(default_factory=dict)
    p_value: float | None = None
    note: str = ""


def verdict(
    rule: str,
    claimed: Sequence[Claimed],
    answer: Answer,
    cut: Cutoffs,
) -> tuple[str, float]:
    """The verdict on a statement and the largest error of its numbers (NaN without numbers).

    `true`: a statement that is true in every tested case `holds`; it is `wrong` if true in none,
    and `misleading` if true in some. `digits`: the numbers are as printed (`reproduced`), each
    within one unit of its last digit (`to rounding`), or `wrong`. `about`: the numbers are as
    printed (`reproduced`), each within 5% (`approximately`), or `wrong`; between 0 and 1, 5%
    refers to the distance from the nearer end. `count`: whole numbers are `reproduced` or `wrong`.
    `shape`: shapes `hold` if they are as stated. `draw`: numbers of a random draw without a known
    recipe are `within sampling error` of their exact law unless a draw as far from it has a
    probability below 1%. Without a rule: `open`.

    Args:
        rule: one of `RULES`; empty for an open statement.
        claimed: the numbers of the statement.
        answer: the computed numbers in the same order, or the tested cases.
        cut: the cut-offs.

    Raises:
        ValueError: an answer that does not match the rule, such as a wrong number of numbers.
    """
    if not rule:
        return "open", math.nan
    if rule == "true":
        truths = answer.cases.values()
        if not truths:
            raise ValueError("expected cases for a statement that is true or not, got none")
        some = "misleading" if any(truths) else "wrong"
        return "holds" if all(truths) else some, math.nan
    if len(claimed) != len(answer.numbers):
        raise ValueError(f"expected {len(claimed)} computed numbers, got {len(answer.numbers)}")
    values, units = np.transpose(claimed)
    errors = abs(values - answer.numbers)
    if rule == "draw":
        if answer.p_value is None:
            raise ValueError("expected a p-value for a random draw, got none")
        is_likely = answer.p_value >= cut.unlikely
        return "within sampling error" if is_likely else "wrong", max(errors)
    return _of_numbers(rule, values, units, errors, cut), max(errors)


def _of_numbers(
    rule: str,
    values: Floats,
    units: Floats,
    errors: Floats,
    cut: Cutoffs,
) -> str:
    """The verdict under a rule about numbers, from their absolute errors."""
    if rule in ("count", "shape"):
        right = "reproduced" if rule == "count" else "holds"
        return "wrong" if any(errors) else right
    half = _HALF * units
    if all(errors <= half):
        return "reproduced"
    if rule == "digits":
        return "to rounding" if all(errors <= _UNIT * units) else "wrong"
    # 0.9999 and 0.0001 say the same about two weights; 0.95 does not approximate the former, nor
    # 0.05 the latter.
    is_share = (values >= 0) & (values <= 1)
    size = np.where(is_share, np.minimum(values, 1 - values), abs(values))
    near = np.maximum(cut.about * size, half)
    return "approximately" if all(errors <= near) else "wrong"


def severity(
    found: str,
    declared: str,
    claimed: Sequence[Claimed],
    answer: Answer,
    cut: Cutoffs,
) -> str:
    """The severity of a wrong or misleading statement; empty for another verdict.

    A declared `wrong number` becomes a `slip` if every number is within 5% and 3 units of its last
    digit. Other declared severities stay, however close the numbers are.
    """
    if found not in FAULTY:
        return ""
    if declared != WRONG_NUMBER or not claimed:
        return declared
    values, units = np.transpose(claimed)
    limits = np.minimum(cut.slip_units * units, cut.about * abs(values))
    return SLIP if all(abs(values - answer.numbers) <= limits) else declared
