"""Drawings side by side in one page: without prologues, every id and every glyph once."""

import re
import xml.etree.ElementTree as ET

_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_REFERENCE = re.compile(r"#([^)\"]+)")
_GLYPH = re.compile(r"DejaVu|Cmsy|Cmmi|Cmr|STIX")
_ALONG = re.compile(r"translate\((\S+) 0\)")
_DROPPED = {"metadata", "style"}
_ROOM = 1_600_000  # characters that all drawings may take, so that a page stays below 2 MB


class Drawings:
    """Makes SVG files fit for one page, and keeps the glyphs that they share."""

    def __init__(self, room: int = _ROOM) -> None:
        self._glyphs: dict[str, str] = {}
        self._room = room

    def inline(self, svg: str, prefix: str) -> str:
        """An SVG file as an element of a page, with its ids behind a prefix; empty if there is no room left.

        Screen readers find its title in it.
        """
        root = ET.fromstring(svg)
        _clean(root)
        for parent, glyph in [(p, c) for p in root.iter() for c in p if _GLYPH.match(c.get("id", ""))]:
            self._keep(glyph)
            parent.remove(glyph)
        for element in root.iter():
            _shorten(element, prefix)
        for parent in list(root.iter()):
            for child in [c for c in parent if c.tag == "defs" and not len(c)]:
                parent.remove(child)
        view = _rounded(root.get("viewBox", ""))
        root.attrib.clear()
        # What the file says for all its elements in a style sheet, which here would be one for the whole page.
        root.attrib |= {"viewBox": view, "stroke-linejoin": "round", "role": "img"}
        drawing = ET.tostring(root, encoding="unicode")
        if len(drawing) > self._room:
            return ""
        self._room -= len(drawing)
        return drawing

    def glyphs(self) -> str:
        """The element that all drawings take their glyphs from."""
        shapes = "".join(self._glyphs[name] for name in sorted(self._glyphs))
        return f'<svg class="glyphs" width="0" height="0" aria-hidden="true"><defs>{shapes}</defs></svg>'

    def _keep(self, glyph: ET.Element) -> None:
        name = glyph.attrib["id"]
        glyph.set("d", " ".join(glyph.get("d", "").split()))  # a space has none
        glyph.tail = None
        shape = ET.tostring(glyph, encoding="unicode")
        if self._glyphs.setdefault(name, shape) != shape:
            raise ValueError(f"expected one shape of the glyph {name}, got two")


def _clean(root: ET.Element) -> None:
    """Drop metadata, style sheets, namespaces and the space between elements."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.split("}")[-1] in _DROPPED:
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.split("}")[-1]
        attributes = {name.split("}")[-1]: value for name, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib |= attributes
        element.text = element.text if element.tag == "title" else None
        element.tail = None


def _shorten(element: ET.Element, prefix: str) -> None:
    """Put ids and what refers to them behind a prefix, numbers to hundredths, and a shift along a line into an x."""
    attributes = dict(element.attrib)
    element.attrib.clear()
    for name, value in attributes.items():
        if name == "id":
            # Groups are named too, but nothing refers to them.
            element.attrib |= {} if element.tag == "g" else {"id": f"{prefix}{value}"}
        elif name == "transform" and element.tag == "use" and (along := _ALONG.fullmatch(value)):
            element.set("x", _rounded(along[1]))
        elif name in ("href", "clip-path") or "url(" in value:
            element.set(name, _REFERENCE.sub(lambda m: m[0] if _GLYPH.match(m[1]) else f"#{prefix}{m[1]}", value))
        elif not (name == "style" and value == ""):
            element.set(name, value if name == "id" else " ".join(_rounded(value).split()))


def _rounded(text: str) -> str:
    return _NUMBER.sub(lambda match: _plain(float(match[0])), text)


def _plain(value: float) -> str:
    """A number to hundredths; small ones, which are scales, to four digits."""
    return f"{value:.4g}" if abs(value) < 0.1 else f"{value:.2f}".rstrip("0").rstrip(".")
