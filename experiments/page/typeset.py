"""Formulas of plain text as HTML: indices, powers, roots, gradients and minus signs.

Captions, notes and names of scalings are plain text, such as `|J|_F under d_k^1/2`, because files and the terminal
show them too. A name of several letters, such as `score_mean`, is a column and keeps its underscore.
"""

import re

from markupsafe import Markup

_MINUS = re.compile(r"(?<![\w.)])-(?=\d)|(?<=\de)-(?=\d)")
_TEN = re.compile(r"(?<=\d)e(−?)\+?0*(\d+)\b")
_INDEX = re.compile(r"(?<![\w.])([A-Za-z]|\|J\|)_([A-Za-z]+|\d)")
_GRADIENT = re.compile(r"\bdL/d(?=[a-z]\b)")
_ROOT = re.compile(r"\bsqrt\(([^()]+)\)|((?<![\w.>])[A-Za-z]<sub>[a-z]+</sub>)\^1/2(?!\d)")
_POWER = re.compile(r"(?<=[\w>)])\^(?:\(([^()]+)\)|(−?\d+(?:\.\d+)?(?:/\d+)?|[A-Za-z]\b))")


def typeset(text: str) -> Markup:
    """A sentence with indices, powers, powers of ten and typographic minus signs.

    >>> str(typeset("|J|_F under d_k^1/2 is -0.5 or 1e-07"))
    '|J|<sub>F</sub> under √<span class="root">d<sub>k</sub></span> is −0.5 or 1\xa0×\xa010<sup>−7</sup>'
    >>> str(typeset("score_mean at n_keys = 4 grows as d_k^(-1/3), |dL/dq|"))
    'score_mean at n<sub>keys</sub> = 4 grows as d<sub>k</sub><sup>−1/3</sup>, |∂L/∂q|'
    """
    text = _TEN.sub("\u00a0×\u00a0" r"10^\1\2", _MINUS.sub("−", text))
    text = _INDEX.sub(r"\1<sub>\2</sub>", _GRADIENT.sub("∂L/∂", str(Markup.escape(text))))
    text = _ROOT.sub(lambda root: f'√<span class="root">{root[1] or root[2]}</span>', text)
    return Markup(_POWER.sub(lambda power: f"<sup>{power[1] or power[2]}</sup>", text))
