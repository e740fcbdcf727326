"""Numbers as a config may spell them: 8, 0.5, 1e-3, 1/3, 2^6, and ranges such as 4..512*2."""

import re
from fractions import Fraction
from typing import Any

_WHOLE = r"(?:0|[1-9][0-9]*)"
POWER = r"(?:0|[1-9][0-9]{0,11})\^(?:0|[1-9][0-9]?)"
FRACTION = rf"[-+]?{_WHOLE}/[1-9][0-9]*"
_DECIMAL = rf"[-+]?(?:{_WHOLE}(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{{1,2}})?"
_NUMBER = re.compile(rf"{POWER}|{FRACTION}|{_DECIMAL}")
_END = rf"(?:{POWER}|{_WHOLE})"
RANGE = rf"({_END}) *\.\. *({_END}) *([*+]) *({_END})"
_EXPECTED = "expected a range such as 4..512*2 or 16..64+16"
_MAX_RANGE = 100_000
_MAX_NUMBER_LENGTH = 40


def number_or_text(text: str) -> int | float | str:
    """The number that a text spells; any other text itself.

    >>> [number_or_text(text) for text in ("1/4", "2e3", "2^6", "1:30")]
    [0.25, 2000, 64, '1:30']
    """
    if len(text) > _MAX_NUMBER_LENGTH or not _NUMBER.fullmatch(text):
        return text
    base, _, exponent = text.partition("^")
    number = Fraction(base) ** int(exponent or 1)
    if number.denominator == 1:
        return int(number)
    return float(number)


def range_or_value(value: Any) -> tuple[Any, ...]:
    """The whole numbers of a range, both ends included; any other value alone.

    `a..b*f` multiplies by f, and `a..b+s` adds s.

    Raises:
        ValueError: the range has another form, no end at b, or too many values.

    >>> range_or_value("4..32*2"), range_or_value("2^4..64+16"), range_or_value(8)
    ((4, 8, 16, 32), (16, 32, 48, 64), (8,))
    """
    if not isinstance(value, str) or ".." not in value:
        return (value,)
    parts = re.fullmatch(RANGE, value)
    if not parts:
        raise ValueError(_EXPECTED)
    first, last, step = (int(number_or_text(parts[i])) for i in (1, 2, 4))
    adds = parts[3] == "+"
    growth = step if adds else first * (step - 1)
    if first > last or growth < 1:
        raise ValueError(f"{_EXPECTED}, which grows from its start to its end")
    if adds and (last - first) // step >= _MAX_RANGE:
        raise ValueError(f"expected a range of at most {_MAX_RANGE} values")
    values = [first]
    while values[-1] < last:
        values.append(values[-1] + step if adds else values[-1] * step)
    if values[-1] > last:
        raise ValueError(f"expected a range that ends at one of its values, such as {values[-2]}")
    return tuple(values)
