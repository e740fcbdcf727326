"""Numbers as a source prints them, and the answers of computations to statements.

A statement claims numbers (`Claimed`) or a truth; a function answers it with numbers or cases (`Answer`).
`experiments.statements.judge` compares the two.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

_NUMBER = re.compile(r"[-+]?\d+(?:\.(?P<decimals>\d+))?(?:e(?P<power>[-+]?\d+))?")


@dataclass(frozen=True)
class Claimed:
    """A printed number: its value, and the unit of its last digit.

    The unit decides about rounding: a claimed 0.44 is `reproduced` by 0.4449, and 0.440 is not.

    Attributes:
        value: the number.
        unit: 0.01 for 0.44, 1 for 100, 1e-5 for 9.8197e-01.
    """

    value: float
    unit: float

    @classmethod
    def parse(cls, text: str) -> "Claimed":
        """From digits as printed: 0.44, 100, 9.8197e-01.

        Raises:
            ValueError: anything else, such as a fraction or a number with a comma.

        >>> Claimed.parse("9.8197e-01")
        Claimed(value=0.98197, unit=1e-05)
        """
        match = _NUMBER.fullmatch(text)
        if match is None:
            raise ValueError(f"expected a number as printed, got {text!r}")
        return cls(float(text), 10.0 ** (int(match["power"] or 0) - len(match["decimals"] or "")))

    @property
    def size(self) -> float:
        """The reference of a relative error: the value, or between 0 and 1 its distance from the nearer end.

        0.9999 and 0.0001 say the same about two weights; 0.95 does not approximate the former, nor 0.05 the latter.

        >>> Claimed.parse("0.75").size, Claimed.parse("-2").size
        (0.25, 2.0)
        """
        return min(self.value, 1 - self.value) if 0 <= self.value <= 1 else abs(self.value)


def parse_claimed(text: str) -> tuple[Claimed, ...]:
    """Numbers with blanks between them; none from an empty text.

    Raises:
        ValueError: a word that is no printed number.
    """
    return tuple(Claimed.parse(word) for word in text.split())


def values(claimed: Sequence[Claimed]) -> list[float]:
    """The values of claimed numbers."""
    return [number.value for number in claimed]


@dataclass(frozen=True)
class Answer:
    """The result of the computation for a statement.

    numbers: the correct numbers of the statement, in its order.
    cases: the tested cases of the statement by condition, each with whether the statement holds.
    p_value: for a random draw without a recipe: the probability of a draw as far from its exact law as the claimed one.
    note: the subject of the numbers, the correction, the origin of a wrong number, and the measurement that shows it.
    """

    numbers: tuple[float, ...] = ()
    cases: Mapping[str, bool] = field(default_factory=dict)
    p_value: float | None = None
    note: str = ""


def numbers(*values: npt.ArrayLike, p_value: float | None = None, note: str = "") -> Answer:
    """An answer of numbers, arrays row by row.

    Args:
        values: numbers and arrays, in the order of the statement's claimed numbers.
        p_value, note: as in `Answer`.

    >>> numbers(1, [[2, 3], [4, 5]]).numbers
    (1.0, 2.0, 3.0, 4.0, 5.0)
    """
    return Answer(tuple(float(x) for value in values for x in np.ravel(value)), p_value=p_value, note=note)


def cases(conditions: Mapping[str, Any], note: str = "") -> Answer:
    """An answer of conditions, each with whether the statement is true under it.

    Args:
        conditions: any value that has a truth, such as a NumPy boolean, by condition in words.
        note: as in `Answer`.
    """
    return Answer(cases={condition: bool(true) for condition, true in conditions.items()}, note=note)


def shown(values: npt.ArrayLike, digits: int = 4) -> str:
    """Numbers in the form of a note, with that many significant digits.

    >>> shown([1 / 3, 2.0])
    '[0.3333, 2]'
    """
    return "[" + ", ".join(f"{x:.{digits}g}" for x in np.ravel(values)) + "]"
