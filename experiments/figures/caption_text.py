"""Words of captions: numbers with as many digits as their errors justify, and the plain caption of a figure."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from experiments.figures.axes import plain
from experiments.figures.figure import Figure, Tables
from experiments.harness.discovery import axes_of, usual_values
from experiments.harness.metric import FEW_DRAWS

_MAX_DIGITS = 4
_FEW_VALUES = 3


def plain_caption(figure: Figure, tables: Tables) -> str:
    """The sizes, inputs and trials of the measured table, and the note of the figure.

    >>> table = pd.DataFrame({"d_k": [4, 8, 4, 8], "n_keys": 64, "inputs": "gaussian", "key_std": 1.0, "trials": 20})
    >>> plain_caption(Figure(shows="", of="", note="Bars: 95% intervals."), {"measured": table})
    'd_k = 4 and 8, n_keys = 64, inputs = gaussian; 20 trials. Bars: 95% intervals.'
    """
    if "measured" not in tables:
        return figure.note
    table = tables["measured"]
    told = {name: list(table[name].unique()) for name in axes_of(table)}
    named = [
        f"{name} = {_values(values)}"
        for name, values in told.items()
        if name == "inputs" or values != [usual_values().get(name)]
    ]
    trials = table["trials"].agg(["min", "max"]).unique() if "trials" in table else []
    count = f"; {_values(list(trials), ' to ')} trials" if len(trials) else ""
    return f"{', '.join(named)}{count}. {figure.note}".strip()


def _values(values: list[Any], between: str = " and ") -> str:
    """Few values as a list; many numbers by their ends.

    >>> _values([8, 4]), _values([1, 2, 3, 4]), _values(["a", "b", "c", "d"])
    ('4 and 8', '1 to 4', 'a, b, c and d')
    """
    are_numbers = not isinstance(values[0], str)
    texts = [plain(value) for value in (sorted(values) if are_numbers else values)]
    if are_numbers and len(texts) > _FEW_VALUES:
        return f"{texts[0]} to {texts[-1]}"
    return between.join(texts) if between == " to " else listed(texts)


def number(value: float, error: float = 0.0) -> str:
    """A value rounded to the first digit of its standard error, with at most four digits.

    Args:
        value: below 1e-4 or from 1e6 on, it gets a power of ten.
        error: 0 for an exact value.

    >>> number(0.27411, 0.003), number(3.9671234, 0.00001), number(0.0), number(1.3e30), number(1.13e-5, 7e-6)
    ('0.274', '3.967', '0', '1.3e+30', '1.1e−05')
    """
    if value == 0 and error == 0:
        return "0"
    if value and not 1e-4 <= abs(value) < 1e6:
        digits = 3 if error == 0 else 1 + math.floor(math.log10(abs(value))) - math.floor(math.log10(error))
        return f"{value:.{min(max(digits, 1), 3)}g}".replace("-", "−")
    smallest = abs(value) * 10.0 ** (1 - _MAX_DIGITS)
    scale = max(error, smallest) if value else error
    places = -math.floor(math.log10(scale))
    return f"{round(value, places):z.{max(places, 0)}f}".replace("-", "−")


def exactly(rows: pd.DataFrame, metric: str) -> pd.Series:
    """The exact values of a metric instead of the measured ones if all are known."""
    exact = rows.get(f"{metric}_exact")
    return rows[metric] if exact is None or exact.isna().any() else exact


def few_draws(rows: pd.DataFrame, metric: str) -> pd.Series:
    """True for each row in which a metric has too few draws for its error bar, from the column `few_draws`."""
    return rows[FEW_DRAWS].str.split().map(lambda names: metric in names).astype(bool)


def listed(clauses: Sequence[str]) -> str:
    """Clauses as one list: a, b and c.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(clauses[:-1]), clauses[-1]] if len(clauses) > 1 else clauses)
