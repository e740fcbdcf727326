"""The text of drawings: from the glyphs that Matplotlib draws back to characters, in fonts that the page contains.

Matplotlib writes a text as one path per letter, each with its own position. As characters the text takes a tenth of
that room, and readers can select and search it. The fonts contain only the characters in use.
"""

import base64
import functools
import io
import re
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

from experiments.figures.style import INK
from experiments.page.coordinates import plain

# Of text without other attributes: page.css sets them.
_FONT = {"font-family": "DejaVuSans", "font-size": "10", "font-weight": "normal", "font-style": "normal"}
_FILL = f"fill: {INK}"

_FOLDER = Path(mpl.get_data_path()) / "fonts" / "ttf"
_REFERENCE = re.compile(r"#(?P<font>.+)-(?P<index>[0-9a-f]+)")
_BLOCK = re.compile(r"translate\((?P<x>\S+) (?P<y>\S+)\)(?P<turn> rotate\(\S+\))? scale\((?P<scale>\S+) \S+\)")
_PLACE = re.compile(r"(?:translate\((?P<x>\S+) (?P<y>\S+)\))? ?(?:scale\((?P<scale>\S+)\))?")
_UNIT = 100.0  # Matplotlib draws glyphs at this size and scales them
_APART = 0.08  # points between letters that count as adjacent
_LIGATURES = range(0xFB00, 0xFB07)
_BLACK = "fill: #000000"  # of a block without a style
_STYLES = {"Bold": ("font-weight", "bold"), "Oblique": ("font-style", "italic")}


class _Glyph(NamedTuple):
    """A letter in a drawing, or the letters of a ligature; lengths in points."""

    font: str
    size: float
    x: float
    y: float
    text: str
    width: float


@dataclass
class Lettering:
    """Turns glyphs into characters, and collects the characters of each font."""

    _used: dict[str, set[str]] = field(default_factory=dict)

    def replace_in(self, root: ET.Element) -> None:
        """Replace each block of glyphs by a text element; blocks with glyphs of unknown fonts stay.

        Args:
            root: a drawing without namespaces. Lines in a formula, such as the bar of a root, stay paths.
        """
        for parent in list(root.iter()):
            for block in list(parent):
                place = _BLOCK.fullmatch(block.get("transform", ""))
                uses = block.findall("use") if block.tag == "g" and place else []
                if place and uses and all(_font_of(use) for use in uses):
                    parent.insert(list(parent).index(block), self._text(block.get("style", _BLACK), place, uses))
                    for use in uses:
                        block.remove(use)

    def css(self) -> str:
        """The rules that define the fonts, with the characters in use."""
        return "\n".join(_rule(name, frozenset(self._used[name])) for name in sorted(self._used))

    def _text(self, style: str, place: re.Match[str], uses: Sequence[ET.Element]) -> ET.Element:
        """The text element of a block of glyphs, with a `tspan` for each run of letters after the first one."""
        text = ET.Element("text", {} if style == _FILL else {"style": style})
        x, y, scale = (float(place[name]) for name in ("x", "y", "scale"))
        if place["turn"]:
            text.set("transform", f"translate({plain(x)} {plain(y)}){place['turn']}")
            x = y = 0.0
        runs = _runs([_glyph(use, x, y, scale) for use in uses])
        inherited, line = _FONT, None
        for run in runs:
            element = text if line is None else ET.SubElement(text, "tspan")
            font = _font_attributes(run[0])
            element.attrib |= {name: value for name, value in font.items() if value != inherited[name]}
            element.set("x", plain(run[0].x))
            if run[0].y != line:
                element.set("y", plain(run[0].y))
            element.text = "".join(glyph.text for glyph in run)
            inherited, line = _font_attributes(runs[0][0]), run[0].y
            self._used.setdefault(run[0].font, set()).update(element.text)
        return text


@dataclass(frozen=True)
class _Font:
    """A font file: the text of each glyph that stands for some, and the widths of all glyphs, in sizes."""

    path: Path
    texts: dict[int, str]
    widths: dict[int, float]


@functools.cache
def _font(name: str) -> _Font | None:
    """A font that comes with Matplotlib, by its PostScript name; None for another one."""
    path = _FOLDER / f"{name}.ttf"
    if not path.exists():
        return None
    with TTFont(path) as file:
        glyphs, widths, size = file.getGlyphOrder(), file["hmtx"], file["head"].unitsPerEm
        codes = {glyph: code for code, glyph in sorted(file.getBestCmap().items(), reverse=True)}
        texts = {i: _letters(codes[glyph]) for i, glyph in enumerate(glyphs) if glyph in codes}
        return _Font(path, texts, {i: widths[glyph][0] / size for i, glyph in enumerate(glyphs)})


def _letters(code: int) -> str:
    """A character, or the letters of a ligature."""
    return unicodedata.normalize("NFKC", chr(code)) if code in _LIGATURES else chr(code)


def _font_of(use: ET.Element) -> _Font | None:
    """The font of a glyph that stands for some text; None for another element."""
    match = _REFERENCE.fullmatch(use.get("href", ""))
    font = _font(match["font"]) if match else None
    return font if match and font and int(match["index"], 16) in font.texts else None


def _glyph(use: ET.Element, x: float, y: float, scale: float) -> _Glyph:
    """A glyph in a block at (x, y) whose units are `scale` points upwards."""
    match, place = _REFERENCE.fullmatch(use.get("href", "")), _PLACE.fullmatch(use.get("transform", ""))
    font = _font_of(use)
    if not (match and place and font):
        raise ValueError(f"expected a glyph of Matplotlib, got {use.attrib}")
    index, size = int(match["index"], 16), round(float(place["scale"] or 1) * scale * _UNIT, 2)
    right, up = float(place["x"] or 0) * scale, float(place["y"] or 0) * scale
    return _Glyph(match["font"], size, x + right, y - up, font.texts[index], font.widths[index] * size)


def _runs(glyphs: Sequence[_Glyph]) -> list[list[_Glyph]]:
    """Glyphs side by side: of one font and size, on one line, each at the end of the one before it."""
    runs, end = [[glyphs[0]]], glyphs[0].x + glyphs[0].width
    for glyph in glyphs[1:]:
        first = runs[-1][0]
        if (glyph.font, glyph.size, glyph.y) != (first.font, first.size, first.y) or abs(glyph.x - end) > _APART:
            runs.append([])
            end = glyph.x
        runs[-1].append(glyph)
        end += glyph.width
    return runs


def _font_attributes(glyph: _Glyph) -> dict[str, str]:
    """The attributes of a text that are about its font."""
    family, _, style = glyph.font.partition("-")
    styles = {name: value if word in style else "normal" for word, (name, value) in _STYLES.items()}
    return {"font-family": family, "font-size": plain(glyph.size, 2), **styles}


@functools.cache
def _rule(name: str, characters: frozenset[str]) -> str:
    """The @font-face rule of a font with these characters, without the parts that move or hint letters."""
    font = _font(name)
    if font is None:
        raise ValueError(f"expected a font of Matplotlib, got {name}")
    options = Options(hinting=False, layout_features=[], name_IDs=[], notdef_outline=True)
    options.drop_tables += ["FFTM", "GDEF", "GPOS", "GSUB", "MATH", "kern"]
    with TTFont(font.path, recalcTimestamp=False) as file:
        subsetter = Subsetter(options)
        subsetter.populate(text="".join(sorted(characters)))
        subsetter.subset(file)
        file.flavor = "woff"
        file.save(written := io.BytesIO())
    family, _, style = name.partition("-")
    styles = "".join(f"{key}:{value};" for word, (key, value) in _STYLES.items() if word in style)
    data = base64.b64encode(written.getvalue()).decode()
    return f"@font-face{{font-family:{family};{styles}src:url(data:font/woff;base64,{data})}}"
