"""Scaling rules: the divisor of the scores q.k before the softmax, as a function of d_k and n_keys.

A rule is "unscaled" or a formula of numbers, d_k, n_keys and n_visible with + - * / ^, brackets and
`FUNCTIONS`. n_visible is the number of keys that a query sees: n_keys without a mask. An exponent
is a number or a fraction, negative or not. After "^" a fraction belongs to it: d_k^1/8 is the eighth
root of d_k, d_k/8 an eighth of it. It needs brackets after "**", because Python reads d_k**1/8 as an
eighth of d_k, and after a bracket such as (n_keys+1)^(1/2).

A product of short numbers and powers of `_CANONICAL` has one name, however it is spelled; the name of
any other rule is its text. Vaswani et al. (2017), section 3.2.1, divide by d_k^1/2; Yang et al. (2022,
"Tensor Programs V", muP) by d_k^1; rules with ln(n_keys) keep the entropy of long rows (Chiang and
Cholak 2022, section 5.3). The code of models multiplies instead, here by 1 over these rules:

    d_k^1/2/(0.1*ln(s)+1)^2     YaRN with the number s: `get_mscale` of Transformers'
                                `modeling_rope_utils` multiplies q and k
    d_k^1/2/(0.1*m*ln(s)+1)^2   DeepSeek-V3: `softmax_scale` of `inference/model.py`, with the numbers
                                m = `mscale`, s = `rope_factor`
    d_k^1/2/(0.1*ln(floor(n_visible/8192)+1)+1)
                                Llama 4 without rotation: `attn_scales` of Transformers'
                                `modeling_llama4`, whose position + 1 is n_visible under a causal mask
    d_k^1/2/max(1,ln(n_visible)/ln(2048))
                                Qwen with `seq_length` 2048: `logn_list` of `modeling_qwen.py`
"""

from __future__ import annotations

import ast
import math
import numbers
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property

from sdpa._names import did_you_mean

UNSCALED, SCALED = "unscaled", "d_k^1/2"  # the two rules that all compare, by name
SIZES = ("d_k", "n_keys", "n_visible")
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
FUNCTIONS: dict[str, Callable[..., float]] = {
    "ln": math.log,
    "sqrt": math.sqrt,
    "floor": math.floor,
    "ceil": math.ceil,
    "max": max,
    "min": min,
}
_OF_TWO = ("max", "min")
# The factors of rules with a canonical name, in its order.
_CANONICAL = ("d_k", "n_keys", "ln(n_keys)", "n_visible", "ln(n_visible)")
# After a bracket, as in (0.1*ln(40)+1)^2/8, a fraction may be meant as an exponent or not; a canonical
# name tells.
_UNCLEAR = re.compile(r"\)\s*\^\s*-?\s*\d+\s*/\s*\d")
_MAX_LENGTH = 200
_MAX_EXPONENT = 10
_MAX_NUMBER = 10**8  # limit of numerators and denominators in a canonical name
_EXPECTED = (
    f"expected 'unscaled' or a formula of numbers, {', '.join(SIZES)}, {', '.join(FUNCTIONS)}, "
    "+ - * / ^ and brackets, such as 'd_k^1/2' or 'd_k^1/2/ln(n_keys)' (at most "
    f"{_MAX_LENGTH} characters, exponents within ±{_MAX_EXPONENT})"
)


@dataclass(frozen=True)
class Scaling:
    """divisor = constant * product of factor^power, with rational powers; the empty product is
    called `unscaled`.

    Attributes:
        constant: above 0.
        powers: pairs of a factor and its power, in the order of `_CANONICAL`, others after them;
            none 0. A factor is a formula in Python's spelling.
        text: the name of a rule that has no canonical name.

    >>> Scaling.parse("sqrt(d_k)")
    Scaling.parse('d_k^1/2')
    >>> Scaling.parse("d_k^1/2").divisor(d_k=64, n_keys=10)
    8.0
    >>> Scaling.parse("sqrt(d_k) / (1 + floor(n_keys/4))").divisor(d_k=64, n_keys=10)
    2.6666666666666665
    >>> Scaling.parse("1").name
    'unscaled'
    """

    constant: Fraction = Fraction(1)
    powers: tuple[tuple[str, Fraction], ...] = ()
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> Scaling:
        """The rule of that text; ValueError for another text, or a negative power of d_k, which
        multiplies scores.
        """
        if not isinstance(text, str):
            raise TypeError(f"expected the text of a rule, such as 'd_k^1/2' or '8', got {text!r}")
        try:
            return _divisor_rule(text)
        except _RefusedError as refused:
            raise ValueError(f"{refused.expected}, got {text!r}{refused.hint}") from None

    @cached_property
    def name(self) -> str:
        """The text, or the canonical name: the constant, other multipliers, divisors; exponents in
        lowest terms.

        >>> Scaling.parse("sqrt(d_k)/(0.43*ln(n_keys))").name
        'd_k^1/2/0.43/ln(n_keys)'
        """
        if self.text:
            return self.text
        above = [_power(factor, power) for factor, power in self.powers if power > 0]
        below = [_power(factor, -power) for factor, power in self.powers if power < 0]
        number = _number(self.constant)
        # A number below a power with a whole exponent would be the denominator of that exponent, as
        # in d_k^1/3.
        is_safe = above and ("/" in above[-1] or above[-1].endswith(")"))
        if is_safe and number.startswith("1/"):
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

        ValueError unless finite and above 0, as 1/ln(n_keys) of a single key.
        """
        seen = n_keys if n_visible is None else n_visible
        sizes = {"d_k": d_k, "n_keys": n_keys, "n_visible": seen}
        try:
            divisor = float(self.constant)
            for factor, power in self.powers:
                base = _function(factor)(sizes)
                is_defined = base > 0 or (base == 0 and power > 0)
                divisor *= math.pow(base, power) if is_defined else math.inf
        except (ValueError, ArithmeticError):  # as ln(0) and 1/0
            divisor = math.nan
        if not 0 < divisor < math.inf:
            shown = f"d_k={d_k}, n_keys={n_keys}" + (
                f", n_visible={n_visible}" if self.is_by_row else ""
            )
            raise ValueError(
                f"{self.name}: expected a finite divisor above 0, got {divisor} for {shown}"
            )
        return divisor

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Scaling.parse({self.name!r})"


@cache
def _function(factor: str) -> Callable[[Mapping[str, float]], float]:
    """The value of a factor as a function of `SIZES`."""
    return _compiled(ast.parse(factor, mode="eval").body)


def _compiled(node: ast.expr) -> Callable[[Mapping[str, float]], float]:
    """The value of a formula as a function of `SIZES`; `_RefusedError` for any other expression."""
    match node:
        case ast.Constant():
            number = float(_rational(node))
            return lambda _: number
        case ast.Name(name) if name in SIZES:
            return operator.itemgetter(name)
        case ast.Call(ast.Name(name), given, []) if name in FUNCTIONS:
            if len(given) != (2 if name in _OF_TWO else 1):
                raise _RefusedError
            inner = [_compiled(argument) for argument in given]
            return lambda sizes: FUNCTIONS[name](*(value(sizes) for value in inner))
        case ast.BinOp(left, ast.Pow(), right):
            base, power = _compiled(left), _rational(right)
            return lambda sizes: math.pow(base(sizes), power)
        case ast.BinOp(left, sign, right) if type(sign) in _OPERATORS:
            combine, first, second = _OPERATORS[type(sign)], _compiled(left), _compiled(right)
            return lambda sizes: combine(first(sizes), second(sizes))
    raise _RefusedError


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
    """The rule of a text; `_RefusedError` if it is no formula, or has a negative power of d_k."""
    if len(text) > _MAX_LENGTH:  # also limits the depth of brackets
        raise _RefusedError
    if text.strip() == "unscaled":
        return Scaling()
    # In Python's grammar a fraction after "^" needs the brackets that a fraction after "**" has.
    source = re.sub(r"\^\s*(-?\s*\d+\s*/\s*\d+)(?![\d.])", r"**(\1)", text.strip())
    if re.search(r"(\^|\*\*)\s*-?\s*\d+\s*/\s*[\d.]", source):
        raise _RefusedError("; put the exponent in brackets")
    try:
        rule = _product(ast.parse(source.replace("^", "**"), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, MemoryError, RecursionError):
        raise _RefusedError from None
    if rule.power_of("d_k") < 0:
        expected = "expected no negative power of d_k, because the rule divides the scores"
        meant = _named(_raised(rule, Fraction(-1)), f"1/({text})")
        raise _RefusedError(did_you_mean(meant.name), expected)
    if any(abs(power) > _MAX_EXPONENT for _, power in rule.powers):
        raise _RefusedError
    named = _named(rule, text)
    if named.text and _UNCLEAR.search(text):
        raise _RefusedError("; put the exponent in brackets")
    return named


def _named(rule: Scaling, text: str) -> Scaling:
    """The rule with a text as its name, unless it has a canonical name."""
    denominators = (power.denominator for _, power in rule.powers)
    sizes = [*rule.constant.as_integer_ratio(), *denominators]
    is_canonical = all(factor in _CANONICAL for factor, _ in rule.powers)
    if is_canonical and max(sizes) <= _MAX_NUMBER:
        return rule
    return replace(rule, text=" ".join(text.split()))


def _product(node: ast.expr) -> Scaling:
    """The rule of a formula, which may have a negative power of d_k, and has no text."""
    match node:
        case ast.Constant():
            if number := _rational(node):
                return Scaling(number)
            raise _RefusedError
        case ast.BinOp(left, ast.Mult(), right):
            return _times(_product(left), _product(right))
        case ast.BinOp(left, ast.Div(), right):
            return _times(_product(left), _raised(_product(right), Fraction(-1)))
        case ast.BinOp(base, ast.Pow(), exponent):
            return _raised(_product(base), _rational(exponent))
        case ast.Call(ast.Name("sqrt"), [inner], []):
            return _raised(_product(inner), Fraction(1, 2))
    _compiled(node)
    return Scaling(powers=((ast.unparse(node), Fraction(1)),))


def _rational(node: ast.expr) -> Fraction:
    """A number, with a sign or as a fraction; a float such as 0.3333333333333333 is the fraction
    that rounds to it.
    """
    match node:
        case ast.UnaryOp(ast.USub(), number):
            return -_rational(number)
        case ast.BinOp(above, ast.Div(), below):
            return _rational(above) / _rational(below)
        case ast.Constant(value):
            exact = Fraction(repr(value))  # ValueError for what is no number
            near = exact.limit_denominator(_MAX_NUMBER)
            return near if float(near) == float(exact) else exact
    raise _RefusedError


def _times(left: Scaling, right: Scaling) -> Scaling:
    """left * right."""
    factors = (factor for factor, _ in (*left.powers, *right.powers))
    names = dict.fromkeys([*_CANONICAL, *factors])
    powers = [(factor, left.power_of(factor) + right.power_of(factor)) for factor in names]
    kept = tuple((factor, power) for factor, power in powers if power)
    return Scaling(left.constant * right.constant, kept)


def _raised(rule: Scaling, power: Fraction) -> Scaling:
    """rule^power; a number under a root becomes a factor."""
    if abs(power) > _MAX_EXPONENT:
        raise _RefusedError
    constant, powers = rule.constant, rule.powers
    if constant != 1 and power.denominator > 1:
        constant, powers = Fraction(1), (*powers, (str(constant), Fraction(1)))
    raised = tuple((factor, power * before) for factor, before in powers if power)
    return Scaling(constant**power.numerator, raised)


Rule = Scaling | str | float  # a rule, its name, or the divisor itself


def resolve_divisor(scaling: Rule, d_k: float, n_keys: float, mask: object = None) -> float:
    """The divisor of a rule, of the text of a rule, or a number itself; ValueError or TypeError for
    anything else.

    Also ValueError for n_visible beside a mask, where rows have divisors of their own.

    >>> resolve_divisor("d_k^1/2", d_k=16, n_keys=3), resolve_divisor(2, d_k=16, n_keys=3)
    (4.0, 2.0)
    """
    if isinstance(scaling, str):
        scaling = Scaling.parse(scaling)
    if isinstance(scaling, Scaling):
        is_full = mask is None or (isinstance(mask, str) and mask == "none")
        if scaling.is_by_row and not is_full:
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
    return divisor


def multiplies(divisor: float) -> str:
    """The effect of a divisor below 1 in words, for a user who meant a factor; empty for others.

    >>> multiplies(0.125), multiplies(8.0)
    ('divisor 0.125 multiplies scores by 8', '')
    """
    return f"divisor {divisor:.4g} multiplies scores by {1 / divisor:.4g}" if divisor < 1 else ""


def _shown(value: object) -> str:
    """A value on one line of at most 80 characters."""
    text = str(value) if isinstance(value, numbers.Real) else repr(value)
    return " ".join(text.split())[:80]
