"""Short texts of coordinates and of path data, for drawings on a page.

A unit is a point, 1/72 inch in the file and at most 1.8 pixels on the page, so tenths are finer than a reader sees.
"""

import re
from collections.abc import Iterator

_TOKEN = re.compile(r"(?P<command>[A-Za-z])|(?P<number>-?[\d.]+(?:e-?\d+)?)")
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_NUMBERS = {"M": 2, "L": 2, "Q": 4, "C": 6, "z": 0}  # of the commands that Matplotlib writes

Point = tuple[int, int]


def plain(value: float, decimals: int = 1) -> str:
    """A number with at most these decimals.

    >>> plain(12.34), plain(12.0), plain(-0.04), plain(0.5)
    ('12.3', '12', '0', '.5')
    """
    text = f"{value:z.{decimals}f}"
    return re.sub(r"^(-?)0\.", r"\1.", text.rstrip("0").rstrip(".") if decimals else text)


def rounded(text: str, decimals: int = 1) -> str:
    """A text in which every decimal number is rounded; small numbers, which are scales, to four digits.

    >>> rounded("translate(42.617018 -202.585061) scale(0.015625 -1)")
    'translate(42.6 -202.6) scale(0.01562 -1)'
    """

    def short(match: re.Match[str]) -> str:
        value = float(match[0])
        return f"{value:.4g}" if 0 < abs(value) < 0.1 else plain(value, decimals)

    return _NUMBER.sub(short, text)


def short_path(data: str, decimals: int = 1) -> str:
    """Path data in relative coordinates, rounded without accumulating errors.

    Args:
        data: absolute lines and curves, as Matplotlib writes them: commands M, L, Q, C and z.
        decimals: of each coordinate.

    Raises:
        ValueError: another command.

    >>> short_path("M 10.04 20 L 15.06 20 L 15.06 8.5 Q 1 2 3 4 z")
    'm10 20h5.1v-11.5q-14.1-6.5-12.1-4.5z'
    """
    unit = 10**decimals
    written, last = [], ""
    pen = start = (0, 0)
    for command, points in _commands(data, unit):
        letter, numbers = command.lower(), [value for x, y in points for value in (x - pen[0], y - pen[1])]
        if letter == "l" and points[0] == pen and last in ("h", "v", "l"):
            continue
        if letter == "l" and 0 in numbers:
            letter, numbers = ("v", numbers[1:]) if numbers[0] == 0 else ("h", numbers[:1])
        implied = (letter == last and letter in "lqchv") or (letter == "l" and last == "m")
        written.append(_joined("" if implied else letter, [plain(number / unit, decimals) for number in numbers]))
        pen = points[-1] if points else start
        start = pen if letter == "m" else start
        last = letter
    return "".join(written)


def _commands(data: str, unit: int) -> Iterator[tuple[str, list[Point]]]:
    """Each command of path data with its points, in whole numbers of a unit of length."""
    tokens = [(match["command"], match["number"]) for match in _TOKEN.finditer(data)]
    at = 0
    while at < len(tokens):
        command = tokens[at][0] or ""
        if command not in _NUMBERS:
            raise ValueError(f"expected a command of {', '.join(_NUMBERS)} in path data, got {tokens[at]} in {data!r}")
        numbers = [round(float(number) * unit) for _, number in tokens[at + 1 : at + 1 + _NUMBERS[command]]]
        yield command, list(zip(numbers[::2], numbers[1::2], strict=True))
        at += 1 + len(numbers)


def _joined(letter: str, numbers: list[str]) -> str:
    """A command as text; a blank separates numbers unless a sign does."""
    text = letter
    for number in numbers:
        blank = "" if text == letter != "" or number.startswith("-") else " "
        text += blank + number
    return text
