"""Scaling rules: the divisor of the scores q.k before the softmax, as a function of d_k and n_keys.

A rule is a product of numbers and of powers of factors. Vaswani et al. (2017), section 3.2.1, divide by d_k^1/2; Yang
et al. (2022, "Tensor Programs V", muP) by d_k^1; rules with ln(n_keys) keep the entropy of long rows (Chiang and Cholak
2022, section 5.3).
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

# The factors of a divisor, as functions of the width d_k and the number of keys n_keys.
FACTORS: dict[str, Callable[[int, int], float]] = {
    "d_k": lambda d_k, _: d_k,
    "n_keys": lambda _, n_keys: n_keys,
    "ln(n_keys)": lambda _, n_keys: math.log(n_keys),
}
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_TERM = re.compile(
    rf"(?P<operator>[*/]?)(?:(?P<number>{_NUMBER})|(?P<factor>{'|'.join(map(re.escape, FACTORS))})"
    rf"(?:\^(?P<exponent>-?{_NUMBER}(?:/\d{{1,9}})?))?)"
)
_MAX_EXPONENT = 10
_MAX_NUMBER = 10**8  # limit of numerators and denominators, so that every name parses again
_EXPECTED = (
    "expected 'unscaled' or a product of numbers and powers of "
    f"{', '.join(FACTORS)}, such as 'd_k^1/2' or 'd_k^1/2/ln(n_keys)' (exponents within ±{_MAX_EXPONENT})"
)


@dataclass(frozen=True)
class Scaling:
    """divisor = constant * product of factor^power, with rational powers; the empty product is called `unscaled`.

    Attributes:
        constant: above 0.
        powers: pairs of a factor's name and its power, in the order of `FACTORS`, none 0.

    >>> Scaling.parse("d_k^2/4")
    Scaling.parse('d_k^1/2')
    >>> Scaling.parse("d_k^1/2").divisor(d_k=64, n_keys=10)
    8.0
    >>> Scaling.parse("d_k^1/2/ln(n_keys)").divisor(d_k=64, n_keys=10) == 8 / math.log(10)
    True
    >>> Scaling.parse("d_k^0").name
    'unscaled'
    """

    constant: Fraction = Fraction(1)
    powers: tuple[tuple[str, Fraction], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Scaling":
        """Read `unscaled` or a product; ValueError for anything else.

        The exponent of a power is an integer, a decimal or a fraction: `d_k^1/8` is the eighth root of d_k, `d_k/8` an
        eighth of it.
        """
        constant, powers = Fraction(1), dict.fromkeys(FACTORS, Fraction(0))
        for sign, factor, value in _terms(text):
            if factor is None:
                constant *= value**sign
            else:
                powers[factor] += sign * value
        numbers = [*constant.as_integer_ratio(), *(power.denominator for power in powers.values())]
        if max(numbers) > _MAX_NUMBER or any(abs(power) > _MAX_EXPONENT for power in powers.values()):
            raise ValueError(f"{_EXPECTED}, got {text!r}")
        return cls(constant, tuple((factor, power) for factor, power in powers.items() if power))

    @property
    def name(self) -> str:
        """The canonical name: the constant, other multipliers, divisors; exponents in lowest terms."""
        above = [_power(factor, power) for factor, power in self.powers if power > 0]
        below = [_power(factor, -power) for factor, power in self.powers if power < 0]
        if self.constant != 1 or (below and not above):
            # In front, because a number after a power would be the denominator of its exponent: d_k^1/3.
            above.insert(0, _number(self.constant))
        return "/".join(["*".join(above), *below]) or "unscaled"

    @property
    def exponent(self) -> Fraction | None:
        """p, if the divisor is d_k^p; None for any other rule."""
        other = self.constant != 1 or any(factor != "d_k" for factor, _ in self.powers)
        return None if other else self.power_of("d_k")

    def power_of(self, factor: str) -> Fraction:
        """The power of a factor in the divisor; 0 if it is absent."""
        return dict(self.powers).get(factor, Fraction(0))

    def divisor(self, d_k: int, n_keys: int) -> float:
        """The divisor of the scores for queries and n_keys keys of width d_k (no unit).

        Raises:
            ValueError: the divisor is not finite and above 0, such as 1/ln(n_keys) for a single key.
        """
        divisor = float(self.constant)
        for factor, power in self.powers:
            base = FACTORS[factor](d_k, n_keys)
            divisor *= math.pow(base, power) if base > 0 or power > 0 else math.inf
        if not 0 < divisor < math.inf:
            raise ValueError(
                f"{self.name}: expected a finite divisor above 0, got {divisor} for d_k={d_k}, n_keys={n_keys}"
            )
        return divisor

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Scaling.parse({self.name!r})"


def _number(value: Fraction) -> str:
    """A number as a decimal or as a quotient: 2, 0.125, 1/0.43, 2/3."""
    if decimal := _decimal(value):
        return decimal
    inverse = _decimal(1 / value)
    return f"1/{inverse}" if inverse else f"{value.numerator}/{value.denominator}"


def _decimal(value: Fraction) -> str:
    """The decimal form of a number; empty if it needs more than nine places."""
    text = f"{float(value):.9f}".rstrip("0").rstrip(".")
    return text if Fraction(text) == value else ""


def _power(factor: str, power: Fraction) -> str:
    return factor if factor.endswith(")") and power == 1 else f"{factor}^{power}"


def _terms(text: str) -> Iterator[tuple[int, str | None, Fraction]]:
    """The terms of a product: 1 if it multiplies, -1 if it divides; a factor and its power, or None and a number."""
    place = 0
    while text != "unscaled" and (place < len(text) or not text):
        match = _TERM.match(text, place)
        value = match and _fraction(match["number"] or match["exponent"] or "1")
        if match is None or value is None or bool(match["operator"]) != (place > 0) or (match["number"] and not value):
            raise ValueError(f"{_EXPECTED}, got {text!r}")
        yield -1 if match["operator"] == "/" else 1, match["factor"], value
        place = match.end()


def _fraction(text: str) -> Fraction | None:
    """A number or fraction; None if its denominator is 0."""
    numerator, _, denominator = text.partition("/")
    if denominator and int(denominator) == 0:
        return None
    return Fraction(numerator) / Fraction(denominator or 1)


def resolve_divisor(scaling: Scaling | str | float, d_k: int, n_keys: int) -> float:
    """The divisor of a rule, of the name of a rule, or a plain number itself.

    Raises:
        ValueError: the name is not a rule, or the number is not finite and above 0.

    >>> resolve_divisor("d_k^1/2", d_k=16, n_keys=3), resolve_divisor(2, d_k=16, n_keys=3)
    (4.0, 2.0)
    """
    if isinstance(scaling, str):
        scaling = Scaling.parse(scaling)
    if isinstance(scaling, Scaling):
        return scaling.divisor(d_k, n_keys)
    divisor = float(scaling)
    if not (math.isfinite(divisor) and divisor > 0):
        raise ValueError(f"expected a divisor that is finite and above 0, got {scaling!r}")
    return divisor
