"""Numbers for the page, with as many digits as their errors justify.

An error has two digits here, and a value the same decimals. Captions are shorter: there a value ends at the first digit
of its error (`experiments.figures.caption_text.number`).
"""

import math

import pandas as pd

from experiments.figures.caption_text import number, standard_error

_SMALLEST_PLAIN = 1e-4  # smaller numbers get a power of ten


def with_error(row: pd.Series, metric: str) -> str:
    """A metric of a row and its standard error.

    >>> with_error(pd.Series({"entropy": 2.71828, "entropy_se": 0.0123}), "entropy")
    '2.718 ± 0.012'
    """
    error = standard_error(row, metric)
    places = _places(error)
    return f"{row[metric]:.{places}f} ± {error:.{places}f}"


def like_measured(row: pd.Series, metric: str) -> str:
    """The exact value of a metric with the decimals of its measured value; a dash if it is unknown.

    >>> like_measured(pd.Series({"entropy_se": 0.0123, "entropy_exact": 2.71}), "entropy")
    '2.710'
    """
    if f"{metric}_exact" not in row:
        return "–"
    return f"{row[f'{metric}_exact']:.{_places(standard_error(row, metric))}f}"


def plus_minus(value: float, half: float) -> str:
    """A value and half its interval; the value alone if the interval is empty or unknown.

    >>> plus_minus(511.8123, 0.3147), plus_minus(1.5e-6, 2e-8), plus_minus(0.25, 0.0), plus_minus(-0.1, math.nan)
    ('511.81 ± 0.31', '(1.500 ± 0.020) × 10^−6', '0.2500', '−0.1000')
    """
    if not 0 < half < math.inf:
        return number(value)
    power = _power(value, half)
    scaled, error = value / 10**power, half / 10**power
    places = _places(error)
    text = f"{scaled:z.{places}f} ± {error:.{places}f}"
    return minus(f"({text}) × 10^{power}" if power else text)


def interval(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A value, the lower and the upper end of its interval, with the same decimals.

    >>> interval(0.9996, 0.9990, 1.0002)
    ('0.99960', '0.99900', '1.00020')
    """
    places = _places((high - low) / 2)
    middle, lower, upper = (minus(f"{end:z.{places}f}") for end in (value, low, high))
    return middle, lower, upper


def exact_text(value: float, half: float) -> str:
    """An exact value with the decimals of its measured value; a whole number without decimals.

    >>> exact_text(0.9274812, 0.0004), exact_text(512.0, 0.31), exact_text(2 / 3, 0.0)
    ('0.92748', '512', '0.6667')
    """
    if not 0 < half < math.inf:
        return number(value)
    text = f"{value:z.{_places(half)}f}" if abs(value) >= _SMALLEST_PLAIN or value == 0 else f"{value:.4g}"
    return minus(f"{float(text):.0f}" if float(text).is_integer() else text)


def minus(text: str) -> str:
    """The text of a number with a typographic minus sign."""
    return text.replace("-", "−")


def _power(value: float, half: float) -> int:
    """The power of ten of a number's text: 0 except for small numbers."""
    size = max(abs(value), half)
    return 0 if size >= _SMALLEST_PLAIN else math.floor(math.log10(size))


def _places(error: float) -> int:
    """Decimal places that show two digits of an error."""
    return max(0, 1 - math.floor(math.log10(error)))
