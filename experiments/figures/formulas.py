"""Formulas of plain text as Matplotlib's mathtext, which is LaTeX: roots, powers, indices and gradients.

Captions, labels and names of rules are plain text, such as `|J|_F under d_k^1/2`, because files and the terminal show
them too. A name of several letters, such as `score_mean`, is a column and stays as it is.
"""

import re

_EXPONENT = r"\([^()]+\)|[-−]?\d+(?:\.\d+)?(?:/\d+(?!\d|\.\d))?|[a-z]\b"
_ATOM = re.compile(
    rf"""
    sqrt\((?P<root>[^()]+)\)
    | (?P<base>ln\(n_keys\)|(?<![\w.])[A-Za-z](?:_[a-z]+)?)\^(?P<power>{_EXPONENT})
    | \|J\|_F(?P<jacobian>)
    | (?P<bar>\|?)dL/d(?P<gradient>[a-z])\b(?P=bar)
    | ln(?:[ ]n_keys|\(n_keys\))(?P<log>)
    | (?<![\w.])(?P<letter>[A-Za-zσ])_(?P<index>[A-Za-z]+|\d)\b
    """,
    re.VERBOSE,
)
_GRADIENT = re.compile(r"\bdL/d([a-z])\b")
_QUOTIENT = re.compile(r"\$((?:/[\d.]+)?)/\$")
_LOG = r"\\ln n_\\mathrm\{keys\}"
_TWO_DIVISORS = re.compile(rf"/([\d.]+)/({_LOG}|\\sqrt\{{{_LOG}\}}|\({_LOG}\)\^\{{[^{{}}]+\}})")


def latex(text: str) -> str:
    r"""A text with its formulas between dollar signs; a text that has dollar signs already gets partial signs only.

    Norms have `\vert`, because a bar ends a cell of a Markdown table. A quotient of formulas is one formula.

    >>> latex("|J|_F under d_k^1/2 with n_keys = 64, or d_k^-0.3338")
    '$\\vert J\\vert_F$ under $\\sqrt{d_k}$ with $n_\\mathrm{keys}$ = 64, or $d_k^{-0.3338}$'
    >>> latex("under d_k^1/2."), latex("d_k^1/0.43")
    ('under $\\sqrt{d_k}$.', '$d_k$/0.43')
    >>> latex("(over ln n_keys)")
    '(over $\\ln n_\\mathrm{keys}$)'
    >>> latex("d_k^1/2/0.43/ln(n_keys)")
    '$\\sqrt{d_k}/(0.43\\thinspace \\ln n_\\mathrm{keys})$'
    >>> latex("d_k^1/2/0.43/ln(n_keys)^2"), latex("ln(n_keys)^1/2")
    ('$\\sqrt{d_k}/(0.43\\thinspace (\\ln n_\\mathrm{keys})^{2})$', '$\\sqrt{\\ln n_\\mathrm{keys}}$')
    >>> latex("$|dL/dq|$, median")
    '$|\\partial L/\\partial q|$, median'
    """
    if "$" in text:
        return _GRADIENT.sub(r"\\partial L/\\partial \1", text)
    quotients = _QUOTIENT.sub(r"\1/", _ATOM.sub(lambda atom: f"${_symbol(atom)}$", text)).replace("1/$", "$1/")
    return _TWO_DIVISORS.sub(r"/(\1\\thinspace \2)", quotients)


def _symbol(atom: re.Match[str]) -> str:
    """The LaTeX of one formula."""
    if atom["root"]:
        return rf"\sqrt{{{_bare(atom['root'])}}}"
    if atom["base"]:
        return _power(_bare(atom["base"]), atom["power"].strip("()").replace("−", "-"))
    if atom["jacobian"] is not None:
        return r"\vert J\vert_F"
    if atom["gradient"]:
        bar = r"\vert " if atom["bar"] else ""
        return rf"{bar}\partial L/\partial {atom['gradient']}{bar}".rstrip()
    if atom["log"] is not None:
        return r"\ln n_\mathrm{keys}"
    index = atom["index"]
    return f"{atom['letter']}_{index}" if len(index) == 1 else rf"{atom['letter']}_\mathrm{{{index}}}"


def _bare(text: str) -> str:
    """The LaTeX of a text that stands inside a formula."""
    return latex(text).replace("$", "")


def _power(base: str, exponent: str) -> str:
    """A power: a root for 1/2, and the base alone for 1.

    >>> _power("d_k", "1/2"), _power("d_k", "1/3"), _power("d_k", "1")
    ('\\\\sqrt{d_k}', 'd_k^{1/3}', 'd_k')
    """
    if exponent == "1/2":
        return rf"\sqrt{{{base}}}"
    base = f"({base})" if " " in base and exponent != "1" else base  # ln n
    return base if exponent == "1" else f"{base}^{{{exponent}}}"
