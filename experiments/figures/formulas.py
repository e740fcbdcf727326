"""Formulas of plain text, as Matplotlib's mathtext and as HTML.

Captions, labels and names of rules are plain text, such as `|J|_F, divided by d_k^1/2`, because
files and the terminal show them too. A word before a bracket is a function, and a number at its end
an index, as in log2(n_keys), so that a new function of rules needs nothing here. A name of several
letters, such as `score_mean`, is a column and keeps its underscore.
"""

import re
from functools import partial

_GRADIENT = r"\bdL/d(?=[a-z]\b)", "∂L/∂"
# No letter with an index: a name of several words, such as a_few or d_k_of_two.
_LETTER = r"(?<![\w.])([A-Zb-zβσ]|\|J\|)"
_MATH = r"(\$[^$]+\$)"  # of an earlier part
_POWER = r"\^(?:\(([^()]+)\)|([-−]?\d+(?:\.\d+)?(?:/\d+(?!\d|\.\d))?|[A-Za-z]\b))"
_HALF = r"1/2(?!\d|\.\d)"
_INDEX = r"\1<sub>\2</sub>"
_ROOT = r'√<span class="root">\1</span>'
_AS_IS = r"\g<0>"
# What is typeset, as mathtext and as HTML; later parts see the results of earlier ones.
_PARTS = (
    (r"\|?∂L/∂[a-z]\|?", _AS_IS, r'<span class="nowrap">\g<0></span>'),
    # a letter and its index: a letter, a number or a word
    (rf"{_LETTER}_([A-Za-z\d])(?!\w)", r"\1_\2", _INDEX),
    (rf"{_LETTER}_([A-Za-z]{{2,}})(?!\w)", r"\1_\\mathrm{\2}", _INDEX),
    # a function whose name ends in a number, and any function of one letter
    (r"\b([a-z]+)(\d+)(?=\()", r"\\mathrm{\1}_{\2}", _INDEX),
    (rf"\b(?:ln(?= {_MATH})|(?!sqrt)[a-z]+(?=\({_MATH}\)))", r"\\mathrm{\g<0>}", _AS_IS),
    # this without brackets, but for powers such as ln(n_keys)^2
    (
        rf"(\$\\mathrm[^$]+\$)(?:\({_MATH}\)| {_MATH})(?!\^(?!{_HALF}))",
        r"\1\\thinspace \2\3",
        _AS_IS,
    ),
    # roots and other powers; the power 1 is not drawn
    (r"\bsqrt\(([^()]+)\)", r"\\sqrt{\1}", _ROOT),
    (rf"((?<![\w.>])[A-Za-z](?:<sub>[a-z]+</sub>)?|{_MATH})\^{_HALF}", r"\\sqrt{\1}", _ROOT),
    (rf"({_MATH}|[\w>)]){_POWER}", r"\1^{\3\4}", r"\1<sup>\3\4</sup>"),
    (r"\$([^$]+)\^\{1\}\$", r"\1", _AS_IS),
    # a number and a formula that both divide
    (rf"/([\d.]+)/{_MATH}(?!\()", r"/(\1\\thinspace \2)", _AS_IS),
)


def latex(text: str) -> str:
    r"""A text with its formulas between dollar signs; those that have them already get partial signs
    only.

    >>> latex("|J|_F divided by d_k^1/2 with n_keys = 64, or d_k^-0.3338")
    '$|J|_F$ divided by $\\sqrt{d_k}$ with $n_\\mathrm{keys}$ = 64, or $d_k^{-0.3338}$'
    >>> latex("by d_k^1/2."), latex("d_k^1/0.43"), latex("$|dL/dq|$, |dL/dk|")
    ('by $\\sqrt{d_k}$.', '$d_k$/0.43', '$|∂L/∂q|$, $|∂L/∂k|$')
    >>> latex("8/0.43/ln(d_k)^1/2"), latex("over ln d_k")
    ('8$/(0.43\\thinspace \\sqrt{\\mathrm{ln}\\thinspace d_k})$', 'over $\\mathrm{ln}\\thinspace d_k$')
    """
    plain_and_math = re.split(_MATH, re.sub(*_GRADIENT, text))
    for pattern, mathtext, _ in _PARTS:
        typeset = partial(re.sub, pattern, partial(_in_dollars, mathtext))
        plain_and_math[::2] = map(typeset, plain_and_math[::2])
    return "".join(plain_and_math)


def html(text: str) -> str:
    """A text of HTML with elements for its formulas.

    >>> html("|J|_F under d_k^1/2"), html("d_k^(-1/3)")
    ('|J|<sub>F</sub> under √<span class="root">d<sub>k</sub></span>', 'd<sub>k</sub><sup>-1/3</sup>')
    """
    text = re.sub(*_GRADIENT, text)
    for pattern, _, elements in _PARTS:
        text = re.sub(pattern, elements, text)
    return text


def _in_dollars(mathtext: str, match: re.Match[str]) -> str:
    return f"${match.expand(mathtext).replace('$', '')}$"
