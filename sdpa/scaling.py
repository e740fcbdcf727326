"""Scaling rules: the divisor of the scores q.k before the softmax, as a function of d_k and n_keys.

A rule is a product of numbers and of powers of factors. Vaswani et al. (2017), section 3.2.1,
divide by d_k^1/2; Yang et al. (2022, "Tensor Programs V", muP) by d_k^1; rules with ln(n_keys) keep
the entropy of long rows (Chiang and Cholak 2022, section 5.3).

The grammar of a rule, with spaces between any two parts:

    rule      "unscaled" or product
    product   power, then any number of: "*" or "/", power
    power     part, or part "^" exponent, or part "**" exponent
    part      number, factor, "(" product ")", or "sqrt(" product ")"
    factor    a name of `FACTORS`, or "(" number "+" number "*" "ln(" n "/" number ")" ")", n = n_keys or n_visible
    exponent  whole number, decimal, or fraction of whole numbers, negative or not, in brackets or not

n_visible is the number of keys that a query sees: n_keys without a mask. YaRN (Peng et al. 2023)
multiplies scores by (1 + 0.1 ln(n / c))^2 beyond the trained length c.

After "^" a fraction belongs to the exponent: d_k^1/8 is the eighth root of d_k, d_k/8 an eighth of
it. After "**" a fraction needs brackets, because Python reads d_k**1/8 as an eighth of d_k.
"""

from __future__ import annotations

import ast
import math
import numbers
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from sdpa._names import did_you_mean, nearest

# The factors of a divisor, as functions of the width d_k and the numbers of all and of visible
# keys.
FACTORS: dict[str, Callable[[float, float, float], float]] = {
    "d_k": lambda d_k, *_: d_k,
    "n_keys": lambda _, n_keys, __: n_keys,
    "ln(n_keys)": lambda _, n_keys, __: math.log(n_keys),
    "n_visible": lambda *sizes: sizes[2],
    "ln(n_visible)": lambda *sizes: math.log(sizes[2]),
}
# Their names as `ast` writes them: ln(1 + n_keys) for ln(1+n_keys).
_SPELLED = {ast.unparse(ast.parse(name)): name for name in FACTORS}
_AFFINE = re.compile(
    r"\((?P<a>[\d.]+)\+(?P<b>[\d.]+)\*ln\((?P<n>n_keys|n_visible)/(?P<c>[\d.]+)\)\)"
)
_NUMBER = re.compile(r"([0-9]+(\.[0-9]+)?|\.[0-9]+)([eE][-+]?[0-9]{1,2})?")
_MAX_LENGTH = 200
_MAX_EXPONENT = 10
_MAX_NUMBER = 10**8  # limit of numerators and denominators, so that every name parses again
_EXPECTED = (
    f"expected 'unscaled' or a product of numbers and powers of {', '.join(FACTORS)}, such as "
    f"'d_k^1/2' or 'd_k^1/2/ln(n_keys)' (exponents within ±{_MAX_EXPONENT}, numbers of at most 8 "
    "digits)"
)
# Words and names that people use instead of those of the grammar.
_WORDS = dict.fromkeys(("none", "no", "off", "null", "false", "raw"), "unscaled")
_WORDS |= dict.fromkeys(
    ("sqrt", "root", "scaled", "default", "standard", "yes", "on", "true"), "d_k^1/2"
)
_NAMES = {"d": "d_k", "dk": "d_k", "head_dim": "d_k", "n": "n_keys", "log": "ln"}


@dataclass(frozen=True)
class Scaling:
    """divisor = constant * product of factor^power, with rational powers; the empty product is
    called `unscaled`.

    Attributes:
        constant: above 0.
        powers: pairs of a factor's name and its power, in the order of `FACTORS`, others after
            them; none 0.

    >>> Scaling.parse("sqrt(d_k)")
    Scaling.parse('d_k^1/2')
    >>> Scaling.parse("d_k^1/2").divisor(d_k=64, n_keys=10)
    8.0
    >>> Scaling.parse("d_k^1/2/ln(n_keys)").divisor(d_k=64, n_keys=10) == 8 / math.log(10)
    True
    >>> Scaling.parse("1").name
    'unscaled'
    """

    constant: Fraction = Fraction(1)
    powers: tuple[tuple[str, Fraction], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Scaling:
        """The rule of that text; ValueError for another text, or a negative power of d_k, which
        multiplies scores.
        """
        try:
            rule = _divisor_rule(text)
        except _RefusedError as refused:
            raise ValueError(
                f"{refused.expected}, got {text!r}{refused.hint or _nearest(text)}"
            ) from None
        return cls(rule.constant, rule.powers)

    @property
    def name(self) -> str:
        """The canonical name: the constant, other multipliers, divisors; exponents in lowest terms.

        >>> Scaling.parse("sqrt(d_k)/(0.43*ln(n_keys))").name
        'd_k^1/2/0.43/ln(n_keys)'
        """
        above = [_power(factor, power) for factor, power in self.powers if power > 0]
        below = [_power(factor, -power) for factor, power in self.powers if power < 0]
        number = _number(self.constant)
        # A number below a power with a whole exponent would be the denominator of that exponent, as
        # in d_k^1/3.
        if number.startswith("1/") and above and ("/" in above[-1] or above[-1].endswith(")")):
            below.insert(0, number.removeprefix("1/"))
        elif self.constant != 1 or (below and not above):
            above.insert(0, number)
        return "/".join(["*".join(above), *below]) or "unscaled"

    @property
    def exponent(self) -> Fraction | None:
        """p, if the divisor is d_k^p; None for any other rule."""
        other = self.constant != 1 or any(factor != "d_k" for factor, _ in self.powers)
        return None if other else self.power_of("d_k")

    def power_of(self, factor: str) -> Fraction:
        """The power of a factor in the divisor; 0 if it is absent."""
        return dict(self.powers).get(factor, Fraction(0))

    @property
    def is_by_row(self) -> bool:
        """True for a rule with n_visible, whose divisor differs between the rows under a mask."""
        return any("n_visible" in factor for factor, _ in self.powers)

    def divisor(self, d_k: float, n_keys: float, n_visible: float | None = None) -> float:
        """The divisor for keys of width d_k, of which a row sees n_visible, by default all.

        ValueError unless finite and above 0, as 1/ln(n_keys) of a single key, and for the number
        1/sqrt(d_k).
        """
        divisor = float(self.constant)
        for factor, power in self.powers:
            base = _function(factor)(d_k, n_keys, n_keys if n_visible is None else n_visible)
            divisor *= math.pow(base, power) if base > 0 or (base == 0 and power > 0) else math.inf
        if not 0 < divisor < math.inf:
            sizes = f"d_k={d_k}, n_keys={n_keys}" + (
                f", n_visible={n_visible}" if self.is_by_row else ""
            )
            raise ValueError(
                f"{self.name}: expected a finite divisor above 0, got {divisor} for {sizes}"
            )
        if not self.powers:
            refuse_multiplier(self.name, divisor, d_k)
        return divisor

    def inverse(self) -> Scaling:
        """The rule with the reciprocal divisor."""
        return Scaling(1 / self.constant, tuple((factor, -power) for factor, power in self.powers))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Scaling.parse({self.name!r})"


def _function(factor: str) -> Callable[[float, float, float], float]:
    """The function of a factor: of `FACTORS`, or a + b ln(n / c)."""
    if factor in FACTORS:
        return FACTORS[factor]
    found = _AFFINE.fullmatch(factor)
    assert found, factor
    a, b, c = (float(found[name]) for name in "abc")
    return lambda *sizes: a + b * math.log(FACTORS[found["n"]](*sizes) / c)


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


class _RefusedError(Exception):
    """A text that is no rule: what was expected and, after a semicolon, a hint."""

    def __init__(self, hint: str = "", expected: str = _EXPECTED) -> None:
        super().__init__(expected, hint)
        self.expected, self.hint = expected, hint


def _divisor_rule(text: str) -> Scaling:
    """The rule of a text; `_RefusedError` if it is not in the grammar, or has a negative power of
    d_k.
    """
    if len(text) > _MAX_LENGTH:  # also limits the depth of brackets
        raise _RefusedError
    if text.strip() == "unscaled":
        return Scaling()
    # In Python's grammar a fraction after "^" needs the brackets that a fraction after "**" has.
    source = re.sub(r"\^\s*(-?\s*\d+\s*/\s*\d+)(?![\d.])", r"**(\1)", text.strip())
    if re.search(r"(\^|\*\*)\s*-?\s*\d+\s*/\s*[\d.]", source):
        raise _RefusedError("; put the exponent in brackets")
    source = source.replace("^", "**")
    try:
        rule = _product(ast.parse(source, mode="eval").body, source)
    except (SyntaxError, ValueError, ZeroDivisionError, MemoryError, RecursionError):
        raise _RefusedError from None
    if rule.power_of("d_k") < 0:
        expected = "expected no negative power of d_k, because the rule divides the scores"
        raise _RefusedError(did_you_mean(rule.inverse().name), expected)
    return rule


def _product(node: ast.expr, source: str) -> Scaling:
    """The rule of an expression, which may have a negative power of d_k."""
    match node:
        case ast.Constant():
            return _within_limits(_rational(node, source), {})
        case ast.BinOp(left, ast.Mult() | ast.Div() as operator, right):
            power = Fraction(-1 if isinstance(operator, ast.Div) else 1)
            return _times(_product(left, source), _product(right, source), power)
        case ast.BinOp(base, ast.Pow(), exponent):
            return _times(Scaling(), _product(base, source), _rational(exponent, source))
        case ast.Call(ast.Name("sqrt"), [inner], []):
            return _times(Scaling(), _product(inner, source), Fraction(1, 2))
        case ast.BinOp(
            a,
            ast.Add(),
            ast.BinOp(b, ast.Mult(), ast.Call(ast.Name("ln"), [ast.BinOp(n, ast.Div(), c)])),
        ):
            numbers = [_decimal(_rational(number, source)) for number in (a, b, c)]
            factor = "({}+{}*ln({}/{}))".format(*numbers[:2], ast.unparse(n), numbers[2])
            if _AFFINE.fullmatch(factor) and numbers[2] != "0":
                return Scaling(powers=((factor, Fraction(1)),))
        case ast.Name() | ast.Call() if (spelling := ast.unparse(node)) in _SPELLED:
            return Scaling(powers=((_SPELLED[spelling], Fraction(1)),))
    raise _RefusedError


def _rational(node: ast.expr, source: str) -> Fraction:
    """A number, with a sign or as a fraction; a float such as 0.3333333333333333 is the fraction
    that rounds to it.
    """
    match node:
        case ast.UnaryOp(ast.USub(), number):
            return -_rational(number, source)
        case ast.BinOp(above, ast.Div(), below):
            return _rational(above, source) / _rational(below, source)
        case ast.Constant():
            text = ast.get_source_segment(source, node) or ""
            if not _NUMBER.fullmatch(text):
                raise _RefusedError
            exact = Fraction(text)
            near = exact.limit_denominator(_MAX_NUMBER)
            return near if float(near) == float(exact) else exact
    raise _RefusedError


def _times(left: Scaling, right: Scaling, power: Fraction) -> Scaling:
    """left * right^power; `_RefusedError` beyond the limits, or if the power of the constant is no
    fraction.
    """
    if abs(power) > _MAX_EXPONENT:
        raise _RefusedError
    root = Fraction(
        *(_root(number, power.denominator) for number in right.constant.as_integer_ratio())
    )
    names = dict.fromkeys([*FACTORS, *(factor for factor, _ in (*left.powers, *right.powers))])
    powers = {factor: left.power_of(factor) + power * right.power_of(factor) for factor in names}
    return _within_limits(left.constant * root**power.numerator, powers)


def _root(number: int, degree: int) -> int:
    """The root of a whole number, if it is whole."""
    root = round(math.pow(number, 1 / degree))
    if number != 1 and (degree > 64 or root**degree != number):
        raise _RefusedError("; write the root of a number as a decimal")
    return root


def _within_limits(constant: Fraction, powers: Mapping[str, Fraction]) -> Scaling:
    sizes = [*constant.as_integer_ratio(), *(power.denominator for power in powers.values())]
    if (
        not constant
        or max(sizes) > _MAX_NUMBER
        or any(abs(power) > _MAX_EXPONENT for power in powers.values())
    ):
        raise _RefusedError
    return Scaling(constant, tuple((factor, power) for factor, power in powers.items() if power))


def _nearest(text: str) -> str:
    """The rule that a text with a wrong name may mean, as `; did you mean ...?`; empty if there is
    none.
    """
    meant = _WORDS.get(text.strip().lower(), _nearest_names(text[:_MAX_LENGTH]))
    if meant == text:
        return ""
    try:
        _divisor_rule(meant)
    except _RefusedError as refused:
        return refused.hint
    return did_you_mean(meant.strip())


def _nearest_names(text: str) -> str:
    """A text with the nearest names of the grammar in place of its own, if any are near."""
    known = [*re.findall(r"[^\W\d]\w*", " ".join(FACTORS)), "sqrt", "unscaled"]
    return re.sub(
        r"[^\W\d]\w*",
        lambda name: _NAMES.get(name[0].lower()) or nearest(name[0], known) or name[0],
        text,
        flags=re.ASCII,
    )


Rule = Scaling | str | float  # a rule, its name, or the divisor itself


def resolve_divisor(scaling: Rule, d_k: float, n_keys: float, mask: object = None) -> float:
    """The divisor of a rule, of the text of a rule, or a number itself; ValueError or TypeError for
    anything else.

    Also ValueError for n_visible beside a mask, where rows have divisors of their own, and for the
    number 1/sqrt(d_k).

    >>> resolve_divisor("d_k^1/2", d_k=16, n_keys=3), resolve_divisor(2, d_k=16, n_keys=3)
    (4.0, 2.0)
    """
    if isinstance(scaling, str):
        scaling = Scaling.parse(scaling)
    if isinstance(scaling, Scaling):
        if scaling.is_by_row and not (mask is None or (isinstance(mask, str) and mask == "none")):
            raise ValueError(
                f"{scaling}: expected no n_visible beside a mask; divide q by the divisor of each "
                "row"
            )
        return scaling.divisor(d_k, n_keys)
    if isinstance(scaling, bool) or not isinstance(scaling, numbers.Real):
        raise TypeError(
            "scaling: expected a rule such as 'd_k^1/2', or the number that the scores are "
            f"divided by, got {_shown(scaling)}; 'unscaled' divides by 1"
        )
    divisor = float(scaling)
    if not 0 < divisor < math.inf:
        raise ValueError(
            f"scaling: expected a divisor that is finite and above 0, got {_shown(scaling)}"
        )
    refuse_multiplier("scaling", divisor, d_k)
    return divisor


def refuse_multiplier(name: str, divisor: float, d_k: float) -> None:
    """ValueError for the number 1/sqrt(d_k), which multiplies scores elsewhere, as PyTorch's
    `scale`.
    """
    if d_k > 1 and math.isclose(divisor * math.sqrt(d_k), 1, rel_tol=1e-3):
        raise ValueError(
            f"{name}: got {divisor:g}, or 1/sqrt(d_k), but the scores are divided by it; pass "
            f"d_k^1/2"
        )


def _shown(value: object) -> str:
    """A value on one line of at most 80 characters."""
    return " ".join((str(value) if isinstance(value, numbers.Real) else repr(value)).split())[:80]
