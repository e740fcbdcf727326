"""Words of figures: the axes of a table by name, and formulas as Matplotlib's mathtext.

Axes are the fields of a cell, such as d_k, n_keys and inputs. Captions, labels and names of rules
are plain text, such as `variance of a score, divided by d_k^1/2`, because files and the terminal show them too; `latex`
typesets them for a drawing.
"""

import re
from collections.abc import Callable, Sequence

import pandas as pd

from experiments.tables.results import SweepAxes
from sdpa.scaling import UNSCALED

LETTERS_PER_INCH = 12  # of ticks and titles, with a space between them
_FEW_VALUES = 3
# Values of axes in words, in the place of `axis = value`; the first that fits.
_PHRASES = (
    ("inputs = (.*)", r"\1 entries"),
    ("spectrum = 0", "equal variances"),
    ("spectrum = (.*)", r"variances falling with power \1"),
    ("normalize = none", "no QK-norm"),
    ("normalize = rms", "QK-norm"),
    ("normalize = l2", "q and k of length 1"),
    ("(mask|sink|mlp) = none", r"no \1"),
    ("position = none", "no RoPE"),
    ("position = rope", "RoPE"),
    ("(gain|mask) = (.*)", r"\2 \1"),
    ("softcap = 0", "no soft cap"),
    ("softcap = (.*)", r"soft cap \1"),
    ("sink = (.*)", r"sink of logit \1"),
    ("normalizer = (.*)", r"\1"),
    ("norm = (.*)", r"\1-norm"),
    ("residual = 0", "no residual stream"),
    ("residual = 1", "residual stream"),
    ("residual = (.*)", r"residual stream times \1"),
    ("initial = unit", "q and k start with variance 1"),
    ("initial.divisor = (d_k.*)", r"W_Q, W_K then over \1"),
    ("initial = small", "W_Q, W_K from N(0, 0.02²)"),
)
_FEW = 2  # axes that labels always name
_POWER = r"\([^()]+\)|[-−]?\d+(?:\.\d+)?(?:/\d+(?!\d|\.\d))?|[a-z]\b"
_ATOM = rf"""(?:
    sqrt\([^()]+\)
    | (?:ln\(n_keys\)|(?<![\w.])[A-Za-z](?:_[a-z]+)?)\^(?:{_POWER})
    | \|J\|_F
    | \|?dL/d[a-z]\b\|?
    | ln(?:[ ]n_keys|\(n_keys\))
    | (?<![\w.])[A-Za-zβσ]_(?:[A-Za-z]+|\d)\b
)"""
_FORMULA = re.compile(rf"(?:\b1/)?{_ATOM}(?:(?:/[\d.]+)?/{_ATOM})*", re.VERBOSE)
_GRADIENT = r"\bdL/d([a-z])\b", r"\\partial L/\\partial \1"
# In order: later ones see the results of earlier ones.
_TYPESET: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"ln(?: n_keys|\(n_keys\))", r"\\ln n_keys"),
    (r"sqrt\(([^()]+)\)", r"\\sqrt{\1}"),
    (rf"(\\ln n_keys|[A-Za-z](?:_[a-z]+)?)\^({_POWER})", lambda found: _power(*found.groups())),
    _GRADIENT,
    (r"/([\d.]+)/(.+)", r"/(\1\\thinspace \2)"),
    (r"([A-Za-zβσ])_([A-Za-z]{2,})", r"\1_\\mathrm{\2}"),
)


def values_of(row: pd.Series, names: Sequence[str]) -> str:
    """Axes of a row with their values, as a drawing names them.

    >>> values_of(pd.Series({"d_k": 4, "key_std": 0.5, "inputs": "student_t"}), ["d_k", "key_std", "inputs"])
    'd_k = 4, key std = 0.5, student t entries'
    """
    return ", ".join(_phrase(f"{spoken(name)} = {spoken(short(row[name]))}") for name in names)


def named(row: pd.Series, names: Sequence[str], axes: SweepAxes) -> list[str]:
    """Those axes that tell a row from others: sizes, and axes with an unusual value.

    >>> axes = SweepAxes({"d_k": None, "key_mean": 0.0, "key_std": 1.0})
    >>> named(pd.Series({"d_k": 7, "key_mean": 2.0, "key_std": 1.0}), [*axes.usual], axes)
    ['d_k', 'key_mean']
    """
    return [name for name in names if row[name] != axes.usual[name]]


def naming(row: pd.Series, names: Sequence[str], axes: SweepAxes) -> list[str]:
    """The axes that name a row in a label: all of few; of more, those that tell it from others."""
    return list(names) if len(names) <= _FEW else named(row, names, axes)


def _phrase(value: str) -> str:
    fitting = (
        found.expand(said) for form, said in _PHRASES if (found := re.fullmatch(form, value))
    )
    return next(fitting, value)


def spoken(name: str) -> str:
    """The name of an axis or a law with spaces; symbols, such as d_k and n_keys, keep their
    subscripts.
    """
    return re.sub(r"(?<=[a-z]{2})_(?=[a-z])", " ", name)


def is_number(values: pd.Series) -> bool:
    """True if the values of an axis have an order and distances."""
    return values.dtype.kind in "iuf"


def is_joined(at: pd.Series) -> bool:
    """True if a line goes through values at these places; else each has a stroke."""
    return is_number(at) and len(at) > 1


def short(value: object) -> str:
    """A value of an axis without trailing zeros.

    >>> short(1.0), short(4096), short("gaussian")
    ('1', '4096', 'gaussian')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)


def divided(scaling: str, sign: str = "divided by") -> str:
    """The name of a scaling in a sentence, or after a sign.

    >>> divided("unscaled"), divided("d_k^1/2"), divided("8", "÷")
    ('unscaled', 'divided by d_k^1/2', '÷ 8')
    """
    return scaling if scaling == UNSCALED else f"{sign} {scaling}"


def listed(values: Sequence[float] | Sequence[str]) -> str:
    """Few values as a list; many numbers by their ends.

    >>> listed([8, 4]), listed([1, 2, 3, 4]), listed(["a", "b", "c", "d"])
    ('4 and 8', '1 to 4', 'a, b, c and d')
    """
    are_numbers = not isinstance(values[0], str)
    *others, last = (short(value) for value in (sorted(values) if are_numbers else values))
    if are_numbers and len(others) >= _FEW_VALUES:
        return f"{others[0]} to {last}"
    return " and ".join(filter(None, [", ".join(others), last]))


def latex(text: str) -> str:
    r"""A text with its formulas between dollar signs; those that have them already get partial signs
    only.

    >>> latex("|J|_F divided by d_k^1/2 with n_keys = 64, or d_k^-0.3338")
    '$|J|_F$ divided by $\\sqrt{d_k}$ with $n_\\mathrm{keys}$ = 64, or $d_k^{-0.3338}$'
    >>> latex("by d_k^1/2."), latex("d_k^1/0.43"), latex("(over ln n_keys)"), latex("ln(n_keys)^1/2")
    ('by $\\sqrt{d_k}$.', '$d_k$/0.43', '(over $\\ln n_\\mathrm{keys}$)', '$\\sqrt{\\ln n_\\mathrm{keys}}$')
    >>> latex("d_k^1/2/0.43/ln(n_keys)^2"), latex("$|dL/dq|$ by d_k^1/2")
    ('$\\sqrt{d_k}/(0.43\\thinspace (\\ln n_\\mathrm{keys})^{2})$', '$|\\partial L/\\partial q|$ by $\\sqrt{d_k}$')
    """
    parts = re.split(r"(\$[^$]*\$)", text)
    parts[::2] = [_FORMULA.sub(_typeset, plain) for plain in parts[::2]]
    parts[1::2] = [re.sub(*_GRADIENT, formula) for formula in parts[1::2]]
    return "".join(parts)


def _typeset(formula: re.Match[str]) -> str:
    found = formula.group()
    for pattern, typeset in _TYPESET:
        found = re.sub(pattern, typeset, found)
    return f"${found}$"


def _power(base: str, power: str) -> str:
    """The LaTeX of a power: a root for the power 1/2, and the base alone for the power 1."""
    power = power.strip("()").replace("−", "-")
    in_brackets = f"({base})" if " " in base else base  # ln n_keys
    return {"1/2": rf"\sqrt{{{base}}}", "1": base}.get(power, f"{in_brackets}^{{{power}}}")
