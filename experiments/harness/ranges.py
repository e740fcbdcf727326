"""Short forms of whole numbers in the config: powers such as 2^6, and ranges such as 4..512*2 or 16..64+16."""

import re
from typing import Any

_WHOLE = r"(?:0|[1-9][0-9]{0,11})(?:\^(?:0|[1-9][0-9]?))?"
RANGE = rf"({_WHOLE}) *\.\. *({_WHOLE}) *([*+]) *({_WHOLE})"
POWER = rf"(?=.*\^){_WHOLE}"
FRACTION = r"[-+]?(?:0|[1-9][0-9]*)/[1-9][0-9]*"
_MAX_LENGTH = 100_000
_EXPECTED = "expected a range such as 4..512*2 or 16..64+16"


def with_power(value: Any) -> Any:
    """The whole number that a power such as 2^6 stands for; any other value as it is.

    >>> with_power("2^6"), with_power(64), with_power("many")
    (64, 64, 'many')
    """
    is_power = isinstance(value, str) and "^" in value and re.fullmatch(_WHOLE, value)
    return _number(value) if is_power else value


def with_range(value: Any) -> list[Any]:
    """The whole numbers of a range, both ends included; any other value as the only one.

    `a..b*f` multiplies by f, and `a..b+s` adds s.

    Raises:
        ValueError: the range has another form, no end at b, or too many values.

    >>> with_range("4..32*2"), with_range("2^4..64+16"), with_range(8)
    ([4, 8, 16, 32], [16, 32, 48, 64], [8])
    """
    if not isinstance(value, str) or ".." not in value:
        return [value]
    parts = re.fullmatch(RANGE, value)
    if not parts:
        raise ValueError(_EXPECTED)
    first, last, step = (_number(parts[i]) for i in (1, 2, 4))
    multiplies = parts[3] == "*"
    if first > last:
        raise ValueError(f"{_EXPECTED}, which ends at its start or above")
    if step < 1 + multiplies or (multiplies and not first):
        least = "a start of at least 1 and a factor of at least 2" if multiplies else "a step of at least 1"
        raise ValueError(f"{_EXPECTED}, with {least}")
    if not multiplies and (last - first) // step >= _MAX_LENGTH:
        raise ValueError(f"expected a range of at most {_MAX_LENGTH} values")
    values = [first]
    while values[-1] < last:
        values.append(values[-1] * step if multiplies else values[-1] + step)
    if values[-1] > last:
        nearest = min(values[-2:], key=lambda end: abs(end - last))
        raise ValueError(
            f"expected a range that ends at one of its values; did you mean {parts[1]}..{nearest}{parts[3]}{parts[4]}?"
        )
    return values


def _number(text: str) -> int:
    base, _, exponent = text.partition("^")
    number: int = int(base) ** int(exponent or 1)
    return number
