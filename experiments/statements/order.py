"""The order of statements in lists: by severity, and of one severity the largest errors first."""

import re

from experiments.statements.answer import parse_claimed
from experiments.statements.verdicts import rank

TESTS = re.compile(r"(?:^|; )(yes|no): ")


def position(verdict: str, severity: str, claimed: str, computed: str) -> tuple[int, float]:
    """The sort key of a statement, from the columns of its row: its rank, then its error, the largest first.

    >>> rounded = position("wrong", "slip", "0.9999", "0.99963")
    >>> position("wrong", "wrong number", "22", "20.8") < position("wrong", "wrong number", "0.41", "0.4") < rounded
    True
    """
    return rank(verdict, severity), -size_of_error(claimed, computed)


def size_of_error(claimed: str, computed: str) -> float:
    """The largest relative error of the claimed numbers, or the share of failed tests; 0 without either.

    An error is relative to the claimed number, or to the unit of its last digit if the number is smaller.

    Args:
        claimed: numbers with blanks between them, as the source prints them.
        computed: the correct numbers, or tests.

    >>> size_of_error("200 0.00", "150 1e-17"), size_of_error("", "yes: here; no: there"), size_of_error("", "")
    (0.25, 0.5, 0.0)
    """
    if claimed:
        pairs = zip(parse_claimed(claimed), map(float, computed.split()), strict=True)
        return max(abs(number.value - right) / max(abs(number.value), number.unit) for number, right in pairs)
    results = TESTS.findall(computed)
    return results.count("no") / len(results) if results else 0.0


def like_claimed(claimed: str, computed: str) -> list[str]:
    """Computed numbers with the digits of the claimed ones, and with one more, if there is one, where these differ.

    A number that these digits show as 0 has two digits.

    >>> like_claimed("0.27 0.30 0.2 2", "0.2747 0.2747 0.35 5")
    ['0.27', '0.275', '0.35', '5']
    >>> like_claimed("200 0.005 9.8197e-01", "22.6274 4.53958e-05 0.98197")
    ['22.6', '0.000045', '0.98197']
    """
    return [_digits(*pair) for pair in zip(claimed.split(), computed.split(), strict=True)]


def _digits(claimed: str, computed: str) -> str:
    """One computed number, as `like_claimed` shows it."""
    (number,), right = parse_claimed(claimed), float(computed)
    places = _decimals(claimed)
    if abs(number.value - round(right, places)) > number.unit / 2:
        places = max(places, min(places + 1, _decimals(computed)))
    text = f"{right:z.{places}f}"
    return text if float(text) or not right else _plain(f"{right:.2g}")


def _decimals(text: str) -> int:
    """The number of decimals of a printed number, without a power of ten."""
    digits, _, power = text.partition("e")
    return max(0, len(digits.partition(".")[2]) - int(power or 0))


def _plain(text: str) -> str:
    """A small number without a power of ten, unless it has more than eight decimals."""
    value, power = float(text), int(f"{float(text):e}".partition("e")[2])
    return f"{value:.{1 - power}f}" if power >= -7 else text
