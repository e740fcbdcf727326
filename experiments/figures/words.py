"""Words of figures: the axes of a table by name. These are the fields of a cell, such as d_k, n_keys
and inputs.
"""

import re
from collections.abc import Sequence

import pandas as pd

from experiments.tables.results import SweepAxes
from sdpa.scaling import UNSCALED

LETTERS_PER_INCH = 12  # of ticks and titles, with a space between them
_FEW_VALUES = 3
# Values of axes in words, in the place of `axis = value`; the first that fits.
_PHRASES = (
    ("inputs = (.*)", r"\1 entries"),
    ("spectrum = 0", "equal variances"),
    ("spectrum = (.*)", r"variances falling with power \1"),
    ("normalize = none", "no QK-norm"),
    ("normalize = rms", "QK-norm"),
    ("normalize = l2", "q and k of length 1"),
    ("(mask|sink|mlp) = none", r"no \1"),
    ("position = none", "no RoPE"),
    ("position = rope", "RoPE"),
    ("(gain|mask) = (.*)", r"\2 \1"),
    ("softcap = 0", "no soft cap"),
    ("softcap = (.*)", r"soft cap \1"),
    ("sink = (.*)", r"sink of logit \1"),
    ("normalizer = (.*)", r"\1"),
    ("norm = (.*)", r"\1-norm"),
    ("residual = 0", "no residual stream"),
    ("residual = 1", "residual stream"),
    ("residual = (.*)", r"residual stream times \1"),
    ("initial = unit", "q and k start with variance 1"),
    ("initial.divisor = (d_k.*)", r"W_Q, W_K then over \1"),
    ("initial = small", "W_Q, W_K from N(0, 0.02²)"),
)
_FEW = 2  # axes that labels always name


def values_of(row: pd.Series, names: Sequence[str]) -> str:
    """Axes of a row with their values, as a drawing names them.

    >>> values_of(pd.Series({"d_k": 4, "key_std": 0.5, "inputs": "student_t"}), ["d_k", "key_std", "inputs"])
    'd_k = 4, key std = 0.5, student t entries'
    """
    return ", ".join(_phrase(f"{spoken(name)} = {spoken(short(row[name]))}") for name in names)


def distinguishing_axes(row: pd.Series, names: Sequence[str], axes: SweepAxes) -> list[str]:
    """Those axes that tell a row from others: sizes, and axes with an unusual value.

    >>> axes = SweepAxes({"d_k": None, "key_mean": 0.0, "key_std": 1.0})
    >>> distinguishing_axes(pd.Series({"d_k": 7, "key_mean": 2.0, "key_std": 1.0}), [*axes.usual], axes)
    ['d_k', 'key_mean']
    """
    return [name for name in names if row[name] != axes.usual[name]]


def label_axes(row: pd.Series, names: Sequence[str], axes: SweepAxes) -> list[str]:
    """The axes that name a row in a label: all of few; of more, those that tell it from others."""
    return list(names) if len(names) <= _FEW else distinguishing_axes(row, names, axes)


def _phrase(value: str) -> str:
    fitting = (
        match.expand(said) for form, said in _PHRASES if (match := re.fullmatch(form, value))
    )
    return next(fitting, value)


def spoken(name: str) -> str:
    """The name of an axis or a law with spaces; symbols, such as d_k and n_keys, keep their
    subscripts.
    """
    return re.sub(r"(?<=[a-z]{2})_(?=[a-z])", " ", name)


def is_number(values: pd.Series) -> bool:
    """True if the values of an axis have an order and distances."""
    return values.dtype.kind in "iuf"


def is_joined(at: pd.Series) -> bool:
    """True if a line goes through values at these places; else each has a stroke."""
    return is_number(at) and len(at) > 1


def short(value: object) -> str:
    """A value of an axis without trailing zeros.

    >>> short(1.0), short(4096), short("gaussian")
    ('1', '4096', 'gaussian')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)


def divided(scaling: str, sign: str = "divided by") -> str:
    """The name of a scaling in a sentence, or after a sign.

    >>> divided("unscaled"), divided("d_k^1/2"), divided("8", "÷")
    ('unscaled', 'divided by d_k^1/2', '÷ 8')
    """
    return scaling if scaling == UNSCALED else f"{sign} {scaling}"


def listed(values: Sequence[float] | Sequence[str]) -> str:
    """Few values as a list; many numbers by their ends.

    >>> listed([8, 4]), listed([1, 2, 3, 4]), listed(["a", "b", "c", "d"])
    ('4 and 8', '1 to 4', 'a, b, c and d')
    """
    are_numbers = not isinstance(values[0], str)
    *others, last = (short(value) for value in (sorted(values) if are_numbers else values))
    if are_numbers and len(others) >= _FEW_VALUES:
        return f"{others[0]} to {last}"
    return " and ".join(filter(None, [", ".join(others), last]))
