"""The terms of the suite and their meanings, from glossary.yaml, for the page and for docs."""

import re
from functools import cache
from pathlib import Path

import yaml
from markupsafe import Markup

from experiments.figures.markup import typeset

GLOSSARY: dict[str, str] = yaml.safe_load(
    (Path(__file__).parent / "glossary.yaml").read_text(encoding="utf-8")
)
_MARKDOWN = re.compile(r"`|\[|\]\([^)]*\)")  # code and links


def explained(text: str) -> Markup:
    """A typeset text in which the first use of each term shows its meaning on hover, focus and tap.

    >>> print(explained("The entropy of weights"))  # doctest: +ELLIPSIS
    The <dfn tabindex="0" aria-description="−Σ w ln w ...">entropy</dfn> of <dfn ...>weights</dfn>
    """
    seen = set()

    def marked(match: re.Match[str]) -> str:
        meaning = _meanings()[match["term"]]
        if meaning in seen:
            return match[0]
        seen.add(meaning)
        said = Markup.escape(meaning)
        return f'<dfn tabindex="0" aria-description="{said}">{match[0]}</dfn>'

    return Markup(_pattern().sub(marked, str(typeset(text))))


@cache
def _meanings() -> dict[str, str]:
    """The meaning of each name of a term, as the page shows both."""
    meanings: dict[str, str] = {}
    for names, meaning in GLOSSARY.items():
        plain = _MARKDOWN.sub("", meaning).replace("d_k", "dₖ")
        for name in names.split(", "):
            capitalised = name[:1].upper() + name[1:]
            meanings |= dict.fromkeys((str(typeset(name)), str(typeset(capitalised))), plain)
    return meanings


@cache
def _pattern() -> re.Pattern[str]:
    names = sorted(map(re.escape, _meanings()), key=len, reverse=True)
    return re.compile(rf"(?<![\w<>/.-])(?P<term>{'|'.join(names)})s?(?![\w>-])")
