"""Scaling rules: by what the scores q.k are divided before the softmax, as a function of d_k and n_keys."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction

_POWER = re.compile(r"d_k\^(?P<exponent>-?\d{1,9}(?:\.\d{1,9})?(?:/\d{1,9})?)")
_LARGEST_EXPONENT = 10


@dataclass(frozen=True)
class Scaling:
    """divisor = d_k^p, with a rational exponent p; p = 0 is the rule called `unscaled`.

    Vaswani et al. (2017), section 3.2.1, take p = 1/2.

    >>> Scaling.parse("d_k^2/4")
    Scaling.parse('d_k^1/2')
    >>> Scaling.parse("d_k^1/2").divisor(d_k=64, n_keys=10)
    8.0
    >>> Scaling.parse("d_k^0").name
    'unscaled'
    """

    exponent: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", Fraction(self.exponent))

    @classmethod
    def parse(cls, text: str) -> "Scaling":
        """Read `unscaled` or `d_k^P` with P an integer, a fraction or a decimal; ValueError for anything else."""
        if text == "unscaled":
            return cls(Fraction(0))
        expected = f"expected 'unscaled' or a power such as 'd_k^1/2' (exponent within ±{_LARGEST_EXPONENT})"
        match = _POWER.fullmatch(text)
        if match is None:
            raise ValueError(f"{expected}, got {text!r}")
        numerator, _, denominator = match["exponent"].partition("/")
        if denominator and int(denominator) == 0:
            raise ValueError(f"{expected}, got {text!r}: its denominator is 0")
        exponent = Fraction(numerator) / Fraction(denominator or 1)
        if abs(exponent) > _LARGEST_EXPONENT:
            raise ValueError(f"{expected}, got {text!r}")
        return cls(exponent)

    @property
    def name(self) -> str:
        """The one spelling of the rule: `unscaled`, or `d_k^` and the exponent in lowest terms."""
        return f"d_k^{self.exponent}" if self.exponent else "unscaled"

    def divisor(self, d_k: int, n_keys: int) -> float:
        """What the scores of queries and keys of width d_k, n_keys of them, are divided by (no unit)."""
        del n_keys  # the powers of d_k do not look at it; rules that know the length will
        return math.pow(d_k, self.exponent)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Scaling.parse({self.name!r})"


def resolve_divisor(scaling: Scaling | str | float, d_k: int, n_keys: int) -> float:
    """The divisor that a rule, the name of a rule, or a plain number stands for.

    Raises:
        ValueError: the name does not parse, or the number is not finite and above 0.

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
