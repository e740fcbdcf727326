"""What a quantity answers, and the list of all quantities by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize

from sdpa import softmax

Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Answer:
    """What was computed for a statement.

    numbers: what the statement's numbers should be, in its order.
    cases: the statement itself, tested: where it holds and where it does not, each case by its condition.
    p_value: of a random draw without a recipe: how likely a draw is as far from its exact law as the one claimed.
    note: what the numbers are of, what is right, where a wrong number comes from, which measurement shows it.
    """

    numbers: tuple[float, ...] = ()
    cases: Mapping[str, bool] = field(default_factory=dict)
    p_value: float | None = None
    note: str = ""


Quantity = Callable[[Tables], Answer]
QUANTITIES: dict[str, Quantity] = {}


def quantity(function: Quantity) -> Quantity:
    """Enter a function into the list, under its name."""
    if function.__name__ in QUANTITIES:
        raise ValueError(f"expected one quantity called {function.__name__}, got a second")
    QUANTITIES[function.__name__] = function
    return function


def numbers(*values: npt.ArrayLike, note: str = "") -> Answer:
    """An answer of numbers, arrays row by row."""
    return Answer(tuple(float(x) for value in values for x in np.ravel(value)), note=note)


def cases(conditions: Mapping[str, Any], note: str = "") -> Answer:
    """An answer of conditions and whether the statement is true in each."""
    return Answer(cases={condition: bool(held) for condition, held in conditions.items()}, note=note)


def shown(values: npt.ArrayLike, digits: int = 4) -> str:
    """Numbers as they stand in a note."""
    return "[" + ", ".join(f"{x:.{digits}g}" for x in np.ravel(values)) + "]"


def tempered(scores: Sequence[float], claimed: Sequence[float], unit: float) -> str:
    """If a claimed softmax is that of the scores over some number, to half a unit of its last digit: over which."""
    wanted, given = np.array(claimed), np.array(scores, dtype=float)

    def distance(divisor: float) -> float:
        return float(np.abs(softmax(given / divisor) - wanted).max())

    half = 0.51 * unit
    best = optimize.minimize_scalar(distance, bounds=(0.2, 10), method="bounded").x
    whole = min((1.0, 2.0, 0.5), key=distance)
    divisor = whole if distance(whole) <= half else best
    if distance(divisor) > half:
        return f"no multiple of the scores has it (closest: over {best:.3g})"
    return f"it is the softmax of the scores over {divisor:.3g}"
