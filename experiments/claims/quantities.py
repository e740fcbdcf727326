"""The names in the expressions that answer published statements: inputs of the sources, tables, laws and helpers.

Arrays in capitals are inputs and results of worked examples. Functions whose first argument is `tables` get the
measured tables by name, `dimension` or `dimension/slopes`; an expression leaves this argument out.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize

from experiments.claims.judge import parse_claimed
from sdpa import softmax

Floats = npt.NDArray[np.floating]
Tables = Mapping[str, pd.DataFrame]
UNTRAINED = "for independent, centred and untrained q and k"  # the inputs behind measured and exact values, for notes


# Words of notes.


def shown(values: npt.ArrayLike, digits: int = 4) -> str:
    """Numbers in the form of a note, with that many significant digits.

    >>> shown([1 / 3, 2.0])
    '[0.3333, 2]'
    """
    return "[" + ", ".join(f"{x:.{digits}g}" for x in np.ravel(values)) + "]"


def label(value: object) -> str:
    """A label of an axis: a number of keys from 10,000 on has commas."""
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


def listed(values: Iterable[object]) -> str:
    """Labels as a list, such as `2, 5 and 10`."""
    *most, last = map(label, values)
    return f"{', '.join(most)} and {last}" if most else last


def by_keys(form: str, *series: "pd.Series[Any]", between: str = ", ") -> str:
    """Values by the number of keys in words, each in a printf form.

    >>> by_keys("%.3g", pd.Series({4: 0.4631, 65536: 0.01}))
    '0.463 with 4 keys, 0.01 with 65,536 keys'
    """
    rows = pd.concat(series, axis=1).iterrows()
    return between.join(f"{form % tuple(row)} with {label(n)} keys" for n, row in rows)


def with_error(value: float, error: float) -> str:
    """A measured value with the first digit of its standard error as the last, and at most four digits.

    >>> with_error(0.27411, 0.003), with_error(1.13e-5, 7e-6)
    ('0.274', '1.1e−05')
    """
    if not 1e-4 <= abs(value) < 1e6:
        digits = 1 + math.floor(math.log10(abs(value))) - math.floor(math.log10(error))
        return f"{value:.{min(max(digits, 1), 3)}g}".replace("-", "−")
    places = -math.floor(math.log10(max(error, abs(value) / 1000)))
    return f"{round(value, places):.{max(places, 0)}f}"


def tempered(scores: Sequence[float], claimed: str) -> str:
    """The divisor of the scores that gives a claimed softmax, to half a unit of its last digit, in words.

    It finds the origin of a printed row of weights that is not the softmax of its scores. The divisors 1, 2 and 1/2
    have precedence over any other from 0.2 to 10 that fits better.
    """
    numbers = parse_claimed(claimed)
    wanted, given = np.array([number.value for number in numbers]), np.array(scores, dtype=float)

    def distance(divisor: float) -> float:
        return float(np.abs(softmax(given / divisor) - wanted).max())

    half = 0.51 * min(number.unit for number in numbers)
    best = optimize.minimize_scalar(distance, bounds=(0.2, 10), method="bounded").x
    whole = min((1.0, 2.0, 0.5), key=distance)
    divisor = whole if distance(whole) <= half else best
    if distance(divisor) > half:
        return f"not the softmax of any multiple of the scores (closest: divided by {best:.3g})"
    return f"the softmax of the scores divided by {divisor:.3g}"


# Measured tables: rows of a rule by d_k, and the (d_k, n_keys) plane of the sweep `phase`.

WIDTHS, KEYS = [64, 128, 256, 512, 4096], [4, 64, 1024, 4096]
MEDIAN = "jacobian_norm_median"  # measured: no exact value is known


def dimension(tables: Tables, scaling: str) -> pd.DataFrame:
    """The rows of a rule in the sweep `dimension`, by d_k, which stays a column too."""
    rows = tables["dimension"]
    return rows[rows["scaling"] == scaling].set_index("d_k", drop=False)


def slopes(tables: Tables, scaling: str) -> "pd.Series[Any]":
    """The slope of ln variance against ln d_k under a rule."""
    return tables["dimension/slopes"].set_index("scaling").loc[scaling]


def powers_apart(tables: Tables) -> "pd.Series[float]":
    """The variance at d_k = 512 less that at 64, in standard errors, by the exponent of the rule."""
    values = tables["powers"].pivot_table(
        index="exponent", columns="d_k", values=["score_variance", "score_variance_se"]
    )
    error = np.hypot(values["score_variance_se"][512], values["score_variance_se"][64])
    return (values["score_variance"][512] - values["score_variance"][64]).abs() / error


def agree(rows: pd.DataFrame, metric: str, expected: Any, errors: float) -> bool:
    """True if every distance of a metric from its expected value is below so many standard errors."""
    return bool((abs(rows[metric] - expected) < errors * rows[f"{metric}_se"]).all())


def phase(tables: Tables, scaling: str, metric: str) -> pd.DataFrame:
    """A column of the sweep `phase` under one rule, with a row per d_k and a column per number of keys."""
    rows = tables["phase"]
    return rows[rows["scaling"] == scaling].pivot_table(index="d_k", columns="n_keys", values=metric)


def bare(tables: Tables, metric: str) -> pd.DataFrame:
    """A metric without scaling, on the plane that statements about large d_k are judged over."""
    return phase(tables, "unscaled", metric).loc[WIDTHS, KEYS]


def scaled(tables: Tables, metric: str) -> pd.DataFrame:
    """The same under d_k^1/2."""
    return phase(tables, "d_k^1/2", metric).loc[WIDTHS, KEYS]


def ratio(tables: Tables, metric: str) -> pd.DataFrame:
    """The unscaled value of a metric divided by its value under d_k^1/2."""
    return bare(tables, metric) / scaled(tables, metric)


def grows(values: pd.DataFrame) -> "pd.Series[bool]":
    """True for each number of keys with which a metric grows with d_k."""
    return values.diff().iloc[1:].ge(0).all()


def spread(values: pd.DataFrame) -> "pd.Series[float]":
    """The largest value along d_k over the smallest, for each number of keys."""
    return values.max() / values.min()


def medians(tables: Tables) -> pd.DataFrame:
    """The median of |J| under d_k^1/2 in words, with as many digits as its error justifies.

    The error is a quarter of the width of the 95% interval.
    """
    low, high = (scaled(tables, f"{MEDIAN}_{end}") for end in ("low", "high"))
    return scaled(tables, MEDIAN).combine((high - low) / 4, lambda *both: both[0].combine(both[1], with_error))


def ratios_of_medians(tables: Tables) -> pd.DataFrame:
    """The same of the ratio of medians, whose interval is (low / high, high / low) of theirs."""
    low = bare(tables, f"{MEDIAN}_low") / scaled(tables, f"{MEDIAN}_high")
    high = bare(tables, f"{MEDIAN}_high") / scaled(tables, f"{MEDIAN}_low")
    return ratio(tables, MEDIAN).combine((high - low) / 4, lambda *both: both[0].combine(both[1], with_error))
