"""Numbers in words, for notes and cases."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize

from experiments.claims.judge import parse_claimed
from sdpa import softmax


def shown(values: npt.ArrayLike, digits: int = 4) -> str:
    """Numbers with that many significant digits.

    >>> shown([1 / 3, 2.0])
    '[0.3333, 2]'
    """
    return f"[{', '.join(f'{x:.{digits}g}' for x in np.ravel(values))}]"


def label(value: object) -> str:
    """A label of an axis: a number of keys from 10,000 on has commas."""
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


def listed(values: Iterable[object]) -> str:
    """Labels as a list.

    >>> listed([2, 5, 10_000])
    '2, 5 and 10,000'
    """
    *most, last = [label(value) for value in values] or ["no"]
    return f"{', '.join(most)} and {last}" if most else last


def by_keys(form: str, *series: "pd.Series[Any]", between: str = ", ") -> str:
    """Values by the number of keys, each in a printf form.

    >>> by_keys("%.3g", pd.Series({4: 0.4631, 65536: 0.01}))
    '0.463 with 4 keys, 0.01 with 65,536 keys'
    """
    rows = pd.concat(series, axis=1).iterrows()
    return between.join(f"{form % tuple(row)} with {label(n)} keys" for n, row in rows)


def each(words: str, truths: "pd.Series[Any]") -> dict[str, object]:
    """A case for each truth of a series, with the label in place of {n}.

    >>> each("with {n} keys", pd.Series({4: True}))
    {'with 4 keys': True}
    """
    return {words.replace("{n}", label(n)): true for n, true in truths.items()}


def between(values: "pd.Series[float]", digits: int = 2) -> str:
    """The smallest and the largest of some values."""
    low = f"{values.min():.{digits}f}"
    high = f"{values.max():.{digits}f}"
    return low if low == high else f"{low} to {high}"


def with_error(value: float, error: float) -> str:
    """A measured value with the first digit of its standard error as the last; at most four digits.

    >>> with_error(0.27411, 0.003), with_error(1.13e-5, 7e-6)
    ('0.274', '1.1e−05')
    """
    if 1e-4 <= abs(value) < 1e6:
        least = max(error, abs(value) / 1000)
        places = -math.floor(math.log10(least))
        return f"{round(value, places):.{max(places, 0)}f}"
    place = math.floor(math.log10(abs(value)))
    last_place = math.floor(math.log10(error))
    digits = 1 + place - last_place
    return f"{value:.{min(max(digits, 1), 3)}g}".replace("-", "−")


def tempered(scores: npt.ArrayLike, claimed: str) -> str:
    """The divisor of the scores that gives a claimed softmax, to half a unit of its last digit.

    It finds the origin of a printed row of weights that is not the softmax of its scores. The
    divisors 1, 2 and 1/2 have precedence over any other from 0.2 to 10 that fits better.
    """
    numbers = parse_claimed(claimed)
    wanted = [number.value for number in numbers]
    half = 0.51 * min(number.unit for number in numbers)

    def distance(divisor: float) -> float:
        weights = softmax(np.asarray(scores) / divisor)
        return float(np.abs(weights - wanted).max())

    best = optimize.minimize_scalar(distance, bounds=(0.2, 10), method="bounded").x
    for divisor in (min((1.0, 2.0, 0.5), key=distance), best):
        if distance(divisor) <= half:
            return f"the softmax of the scores divided by {divisor:.3g}"
    return f"not the softmax of any multiple of the scores (closest: divided by {best:.3g})"
