"""Scaling rules: the divisor of the scores q.k before the softmax, as a function of d_k and n_keys.

A rule is "unscaled" or a formula of numbers, d_k and n_keys with + - * / ^, brackets and `FUNCTIONS`.
An exponent is a number or a fraction, negative or not. After "^" a fraction belongs to it: d_k^1/8 is
the eighth root of d_k, d_k/8 an eighth of it. It needs brackets after "**", because Python reads
d_k**1/8 as an eighth of d_k, and after a bracket such as (n_keys+1)^(1/2).

A power of d_k, a number of at most six digits, or a fraction has one name, however it is spelled; the
name of any other rule is its text.
Vaswani et al. (2017), section 3.2.1, divide by d_k^1/2; Yang et al. (2022,
"Tensor Programs V", muP) by d_k^1; rules with ln(n_keys) keep the entropy of long rows (Chiang and
Cholak 2022, section 5.3). The code of models multiplies instead, here by 1 over these rules:

    d_k^1/2/(0.1*ln(s)+1)^2     YaRN with the number s: `get_mscale` of Transformers'
                                `modeling_rope_utils` multiplies q and k
    d_k^1/2/(0.1*m*ln(s)+1)^2   DeepSeek-V3: `softmax_scale` of `inference/model.py`, with the numbers
                                m = `mscale`, s = `rope_factor`
    d_k^1/2/(0.1*ln(floor(n_keys/8192)+1)+1)
                                Llama 4 without rotation: `attn_scales` of Transformers'
                                `modeling_llama4`, whose position + 1 is n_keys for the last query
    d_k^1/2/max(1,ln(n_keys)/ln(2048))
                                Qwen with `seq_length` 2048: `logn_list` of `modeling_qwen.py`, likewise
"""

from __future__ import annotations

import ast
import math
import numbers
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

from sdpa._names import did_you_mean, nearest

UNSCALED, SCALED = "unscaled", "d_k^1/2"  # the two rules that all compare, by name
SIZES = ("d_k", "n_keys")
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
_TWO_ARGUMENTS = ("max", "min")
# What a function without its brackets, or a name of other programs, may mean.
_MEANT = {
    "ln": "ln(n_keys)",
    "log": "ln(n_keys)",
    "d": "d_k",
    "n": "n_keys",
    "none": UNSCALED,
    "sqrt": SCALED,
    "sqrt_dk": SCALED,
}
# A size or a function of one, "^" and a fraction, which Python's grammar wants in brackets.
_FRACTION = re.compile(r"(\w|\w\(\w+\))\s*\^\s*(-?\s*\d+\s*/\s*\d+)(?![\d.])")
# Any other fraction may be meant as an exponent or not, as in (0.1*ln(40)+1)^2/8 and d_k**1/2.
_UNCLEAR = re.compile(r"(\^|\*\*)\s*-?\s*\d+\s*/\s*[\d.]")
_MAX_LENGTH = 200  # also limits the depth of brackets
_MAX_EXPONENT = 10
_DIGITS = 6  # of a number as a name; one that needs more, such as 128^1/2, keeps its text
_MAX_DENOMINATOR = 1000  # of an exponent, or of a number, in a name
_EXPECTED = (
    f"expected 'unscaled' or a formula of numbers, {', '.join(SIZES)}, {', '.join(FUNCTIONS)}, "
    "+ - * / ^ and brackets, such as 'd_k^1/2' or 'd_k^1/2/ln(n_keys)' (at most "
    f"{_MAX_LENGTH} characters, exponents within ±{_MAX_EXPONENT})"
)
Formula = Callable[[float, float], float]  # of d_k and n_keys


@dataclass(frozen=True)
class Scaling:
    """A rule for the divisor of scores, by its name: a formula of d_k and n_keys.

    >>> Scaling.parse("sqrt(d_k)")
    Scaling.parse('d_k^1/2')
    >>> Scaling.parse("d_k^1/2").divisor(d_k=64, n_keys=10)
    8.0
    >>> Scaling.parse("sqrt(d_k) / (1 + floor(n_keys/4))").divisor(d_k=64, n_keys=10)
    2.6666666666666665
    >>> Scaling.parse("1").name
    'unscaled'
    """

    name: str

    @classmethod
    def parse(cls, text: str) -> Scaling:
        """The rule of that text; ValueError for another text, or a divisor that falls as d_k grows,
        which was meant as a factor.
        """
        if not isinstance(text, str):
            raise TypeError(f"expected the text of a rule, such as 'd_k^1/2' or '8', got {text!r}")
        try:
            return cls(_name(text.strip()))
        except _RefusedError as refused:
            raise ValueError(f"{refused.expected}, got {text!r}{refused.hint}") from None

    @cached_property
    def exponent(self) -> Fraction | None:
        """p, if the divisor is d_k^p; None for any other rule."""
        return _exponent(_tree(self.name))

    def divisor(self, d_k: float, n_keys: float) -> float:
        """The divisor for keys of width d_k in rows of n_keys.

        ValueError unless finite and above 0, as 1/ln(n_keys) of a single key.
        """
        divisor = _value(_formula(self.name), d_k, n_keys)
        if not 0 < divisor < math.inf:
            raise ValueError(
                f"{self.name}: expected a finite divisor above 0, got {divisor} for d_k={d_k}, "
                f"n_keys={n_keys}"
            )
        return divisor

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Scaling.parse({self.name!r})"


class _RefusedError(Exception):
    """A text that is no rule: what was expected and, after a semicolon, a hint."""

    def __init__(self, hint: str = "", expected: str = _EXPECTED) -> None:
        super().__init__(expected, hint)
        self.expected, self.hint = expected, hint


def _name(text: str) -> str:
    """The name of a text; `_RefusedError` if it is no rule."""
    tree = _tree(text)
    exponent = _exponent(tree)
    if exponent is not None:
        if exponent < 0:
            raise _multiplying(f"d_k^{-exponent}")
        return f"d_k^{exponent}" if exponent else UNSCALED
    formula = _compiled(tree)
    narrow, wide = (_value(formula, d_k, 64) for d_k in (64, 4096))
    if not _names(tree):
        if not 0 < narrow < math.inf:
            raise _RefusedError(expected="expected a finite divisor above 0")
        if float(f"{narrow:.{_DIGITS}g}") == narrow:
            return repr(narrow).removesuffix(".0")
        fraction = Fraction(narrow).limit_denominator(_MAX_DENOMINATOR)
        if float(fraction) == narrow:
            return str(fraction)
    elif wide < narrow:
        raise _multiplying(f"1/({text})")
    return "".join(text.split()).replace("**", "^")


def _multiplying(meant: str) -> _RefusedError:
    expected = "expected a divisor that does not fall as d_k grows"
    return _RefusedError(did_you_mean(meant), expected)


def _tree(text: str) -> ast.expr:
    """The expression of a text; `_RefusedError` if it has none."""
    if len(text) > _MAX_LENGTH or "#" in text:  # which begins a comment of Python
        raise _RefusedError
    source = _FRACTION.sub(r"\1**(\2)", "1" if text == UNSCALED else text)
    if _UNCLEAR.search(source):
        raise _RefusedError("; put the exponent in brackets")
    try:
        tree = ast.parse(source.replace("^", "**"), mode="eval").body
        _compiled(tree)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _RefusedError from None
    return tree


def _names(tree: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _exponent(tree: ast.expr) -> Fraction | None:
    """p, if a formula of d_k alone and smooth functions is d_k^p at three sizes; else None."""
    formula = _compiled(tree)
    value = _value(formula, 64, 64)
    if _names(tree) - {"d_k", "sqrt", "ln"} or not 0 < value < math.inf:
        return None
    p = Fraction(math.log(value, 64)).limit_denominator(_MAX_DENOMINATOR)
    is_power = (math.isclose(_value(formula, d_k, 64), d_k**p, rel_tol=1e-12) for d_k in (4, 97))
    return p if all(is_power) else None


@cache
def _formula(name: str) -> Formula:
    return _compiled(_tree(name))


def _value(formula: Formula, d_k: float, n_keys: float) -> float:
    """The value of a formula; NaN where it has none, as ln(0) and 1/0."""
    try:
        return formula(d_k, n_keys)
    except (ValueError, ArithmeticError):
        return math.nan


def _compiled(node: ast.expr) -> Formula:
    """The function of an expression; `_RefusedError` for any other expression."""
    match node:
        case ast.Constant() | ast.UnaryOp():
            number = _number(node)
            return lambda _d_k, _n_keys: number
        case ast.Name("d_k"):
            return lambda d_k, _n_keys: d_k
        case ast.Name("n_keys"):
            return lambda _d_k, n_keys: n_keys
        case ast.Call(ast.Name(name), given, []) if name in FUNCTIONS:
            if len(given) != (2 if name in _TWO_ARGUMENTS else 1):
                raise _RefusedError
            inner = [_compiled(argument) for argument in given]
            return lambda *sizes: FUNCTIONS[name](*(formula(*sizes) for formula in inner))
        case ast.BinOp(left, ast.Pow(), right) if abs(power := _number(right)) <= _MAX_EXPONENT:
            base = _compiled(left)
            return lambda *sizes: math.pow(base(*sizes), power)
        case ast.BinOp(left, sign, right) if type(sign) in _OPERATORS:
            combine, first, second = _OPERATORS[type(sign)], _compiled(left), _compiled(right)
            return lambda *sizes: combine(first(*sizes), second(*sizes))
        case ast.Name(name) | ast.Call(ast.Name(name)):
            others = {*SIZES, *FUNCTIONS} - {name}
            raise _RefusedError(did_you_mean(_MEANT.get(name) or nearest(name, others)))
    raise _RefusedError


def _number(node: ast.expr) -> float:
    """A number, with a sign or as a fraction."""
    match node:
        case ast.UnaryOp(ast.USub(), inner):
            return -_number(inner)
        case ast.BinOp(above, ast.Div(), ast.Constant(below)) if below:
            return _number(above) / _number(ast.Constant(below))
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            return float(value)
    raise _RefusedError


Rule = Scaling | str | float  # a rule, its name, or the divisor itself


def resolve_divisor(scaling: Rule, d_k: float, n_keys: float) -> float:
    """The divisor of a rule, of the text of a rule, or a number itself; ValueError or TypeError for
    anything else.

    >>> resolve_divisor("d_k^1/2", d_k=16, n_keys=3), resolve_divisor(2, d_k=16, n_keys=3)
    (4.0, 2.0)
    """
    if isinstance(scaling, str):
        scaling = Scaling.parse(scaling)
    if isinstance(scaling, Scaling):
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
